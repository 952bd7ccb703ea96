"""Masks: which pixels of a picture belong to an object, and the regions that these form. For evaluation only."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64
from lapsvm.pictures.reading import opened_picture, upright

Mask = NDArray[np.bool_]


def read_mask(path: str | Path) -> Mask:
    """Read a mask: a pixel belongs to an object unless it is black.

    The EXIF orientation is applied, transparency is passed over, and colours of a palette count, not their numbers.

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
    with opened_picture(path) as (_, picture):
        bands = "".join(picture.getbands())
        plain = picture.convert("RGB") if bands in ("P", "PA", "LA", "La", "RGBA", "RGBa", "CMYK") else picture
        plain.load()
        samples = np.asarray(upright(plain, picture))
    return np.asarray(samples.any(axis=2) if samples.ndim == 3 else samples != 0)


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
