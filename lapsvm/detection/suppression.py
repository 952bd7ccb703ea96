"""Greedy non-maximum suppression: the best box stays, and what overlaps it too much goes."""

import numpy as np
from numpy.typing import ArrayLike

from lapsvm._ext import boxes as _kernel
from lapsvm.arrays import Float64, Index, as_floats, check_finite, check_same_length
from lapsvm.boxes import as_boxes
from lapsvm.errors import InputError


def demote_scores(scores: ArrayLike, amount: float = 1.0) -> Float64:
    """Return the scores of one picture's windows, those below the best one moved further down.

    s becomes s + amount (s - best). A picture's best window keeps its score, so pictures keep their order; its other
    windows fall back behind the best ones of other pictures. Windows learned from image-level labels fire on many parts
    of one picture, which a detector then lists before the objects of the next.

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
        If the scores are no (n,) finite numbers.
    InputError
        If the amount is negative or not finite.
    """
    values = as_floats("scores", scores, 1)
    if not (np.isfinite(amount) and amount >= 0):
        raise InputError(f"the amount of demotion must be a finite number of at least 0, got {amount}.")
    return values + amount * (values - values.max(initial=-np.inf)) if amount and len(values) else values


def nms(boxes: ArrayLike, scores: ArrayLike, threshold: float = 0.3, *, limit: int | None = None) -> Index:
    """Return which boxes stay, best first.

    Going from the largest score to the smallest, a box is dropped if its IoU with one that was kept is greater than
    the threshold. Equal scores keep their order. A box without area (or an inverted one) has IoU 0 with everything:
    it neither suppresses nor is suppressed.

    Parameters
    ----------
    boxes : array-like of shape (n, 4)
        x1, y1, x2, y2 with half-open edges; arithmetic is float64.
    scores : array-like of shape (n,)
    threshold : float, default 0.3
        In [0, 1]; 1 drops nothing.
    limit : int, optional
        Stop when as many boxes are kept. The result is the beginning of the one without limit.

    Returns
    -------
    ndarray of shape (k,), intp
        Indices into `boxes`.

    Raises
    ------
    NotFiniteError
        If a score or a coordinate is NaN or infinite.
    ShapeError
        If a shape is wrong, or the lengths differ.
    InputError
        If the threshold is not in [0, 1], or the limit is less than 1.
    """
    found, values = scored_boxes(boxes, scores)
    _check_limits(threshold, {"limit": limit})
    return _kept(found, _best_first(values), threshold, limit)


def detect(
    scores: ArrayLike,
    boxes: ArrayLike,
    nms_threshold: float = 0.3,
    max_before: int | None = None,
    max_after: int | None = 100,
) -> tuple[Float64, Float64]:
    """Return the detections of one class in one picture, best first.

    Parameters
    ----------
    scores : array-like of shape (n,)
    boxes : array-like of shape (n, 4)
        The windows.
    nms_threshold : float, default 0.3
        See `nms`.
    max_before : int, optional
        Only so many best windows go into suppression.
    max_after : int or None, default 100
        At most so many come out; None for all.

    Returns
    -------
    boxes : ndarray of shape (k, 4), float64
    scores : ndarray of shape (k,), float64

    Raises
    ------
    ShapeError, NotFiniteError, InputError
        As `nms`.
    """
    found, values = scored_boxes(boxes, scores)
    _check_limits(nms_threshold, {"max_before": max_before, "max_after": max_after})
    kept = _kept(found, _best_first(values)[:max_before], nms_threshold, max_after)
    return found[kept], values[kept]


def scored_boxes(boxes: ArrayLike, scores: ArrayLike) -> tuple[Float64, Float64]:
    """Return boxes (n, 4) and scores (n,), finite and equally many."""
    found, values = as_boxes(boxes), as_floats("scores", scores, 1)
    check_finite("boxes", found)
    check_same_length("boxes", found, "scores", values)
    return found, values


def _check_limits(threshold: float, limits: dict[str, int | None]) -> None:
    """Raise InputError unless the threshold is in [0, 1] and every limit is None or at least 1."""
    if not 0 <= threshold <= 1:
        raise InputError(f"the threshold of non-maximum suppression must be between 0 and 1, got {threshold}.")
    for name, limit in limits.items():
        if limit is not None and limit < 1:
            raise InputError(f"{name} must be at least 1, got {limit}.")


def _best_first(scores: Float64) -> Index:
    """Return the order of descending scores; equal ones keep their order."""
    return np.argsort(-scores, kind="stable")


def _kept(boxes: Float64, order: Index, threshold: float, limit: int | None) -> Index:
    """Return the part of `order` that stays; the kernel gets the boxes sorted, so that it reads them in a row."""
    kept = _kernel.nms(np.ascontiguousarray(boxes[order]), threshold, len(order) if limit is None else limit)
    return np.asarray(order[kept])
