"""The door of the room: `propose`, its methods by name, and the whole picture as a window."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Float32
from lapsvm.boxes import as_boxes, whole_image
from lapsvm.catalog import MAX_PIXELS
from lapsvm.errors import InputError, OptionError, ShapeError
from lapsvm.windows.grid import grid
from lapsvm.windows.packages import opencv, selectivesearch
from lapsvm.windows.selective_search import Mode, selective_search

Pixels = NDArray[np.uint8]
Source = Callable[[Pixels, str | Mode, int, int], NDArray[Any]]

METHODS: dict[str, Source] = {
    "selective_search": selective_search,
    "grid": grid,
    "opencv": opencv,
    "selectivesearch": selectivesearch,
}


def propose(
    image: Pixels,
    method: str = "selective_search",
    *,
    mode: str | Mode = "fast",
    max_windows: int | None = 2000,
    min_side: float | None = None,
    max_area: float = 1.0,
    seed: int = 0,
    threads: int = 1,
) -> Float32:
    """Propose windows of a picture that may hold an object.

    Parameters
    ----------
    image : ndarray of shape (h, w, 3), uint8 RGB
        At most 2 ** 26 pixels.
    method : str, default "selective_search"
        "selective_search" (ours), "grid" (sliding windows of several sizes), "opencv" (the contrib wheel's selective
        search) or "selectivesearch" (the package of that name).
    mode : str or Mode, default "fast"
        "fast" or "quality"; the methods "selective_search" and "opencv" also know "single". A `Mode` spells out
        the strategies of "selective_search".
    max_windows : int or None, default 2000
        Keep the first so many; None keeps all.
    min_side : float or None, default None
        Drop boxes with a side below so many pixels. None: a sixteenth of the shorter side of the picture, at most 20.
    max_area : float, default 1.0
        Drop boxes of more than this share of the picture's area, in (0, 1].
    seed : int, default 0
        Of the chance in the order of selective search. The same seed gives the same boxes in the same order, in
        every process and for any number of threads. "grid" and the packages do not use it.
    threads : int, default 1
        Threads over the colour spaces of "selective_search".

    Returns
    -------
    ndarray of shape (n, 4), float32
        x1, y1, x2, y2, 0-based, half-open, in whole pixels inside the picture, best first, no two equal. At least
        one: where no box is left, that in the middle with a share `max_area` of the area, by default the whole picture.

    Raises
    ------
    InputError, ShapeError
        If an argument breaks its rule, or the k of a `Mode` leave more than 2 ** 22 regions.
    OptionError
        If there is no such method or mode.
    DependencyError
        If the package of the method is not installed.

    References
    ----------
    J. Uijlings, K. van de Sande, T. Gevers, A. Smeulders, "Selective Search for Object Recognition", IJCV 2013.
    """
    check_image(image)
    _check_whole("seed", seed, 0)
    _check_whole("threads", threads, 1)
    if max_windows is not None:
        _check_whole("max_windows", max_windows, 1)
    if method not in METHODS:
        raise OptionError(f"method {method!r} is not known; choose from {', '.join(sorted(METHODS))}.")
    height, width = image.shape[:2]
    least = default_min_side(height, width) if min_side is None else _check_side(min_side)
    boxes = METHODS[method](np.ascontiguousarray(image), mode, seed, threads)
    kept = _not_above(_check_area(max_area), tidy(boxes, height, width, least), height, width)[:max_windows]
    return kept if len(kept) else middle(height, width, max_area)[None]


def middle(height: int, width: int, area: float) -> Float32:
    """Return the box (4,) in the middle of a picture that has its shape and a share `area` of its area."""
    margins = np.array([width, height]) * (1 - np.sqrt(area)) / 2
    return np.asarray(np.concatenate([margins, [width, height] - margins]), dtype=np.float32)


def _not_above(area: float, boxes: Float32, height: int, width: int) -> Float32:
    """Return the boxes that cover at most a share `area` of the picture."""
    sides = (boxes[:, 2:] - boxes[:, :2]).astype(np.float64)
    kept: Float32 = boxes[sides.prod(axis=1) <= area * (height * width)]
    return kept


def _check_area(area: float) -> float:
    """Return `area` if it is a share greater than 0."""
    if not isinstance(area, int | float | np.number) or not 0 < area <= 1:
        raise InputError(f"max_area must be greater than 0 and at most 1, got {area!r}.")
    return float(area)


def check_image(image: Any) -> None:
    """Raise unless `image` is a picture: uint8, of shape (h, w, 3), not empty and not too large."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8:
        got = image.dtype if isinstance(image, np.ndarray) else type(image).__name__
        raise InputError(f"image must be an array of uint8, got {got}.")
    if image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
        raise ShapeError(f"image must have shape (h, w, 3) with h and w at least 1, got {image.shape}.")
    if image.shape[0] * image.shape[1] > MAX_PIXELS:
        raise InputError(f"image must have at most {MAX_PIXELS} pixels, got {image.shape[0]} x {image.shape[1]}.")


def _check_whole(name: str, value: Any, least: int) -> None:
    """Raise InputError unless `value` is a whole number >= `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}.")


def _check_side(min_side: float) -> float:
    """Return `min_side` if it is a number >= 0."""
    if not isinstance(min_side, int | float | np.number) or not 0 <= min_side < np.inf:
        raise InputError(f"min_side must be a finite number of at least 0, got {min_side!r}.")
    return float(min_side)


def default_min_side(height: int, width: int) -> float:
    """Return the least side of a window in pixels: 20, or less in a picture whose shorter side is below 320."""
    return min(20.0, min(height, width) / 16)


def tidy(boxes: ArrayLike, height: int, width: int, min_side: float) -> Float32:
    """Return the boxes cut to the picture, in order, without small ones and duplicates.

    Parameters
    ----------
    boxes : array-like of shape (n, 4)
    height, width : int
        Of the picture, in pixels.
    min_side : float
        Least width and height kept, in pixels; empty boxes always go.

    Returns
    -------
    ndarray of shape (m, 4), float32
    """
    inside = np.clip(as_boxes(boxes), 0, [width, height, width, height]).astype(np.float32)
    sides = inside[:, 2:] - inside[:, :2]
    inside = inside[((sides > 0) & (sides >= min_side)).all(axis=1)]
    # both corners as one number each: a complex number sorts faster than a row, and float64 holds it exactly
    corners = (inside[:, 1::2].astype(np.float64) * [2.0**26, 2.0**26] + inside[:, 0::2]) @ [1, 1j]
    return inside[np.sort(np.unique(corners, return_index=True)[1])]


def with_whole_image(boxes: ArrayLike, height: int, width: int) -> Float32:
    """Return the boxes after that of the whole picture, which stands first and once, as window 0 of a bag does.

    Parameters
    ----------
    boxes : array-like of shape (n, 4)
    height, width : int
        Of the picture, in pixels.

    Returns
    -------
    ndarray of shape (m, 4), float32
        m is n + 1, or n where the boxes held the whole picture.

    Raises
    ------
    ShapeError
        If the boxes have another shape.
    """
    whole = whole_image(height, width)
    rest = as_boxes(boxes).astype(np.float32)
    return np.concatenate([whole[None], rest[(rest != whole).any(axis=1)]])
