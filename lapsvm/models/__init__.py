"""Estimators on the scikit-learn interface; thin: check, make the problem, solve, keep what was found."""

from lapsvm.models.bag_scaler import BagScaler
from lapsvm.models.estimator_files import load, save
from lapsvm.models.latent import LatentRankSVM, LatentSVM
from lapsvm.models.latent_struct import LatentStructSVM
from lapsvm.models.mi_svm import MISVM
from lapsvm.models.supervised import RankSVM
from lapsvm.models.toppush import TopPush

__all__ = ["MISVM", "BagScaler", "LatentRankSVM", "LatentSVM", "LatentStructSVM", "RankSVM", "TopPush", "load", "save"]
