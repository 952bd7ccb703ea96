"""Scores of windows from a network's maps inside an ONNX graph, as `lapsvm.features.extractors.maps.pooling` has them.

The mean over a window is a product: the share of every cell in the window, (n, cells), times the map, (cells,
channels). The shares are differences and products of edges, so no sum over the map loses digits.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapsvm.arrays import Array
from lapsvm.detection.onnx_file.graph import Tensor
from lapsvm.features.extractors.maps.pooling import ENLARGED, FULL_RING

_THIN = 1e-4  # as in lapsvm.features.extractors.maps.pooling
MANY_CHANNELS = 64  # from here on whole numbers save more than it takes to round the shares of cells
_STEPS = 255  # of a cell's share in 8 bits
_MOST_CELLS = 2**31 // _STEPS**2  # whose sums an int32 holds, whatever the map


@dataclass(frozen=True, eq=False)
class MapWeights:
    """The weights of the features that one map gives.

    Attributes
    ----------
    inside : ndarray of shape (channels, k), float64
        For the windows' own features, of k classes.
    around : ndarray of shape (channels, k), float64, or None
        For the features of the windows' context.
    normalise : bool
        Whether features are divided by their length.
    """

    inside: Array
    around: Array | None
    normalise: bool


class Levels(NamedTuple):
    """What the whole numbers of a map in 8 bits stand for, scale * (level - zero); no dimensions, uint8 zero."""

    scale: Tensor
    zero: Tensor


@dataclass(frozen=True)
class Cells:
    """A map and windows in its cells.

    Attributes
    ----------
    cells : Tensor
        The map, float32 of shape (rows * columns, channels); uint8 with `levels`.
    rows, columns : Tensor
        float64 without dimensions.
    windows : Tensor
        float64 of shape (n, 4).
    levels : Levels or None
    """

    cells: Tensor
    rows: Tensor
    columns: Tensor
    windows: Tensor
    levels: Levels | None = None

    def sums(self, overlaps: Tensor) -> Tensor:
        """Return the sums of cells, float32 (n, channels), each times its share in every window, (n, cells).

        Of a map in 8 bits the shares are rounded, too, unless it has too many cells.
        """
        if self.levels is None:
            return overlaps @ self.cells
        graph, (scale, zero) = overlaps.graph, self.levels

        def rounded() -> Tensor:
            shares = (overlaps * float(_STEPS)).round().cast(np.uint8)
            nothing = graph.constant(0, np.uint8)
            products = graph.op("MatMulInteger", shares, self.cells, nothing, zero, dtype=np.int32)
            return products.cast(np.float32) * (scale / float(_STEPS))

        def exact() -> Tensor:
            return overlaps @ ((self.cells.cast(np.float32) - zero.cast(np.float32)) * scale)

        return graph.choose(self.rows * self.columns < float(_MOST_CELLS), rounded, exact)


def as_cells(
    feature_map: Tensor, windows: Tensor, height: Tensor, width: Tensor, levels: Levels | None = None
) -> Cells:
    """Return a map (1, channels, rows, columns) and windows in pixels of a picture of this size."""
    rows, columns = (feature_map.size(axis).cast(np.float64) for axis in (2, 3))
    scales = feature_map.graph.join([(columns / width).reshape(1), (rows / height).reshape(1)] * 2, 0)
    channels_last = feature_map.transposed(0, 2, 3, 1)
    channels = feature_map.size(1).reshape(1)
    shape = feature_map.graph.join([feature_map.graph.constant([-1], np.int64), channels], 0)
    cells = feature_map.graph.op("Reshape", channels_last, shape)
    return Cells(cells, rows, columns, windows * scales, levels)


def clipped(windows: Tensor, height: Tensor, width: Tensor) -> Tensor:
    """Return windows (n, 4) cut to a picture; 0, 0, 0, 0 for one without area inside."""
    limits = windows.graph.join([side.reshape(1) for side in (width, height, width, height)], 0)
    inside = windows.maximum(0.0).minimum(limits)
    sides = inside.column(2, 4) - inside.column(0, 2)
    positive = (sides.column(0).minimum(sides.column(1)) > 0.0).cast(np.float64)
    return inside * positive


def map_scores(cells: Cells, weights: MapWeights) -> Tensor:
    """Return the part of a map in the scores of windows, float32 of shape (n, k)."""
    inner = window_overlaps(cells, cells.windows)
    area = areas(cells.windows)
    inside = _part(cells, inner, _inverses(area), weights.inside, weights.normalise)
    if weights.around is None:
        return inside
    enlarged = _enlarged(cells)
    outer_area = areas(enlarged)
    ring = outer_area - area
    share = cells.windows.graph.where(ring > outer_area * _THIN, _inverses(ring), 0.0)
    weight = (ring * _inverses(outer_area * FULL_RING)).minimum(1.0).cast(np.float32)
    around = _part(cells, window_overlaps(cells, enlarged) - inner, share, weights.around, weights.normalise)
    return inside + around * weight


def covered(cells: Cells, values: Tensor) -> Tensor:
    """Return for every cell the sum of the windows' values (k, n), by the share of it in each, (k, rows, columns)."""
    across, down = _shares(cells, cells.windows)
    return (values.unsqueeze(1) * down.transposed(1, 0).unsqueeze(0)) @ across


