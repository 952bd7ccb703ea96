"""Sliding windows of several sizes and shapes: a baseline of the proposal methods, also for tests."""

from itertools import product

import numpy as np

from lapsvm.arrays import Float32
from lapsvm.boxes import areas
from lapsvm.errors import OptionError
from lapsvm.windows.colour import Planes

# mode -> (steps of the side per octave, windows per side of a window)
DENSITIES = {"fast": (1, 2), "quality": (2, 4)}
ASPECTS = (1.0, 0.5, 2.0)  # width over height
OCTAVES = 4


def grid(image: Planes, mode: object, seed: int, threads: int) -> Float32:  # noqa: ARG001 (every method has both)
    """Return windows from large to small, row by row.

    Mode "fast" has one size per octave and steps of half a window, "quality" two sizes and a quarter.

    Raises
    ------
    OptionError
        If the mode is unknown.
    """
    if mode not in DENSITIES:
        raise OptionError(f"mode {mode!r} of grid is not known; choose from {', '.join(DENSITIES)}.")
    sizes, steps = DENSITIES[str(mode)]
    height, width = image.shape[:2]
    levels = [
        _level(height, width, 2 ** (-i / sizes), aspect, steps)
        for i, aspect in product(range(OCTAVES * sizes + 1), ASPECTS)
    ]
    boxes = np.concatenate([np.array([[0, 0, width, height]]), *levels]).astype(np.float32)
    return boxes[np.argsort(-areas(boxes), kind="stable")]


def _level(height: int, width: int, scale: float, aspect: float, steps: int) -> Float32:
    """Return the windows of one size and shape, spread evenly over the picture."""
    side = scale * min(height, width)
    w = max(1, min(width, round(side * aspect**0.5)))
    h = max(1, min(height, round(side / aspect**0.5)))
    x = np.rint(np.linspace(0, width - w, 1 + int(np.ceil(steps * (width - w) / w))))
    y = np.rint(np.linspace(0, height - h, 1 + int(np.ceil(steps * (height - h) / h))))
    top, left = np.meshgrid(y, x, indexing="ij")
    return np.stack([left, top, left + w, top + h], axis=-1).reshape(-1, 4).astype(np.float32)
