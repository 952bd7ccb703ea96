"""Connected parts of maps above thresholds inside an ONNX graph, as `lapsvm._ext.components` finds them.

The nodes that are joined are runs: consecutive pixels of a row. A run has a neighbour in the next row, or the one
before, at its own first pixel or the one to the left of it, if it begins later than the neighbour; so every pair of
neighbours is found from one of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lapsvm.detection.onnx_file.graph import Graph, Tensor

_FAR = 2**30
_BELOW = -(2**17)  # the value of what surrounds a map


class Parts(NamedTuple):
    """Connected parts: boxes (n, 4), numbers of pixels (n,), and sums of the map's values (n,); int32."""

    boxes: Tensor
    pixels: Tensor
    totals: Tensor


def parts(graph: Graph, maps: Tensor, thresholds: Sequence[int], least: int) -> Parts:
    """Return the 8-connected parts of maps (c, h, w), int32, at or above each threshold, with sides of `least` pixels.

    A part that one threshold leaves as the one before had it is there again.
    """
    framed = graph.op("Pad", maps, graph.constant([0, 0, 0, 0, 1, 1], np.int64), graph.constant(_BELOW, np.int32))
    height, width = (framed.size(axis) for axis in (1, 2))
    levels = graph.constant(np.reshape(thresholds, (1, -1, 1, 1)), np.int32)
    above = (~(framed.unsqueeze(1) < levels)).reshape(-1)
    runs, edges = _runs(graph, above, width)
    column, row, plane = _places(runs.first, height, width)
    base = (plane / len(thresholds)) * (height * width) + row * width + column
    length = runs.after - runs.first
    running = graph.op("CumSum", framed, graph.constant(2, np.int64), exclusive=1).reshape(-1)
    totals = running.at(base + length) - running.at(base)
    ends = [value.cast(np.int32) for value in (column, row, column + length, row + 1)]
    return _gathered(graph, _joined(graph, runs.first, *edges), ends, length.cast(np.int32), totals, least)


class _Runs(NamedTuple):
    """Runs: the place of the first pixel and of the one after the last among the pixels of all planes, int64 (m,)."""

    first: Tensor
    after: Tensor


def _runs(graph: Graph, above: Tensor, width: Tensor) -> tuple[_Runs, tuple[Tensor, Tensor]]:
    """Return the runs of pixels (n,), bool, in rows of this width that end with False, and both ends of their edges."""
    before = graph.join([graph.constant([False]), above.slice(0, -1, 0)], 0)
    changes = graph.op("Xor", above, before)
    ends = changes.places().reshape(-1, 2)
    runs = _Runs(ends.column(0).reshape(-1), ends.column(1).reshape(-1))
    counted = graph.op("CumSum", changes.cast(np.int32), graph.constant(0, np.int64))
    pairs = [_neighbours(graph, above, counted, runs.first, step) for step in (width, width * -1)]
    return runs, (graph.join([begin for begin, _ in pairs], 0), graph.join([end for _, end in pairs], 0))


def _neighbours(graph: Graph, above: Tensor, counted: Tensor, first: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """Return both ends of the edges between runs and runs of the next row that begin under them, int32 (e,).

    In the run of number i the beginnings and ends `counted` up to a pixel are 2 i + 1.
    """
    below = first + step
    straight = above.at(below)
    touched = graph.where(straight, below, below - 1)
    joined = graph.op("Or", straight, above.at(touched)).places()
    numbers = graph.count(first.size(0)).cast(np.int32)
    return numbers.at(joined), (counted.at(touched.at(joined)) - 1) / 2


def _places(first: Tensor, height: Tensor, width: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the columns, rows and planes of pixels, int64 (m,)."""
    line = first / width
    plane = line / height
    return first - line * width, line - plane * height, plane


def _joined(graph: Graph, first: Tensor, begin: Tensor, end: Tensor) -> Tensor:
    """Return for each of the runs the least number of those that it is connected with, int32 (m,)."""
    parent = graph.count(first.size(0)).cast(np.int32)

    def one_round(*state: Tensor) -> list[Tensor]:
        begin, end, parent = state
        low = begin.minimum(end)
        parent = parent.scatter(begin, low, "min").scatter(end, low, "min")
        parent = parent.at(parent)
        begin, end = parent.at(begin), parent.at(end)
        left = (~begin.equals(end)).places()
        return [left.size(0) > 0, begin.at(left), end.at(left), parent]

    return _roots(graph, graph.loop([begin, end, parent], one_round)[-1])


def _roots(graph: Graph, parent: Tensor) -> Tensor:
    """Return the last of every node's parents."""

    def twice(nodes: Tensor) -> list[Tensor]:
        after = nodes.at(nodes)
        return [(~after.equals(nodes)).places().size(0) > 0, after]

    return graph.loop([parent], twice)[0]


def _gathered(
    graph: Graph, labels: Tensor, ends: Sequence[Tensor], pixels: Tensor, totals: Tensor, least: int
) -> Parts:
    """Return the parts of runs with labels, without those that have a side below `least`."""
    zeros = labels * 0
    firsts = [(zeros + _FAR).scatter(labels, value, "min") for value in ends[:2]]
    lasts = [zeros.scatter(labels, value, "max") for value in ends[2:]]
    sides = [last - first for first, last in zip(firsts, lasts, strict=True)]
    kept = (sides[0].minimum(sides[1]) > least - 1).places()  # labels that no run has keep a negative side
    boxes = graph.join([value.at(kept).unsqueeze(1) for value in (*firsts, *lasts)], 1)
    return Parts(boxes, *(zeros.scatter(labels, value, "add").at(kept) for value in (pixels, totals)))
