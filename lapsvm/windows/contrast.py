"""Windows around small things and defects, which differ from the pixels near them; selective search merges them away.

A map shows by how many deviations each pixel differs from the pixels around it; the boxes of the connected parts above
several thresholds are windows. Maps are of intensity, brighter and darker, and of edges, in a pyramid of the picture.
Every number before the score is whole or a single rounding, and the score is one quotient.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lapsvm._ext import boxes as _boxes
from lapsvm._ext import components as _components
from lapsvm.arrays import Float32
from lapsvm.errors import OptionError
from lapsvm.windows.colour import Planes, intensity
from lapsvm.windows.selective_search import Mode, enlarged, selective_search

Int32 = NDArray[np.int32]

LEVELS = 4  # of the pyramid, each with half the sides
LEAST_LEVEL = 8  # pixels of the shorter side of a level
NEIGHBOURHOOD = 17  # pixels of the side of the square that a pixel is compared with
DEVIATIONS = 33  # and of the one over which a deviation is measured
TAPS = np.array([1, 4, 6, 4, 1], np.float32)  # a Gaussian of one pixel, in 1/16
UNIT = 256  # a map counts in 1/256 of a deviation
THRESHOLDS = 3.0, 2.0, 1.2, 0.7  # deviations
SKIPPED = {"fast": 1, "quality": 0}
"""Mode -> how many low thresholds the picture itself, the dearest level, goes without."""

LEAST_SIDE = 5.0  # pixels of a window
NEAR = 0.75  # windows that overlap a better one by more are left out
CANDIDATES, MOST = 3000, 1000  # the windows of the highest scores before that, and how many are kept
EVERY = 20  # which window of `mixed` is none of selective search
LARGE = 3  # which of those is one of the lattice
SIDES = 1.0, 0.7, 0.5, 0.35, 0.25  # of the windows of `lattice`, as shares of the picture's
STEPS = 3  # windows per side of a window


def contrast(image: Planes, mode: object) -> Int32:
    """Return the boxes of parts that differ from the pixels around them, highest score first.

    The score is the sum of a part's deviations over the root of its pixels: for noise that is independent from pixel to
    pixel, it is the significance of the part's mean.

    Raises
    ------
    OptionError
        If the mode is neither "fast" nor "quality".
    """
    if not isinstance(mode, str) or mode not in SKIPPED:
        raise OptionError(f"mode {mode!r} of contrast is not known; choose from {', '.join(SKIPPED)}.")
    levels = [_level(plane, level, image.shape, SKIPPED[mode]) for level, plane in enumerate(pyramid(image))]
    boxes = np.concatenate([np.empty((0, 4), np.int32), *(boxes for boxes, _ in levels)])
    scores = np.concatenate([np.empty(0), *(scores for _, scores in levels)])
    best = boxes[np.argsort(-scores, kind="stable")[:CANDIDATES]]
    return best[_boxes.nms(best.astype(np.float64), NEAR, MOST)]


def mixed(image: Planes, mode: str | Mode, threads: int) -> Int32:
    """Return the boxes of selective search; every twentieth is one of `contrast`, of these every third of `lattice`.

    Raises
    ------
    OptionError, InputError
        As `selective_search`.
    """
    fine = mode if mode in ("fast", "quality") else "fast"
    others = interleaved(contrast(image, fine), lattice(*image.shape[:2]), LARGE)
    return interleaved(selective_search(image, mode, threads), others, EVERY)


def lattice(height: int, width: int) -> Int32:
    """Return windows of a quarter of the picture's sides and more, in every pair of width and height, large ones first.

    Soft large areas on a surface that is even otherwise have no border that a region could end at.
    """
    columns, rows = _stretches(width), _stretches(height)
    boxes = np.array([[x1, y1, x2, y2] for y1, y2 in rows for x1, x2 in columns], np.int32)
    sizes = (boxes[:, 2] - boxes[:, 0]).astype(np.int64) * (boxes[:, 3] - boxes[:, 1])
    return boxes[np.argsort(-sizes, kind="stable")]


def _stretches(length: int) -> list[tuple[int, int]]:
    """Return where the windows begin and end along one side of the picture."""
    spans = []
    for share in SIDES:
        side = max(1, round(length * share))
        count = 1 + -(-STEPS * (length - side) // side)
        spans += [(int(start), int(start) + side) for start in np.rint(np.linspace(0, length - side, count))]
    return spans


def interleaved(first: Int32, second: Int32, every: int) -> Int32:
    """Return the boxes of both in their order, each `every`-th of the second."""
    places = np.concatenate([np.arange(len(first)) + 1, np.arange(1, len(second) + 1) * (every - 1)])
    return np.concatenate([first, second])[np.argsort(places, kind="stable")]


def pyramid(image: Planes) -> Iterator[Planes]:
    """Yield the intensity of the picture, and of the picture at half the size of the one before."""
    import cv2

    plane = np.ascontiguousarray(intensity(image)[0])
    for _ in range(LEVELS):
        if min(plane.shape) < LEAST_LEVEL:
            return
        yield plane
        height, width = plane.shape
        plane = np.asarray(cv2.resize(plane, ((width + 1) // 2, (height + 1) // 2), interpolation=cv2.INTER_AREA))


def _level(plane: Planes, level: int, full: tuple[int, ...], skipped: int) -> tuple[Int32, NDArray[np.float64]]:
    """Return the boxes of the parts of one level, in the pixels of the picture, and their scores."""
    least = max(2, -int(-LEAST_SIDE // 2**level))
    count = len(THRESHOLDS) - (skipped if level == 0 else 0)
    thresholds = np.array([round(UNIT * value) for value in THRESHOLDS[:count]], np.int32)
    parts = [_components.components(values, thresholds, least) for values in _maps(plane)]
    boxes, pixels, totals = (np.concatenate(column) for column in zip(*parts, strict=True))
    return enlarged(boxes, plane.shape, full), totals / np.sqrt(pixels)


def _maps(plane: Planes) -> Iterator[NDArray[np.int16]]:
    """Yield how much brighter, darker, and richer in edges each pixel is than those around it, in deviations."""
    import cv2

    values = plane.astype(np.float32)
    brighter = _standardised(_difference(values, 16))
    yield brighter
    yield -brighter
    edges = np.abs(cv2.Sobel(values, -1, 1, 0)) + np.abs(cv2.Sobel(values, -1, 0, 1))
    yield _standardised(_difference(edges, 2))


def _difference(values: Float32, unit: int) -> Float32:
    """Return the mean near each pixel less the mean around it in 1/unit, whole, at most 4,080 beside 0."""
    import cv2

    near = cv2.sepFilter2D(values, -1, TAPS, TAPS)
    around = cv2.boxFilter(values, -1, (NEIGHBOURHOOD, NEIGHBOURHOOD), normalize=False)
    return np.rint(near * np.float32(unit / 256) - around * np.float32(unit / NEIGHBOURHOOD**2))


def _standardised(differences: Float32) -> NDArray[np.int16]:
    """Return whole differences over their deviation, the mean of the picture's and the one near the pixel."""
    import cv2

    squares: Any = differences * differences  # whole numbers below 2 ** 24: their sums do not depend on the order
    near = cv2.boxFilter(squares, -1, (DEVIATIONS, DEVIATIONS), normalize=False) / np.float32(DEVIATIONS**2)
    deviations = np.sqrt((near + np.float32(squares.mean(dtype=np.float64))) / 2 + 1)
    return np.asarray(np.clip(np.rint(UNIT * differences / deviations), -32767, 32767), dtype=np.int16)
