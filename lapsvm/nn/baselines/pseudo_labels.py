"""Labels of windows from the scores of an earlier head (OICR, algorithm 1)."""

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Array, Float64, Index
from lapsvm.boxes import iou

MIN_IOU = 0.5


def pseudo_labels(
    scores: NDArray[np.floating], labels: Array, boxes: Array, min_iou: float = MIN_IOU
) -> tuple[Index, Float64]:
    """Return the class and the weight of each window of one picture.

    P. Tang, X. Wang, X. Bai and W. Liu, "Multiple instance detection network with online instance classifier
    refinement", CVPR 2017, algorithm 1: each window belongs to the positive class whose best-scored window overlaps it
    most, the first of equal ones. Its weight is that best score. With an IoU of at most `min_iou` it is background, of
    the same weight.

    A picture in which every class is absent is not in the paper; here all its windows are background of weight 1.
    Without a positive class and with a label of 0 nothing is known of the windows, and the weights are 0.

    Parameters
    ----------
    scores : (n, k)
        Scores of the windows by the earlier head, in [0, 1].
    labels : (k,) of +1, -1 and 0
    boxes : (n, 4)
    min_iou : float, default 0.5

    Returns
    -------
    classes : (n,) intp
        Class indices; k is the background.
    weights : (n,) float64
    """
    n, background = scores.shape
    positive = np.flatnonzero(labels > 0)
    if not len(positive):
        return np.full(n, background), np.full(n, float(bool((labels < 0).all())))
    best = scores[:, positive].argmax(axis=0)
    overlaps = iou(boxes, boxes[best])
    nearest = overlaps.argmax(axis=1)
    is_object = overlaps[np.arange(n), nearest] > min_iou
    weights = scores[best, positive].astype(np.float64)[nearest]
    return np.where(is_object, positive[nearest], background), weights
