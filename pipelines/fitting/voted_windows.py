"""The windows that a model chooses, moved by box voting.

The best of a thousand windows is partly best by chance. Detection smooths the scores and moves the best window to the
mean of the windows around it; the window nearest to that box serves refinement better than the best one. The constants
of voting are here, whatever detection uses.
"""

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags import Bags
from lapsvm.boxes import iou
from lapsvm.detection import box_voting, smooth_scores

MIN_IOU = 0.45


def voted_windows(bags: Bags, boxes: Array, weights: Float64, pictures: Index, smoothing: float) -> Index:
    """Return the window (n_bags,) nearest to the voted box of some pictures, 0 for other pictures.

    Parameters
    ----------
    bags : Bags
    boxes : (n_windows, 4)
    weights : (d,)
        Of the model that chooses the pictures' windows: those with the best smoothed scores.
    pictures : (m,) int
    smoothing : float
        In [0, 1], see `lapsvm.detection.smooth_scores`. Votes have the weights of the scores as they were.
    """
    moved = np.zeros(bags.n_bags, dtype=np.intp)
    if not len(pictures):
        return moved
    part = bags.subset(pictures)
    scores = np.split(part.score_windows(weights), part.offsets[1:-1])
    for picture, values in zip(pictures, scores, strict=True):
        own = boxes[bags.offsets[picture] : bags.offsets[picture + 1]]
        best = int(np.argmax(smooth_scores(own, values, smoothing)))
        box = box_voting(own[[best]], own, values, min_iou=MIN_IOU)
        moved[picture] = int(np.argmax(iou(own, box)[:, 0]))
    return moved
