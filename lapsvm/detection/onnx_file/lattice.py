"""Large windows at fixed places of every picture, for objects that fill it and pictures without regions."""

import numpy as np

from lapsvm.arrays import Float64

OCTAVES = 1
SIZES_PER_OCTAVE = 2
ASPECTS = (0.5, 1.0, 2.0)  # width over height, as shares of the picture's sides
STEP = 0.34  # of a window's side


def lattice(max_area: float = 0.9) -> Float64:
    """Return windows of several sizes and shapes, spread evenly over the unit square.

    Parameters
    ----------
    max_area : float, default 0.9
        Area of the largest ones.

    Returns
    -------
    ndarray of shape (n, 4), float64
        x1, y1, x2, y2 as shares of the picture's width and height, without duplicates.
    """
    sides = max_area**0.5 * 2.0 ** (-np.arange(OCTAVES * SIZES_PER_OCTAVE + 1) / SIZES_PER_OCTAVE)
    windows = np.concatenate([_placed(*_shape(side, aspect)) for side in sides for aspect in ASPECTS])
    return np.unique(windows.round(6), axis=0)


def _shape(side: float, aspect: float) -> tuple[float, float]:
    """Return the width and height of windows with an area of side * side, within the unit square."""
    width = min(1.0, max(side * aspect**0.5, side * side))
    return width, min(1.0, side * side / width)


def _placed(width: float, height: float) -> Float64:
    """Return the windows of one size."""
    left, top = (
        np.linspace(0, 1 - side, 1 + int(np.ceil((1 - side) / (side * STEP) - 1e-9))) for side in (width, height)
    )
    x, y = np.meshgrid(left, top)
    return np.stack([x, y, x + width, y + height], axis=-1).reshape(-1, 4)
