"""Boxes: float arrays (n, 4) of x1, y1, x2, y2, 0-based, with half-open edges.

The width of a box is ``x2 - x1``. A PASCAL VOC box (1-based, both edges inside) enters as
``(xmin - 1, ymin - 1, xmax, ymax)``, so that ``x2 - x1`` *is* the devkit's width ``xmax - xmin + 1`` and no "+1"
stands anywhere else.
"""

import numpy as np
from numpy.typing import ArrayLike

from lapsvm._ext import boxes as _kernel
from lapsvm.arrays import Array, Float64
from lapsvm.errors import ShapeError

_VOC_SHIFT = np.array([1.0, 1.0, 0.0, 0.0])


def as_boxes(boxes: ArrayLike, name: str = "boxes") -> Float64:
    """Return `boxes` as a float64 array of shape (n, 4); an empty list is (0, 4).

    Raises
    ------
    ShapeError
        If the shape is another one.
    """
    array = np.asarray(boxes, dtype=np.float64)
    if array.size == 0:
        return np.empty((0, 4))
    if array.ndim != 2 or array.shape[1] != 4:
        raise ShapeError(f"{name} must have shape (n, 4), got {array.shape}.")
    return array


def from_voc(boxes: ArrayLike) -> Float64:
    """Return VOC boxes (1-based, inclusive xmin, ymin, xmax, ymax) in the house's convention."""
    return np.asarray(as_boxes(boxes) - _VOC_SHIFT)


def to_voc(boxes: ArrayLike) -> Float64:
    """Return house boxes as VOC boxes (1-based, inclusive xmin, ymin, xmax, ymax)."""
    return np.asarray(as_boxes(boxes) + _VOC_SHIFT)


def areas(boxes: ArrayLike) -> Float64:
    """Return the area of each box in square pixels; 0 for an inverted one."""
    array = as_boxes(boxes)
    sides: Float64 = np.maximum(array[:, 2:] - array[:, :2], 0.0)
    return np.asarray(sides[:, 0] * sides[:, 1])


def iou(first: ArrayLike, second: ArrayLike) -> Float64:
    """Return the intersection over union of every pair of boxes.

    Parameters
    ----------
    first : array-like of shape (n, 4)
    second : array-like of shape (m, 4)

    Returns
    -------
    ndarray of shape (n, m), float64
        0 where the boxes do not meet, and where one of them is empty or inverted.

    Raises
    ------
    ShapeError
        If a shape is not (n, 4).
    """
    return _kernel.iou(np.ascontiguousarray(as_boxes(first)), np.ascontiguousarray(as_boxes(second)))


def whole_image(height: int, width: int) -> Array:
    """Return the box of a whole picture, float32 of shape (4,)."""
    return np.array([0, 0, width, height], dtype=np.float32)