def window_overlaps(cells: Cells, windows: Tensor) -> Tensor:
    """Return the area of every cell that lies in every window, float32 of shape (n, rows * columns)."""
    across, down = _shares(cells, windows)
    n = windows.size(0).reshape(1)
    shape = windows.graph.join([n, (cells.rows * cells.columns).cast(np.int64).reshape(1)], 0)
    return windows.graph.op("Reshape", down.unsqueeze(2) * across.unsqueeze(1), shape)


def _shares(cells: Cells, windows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the part of every column (n, columns) and row (n, rows) of a map that lies in every window, float32."""
    across = _overlaps(windows.column(0), windows.column(2), cells.columns)
    return across, _overlaps(windows.column(1), windows.column(3), cells.rows)


def _overlaps(low: Tensor, high: Tensor, length: Tensor) -> Tensor:
    """Return the part of each cell of an axis between two edges (n, 1), float32 of shape (n, cells)."""
    cells = low.graph.count(length).unsqueeze(0)
    return (high.minimum(cells + 1.0) - low.maximum(cells)).maximum(0.0).cast(np.float32)


def _part(cells: Cells, overlaps: Tensor, shares: Tensor, weights: Array, normalise: bool) -> Tensor:
    """Return the scores (n, k) of means over the map; `shares` (n, 1) are 1 over the sums of `overlaps` (n, cells)."""
    sums = cells.sums(overlaps)
    scores = sums @ sums.graph.constant(weights, np.float32)
    if not normalise:
        return scores * shares.cast(np.float32)
    lengths = (sums * sums).sum(1).cast(np.float64).sqrt()
    exist = (shares > 0.0).cast(np.float64)  # of a thin ring rounding alone is left
    return scores * (_inverses(lengths) * exist).cast(np.float32)


def _enlarged(cells: Cells) -> Tensor:
    """Return the windows enlarged about their centres, cut to the map."""
    first, last = cells.windows.column(0, 2), cells.windows.column(2, 4)
    centres, reach = (first + last) / 2.0, (last - first) * (ENLARGED / 2)
    limits = centres.graph.join([cells.columns.reshape(1), cells.rows.reshape(1)], 0)
    return centres.graph.join([(centres - reach).maximum(0.0), (centres + reach).minimum(limits)], 1)


def areas(windows: Tensor) -> Tensor:
    """Return the areas (n, 1)."""
    sides = windows.column(2, 4) - windows.column(0, 2)
    return sides.column(0) * sides.column(1)


def _inverses(values: Tensor) -> Tensor:
    """Return 1 over each value. 0 for 0."""
    positive = values > 0.0
    graph = values.graph
    return graph.where(positive, graph.constant(1.0) / graph.where(positive, values, 1.0), 0.0)
