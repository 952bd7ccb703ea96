"""How a picture lies in a network's input.

A network that accepts any size gets the whole picture, both sides rounded to multiples that suit its map. One of fixed
size gets the picture as large as it fits with its aspect ratio, in the upper left corner; the rest is padding. Its
sides are then whole cells of the coarsest map, so that no cell shows a part of the picture and a part of the padding.
"""

from collections.abc import Sequence

import numpy as np

from lapsvm.arrays import Float32
from lapsvm.features.extractors.maps.outputs import MapOutput, input_multiple


def network_size(height: int, width: int, longest: int, multiple: int = 32) -> tuple[int, int]:
    """Return the size of the network's input for a picture: both sides multiples of a number, at least that number.

    Parameters
    ----------
    height, width : int
        Of the picture.
    longest : int
        Target for the longer side.
    multiple : int, default 32

    Returns
    -------
    tuple of int
        Height and width.
    """
    scale = longest / max(height, width)
    first, second = (max(multiple, round(side * scale / multiple) * multiple) for side in (height, width))
    return first, second


def letterbox_size(height: int, width: int, rows: int, columns: int, cell: tuple[float, float]) -> tuple[int, int]:
    """Return the size of a picture in an input of fixed size: whole cells of a map, nearest to its aspect ratio.

    Parameters
    ----------
    height, width : int
        Of the picture.
    rows, columns : int
        Of the map of the whole input.
    cell : tuple of 2 floats
        Height and width of a cell in pixels of the input.

    Returns
    -------
    tuple of int
        Height and width.
    """
    scale = min(rows * cell[0] / height, columns * cell[1] / width)
    down, across = (max(1, round(side * scale / step)) for side, step in zip((height, width), cell, strict=True))
    return round(min(down, rows) * cell[0]), round(min(across, columns) * cell[1])


def picture_size(
    height: int, width: int, longest: int, outputs: Sequence[MapOutput], fixed_size: tuple[int, int] | None
) -> tuple[int, int]:
    """Return the height and width to which a picture is resized for a network."""
    if fixed_size is None:
        return network_size(height, width, longest, input_multiple(outputs))
    coarsest = max(outputs, key=lambda output: output.cell)
    return letterbox_size(height, width, coarsest.rows, coarsest.columns, coarsest.cell)


def letterbox(batch: Float32, fixed_size: tuple[int, int] | None) -> Float32:
    """Return an input (1, 3, h, w) padded to a fixed size with zeros, which is the mean colour."""
    if fixed_size is None or fixed_size == batch.shape[2:]:
        return batch
    padded = np.zeros((1, 3, *fixed_size), dtype=np.float32)
    padded[:, :, : batch.shape[2], : batch.shape[3]] = batch
    return padded


def visible_cells(feature_map: Float32, output: MapOutput, height: int, width: int) -> Float32:
    """Return the cells of a map that show a picture of this size in the input, without the padding."""
    rows, columns = (max(1, round(side / step)) for side, step in zip((height, width), output.cell, strict=True))
    return feature_map[:, :rows, :columns]
