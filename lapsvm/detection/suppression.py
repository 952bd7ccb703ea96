"""Greedy non-maximum suppression."""

import numpy as np
from numpy.typing import ArrayLike

from lapsvm._ext import boxes as _kernel
from lapsvm.arrays import Float64, Index, as_floats, as_number, check_count, check_finite, check_same_length
from lapsvm.boxes import as_boxes
from lapsvm.errors import InputError


def nms(boxes: ArrayLike, scores: ArrayLike, threshold: float = 0.3, *, limit: int | None = None) -> Index:
    """Return the indices of the kept boxes, best first.

    In order of descending score, a box is dropped if its IoU with a kept box exceeds the threshold. Equal scores keep
    their order. An empty or inverted box has IoU 0 with all boxes, so that it neither suppresses nor is suppressed.

    Parameters
    ----------
    boxes : array-like of shape (n, 4)
        x1, y1, x2, y2 with half-open edges; arithmetic is float64.
    scores : array-like of shape (n,)
    threshold : float, default 0.3
        In [0, 1]; 1 drops nothing.
    limit : int, optional
        Maximum number of kept boxes.

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
    corners, values = scored_boxes(boxes, scores)
    if not 0 <= as_number("the threshold of non-maximum suppression", threshold) <= 1:
        raise InputError(f"the threshold of non-maximum suppression must be between 0 and 1, got {threshold}.")
    if limit is not None:
        check_count("limit", limit)
    order = np.argsort(-values, kind="stable")
    most = len(order) if limit is None else min(limit, len(order))
    return np.asarray(order[_kernel.nms(np.ascontiguousarray(corners[order]), threshold, most)])


def detect(
    scores: ArrayLike, boxes: ArrayLike, nms_threshold: float = 0.3, max_after: int | None = 100
) -> tuple[Float64, Float64]:
    """Return the detections of one class in one picture, best first.

    Parameters
    ----------
    scores : array-like of shape (n,)
    boxes : array-like of shape (n, 4)
        The windows.
    nms_threshold : float, default 0.3
        See `nms`.
    max_after : int or None, default 100
        Maximum number of detections; None for all.

    Returns
    -------
    boxes : ndarray of shape (k, 4), float64
    scores : ndarray of shape (k,), float64

    Raises
    ------
    ShapeError, NotFiniteError, InputError
        As `nms`.
    """
    corners, values = scored_boxes(boxes, scores)
    kept = nms(corners, values, nms_threshold, limit=max_after)
    return corners[kept], values[kept]


def scored_boxes(boxes: ArrayLike, scores: ArrayLike) -> tuple[Float64, Float64]:
    """Return checked boxes (n, 4) and scores (n,)."""
    corners, values = as_boxes(boxes), as_floats("scores", scores, 1)
    check_finite("boxes", corners)
    check_same_length("boxes", corners, "scores", values)
    return corners, values
