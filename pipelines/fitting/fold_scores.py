"""Scores and boxes of pictures by models that never saw them, brought to the scale of the final model.

A ranking loss fixes the order of scores, not their zero, and models of fewer pictures have other weights; so scores of
different folds' models are not comparable as they are. The pictures that both a fold's model and the final model were
trained with have scores by both: a fold's scores are shifted and stretched until these have the same mean and standard
deviation. These two numbers depend on all labels, because the final model does; the order within a fold does not.
"""

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags import Bags
from lapsvm.boxes import paired_iou
from lapsvm.detection.picture_scores import best_boxes
from lapsvm.settings import DetectSettings


def fold_scores(
    bags: Bags, boxes: Array, fold: Index, coef: Float64, final: Float64, settings: DetectSettings
) -> tuple[Index, Float64, Float64, Float64]:
    """Return the held-out scores of all pictures that are in a fold.

    Parameters
    ----------
    bags : Bags
    boxes : (n_windows, 4)
    fold : (n_bags,) int
        The fold of every picture, from 1; 0 for none.
    coef : (d, folds)
        The weights of the models without a fold.
    final : (d,)
        Those of the final model.
    settings : DetectSettings

    Returns
    -------
    rows : (m,) intp
        The pictures that are in a fold, among the n training pictures.
    score : (m,) float64
        Score of the best box in detection, in the scale of the final model without its intercept.
    boxes : (m, 4) float64
        That box, as detection has it.
    agreement : (m,) float64
        IoU of that box and the final model's best box.
    """
    best = bags.best(np.column_stack([final, coef])).score
    score, found = np.zeros(bags.n_bags), np.zeros((bags.n_bags, 4))
    for number in range(1, coef.shape[1] + 1):
        own, trained = np.flatnonzero(fold == number), (fold > 0) & (fold != number)
        found[own], scores = best_boxes(bags, boxes, coef[:, number - 1], own, settings)
        score[own] = rescaled(scores, best[trained, number], best[trained, 0])
    rows = np.flatnonzero(fold)
    last, _ = best_boxes(bags, boxes, final, rows, settings)
    return rows, score[rows], found[rows], paired_iou(found[rows], last)


def rescaled(score: Float64, own: Float64, final: Float64) -> Float64:
    """Return scores (n,) shifted and stretched as brings `own` (m,) to the mean and standard deviation of `final`."""
    factor = final.std() / own.std() if own.std() > 0 else 1.0
    return np.asarray(final.mean() + (score - own.mean()) * factor)
