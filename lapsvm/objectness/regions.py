"""Regions of a saliency map, and the objectness of windows beside them.

A region is the box of a connected component of the map at or above a threshold. A window's objectness is its largest
intersection over union with a region, so it is large where the window ends where something that stands out does.
"""

from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Float32, Float64, as_floats, check_finite
from lapsvm.boxes import as_boxes, iou
from lapsvm.errors import InputError, ShapeError

THRESHOLDS = (0.3, 0.5, 0.7)
"""Values, in float32, at or above which cells of a map belong to regions."""

LEAST_SHARE = Fraction(60, 320**2)
"""Least share of the map's cells that a component must have to be a region: 60 of a map of 320 x 320."""


def stretched(values: Float64) -> Float64:
    """Return a map moved and scaled to reach from 0 to 1. zeros if all its numbers are equal."""
    low, high = values.min(), values.max()
    return np.asarray((values - low) / (high - low)) if high > low else np.zeros_like(values)


def object_regions(saliency: ArrayLike) -> Float64:
    """Return the boxes of the regions that stand out in a map.

    Parameters
    ----------
    saliency : array-like of shape (rows, columns)
        How much each cell stands out, in 0..1.

    Returns
    -------
    ndarray of shape (m, 4), float64
        x1, y1, x2, y2 in cells of the map, 0-based and half-open, sorted, none twice; none where no cell reaches the
        least of `THRESHOLDS`. For each threshold they are the boxes of the 8-connected components with a share of at
        least `LEAST_SHARE` of the cells.

    Raises
    ------
    ShapeError
        If it does not have 2 dimensions and at least one cell.
    InputError
        If it is no array of numbers, or has one outside 0..1.
    NotFiniteError
        If one is NaN or infinite.
    """
    cells = check_map(saliency)
    regions = [_regions_of(cells >= np.float32(threshold)) for threshold in THRESHOLDS]
    return np.asarray(np.unique(np.concatenate([np.empty((0, 4)), *regions]), axis=0))


def picture_regions(saliency: ArrayLike, size: tuple[int, ...]) -> Float64:
    """Return the regions of a map in pixels of the picture that it covers.

    Parameters
    ----------
    saliency : array-like of shape (rows, columns)
        See `object_regions`, also for the errors.
    size : tuple of 2 ints
        Height and width of the picture.

    Returns
    -------
    ndarray of shape (m, 4), float64
    """
    regions = object_regions(saliency)  # which checks the map
    (height, width), (rows, columns) = size, np.shape(saliency)
    # multiplied first: the map's last column is then the picture's exactly
    return np.asarray(regions * ([width, height] * 2) / ([columns, rows] * 2))


def check_map(saliency: ArrayLike, name: str = "a map of objectness") -> Float32:
    """Return a map as float32; see `object_regions` for the errors, which begin with the name."""
    cells = as_floats(name, saliency, ndim=2)
    if not cells.size:
        raise ShapeError(f"{name} must have at least one cell, got shape {cells.shape}.")
    if cells.min() < 0 or cells.max() > 1:
        raise InputError(f"{name} must be within 0..1, got {cells.min():g} to {cells.max():g}.")
    return cells.astype(np.float32)


def _regions_of(above: NDArray[np.bool_]) -> Float64:
    """Return the boxes of the components of some cells that are large enough."""
    import cv2

    _, _, table, _ = cv2.connectedComponentsWithStats(above.astype(np.uint8), connectivity=8)
    components = np.asarray(table[1:], dtype=np.float64)  # the first row is that of all other cells
    x, y, width, height, count = components.T
    boxes = np.stack([x, y, x + width, y + height], axis=1)
    return np.asarray(boxes[count >= ceil(LEAST_SHARE * above.size)])


def window_objectness(boxes: ArrayLike, regions: ArrayLike) -> Float32:
    """Return the objectness of windows: the largest intersection over union of each with a region.

    Parameters
    ----------
    boxes : array-like of shape (n, 4)
        x1, y1, x2, y2, 0-based and half-open.
    regions : array-like of shape (m, 4)
        In the same units.

    Returns
    -------
    ndarray of shape (n,), float32
        In 0..1; 0 without regions, and for a window without area.

    Raises
    ------
    ShapeError
        If a shape is not (n, 4).
    InputError
        If they are no arrays of numbers.
    NotFiniteError
        If one is NaN or infinite.
    """
    windows, others = as_boxes(boxes), as_boxes(regions, "regions")
    check_finite("boxes", windows)
    check_finite("regions", others)
    return np.asarray(iou(windows, others).max(axis=1, initial=0.0), dtype=np.float32)
