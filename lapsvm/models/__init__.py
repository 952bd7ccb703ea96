"""Estimators on the scikit-learn interface; thin: check, make the problem, solve, keep what was found."""

from lapsvm.models.latent import LatentRankSVM, LatentSVM
from lapsvm.models.latent_struct import LatentStructSVM
from lapsvm.models.supervised import RankSVM
from lapsvm.models.toppush import TopPush

__all__ = ["LatentRankSVM", "LatentSVM", "LatentStructSVM", "RankSVM", "TopPush"]
