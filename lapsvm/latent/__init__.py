"""Training with latent windows: initialisation, imputation, CCCP, many problems side by side."""

from lapsvm.latent.many import fit_many
from lapsvm.latent.multifold import fit_multifold
from lapsvm.latent.passes import Tally
from lapsvm.latent.paths import fit_paths
from lapsvm.latent.problem import LatentProblem, LatentSolution
from lapsvm.latent.refinement import Refinement, refine
from lapsvm.latent.resume import AnswerLog
from lapsvm.latent.risks import HingeRisk, RankRisk
from lapsvm.latent.structural import StructuralProblem

__all__ = [
    "AnswerLog",
    "HingeRisk",
    "LatentProblem",
    "LatentSolution",
    "RankRisk",
    "Refinement",
    "StructuralProblem",
    "Tally",
    "fit_many",
    "fit_multifold",
    "fit_paths",
    "refine",
]
