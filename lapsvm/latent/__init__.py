"""Training with latent windows: initialisation, imputation, CCCP, many problems side by side."""

from lapsvm.latent.cccp.problem import HingeRisk, LatentProblem, LatentSolution, RankRisk
from lapsvm.latent.cccp.structural import StructuralProblem
from lapsvm.latent.refinement import KnownBoxes, OverlapLimits, refine
from lapsvm.latent.scheduling.many import fit_many, fit_paths
from lapsvm.latent.scheduling.pool import PassCounts
from lapsvm.latent.scheduling.replay_log import ReplayLog

__all__ = [
    "HingeRisk",
    "KnownBoxes",
    "LatentProblem",
    "LatentSolution",
    "OverlapLimits",
    "PassCounts",
    "RankRisk",
    "ReplayLog",
    "StructuralProblem",
    "fit_many",
    "fit_paths",
    "refine",
]
