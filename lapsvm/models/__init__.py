"""Estimators with the scikit-learn interface: they check the input, build the problem and store the solution."""

from lapsvm.models.bag_transformer import BagTransformer
from lapsvm.models.estimator_files import load, save
from lapsvm.models.latent import LatentRankSVM, LatentStructSVM, LatentSVM
from lapsvm.models.supervised import RankSVM
from lapsvm.models.toppush import TopPush

__all__ = ["BagTransformer", "LatentRankSVM", "LatentSVM", "LatentStructSVM", "RankSVM", "TopPush", "load", "save"]
