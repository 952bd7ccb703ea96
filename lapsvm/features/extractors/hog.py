"""Histograms of oriented gradients of windows warped to one square (Dalal and Triggs, CVPR 2005).

The square has ``size`` x ``size`` pixels of grey; a pixel of it is the mean of its stretch of the picture (linear
interpolation where the window is enlarged). Gradients are central differences with the border repeated; each is
shared linearly between the two nearest orientations (unsigned) and the four nearest cells. Blocks of 2 x 2
cells, one cell apart, are divided by their norm, clipped at .2, and brought back to the length they had. A feature's
place is (block row, block column, cell row in the block, cell column, orientation): 900 numbers for 48 pixels, cells of
8 and 9 orientations.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lapsvm._ext import hog as _kernel
from lapsvm.arrays import Array, Float32, Float64
from lapsvm.catalog import check_pixels
from lapsvm.errors import OptionError
from lapsvm.features.extractors.blocks import Block, block_record
from lapsvm.features.extractors.picture import clip_boxes, grey_levels
from lapsvm.features.extractors.specs import Machine, Spec, read_options, whole_number

CLIP = 0.2
_OPTIONS = {"size": whole_number(4, 512), "cell": whole_number(2, 128), "bins": whole_number(2, 64)}


class HOG:
    """Histograms of oriented gradients.

    Parameters
    ----------
    size : int, default 48
        Side of the square that windows are warped to, in pixels; a multiple of `cell`, at least two cells.
    cell : int, default 8
        Side of a cell, in pixels of the square.
    bins : int, default 9
        Orientations over half a turn.

    Raises
    ------
    OptionError
        If `size` is not at least two whole cells.
    """

    def __init__(self, size: int = 48, cell: int = 8, bins: int = 9) -> None:
        if size % cell or size < 2 * cell:
            raise OptionError(f"size of hog must be a multiple of its cell {cell}, two cells or more, got {size}.")
        self.size, self.cell, self.bins = size, cell, bins

    @property
    def dim(self) -> int:
        """Number of features of a window."""
        return (self.size // self.cell - 1) ** 2 * 4 * self.bins

    @property
    def blocks(self) -> tuple[Block, ...]:
        """One block, without context."""
        return (Block(self.dim),)

    @property
    def floor(self) -> float:
        """The addend in quadrature of a block's norm: the norm of a block with a mean gradient of one grey level.

        So the noise of an even surface is not blown up to the strength of an edge.
        """
        return 2.0 * self.cell**2

    def describe(self) -> dict[str, Any]:
        """Return everything that the features depend on."""
        names = ("size", "cell", "bins")
        settings = {name: getattr(self, name) for name in names}
        return {"kind": "hog", "version": 1, **block_record(self.blocks), **settings}

    def __call__(self, pixels: Array, boxes: ArrayLike) -> Float32:
        """Return the features of windows, float32 of shape (n, dim) (see `Extractor`)."""
        check_pixels(pixels)
        windows = np.ascontiguousarray(clip_boxes(boxes, *pixels.shape[:2]))
        table = summed_table(grey_levels(pixels))
        return _kernel.describe(table, windows, self.size, self.cell, self.bins, self.floor, CLIP)


def open_hog(spec: Spec, machine: Machine) -> HOG:  # noqa: ARG001 - one thread is enough
    """Return the extractor that a spec asks for.

    Raises
    ------
    OptionError
        If an option or its value is not known, or a file is given.
    """
    if spec.file is not None:
        raise OptionError(f"hog takes no file, got {spec.file!r}.")
    return HOG(**read_options(spec, _OPTIONS))


def hog_text(description: Mapping[str, Any]) -> str:
    """Return the text that opens the extractor of a description."""
    return "hog?" + "&".join(f"{name}={description[name]}" for name in _OPTIONS)


def summed_table(grey: Float64) -> Float64:
    """Return the sums of all pixels above and left of each corner, float64 of shape (h + 1, w + 1)."""
    table = np.zeros((grey.shape[0] + 1, grey.shape[1] + 1))
    np.cumsum(np.cumsum(grey, axis=0), axis=1, out=table[1:, 1:])
    return table
