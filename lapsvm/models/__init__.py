"""Estimators on the scikit-learn interface; thin: check, make the problem, solve, keep what was found."""

from lapsvm.models.latent import LatentRankSVM, LatentSVM
from lapsvm.models.latent_struct import LatentStructSVM

__all__ = ["LatentRankSVM", "LatentSVM", "LatentStructSVM"]
