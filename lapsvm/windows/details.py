"""Windows for pictures whose things are small: also around places with more detail than the ring about them.

Two maps tell where detail is: edges, and corners, where the picture changes in both directions. A fault of a track or a
grid is a corner among edges: neither a region nor a part ends there. A window's score is the mean of a map inside less
that in the ring; windows whose score is the highest among their neighbours of equal size and shape are kept. Sums are
of whole numbers, so that a score is a single quotient.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lapsvm._ext import boxes as _boxes
from lapsvm.arrays import Float64
from lapsvm.windows.colour import Planes
from lapsvm.windows.contrast import contrast, lattice, pyramid
from lapsvm.windows.selective_search import Mode, enlarged, selective_search

Int32 = NDArray[np.int32]

SHARES = 7, 4, 1, 4, 4
"""How many windows in a row of `small` are of selective search, `contrast`, `lattice`, edges and corners."""

SIDES = 11.0, 15.6  # pixels of a window of each level of the pyramid, the root of its area
SHAPES = 1.0, 1.8, 1 / 1.8  # width over height
RING = 0.3  # of a window's sides, the width of the ring about it
STEPS = 6  # places of a window per shorter side
APART = 0.3  # of a window's sides, how far its neighbours are
BLOCK = 5  # pixels of the side of the square over which directions are counted
NEAR = 0.75  # windows that overlap a better one by more are left out
CANDIDATES, MOST = 6000, 2000  # the first windows before that, and how many are kept


class Listed(NamedTuple):
    """The windows (n, 4) of one size and shape, best first, and the turn of each among those of all."""

    boxes: Int32
    turns: Float64


def small(image: Planes, mode: str | Mode, threads: int) -> Int32:
    """Return the boxes of selective search, `contrast`, `lattice` and `details` in turn.

    Raises
    ------
    OptionError, InputError
        As `selective_search`.
    """
    fine = mode if mode in ("fast", "quality") else "fast"
    sources = [
        selective_search(image, mode, threads),
        contrast(image, fine),
        lattice(*image.shape[:2]),
        *details(image),
    ]
    turns = [(np.arange(len(boxes)) + 0.5) / share for boxes, share in zip(sources, SHARES, strict=True)]
    return np.concatenate(sources)[np.argsort(np.concatenate(turns), kind="stable")]


def details(image: Planes) -> tuple[Int32, Int32]:
    """Return the windows with more edges than the ring about them, and those with more corners, best first."""
    edges: list[Listed] = []
    corners: list[Listed] = []
    for plane in pyramid(image):
        of_edges, of_corners = _maps(plane)
        edges += _level(of_edges, image.shape)
        corners += _level(of_corners, image.shape)
    return _in_turn(edges), _in_turn(corners)


def _in_turn(lists: list[Listed]) -> Int32:
    """Return the windows of all lists by their turns, without near-duplicates."""
    boxes = np.concatenate([np.empty((0, 4), np.int32), *(listed.boxes for listed in lists)])
    turns = np.concatenate([np.empty(0), *(listed.turns for listed in lists)])
    first = boxes[np.argsort(turns, kind="stable")[:CANDIDATES]]
    return first[_boxes.nms(first.astype(np.float64), NEAR, MOST)]


def _maps(plane: Planes) -> tuple[Float64, Float64]:
    """Return how much the plane changes near each pixel, and how much in the direction of the least change, whole."""
    import cv2

    smooth = cv2.boxFilter(plane, cv2.CV_32F, (3, 3), normalize=False)
    across, down = (cv2.Sobel(smooth, -1, x, 1 - x).astype(np.float64) for x in (1, 0))
    xx, yy, xy = (
        cv2.boxFilter(products, -1, (BLOCK, BLOCK), normalize=False)
        for products in (across * across, down * down, across * down)
    )
    least = (xx + yy) / 2 - np.sqrt((xx - yy) ** 2 / 4 + xy**2)
    return np.abs(across) + np.abs(down), np.rint(np.sqrt(np.maximum(least, 0)))


def _level(values: Float64, full: tuple[int, ...]) -> Iterator[Listed]:
    """Yield the windows of each size and shape of one level, in pixels of the picture."""
    for side, shape in product(SIDES, SHAPES):
        width, height = round(side * shape**0.5), round(side / shape**0.5)
        if width <= values.shape[1] and height <= values.shape[0]:
            boxes = enlarged(_peaks(values, width, height), values.shape, full)
            yield Listed(boxes, (np.arange(len(boxes)) + 0.5) / max(1, len(boxes)) ** 0.5)


def _peaks(values: Float64, width: int, height: int) -> Int32:
    """Return the windows of a size whose score is above 0 and the highest among their neighbours, best first."""
    import cv2

    x_ring, y_ring = round(width * RING), round(height * RING)
    around: Any = cv2.copyMakeBorder(values, y_ring, y_ring, x_ring, x_ring, cv2.BORDER_REPLICATE)
    sums = cv2.integral(around, sdepth=cv2.CV_64F)
    step = max(1, round(min(width, height) / STEPS))
    places = values.shape[0] - height + 1, values.shape[1] - width + 1
    inside = _sums(sums[y_ring:, x_ring:], width, height, places, step)
    both = _sums(sums, width + 2 * x_ring, height + 2 * y_ring, places, step)
    pixels, ring = width * height, 2 * (x_ring * height + y_ring * width + 2 * x_ring * y_ring)
    scores = ((inside * (pixels + ring) - both * pixels) / (pixels * ring)).astype(np.float32)
    neighbours = np.ones([2 * max(1, round(APART * side / step)) + 1 for side in (height, width)], np.uint8)
    rows, columns = np.nonzero((scores >= cv2.dilate(scores, neighbours)) & (scores > 0))
    order = np.argsort(-scores[rows, columns], kind="stable")[:CANDIDATES]
    x, y = columns[order] * step, rows[order] * step
    return np.stack([x, y, x + width, y + height], axis=1).astype(np.int32)


def _sums(sums: Any, width: int, height: int, places: tuple[int, int], step: int) -> Float64:
    """Return the sums over windows of a size that begin at every step of the places (rows, columns)."""

    def corners(x: int, y: int) -> Any:
        return sums[y : y + places[0] : step, x : x + places[1] : step]

    sums_of_windows: Float64 = corners(width, height) - corners(0, height) - corners(width, 0) + corners(0, 0)
    return sums_of_windows
