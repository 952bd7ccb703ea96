"""Box support: a box whose picture agrees where the object is ranks higher among those of other pictures."""

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64, check_finite
from lapsvm.boxes import as_boxes, iou
from lapsvm.detection.smoothing import BEST, TEMPERATURE, check_squares
from lapsvm.detection.suppression import check_amount, check_min_iou, scored_boxes

AMOUNT = 2.0
MIN_IOU = 0.5


def box_support(
    detections: ArrayLike, boxes: ArrayLike, scores: ArrayLike, amount: float = AMOUNT, min_iou: float = MIN_IOU
) -> Float64:
    """Return what the scores of one picture's detections gain from the windows that agree with them.

    The score of a window says whether it shows the class, hardly whether the box fits. Where the high scores of a
    picture lie on one place, the box fits more often than where they are scattered. The support of a box is the share
    of the picture's weight that windows with an IoU of at least `min_iou` have. A window of score s weighs
    exp((s - best) / t), where t is half the standard deviation of the picture's scores; of all windows the 200 best
    take part. The gain is the amount times the standard deviation times the support.

    Parameters
    ----------
    detections : array-like of shape (k, 4)
        The boxes that suppression kept (see `detect`), before voting.
    boxes : array-like of shape (n, 4)
        All windows of the picture.
    scores : array-like of shape (n,)
        As the detector gives them, neither smoothed nor demoted.
    amount : float, default 2.0
        At least 0; with 0 there is no gain.
    min_iou : float, default 0.5
        In (0, 1].

    Returns
    -------
    ndarray of shape (k,), float64
        To be added to the scores of the detections; at least 0, at most the amount times the standard deviation.

    Raises
    ------
    ShapeError, NotFiniteError
        If shapes do not fit, or a number is NaN or infinite.
    InputError
        If the amount is negative or not finite, `min_iou` is not in (0, 1], or a score is beyond 1e150 or -1e150.
    """
    kept, (windows, values) = as_boxes(detections, "detections"), scored_boxes(boxes, scores)
    check_finite("detections", kept)
    check_amount("box support", amount)
    check_min_iou("box support", min_iou)
    check_squares(values)
    spread = float(values.std()) if len(values) else 0.0
    if spread == 0 or amount == 0:
        return np.zeros(len(kept))
    best = np.argsort(-values, kind="stable")[:BEST]
    weights = np.exp((values[best] - values[best[0]]) / (TEMPERATURE * spread))
    agreeing = np.where(iou(kept, windows[best]) >= min_iou, weights, 0.0)
    # sums, not a product of BLAS, whose bits may depend on the threads
    return np.asarray(amount * spread * (agreeing.sum(axis=1) / weights.sum()))
