"""`propose`, and the windows of a picture of any size.

The latter are proposed by the settings of a run or of a model; large pictures are reduced first.
"""

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float32, Float64, check_count
from lapsvm.boxes import areas, as_boxes, whole_image
from lapsvm.catalog import MAX_PIXELS, Pixels, check_pixels
from lapsvm.errors import InputError
from lapsvm.settings import ProposalSettings
from lapsvm.windows.contrast import LEAST_SIDE
from lapsvm.windows.methods import find_source, whole_boxes
from lapsvm.windows.ordering import box_keys, default_min_side
from lapsvm.windows.selective_search import Mode

WINDOWS_VERSION = 3  # raised when proposals of equal settings change, so that old and new shards do not mix
FINE = ("contrast", "mixed", "small")  # methods that see smaller things


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
        "selective_search" (ours), "contrast" (parts that differ from what is around them: small things, defects),
        "mixed" (selective search, every twentieth window from "contrast"), "small" (both, and places with many edges or
        corners: small things on even ground), "grid" (sliding windows of several sizes),
        "selectivesearch" (the package of this name), "opencv" (selective search of OpenCV's contrib modules), or an
        entry point of the group ``lapsvm.windows``, a function ``(image, mode, seed, threads)`` that returns boxes,
        best first.
    mode : str or Mode, default "fast"
        "fast" or "quality"; the methods "selective_search", "mixed", "small" and "opencv" also know "single". A
        `Mode` spells out the strategies of "selective_search", also in "mixed" and "small".
    max_windows : int or None, default 2000
        Maximum number of windows; None keeps all.
    min_side : float or None, default None
        Minimum side in pixels. None: a sixteenth of the shorter side of the picture, at most 12, or 5 with the methods
        "contrast", "mixed" and "small".
    max_area : float, default 1.0
        Maximum area as a share of the picture's area, in (0, 1].
    seed : int, default 0
        Seed of the order of "opencv", and of a method of your own; others use none. Boxes and their order are the same
        for any number of threads.
    threads : int, default 1
        Threads over the colour spaces of selective search.

    Returns
    -------
    ndarray of shape (n, 4), float32
        x1, y1, x2, y2, 0-based, half-open, in whole pixels inside the picture, best first, without
        duplicates. If no box remains, the central box with the share `max_area` of the area, by default the complete
        picture.

    Raises
    ------
    InputError, ShapeError, NotFiniteError
        If an argument breaks its rule, the k of a `Mode` leave more than 2 ** 22 regions, or a method of your own is no
        such function, or returns no boxes (n, 4).
    OptionError
        If the method or mode is unknown.
    DependencyError
        If the method's package is not installed.

    References
    ----------
    J. Uijlings, K. van de Sande, T. Gevers, A. Smeulders, "Selective Search for Object Recognition", IJCV 2013.
    """
    check_pixels(image)
    if image.shape[0] * image.shape[1] > MAX_PIXELS:
        raise InputError(f"image must have at most {MAX_PIXELS} pixels, got {image.shape[0]} x {image.shape[1]}.")
    check_count("seed", seed, 0)
    check_count("threads", threads)
    if max_windows is not None:
        check_count("max_windows", max_windows)
    source = find_source(method)
    height, width = image.shape[:2]
    least = _default_side(method, height, width) if min_side is None else _check_side(min_side)
    boxes = source(np.ascontiguousarray(image), mode, seed, threads)
    tidied = tidy(whole_boxes(method, boxes), height, width, least)
    kept = tidied[areas(tidied) <= _check_area(max_area) * (height * width)][:max_windows]
    return kept if len(kept) else middle(height, width, max_area)[None]


def _default_side(method: str, height: int, width: int) -> float:
    """Return the minimum side of a method's windows in pixels."""
    side = default_min_side(height, width)
    return min(LEAST_SIDE, side) if method in FINE else side


def middle(height: int, width: int, area: float) -> Float32:
    """Return the central box (4,) with the picture's proportions and the share `area` of its area."""
    margins = np.array([width, height]) * (1 - np.sqrt(area)) / 2
    return np.asarray(np.concatenate([margins, [width, height] - margins]), dtype=np.float32)


def _check_area(area: float) -> float:
    """Return `area` if it is a share greater than 0."""
    if not isinstance(area, int | float | np.number) or not 0 < area <= 1:
        raise InputError(f"max_area must be greater than 0 and at most 1, got {area!r}.")
    return float(area)


def _check_side(min_side: float) -> float:
    """Return `min_side` if it is a number >= 0."""
    if not isinstance(min_side, int | float | np.number) or not 0 <= min_side < np.inf:
        raise InputError(f"min_side must be a finite number of at least 0, got {min_side!r}.")
    return float(min_side)


def tidy(boxes: ArrayLike, height: int, width: int, min_side: float) -> Float32:
    """Return the boxes clipped to the picture, in order, without small boxes and duplicates.

    Parameters
    ----------
    boxes : array-like of shape (n, 4)
    height, width : int
        Size of the picture in pixels.
    min_side : float
        Minimum width and height in pixels; empty boxes are always removed.

    Returns
    -------
    ndarray of shape (m, 4), float32
    """
    inside = np.clip(as_boxes(boxes), 0, [width, height, width, height]).astype(np.float32)
    sides = inside[:, 2:] - inside[:, :2]
    inside = inside[((sides > 0) & (sides >= min_side)).all(axis=1)]
    return inside[np.sort(np.unique(box_keys(inside), return_index=True)[1])]


def with_whole_image(boxes: ArrayLike, height: int, width: int) -> Float32:
    """Return the boxes with the complete picture as the first window.

    Parameters
    ----------
    boxes : array-like of shape (n, 4)
    height, width : int
        Size of the picture in pixels.

    Returns
    -------
    ndarray of shape (m, 4), float32
        m is n + 1, or n if `boxes` already contain the complete picture.

    Raises
    ------
    ShapeError
        If the shape is not (n, 4).
    """
    picture = whole_image(height, width)
    windows = as_boxes(boxes).astype(np.float32)
    return np.concatenate([picture[None], windows[(windows != picture).any(axis=1)]])


def picture_windows(pixels: Pixels, settings: ProposalSettings, seed: int) -> Array:
    """Return the best ``max_windows`` windows of a picture, float32 of shape (n, 4), the whole picture first.

    They are proposed in a reduced picture if it is large. None is larger than ``max_area`` of the picture.
    """
    seen = reduced(pixels, settings.proposal_side)
    boxes = propose(
        seen,
        settings.method,
        mode=settings.mode,
        max_windows=settings.max_windows,
        max_area=settings.max_area,
        seed=seed,
    )
    return from_whole_image(boxes if seen is pixels else enlarged_boxes(boxes, pixels, seen), pixels.shape, settings)


def from_whole_image(boxes: Array, shape: tuple[int, ...], settings: ProposalSettings) -> Array:
    """Return the boxes of a picture with the whole picture first, unless ``max_area`` excludes it."""
    if settings.max_area < 1:
        return boxes
    return with_whole_image(boxes, *shape[:2])[: settings.max_windows]


def reduced(pixels: Pixels, max_side: int) -> Pixels:
    """Return a picture whose longer side is at most `max_side` pixels; the same array if it is already.

    A pixel is the mean over its area in the picture.
    """
    import cv2

    longer = max(pixels.shape[:2])
    if longer <= max_side:
        return pixels
    height, width = (max(1, round(side * max_side / longer)) for side in pixels.shape[:2])
    return np.asarray(cv2.resize(np.ascontiguousarray(pixels), (width, height), interpolation=cv2.INTER_AREA))


def scales_of(pixels: Pixels, seen: Pixels) -> Float64:
    """Return the factors (4,) from the boxes (n, 4) of a reduced picture to the boxes of the picture."""
    return np.tile([pixels.shape[1] / seen.shape[1], pixels.shape[0] / seen.shape[0]], 2)


def enlarged_boxes(boxes: Array, pixels: Pixels, seen: Pixels) -> Float32:
    """Return boxes of a reduced picture in whole pixels of the picture itself."""
    height, width = pixels.shape[:2]
    rounded = np.floor(boxes * scales_of(pixels, seen) + 0.5)  # not to even: a side of one pixel would vanish
    return np.minimum(rounded, [width, height, width, height]).astype(np.float32)
