"""From the scores of a picture's windows to its boxes: smoothing, demotion, suppression, box voting, extent."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm._ext import boxes as _kernel
from lapsvm.arrays import Array, Float64, Index, as_floats, as_number, check_finite
from lapsvm.boxes import as_boxes, iou
from lapsvm.catalog import Pixels
from lapsvm.detection.extent import fitted
from lapsvm.detection.groups import WindowPrior
from lapsvm.detection.suppression import detect, scored_boxes
from lapsvm.errors import InputError
from lapsvm.settings import DetectSettings

if TYPE_CHECKING:
    from lapsvm.bags import Bags  # takes a tenth of a second, and prediction needs none

PIXEL_FRACTION = 1 / 16  # voted boxes are rounded to it, so that files are short and the same on every machine
SMOOTHING_UNIT, SMOOTHING_IOU = 0.5, 0.7  # standard deviations of the scores; see `smooth_scores`
SMOOTHED = 200  # windows beyond these have weights near 0, and all pairs of a picture's windows take long
LARGEST = 1e150  # the standard deviation squares scores, and the sum of the squares must be finite


@dataclass(frozen=True)
class Detected:
    """Boxes of one class in one picture, the best first.

    Attributes
    ----------
    boxes : ndarray of shape (n, 4)
    scores : ndarray of shape (n,)
    probabilities : ndarray of shape (n,), or None
        None where the class's model has no calibration.
    """

    boxes: Array
    scores: Float64
    probabilities: Float64 | None = None

    def taken(self, rows: slice | NDArray[np.bool_]) -> "Detected":
        """Return the boxes of some rows."""
        shares = None if self.probabilities is None else self.probabilities[rows]
        return Detected(self.boxes[rows], self.scores[rows], shares)


def smooth_scores(boxes: ArrayLike, scores: ArrayLike, amount: float = 0.5) -> Float64:
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
    unit = SMOOTHING_UNIT * float(values.std()) if len(values) else 0.0
    if unit == 0 or amount == 0:
        return values
    best = np.argsort(-values, kind="stable")[:SMOOTHED]
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
    near = iou(boxes, boxes) >= SMOOTHING_IOU
    np.fill_diagonal(near, True)  # a box without area overlaps nothing, not even itself
    kept = np.where(near, np.maximum(weights, np.finfo(float).tiny), 0.0)
    return np.asarray(kept.sum(axis=1))  # not a product of BLAS, whose bits may depend on the threads


def demote_scores(scores: ArrayLike, amount: float = 1.0) -> Float64:
    """Return the scores of one picture's windows with increased distances to the best score.

    s becomes s + amount (s - best). The best score of a picture does not change, so that the order of pictures is kept,
    and the other windows rank lower among those of other pictures. Detectors learned from image-level labels often give
    high scores to many parts of one picture.

    Parameters
    ----------
    scores : array-like of shape (n,)
    amount : float, default 1.0
        At least 0; 0 changes nothing.

    Returns
    -------
    ndarray of shape (n,), float64

    Raises
    ------
    ShapeError, NotFiniteError
        If the scores are not finite numbers of shape (n,).
    InputError
        If the amount is negative or not finite.
    """
    values = as_floats("scores", scores, 1)
    if not 0 <= as_number("the amount of demotion", amount) < np.inf:
        raise InputError(f"the amount of demotion must be a finite number of at least 0, got {amount}.")
    return values + amount * (values - values.max(initial=-np.inf)) if amount and len(values) else values


def box_voting(
    detections: ArrayLike, boxes: ArrayLike, scores: ArrayLike, temperature: float = 0.7, min_iou: float = 0.45
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


def ranking_scores(
    scores: Float64, boxes: Array, settings: DetectSettings, prior: WindowPrior | None = None
) -> Float64:
    """Return the scores (n,) by which one picture's windows are ranked among those of all pictures."""
    scores = scores if prior is None else prior.ranked(scores, boxes)
    smoothed = smooth_scores(boxes, scores, settings.score_smoothing) if settings.score_smoothing else scores
    return demote_scores(smoothed, settings.demotion)


def detect_windows(
    scores: Float64, boxes: Array, settings: DetectSettings, prior: WindowPrior | None = None,
    pixels: Pixels | None = None,
) -> tuple[Float64, Float64]:  # fmt: skip
    """Return the detections of one class in one picture, boxes (k, 4) and scores (k,), from all its windows.

    Parameters
    ----------
    scores : (n,)
    boxes : (n, 4)
    settings : DetectSettings
    prior : WindowPrior, optional
        What the model knows of boxes beside its weights.
    pixels : (h, w, 3) uint8, optional
        The picture, where boxes take the extent of what stands out of it; without, they do not.
    """
    scores = scores if prior is None else prior.ranked(scores, boxes)
    ranking = ranking_scores(scores, boxes, settings)
    detected, values = detect(ranking, boxes, settings.nms_threshold, max_after=settings.max_detections)
    if settings.box_voting:
        moved = box_voting(detected, boxes, scores, settings.box_voting, settings.box_voting_iou)
        detected = _rounded(moved)
    if prior is None or not prior.takes_extent or pixels is None:
        return detected, values
    taken, values = fitted(pixels, detected, values)
    return _rounded(taken), values


def _rounded(boxes: Float64) -> Float64:
    return np.asarray(np.round(boxes / PIXEL_FRACTION) * PIXEL_FRACTION)


def best_boxes(
    bags: "Bags", boxes: Array, weights: Float64, pictures: Index, settings: DetectSettings,
    prior: WindowPrior | None = None, pixels: Callable[[int], Pixels | None] | None = None,
) -> tuple[Float64, Float64]:  # fmt: skip
    """Return the best detection of some pictures: boxes (m, 4) and scores (m,).

    Parameters
    ----------
    bags : Bags
    boxes : (n_windows, 4)
    weights : (d,)
    pictures : (m,) int
    settings : DetectSettings
    prior : WindowPrior, optional
    pixels : callable, optional
        Returns the picture of a row, None if it cannot be used; asked only where boxes take an extent.
    """
    if not len(pictures):
        return np.zeros((0, 4)), np.zeros(0)
    scores, single = bags.subset(pictures).split_scores(weights), replace(settings, max_detections=1)
    own_boxes = (boxes[bags.offsets[picture] : bags.offsets[picture + 1]] for picture in pictures)
    read = pixels if prior is not None and prior.takes_extent else None
    shown = (None if read is None else read(picture) for picture in pictures.tolist())
    each = zip(scores, own_boxes, shown, strict=True)
    detections = [detect_windows(values, windows, single, prior, seen) for values, windows, seen in each]
    return np.array([box[0] for box, _ in detections], dtype=np.float64), np.array(
        [score[0] for _, score in detections]
    )
