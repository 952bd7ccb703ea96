"""Box voting: each detection moves to the weighted mean of the windows that overlap it."""

import numpy as np
from numpy.typing import ArrayLike

from lapsvm._ext import boxes as _kernel
from lapsvm.arrays import Float64, as_number, check_finite
from lapsvm.boxes import as_boxes
from lapsvm.detection.suppression import scored_boxes
from lapsvm.errors import InputError

TEMPERATURE = 0.7
MIN_IOU = 0.45


def box_voting(
    detections: ArrayLike,
    boxes: ArrayLike,
    scores: ArrayLike,
    temperature: float = TEMPERATURE,
    min_iou: float = MIN_IOU,
) -> Float64:
    """Return the detections of one picture, each moved to the weighted mean of the windows that overlap it.

    The best of a thousand windows is partly best by chance. The mean of overlapping windows with similar scores
    localises better. A window of score s has the weight exp((s - best) / (temperature spread)), where best and spread
    are the maximum and the standard deviation of the picture's scores. The result does not change when all scores are
    multiplied, shifted or demoted.

    Parameters
    ----------
    detections : array-like of shape (k, 4)
        The boxes that suppression kept (see `detect`).
    boxes : array-like of shape (n, 4)
        All windows of the picture.
    scores : array-like of shape (n,)
    temperature : float, default 0.7
        Above 0. A low temperature gives all weight to the best overlapping window, a high one weighs all equally.
    min_iou : float, default 0.45
        In (0, 1]. Windows with at least this IoU with a detection take part in its mean. A detection without any
        window of positive weight stays unchanged.

    Returns
    -------
    ndarray of shape (k, 4), float64

    Raises
    ------
    ShapeError, NotFiniteError
        If shapes do not fit, or a number is NaN or infinite.
    InputError
        If the temperature is not above 0, or `min_iou` is not in (0, 1].

    Notes
    -----
    Box voting is from S. Gidaris and N. Komodakis, "Object detection via a multi-region and semantic segmentation-aware
    CNN model", ICCV 2015, with weights max(0, s). These need a meaningful zero, which linear scores lack.
    """
    kept, (windows, values) = as_boxes(detections, "detections"), scored_boxes(boxes, scores)
    check_finite("detections", kept)
    _check_options(temperature, min_iou)
    return _kernel.votes(
        np.ascontiguousarray(kept), np.ascontiguousarray(windows), _weights(values, temperature), min_iou
    )


def _check_options(temperature: float, min_iou: float) -> None:
    """Raise InputError unless the temperature is above 0 and `min_iou` in (0, 1]."""
    if not 0 < as_number("the temperature of box voting", temperature) < np.inf:
        raise InputError(f"the temperature of box voting must be a finite number above 0, got {temperature}.")
    if not 0 < as_number("min_iou of box voting", min_iou) <= 1:
        raise InputError(f"min_iou of box voting must be above 0 and at most 1, got {min_iou}.")


def _weights(scores: Float64, temperature: float) -> Float64:
    """Return each window's weight; all are equal where the scores are equal."""
    spread = float(scores.std()) if len(scores) else 0.0
    if spread == 0:
        return np.ones(len(scores))
    return np.asarray(np.exp((scores - scores.max()) / (temperature * spread)))
