"""Masks: which pixels of a picture belong to an object, and the regions that these form. For evaluation only."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64
from lapsvm.pictures.reading import opened_picture, upright

MOST_REGIONS = 1000
"""Regions that a mask may have to be one of objects: more are dots, noise or a photograph."""
BY_TRANSPARENCY = "mark by transparency: where they are transparent they mark nothing"
BETWEEN_LEVELS = "have two levels with noise, as JPEG leaves: what is above their middle counts"
MANY_LEVELS = "have many levels, not two: what is not black counts"

Mask = NDArray[np.bool_]
_LEVELS = 256
_CONTRAST, _NEAR, _NOISE = 64, 32, 4
"""Of levels: between two that make a mask, around one of them, and what every noise has."""
_MOST_LABELS = 32
"""Levels that a mask of numbered objects may have; more are those of a photograph."""
_DOMINATING = 0.75


class ReadMask(NamedTuple):
    """A mask, (h, w) of bool, and how it was understood: one of the sentences above, "" for what is plain."""

    pixels: Mask
    note: str


def read_mask(path: str | Path) -> Mask:
    """Read a mask: a pixel belongs to an object unless it is black.

    The EXIF orientation is applied, and colours of a palette count, not their numbers. Where all pixels have one colour
    and are not equally transparent, those belong to an object that are not transparent. Where two levels dominate and
    others lie close to them, as JPEG leaves them, a pixel belongs to an object if it is above their middle; so it is
    where a mask has two levels and none is black.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    ndarray of shape (h, w), bool

    Raises
    ------
    MissingError, ImageError
        As `lapsvm.pictures.reading.read_image`.
    """
    return understood_mask(path).pixels


def understood_mask(path: str | Path) -> ReadMask:
    """Read a mask as `read_mask`, and say how it was understood."""
    with opened_picture(path) as (_, picture):
        bands = "".join(picture.getbands())
        if picture.has_transparency_data:
            plain = (picture.convert("LA") if bands == "La" else picture).convert("RGBA")
        else:
            plain = picture.convert("RGB") if bands in ("P", "CMYK") else picture
        plain.load()
        samples = np.asarray(upright(plain, picture))
    if samples.ndim == 3 and samples.shape[2] == 4:
        levels, is_by_alpha = _visible(samples)
    else:
        levels, is_by_alpha = samples.max(axis=2) if samples.ndim == 3 else samples, False
    threshold, note = _threshold(levels) if levels.dtype == np.uint8 else (0, "")
    return ReadMask(np.asarray(levels > threshold), note or (BY_TRANSPARENCY if is_by_alpha else ""))


def _visible(samples: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], bool]:
    """Return the levels of a picture with transparency on black, and whether its transparency alone makes them."""
    alpha, colours = samples[..., 3], samples[..., :3]
    levels = colours.max(axis=2)
    if alpha.min() == alpha.max():
        return levels, False
    if (colours == colours[0, 0]).all() or not levels[alpha > 0].any():
        return alpha, True
    return np.where(alpha > 0, levels, np.uint8(0)), False


def _threshold(levels: NDArray[np.uint8]) -> tuple[int, str]:
    """Return the level above which a pixel is marked, and why it is not 0; a sentence for levels that make no mask."""
    import cv2

    histogram: Any = cv2.calcHist([np.ascontiguousarray(levels)], [0], None, [_LEVELS], [0, _LEVELS])
    counts = np.asarray(histogram, np.float64).ravel()
    used = np.flatnonzero(counts)
    if len(used) < 2:
        return 0, ""
    low, high, middle = _two_levels(counts)
    if len(used) == 2 and low > 0:
        return middle, ""
    others = used[(used != low) & (used != high)]
    distances = (np.abs(others - low), np.abs(others - high))
    is_noisy = len(others) > 2 and high - low >= _CONTRAST and all(of.min() <= _NOISE for of in distances)
    if is_noisy and counts[high - _NEAR :].sum() >= _DOMINATING * counts[low + _NEAR + 1 :].sum():
        return middle, BETWEEN_LEVELS
    return 0, MANY_LEVELS if len(used) > _MOST_LABELS else ""


def _two_levels(counts: Float64) -> tuple[int, int, int]:
    """Return the most frequent level of the darker half and of the brighter half of several, and their middle."""
    used = np.flatnonzero(counts)
    middle = int(used[0] + used[-1]) // 2
    return int(counts[: middle + 1].argmax()), middle + 1 + int(counts[middle + 1 :].argmax()), middle


def region_boxes(mask: Mask, most: int = MOST_REGIONS) -> Float64 | None:
    """Return the smallest box around each region of a mask, (n, 4) as `mask_regions`. None for more than `most`."""
    count, _ = mask_labels(mask)
    return mask_regions(mask)[1] if count <= most else None


def mask_labels(mask: Mask) -> tuple[int, NDArray[np.int32]]:
    """Return the number of regions of a mask, and of each pixel the number of its region (see `mask_regions`)."""
    import cv2

    levels = np.ascontiguousarray(mask).view(np.uint8)
    components: Any = cv2.connectedComponents(levels, connectivity=8, ltype=cv2.CV_32S)
    count, labels = components
    return int(count) - 1, np.asarray(labels, np.int32)


def mask_regions(mask: Mask) -> tuple[NDArray[np.int32], Float64]:
    """Return the regions of a mask: pixels that touch each other, also at a corner, are of one.

    Parameters
    ----------
    mask : ndarray of shape (h, w), bool

    Returns
    -------
    labels : ndarray of shape (h, w), int32
        The number of each pixel's region, from 1; 0 of a pixel of none.
    boxes : ndarray of shape (n, 4), float64
        The smallest box x1, y1, x2, y2 around each region, 0-based and half-open.
    """
    import cv2

    levels = np.ascontiguousarray(mask, np.uint8)
    components: Any = cv2.connectedComponentsWithStats(levels, connectivity=8, ltype=cv2.CV_32S)
    _, labels, stats, _ = components
    corners = stats[1:, :2]  # the first region is the rest of the picture
    return np.asarray(labels, np.int32), np.hstack([corners, corners + stats[1:, 2:4]]).astype(np.float64)
