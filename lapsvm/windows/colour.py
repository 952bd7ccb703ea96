"""The colour spaces of selective search as 8-bit planes, in integer arithmetic for reproducibility."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lapsvm._ext import colour as _kernel

Planes = NDArray[np.uint8]
_ONE = 4096  # unit of the tables of L*a*b*

# rows of sRGB -> XYZ over the white point D65, in 1/4096; each sums to 4096 so that white is (1, 1, 1)
_MATRIX = np.array([1777, 1541, 778, 871, 2929, 296, 73, 448, 3575], dtype=np.int32)


def _linear() -> NDArray[np.int32]:
    """Return the table from sRGB bytes to linear light."""
    value = np.arange(256) / 255
    light = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    return np.asarray(np.rint(_ONE * light), dtype=np.int32)


def _root() -> NDArray[np.int32]:
    """Return the table of CIE's cube root, which is linear near 0."""
    value = np.arange(_ONE + 1) / _ONE
    root = np.where(value > (6 / 29) ** 3, np.cbrt(value), value * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.asarray(np.rint(_ONE * root), dtype=np.int32)


LINEAR, ROOT, MATRIX = _linear(), _root(), _MATRIX


def hsv(image: Planes) -> Planes:
    """Return hue (256 steps a turn), saturation and value."""
    return _kernel.hsv(image)


def lab(image: Planes) -> Planes:
    """Return L* x 2.55, a* + 128 and b* + 128 of CIE 1976 for sRGB under D65."""
    return _kernel.lab(image, LINEAR, ROOT, MATRIX)


def rgi(image: Planes) -> Planes:
    """Return the shares of red and green, and the intensity; black is neutral."""
    return _kernel.rgi(image)


def hue(image: Planes) -> Planes:
    """Return the hue only."""
    return _kernel.hsv(image)[:1]


def intensity(image: Planes) -> Planes:
    """Return the intensity only."""
    return _kernel.rgi(image)[2:]


SPACES: dict[str, Callable[[Planes], Planes]] = {"hsv": hsv, "lab": lab, "rgi": rgi, "h": hue, "i": intensity}
