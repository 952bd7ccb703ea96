"""Loss-augmented inference for rank losses, and the metrics they optimise."""

from lapsvm.ranking.discounts import RankBiased
from lapsvm.ranking.inference import ViolatedRanking, most_violated_ranking
from lapsvm.ranking.losses import (
    APLoss,
    AUCLoss,
    MRRLoss,
    NDCGLoss,
    PartialAUCLoss,
    PosAtTopLoss,
    RankLoss,
    ZeroOneLoss,
)
from lapsvm.ranking.metrics import average_precision, ndcg, positives_at_top, reciprocal_rank, roc_auc
from lapsvm.ranking.predicted import loss_diminished_ranking, predicted_ranking

__all__ = [
    "APLoss",
    "AUCLoss",
    "MRRLoss",
    "NDCGLoss",
    "PartialAUCLoss",
    "PosAtTopLoss",
    "RankBiased",
    "RankLoss",
    "ViolatedRanking",
    "ZeroOneLoss",
    "average_precision",
    "loss_diminished_ranking",
    "most_violated_ranking",
    "ndcg",
    "positives_at_top",
    "predicted_ranking",
    "reciprocal_rank",
    "roc_auc",
]
