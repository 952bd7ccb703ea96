"""Box voting: a detection moves to the mean of the windows around it, the better ones counting more."""

import numpy as np
from numpy.typing import ArrayLike

from lapsvm._ext import boxes as _kernel
from lapsvm.arrays import Float64, check_finite
from lapsvm.boxes import as_boxes
from lapsvm.detection.suppression import scored_boxes
from lapsvm.errors import InputError

TEMPERATURE = 0.7
IOU = 0.4


def voted(
    found: ArrayLike, boxes: ArrayLike, scores: ArrayLike, temperature: float = TEMPERATURE, iou: float = IOU
) -> Float64:
    """Return the detections of one picture, each moved to the weighted mean of the windows around it.

    The best of a thousand windows is the best by chance as well as by place; the mean of those that score nearly as
    well around it lies better, and need not be a window. A window of score s weighs
    exp((s - best) / (temperature spread)), where best and spread are the maximum and the standard deviation of the
    picture's scores. So what counts is how the picture's windows compare: multiplying all scores, adding to them, or
    demoting them changes nothing.

    Parameters
    ----------
    found : array-like of shape (k, 4)
        What suppression kept (see `detect`).
    boxes : array-like of shape (n, 4)
        All windows of the picture.
    scores : array-like of shape (n,)
    temperature : float, default 0.7
        Above 0; a small one lets the best window around a detection decide alone, a large one all alike.
    iou : float, default 0.4
        In (0, 1]: windows that overlap a detection (intersection over union) at least so much are around it. Where none
        has weight, a detection stays as it is.

    Returns
    -------
    ndarray of shape (k, 4), float64

    Raises
    ------
    ShapeError, NotFiniteError
        If shapes do not fit, or a number is NaN or infinite.
    InputError
        If the temperature is not above 0, or iou not in (0, 1].

    Notes
    -----
    Box voting is from S. Gidaris and N. Komodakis, "Object detection via a multi-region and semantic segmentation-aware
    CNN model", ICCV 2015, with weights max(0, s), which scores of linear detectors have no zero for.
    """
    kept, (windows, values) = as_boxes(found, "found"), scored_boxes(boxes, scores)
    check_finite("found", kept)
    _check_vote(temperature, iou)
    return _kernel.votes(np.ascontiguousarray(kept), np.ascontiguousarray(windows), _weights(values, temperature), iou)


def _check_vote(temperature: float, iou: float) -> None:
    """Raise InputError unless the temperature is above 0 and `iou` in (0, 1]."""
    if not (np.isfinite(temperature) and temperature > 0):
        raise InputError(f"the temperature of voting must be a finite number above 0, got {temperature}.")
    if not 0 < iou <= 1:
        raise InputError(f"iou must be above 0 and at most 1 in voting, got {iou}.")


def _weights(scores: Float64, temperature: float) -> Float64:
    """Return how much each window counts; all alike where their scores are equal."""
    spread = float(scores.std()) if len(scores) else 0.0
    if spread == 0:
        return np.ones(len(scores))
    return np.asarray(np.exp((scores - scores.max()) / (temperature * spread)))
