"""The methods of `propose`: ours, methods of other packages, and entry points."""

from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint
from inspect import signature
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Array, Float32, check_finite, check_known
from lapsvm.boxes import areas, as_boxes
from lapsvm.catalog import Pixels, find_point, load_point, running
from lapsvm.errors import InputError, OptionError
from lapsvm.windows.contrast import contrast, mixed
from lapsvm.windows.details import small
from lapsvm.windows.packages import installed_version, opencv, package_runtime, selectivesearch
from lapsvm.windows.selective_search import Mode, selective_search

Source = Callable[[Pixels, str | Mode, int, int], NDArray[Any]]
"""A source of windows: ``(image, mode, seed, threads) -> boxes (n, 4)``, best first."""

ENTRY_POINTS = "lapsvm.windows"

GRID_DENSITIES = {"fast": (1, 2), "quality": (2, 4)}  # mode -> sizes per octave, windows per side of a window
GRID_ASPECTS = (1.0, 0.5, 2.0)  # width over height
GRID_OCTAVES = 4


def grid(image: Pixels, mode: object) -> Float32:
    """Return sliding windows of several sizes and shapes, from large to small, row by row: a baseline of the methods.

    Mode "fast" has one size per octave and steps of half a window, "quality" two sizes and a quarter.

    Raises
    ------
    OptionError
        If the mode is unknown.
    """
    check_known(f"mode {mode!r} of grid", mode, GRID_DENSITIES)
    sizes, steps = GRID_DENSITIES[str(mode)]
    height, width = image.shape[:2]
    levels = [
        _grid_level(height, width, 2 ** (-i / sizes), aspect, steps)
        for i, aspect in product(range(GRID_OCTAVES * sizes + 1), GRID_ASPECTS)
    ]
    boxes = np.concatenate([np.array([[0, 0, width, height]]), *levels]).astype(np.float32)
    return boxes[np.argsort(-areas(boxes), kind="stable")]


def _grid_level(height: int, width: int, scale: float, aspect: float, steps: int) -> Float32:
    """Return the windows of one size and shape, spread evenly over the picture."""
    side = scale * min(height, width)
    w = max(1, min(width, round(side * aspect**0.5)))
    h = max(1, min(height, round(side / aspect**0.5)))
    x = np.rint(np.linspace(0, width - w, 1 + int(np.ceil(steps * (width - w) / w))))
    y = np.rint(np.linspace(0, height - h, 1 + int(np.ceil(steps * (height - h) / h))))
    top, left = np.meshgrid(y, x, indexing="ij")
    return np.stack([left, top, left + w, top + h], axis=-1).reshape(-1, 4).astype(np.float32)


METHODS: dict[str, Source] = {
    "selective_search": lambda image, mode, _, threads: selective_search(image, mode, threads),
    "contrast": lambda image, mode, *_: contrast(image, mode),
    "mixed": lambda image, mode, _, threads: mixed(image, mode, threads),
    "small": lambda image, mode, _, threads: small(image, mode, threads),
    "grid": lambda image, mode, *_: grid(image, mode),
    "selectivesearch": lambda image, mode, *_: selectivesearch(image, mode),
    "opencv": lambda image, mode, seed, _: opencv(image, mode, seed),
}
"""Method -> its source, which passes on what the method takes."""


def find_source(method: str) -> Source:
    """Return the source of windows of a name: one of `METHODS`, or an entry point of the group ``lapsvm.windows``.

    Raises
    ------
    OptionError
        If there is none, or it cannot be loaded.
    InputError
        If an entry point is no function of a picture, a mode, a seed and a number of threads.
    """
    if not isinstance(method, str):
        raise OptionError(f"method must be a name, got {method!r}.")
    return METHODS[method] if method in METHODS else _load_source(_find_point(method))


def source_runtime(method: str) -> dict[str, str]:
    """Return name and version of the package that a method comes from, as shards record them. {} for ours."""
    if method in METHODS:
        return package_runtime(method)
    dist = _find_point(method).dist
    return {} if dist is None else installed_version(dist.name)


def whole_boxes(method: str, boxes: ArrayLike) -> Array:
    """Return a source's boxes (n, 4) enlarged to whole pixels.

    Raises
    ------
    InputError, ShapeError, NotFiniteError
        If they are no finite boxes.
    """
    name = f"windows of method {method!r}"
    corners = as_boxes(boxes, name)
    check_finite(name, corners)
    return np.concatenate([np.floor(corners[:, :2]), np.ceil(corners[:, 2:])], axis=1)


@cache
def _find_point(method: str) -> EntryPoint:
    """Return the entry point of a source of another package. Raises OptionError if there is none."""
    return find_point(ENTRY_POINTS, f"method {method!r}", method, sorted(METHODS))


@cache
def _load_source(point: EntryPoint) -> Source:
    """Return the function of an entry point, checked once: pictures are many."""
    source: Source = load_point(point)
    wanted = "must be a function of a picture, a mode, a seed and a number of threads"
    if not callable(source):
        raise InputError(f"method {point.name!r} {wanted}, got {type(source).__name__}.")
    try:
        signature(source).bind(np.empty((1, 1, 3), np.uint8), "fast", 0, 1)
    except (TypeError, ValueError) as error:
        raise InputError(f"method {point.name!r} {wanted}, but {error}.") from None

    def guarded(image: Pixels, mode: str | Mode, seed: int, threads: int) -> NDArray[Any]:
        with running(point):
            return source(image, mode, seed, threads)

    return guarded
