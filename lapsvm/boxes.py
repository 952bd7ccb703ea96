"""Boxes: float arrays (n, 4) of x1, y1, x2, y2, 0-based, with half-open edges.

The width of a box is ``x2 - x1``. A PASCAL VOC box (1-based, inclusive edges) becomes
``(xmin - 1, ymin - 1, xmax, ymax)``, so that ``x2 - x1`` is the devkit's width ``xmax - xmin + 1``. No other code
adds 1.
"""

import numpy as np
from numpy.typing import ArrayLike

from lapsvm._ext import boxes as _kernel
from lapsvm.arrays import Array, Float64, as_numbers, check_same_length
from lapsvm.errors import ShapeError

_VOC_SHIFT = np.array([1.0, 1.0, 0.0, 0.0])


def as_boxes(boxes: ArrayLike, name: str = "boxes") -> Float64:
    """Return `boxes` as a float64 array of shape (n, 4); an empty list has shape (0, 4).

    Raises
    ------
    ShapeError
        If the shape is not (n, 4).
    InputError
        If they are not real numbers.
    """
    array = as_numbers(name, boxes)
    if array.size == 0:
        return np.empty((0, 4))
    if array.ndim != 2 or array.shape[1] != 4:
        raise ShapeError(f"{name} must have shape (n, 4), got {array.shape}.")
    return array


def from_voc(boxes: ArrayLike) -> Float64:
    """Return VOC boxes (1-based, inclusive xmin, ymin, xmax, ymax) as 0-based, half-open boxes."""
    return np.asarray(as_boxes(boxes) - _VOC_SHIFT)


def to_voc(boxes: ArrayLike) -> Float64:
    """Return 0-based, half-open boxes as VOC boxes (1-based, inclusive xmin, ymin, xmax, ymax)."""
    return np.asarray(as_boxes(boxes) + _VOC_SHIFT)


def areas(boxes: ArrayLike) -> Float64:
    """Return the area of each box in square pixels. 0 for an inverted one."""
    array = as_boxes(boxes)
    sides: Float64 = np.maximum(array[:, 2:] - array[:, :2], 0.0)
    return np.asarray(sides[:, 0] * sides[:, 1])


def common_areas(first: ArrayLike, second: ArrayLike) -> Float64:
    """Return the area (n,) that boxes (n, 4) share with those in the same rows of others, or with a single one (1, 4).

    0 for boxes that are disjoint. ShapeError if a shape is not (n, 4).
    """
    return _common(as_boxes(first, "first"), as_boxes(second, "second"))


def shared_areas(first: ArrayLike, second: ArrayLike) -> Float64:
    """Return the area (n, m) that each of some boxes (n, 4) shares with each of others (m, 4), 0 if they are disjoint.

    ShapeError if a shape is not (n, 4).
    """
    return _common(as_boxes(first, "first")[:, None], as_boxes(second, "second"))


def _common(left: Float64, right: Float64) -> Float64:
    """Return the area (...) that boxes (..., 4) share with others of a shape that is broadcast with theirs."""
    sides: Float64 = np.minimum(left[..., 2:], right[..., 2:]) - np.maximum(left[..., :2], right[..., :2])
    return np.asarray(np.prod(np.maximum(sides, 0.0), axis=-1))


def iou(first: ArrayLike, second: ArrayLike) -> Float64:
    """Return the intersection over union of every pair of boxes.

    Parameters
    ----------
    first : array-like of shape (n, 4)
    second : array-like of shape (m, 4)

    Returns
    -------
    ndarray of shape (n, m), float64
        0 if the boxes are disjoint, or one of them is empty or inverted.

    Raises
    ------
    ShapeError
        If a shape is not (n, 4).
    """
    return _kernel.iou(np.ascontiguousarray(as_boxes(first)), np.ascontiguousarray(as_boxes(second)))


def paired_iou(first: ArrayLike, second: ArrayLike) -> Float64:
    """Return the intersection over union of each box of `first` with the box of `second` in the same row.

    Parameters
    ----------
    first, second : array-like of shape (n, 4)

    Returns
    -------
    ndarray of shape (n,), float64
        0 if the boxes are disjoint, or left of them is empty or inverted.

    Raises
    ------
    ShapeError
        If a shape is not (n, 4), or they differ in length.
    """
    left, right = as_boxes(first, "first"), as_boxes(second, "second")
    check_same_length("first", left, "second", right)
    common = common_areas(left, right)
    union = areas(left) + areas(right) - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0)


def whole_image(height: int, width: int) -> Array:
    """Return the box that covers a picture, float32 of shape (4,)."""
    return np.array([0, 0, width, height], dtype=np.float32)
