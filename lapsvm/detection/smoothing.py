"""Score smoothing: a window scores with the windows that nearly coincide with it."""

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64, as_number
from lapsvm.boxes import iou
from lapsvm.detection.suppression import scored_boxes
from lapsvm.errors import InputError

AMOUNT = 0.5
TEMPERATURE, MIN_IOU = 0.5, 0.7
LARGEST = 1e150  # the standard deviation squares scores, and the sum of the squares must be finite
BEST = 200  # windows beyond these have weights near 0, and all pairs of a picture's windows take long


def smooth_scores(boxes: ArrayLike, scores: ArrayLike, amount: float = AMOUNT) -> Float64:
    """Return the scores of one picture's windows, smoothed over windows that nearly coincide.

    The best of a thousand windows is partly best by chance. A window among many others with high scores is less likely
    to be so. A score s becomes (1 - amount) s + amount t log(mass), where mass is the sum of exp(s' / t) over the
    windows with an IoU of at least 0.7 with this one, itself included, and t is half the standard deviation of the
    picture's scores. Of all windows the 200 best take part; the others keep their scores. Finally all are shifted so
    that the best score of the picture is what it was, and the order of pictures is kept.

    Parameters
    ----------
    boxes : array-like of shape (n, 4)
        All windows of the picture.
    scores : array-like of shape (n,)
    amount : float, default 0.5
        In [0, 1]; 0 changes nothing.

    Returns
    -------
    ndarray of shape (n,), float64

    Raises
    ------
    ShapeError, NotFiniteError
        If shapes do not fit, or a number is NaN or infinite.
    InputError
        If the amount is not in [0, 1], or a score is beyond 1e150 or -1e150.
    """
    windows, values = scored_boxes(boxes, scores)
    if not 0 <= as_number("the amount of score smoothing", amount) <= 1:
        raise InputError(f"the amount of score smoothing must be between 0 and 1, got {amount}.")
    _check_squares(values)
    unit = TEMPERATURE * float(values.std()) if len(values) else 0.0
    if unit == 0 or amount == 0:
        return values
    best = np.argsort(-values, kind="stable")[:BEST]
    smoothed = values - values.max()
    masses = _masses(windows[best], np.exp(smoothed[best] / unit))
    smoothed[best] = (1 - amount) * smoothed[best] + amount * unit * np.log(masses)
    return np.asarray(smoothed - smoothed.max() + values.max())


def _check_squares(scores: Float64) -> None:
    """Raise InputError if a score is too large for its square."""
    beyond = scores[np.abs(scores) > LARGEST]
    if len(beyond):
        raise InputError(f"scores must lie between -1e150 and 1e150, got {beyond[0]:g}.")


def _masses(boxes: Float64, weights: Float64) -> Float64:
    """Return for every box the weights of the boxes that nearly coincide with it, its own included."""
    near = iou(boxes, boxes) >= MIN_IOU
    np.fill_diagonal(near, True)  # a box without area overlaps nothing, not even itself
    kept = np.where(near, np.maximum(weights, np.finfo(float).tiny), 0.0)
    return np.asarray(kept.sum(axis=1))  # not a product of BLAS, whose bits may depend on the threads
