"""The order of selective search's windows: greedy cover of boxes that are likely objects.

A box is likely an object if it cuts few regions of a coarse segmentation (superpixels straddling: B. Alexe,
T. Deselaers, V. Ferrari, "Measuring the Objectness of Image Windows", PAMI 2012), holds many edges and is filled by the
region that it bounds. Nothing is learned.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lapsvm._ext import coverage as _coverage

Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]

GRID = 128  # cells along the longer side of the picture
MAX_PARTS = 256  # the largest regions of a segmentation that `cut` sees
MAX_BOXES = 4096  # the boxes with the largest weights that cover each other; the others follow
MAX_PAIRS = 2**22  # of overlapping boxes
SOFT = 0.1  # keeps the weights of boxes without cut regions, and without edges, finite and above 0
MAX_WEIGHT = 32767
KEYED = 2**15  # coordinates below this fit into whole `box_keys`


class Evidence(NamedTuple):
    """What of one colour space the order sees: a coarse segmentation (h, w), and the edge weights (2, h, w)."""

    labels: Int32
    edges: NDArray[np.uint16]


def by_coverage(boxes: Int32, sizes: Int32, seen: Sequence[Evidence], least: float = 0) -> Int32:
    """Return the distinct ones of `boxes` (n, 4), so that the first ones cover as many likely objects as possible.

    Each next box is the one that raises most the sum, over all boxes, of a box's weight times its greatest overlap
    with a box taken so far: max(0, 2 IoU - 1), see `lapsvm._ext.coverage.cover`. So near-duplicates wait, and a box
    that many strategies find in a similar place comes early. Boxes with a side below `least` take no part and come
    last, large ones first. `sizes` (n,) are the pixels of the regions.
    """
    boxes, sizes = by_area(boxes, sizes)
    enough = (boxes[:, 2:] - boxes[:, :2] >= least).all(axis=1)
    if not enough.any():
        return np.asarray(boxes[::-1])
    small, boxes = boxes[~enough][::-1], np.ascontiguousarray(boxes[enough])
    weights = whole_weights(objectness(boxes, sizes[enough], seen))
    candidates = np.argsort(-weights, kind="stable")
    n_first, order = min(len(boxes), MAX_BOXES), None
    while order is None:
        first = np.sort(candidates[:n_first])
        order = _coverage.cover(boxes[first], weights[first], MAX_PAIRS)
        n_covering, n_first = n_first, n_first // 2
    ordered: Int32 = np.concatenate([boxes[first[order]], boxes[candidates[n_covering:]], small])
    return ordered


def default_min_side(height: int, width: int) -> float:
    """Return the default minimum side in pixels: 12, or less if the picture's shorter side is below 192."""
    return min(12.0, min(height, width) / 16)


def by_area(boxes: Int32, sizes: Int32) -> tuple[Int32, Int32]:
    """Return the distinct boxes, sorted by area, among equals by their corners, and the size of each one's largest."""
    keys = box_keys(boxes)
    order = np.argsort(keys, kind="stable")
    starts = np.concatenate([[0], np.flatnonzero(np.diff(keys[order]) != 0) + 1])
    distinct, largest_sizes = boxes[order[starts]], np.maximum.reduceat(sizes[order], starts)
    areas = (distinct[:, 2] - distinct[:, 0]).astype(np.int64) * (distinct[:, 3] - distinct[:, 1])
    order_by_area = np.argsort(areas, kind="stable")
    return np.ascontiguousarray(distinct[order_by_area]), largest_sizes[order_by_area]


def box_keys(boxes: NDArray[Any]) -> NDArray[Any]:
    """Return one number per box (n,), equal for equal boxes and in the order of the corners.

    Numbers sort faster than rows, whole ones fastest: four coordinates of 16 bits fit into one.
    """
    if len(boxes) and boxes.max() < KEYED and (boxes == np.rint(boxes)).all():
        return np.asarray(boxes.astype(np.int64) @ [2**48, 2**32, 2**16, 1])
    # float64 represents a pair of float32 with a factor of 2 ** 26 exactly
    return np.asarray((boxes[:, 0::2].astype(np.float64) * [2.0**26, 2.0**26] + boxes[:, 1::2]) @ [1, 1j])


def objectness(boxes: Int32, sizes: Int32, seen: Sequence[Evidence]) -> Float64:
    """Return (edges + 0.1) ** 1.5 / (cut + 0.1) ** 2 * sizes / area * area ** 0.125 of each box, float64 (n,).

    `cut` are the pixels of regions that the box separates from the rest (of each region the smaller part), as a share
    of the box's area, `edges` the mean edge weight in the box over that in the picture, and `sizes` the pixels of the
    box's own region.
    """
    height, width = seen[0].labels.shape
    step = max(1, round(max(height, width) / GRID))
    picture = np.array([[0, 0, width, height]], np.int32)
    area = (boxes[:, 2] - boxes[:, 0]).astype(np.float64) * (boxes[:, 3] - boxes[:, 1])
    cut = sum(_coverage.cut(*largest(evidence.labels), step, boxes) for evidence in seen) / (area * len(seen)) + SOFT
    inside: Any = sum(_coverage.edge_sums(evidence.edges, step, boxes) for evidence in seen)
    total = sum(float(_coverage.edge_sums(evidence.edges, step, picture)[0]) for evidence in seen)
    edges = inside / area * (height * width / max(total, 1.0)) + SOFT
    # square roots are the same on every machine, powers are not
    return np.asarray(edges * np.sqrt(edges) / (cut * cut) * (sizes / area) * np.sqrt(np.sqrt(np.sqrt(area))))


def largest(labels: Int32) -> tuple[Int32, int]:
    """Return the labels with the MAX_PARTS largest regions first, and the number of these."""
    sizes = np.bincount(labels.ravel())
    if len(sizes) <= MAX_PARTS:
        return labels, len(sizes)
    rank = np.empty(len(sizes), np.int32)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes), dtype=np.int32)
    return rank[labels], MAX_PARTS


def whole_weights(weights: Float64) -> Int32:
    """Return the weights over the greatest, as whole numbers from 1 to MAX_WEIGHT."""
    rounded: Int32 = np.maximum(1, np.floor(weights / weights.max() * MAX_WEIGHT)).astype(np.int32)
    return rounded
