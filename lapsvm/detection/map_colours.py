"""The colours in which a map of numbers is shown over a picture."""

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array
from lapsvm.catalog import Pixels

PICTURE_SHARE = 0.45
"""The share of the grey picture in a pixel that shows both; the other part is the map's colour."""


def map_levels(values: ArrayLike, scale: tuple[float, float]) -> Array:
    """Return the number of each value's colour, uint8.

    Parameters
    ----------
    values : array-like of any shape
    scale : tuple of 2 float
        The values of the first and the last colour. Values beyond have the same colours; where both are equal, all
        values up to them have the first one.
    """
    low, high = scale
    shares = (np.asarray(values, np.float32) - low) / (high - low or 1.0)
    return np.asarray(np.rint(np.clip(shares, 0, 1) * 255), np.uint8)


def map_colours() -> Pixels:
    """Return the 256 colours (256, 3), from black to yellow and ever lighter, which all eyes and grey prints order."""
    import cv2

    return np.asarray(cv2.applyColorMap(np.arange(256, dtype=np.uint8)[:, None], cv2.COLORMAP_INFERNO)[:, 0, ::-1])
