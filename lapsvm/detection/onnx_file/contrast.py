"""Windows around small things and defects inside an ONNX graph, see `lapsvm.windows.contrast`.

All sums are of whole numbers that int32 or float32 holds, so that engines without float64 find the same windows.
"""

from collections.abc import Iterator
from functools import reduce
from operator import add

import numpy as np

from lapsvm.detection.onnx_file.choosing import NOT_EQUAL
from lapsvm.detection.onnx_file.graph import Graph, Tensor
from lapsvm.detection.onnx_file.parts import parts
from lapsvm.detection.onnx_file.pooling import areas
from lapsvm.detection.onnx_file.resizing import Size, reduced, shrunk, turned
from lapsvm.windows.contrast import (
    CANDIDATES,
    DEVIATIONS,
    LEAST_LEVEL,
    LEAST_SIDE,
    LEVELS,
    NEAR,
    NEIGHBOURHOOD,
    SKIPPED,
    TAPS,
    THRESHOLDS,
    UNIT,
)

Taps = tuple[float, ...]

_GREY = (77.0, 150.0, 29.0)  # in 1/256, as in `lapsvm.windows.colour`
_MAP_UNITS = (16.0, 2.0)  # of differences of intensity and of edges
_HALF = 4096.0  # splits squares below 2 ** 24 into two parts whose sums float32 holds
_HIGHEST = 32767.0
_SIDE_SHARE = 16.0  # of the shorter side of a small picture is the least side of a window


def contrast_windows(graph: Graph, planes: Tensor, side: int, count: int, max_area: float) -> Tensor:
    """Return the best windows as shares of a picture (3, h, w), float64 of shape (n, 4), highest score first.

    They are sought in the picture reduced to `side` pixels; there are at most `count`.
    """
    seen = reduced(graph, planes, side)
    levels = [_level_parts(graph, plane, level, Size.of(seen)) for level, plane in enumerate(_pyramid(graph, seen))]
    boxes, scores = (graph.join(list(column), 0) for column in zip(*levels, strict=True))
    chosen = _chosen(graph, boxes, scores, Size.of(seen), max_area, count)
    sizes = [[side.reshape(1) for side in (size.width, size.height)] for size in (Size.of(planes), Size.of(seen))]
    full, small = (graph.join(pair * 2, 0) for pair in sizes)
    return (chosen.cast(np.float64) * (full / small) + 0.5).floor().minimum(full) / full


def _chosen(graph: Graph, boxes: Tensor, scores: Tensor, size: Size, max_area: float, count: int) -> Tensor:
    """Return the best boxes that are neither too small, nor too large, nor near a better one, float32 (m, 4)."""
    least = (size.height.minimum(size.width) / _SIDE_SHARE).minimum(LEAST_SIDE).cast(np.float32)
    sides = boxes.column(2, 4) - boxes.column(0, 2)
    most = (size.height * size.width * max_area).cast(np.float32)
    fits = ~(sides.column(0).minimum(sides.column(1)) < least) & ~(areas(boxes) > most)
    kept = fits.reshape(-1).places()
    boxes, scores = boxes.gather(kept, 0), scores.gather(kept, 0)
    candidates = kept.size(0).reshape(1).minimum(CANDIDATES)
    best, order = graph.ops("TopK", (np.float32, np.int64), scores, candidates, axis=0)
    boxes = boxes.gather(order, 0)
    limits = graph.constant([count], np.int64), graph.constant([NEAR + NOT_EQUAL], np.float32)
    rows = graph.op("NonMaxSuppression", boxes.unsqueeze(0), best.reshape(1, 1, -1), *limits, dtype=np.int64)
    return boxes.gather(rows.column(2).reshape(-1), 0)


def _level_parts(graph: Graph, plane: Tensor, level: int, full: Size) -> tuple[Tensor, Tensor]:
    """Return the boxes (n, 4) of the parts of a level (1, h, w) in pixels of the picture, and their scores, float32."""
    skipped = SKIPPED["fast"] if level == 0 else 0
    thresholds = [round(UNIT * value) for value in THRESHOLDS[: len(THRESHOLDS) - skipped]]
    size = Size.of(plane)
    none = graph.where(size.height.minimum(size.width) < float(LEAST_LEVEL), graph.constant(_HIGHEST * 2), 0.0)
    regions = parts(graph, _maps(graph, plane) - none.cast(np.int32), thresholds, max(2, -int(-LEAST_SIDE // 2**level)))
    level_sides, full_sides = (
        graph.join([side.reshape(1) for side in (of.width, of.height)] * 2, 0) for of in (size, full)
    )
    boxes = ((regions.boxes.cast(np.float64) * 2.0 * full_sides + level_sides) / (level_sides * 2.0)).floor()
    return boxes.cast(np.float32), regions.totals.cast(np.float32) / regions.pixels.cast(np.float32).sqrt()


def _pyramid(graph: Graph, planes: Tensor) -> Iterator[Tensor]:
    """Yield the intensity (1, h, w) of a picture, and of the picture at half the size of the one before."""
    weights = graph.constant(np.reshape(_GREY, (3, 1, 1)), np.float32)
    plane = (((planes * weights).sum(0) + 128.0) / 256.0).floor()
    for _ in range(LEVELS):
        yield plane
        size = Size.of(plane)
        sides = [((side + 1.0) / 2.0).floor() for side in (size.height, size.width)]
        plane = shrunk(graph, plane, size, Size(*sides))


def _maps(graph: Graph, plane: Tensor) -> Tensor:
    """Return how much brighter, darker, and richer in edges each pixel is than those around it, int32 (3, h, w)."""
    standardised = _standardised(graph, _differences(graph, graph.join([plane, _edges(graph, plane)], 0)))
    brighter, edges = standardised.slice(0, 1, 0), standardised.slice(1, 2, 0)
    return graph.join([brighter, brighter * -1, edges], 0)


def _edges(graph: Graph, plane: Tensor) -> Tensor:
    """Return the sum of the absolute differences along rows and columns (1, h, w)."""
    smooth, step = (1.0, 2.0, 1.0), (-1.0, 0.0, 1.0)
    around = mirrored(graph, plane, 1, 1)
    absolute = [graph.op("Abs", _filtered(around, *pair)) for pair in ((smooth, step), (step, smooth))]
    return absolute[0] + absolute[1]


def _filtered(planes: Tensor, down: Taps, across: Taps) -> Tensor:
    """Return planes (c, h, w) filtered along columns and rows, without the borders."""
    for taps, axis in ((down, 1), (across, 2)):
        shifted = [planes.slice(offset, offset + 1 - len(taps) or None, axis) for offset in range(len(taps))]
        planes = reduce(add, [plane * tap for plane, tap in zip(shifted, taps, strict=True) if tap])
    return planes


def _differences(graph: Graph, planes: Tensor) -> Tensor:
    """Return the mean near each pixel less the mean around it, whole units of the planes (2, h, w)."""
    taps = tuple(TAPS.tolist())
    near = _filtered(mirrored(graph, planes, 2, 2), taps, taps)
    around = box_sums(graph, planes.cast(np.int32), NEIGHBOURHOOD).cast(np.float32)
    units = np.reshape(_MAP_UNITS, (2, 1, 1))
    shares = (graph.constant(units / area, np.float32) for area in (256, NEIGHBOURHOOD**2))
    return (near * next(shares) - around * next(shares)).round()


def _standardised(graph: Graph, differences: Tensor) -> Tensor:
    """Return whole differences (c, h, w) over their deviation, in 1/256, int32."""
    squares = differences * differences
    high = (squares / _HALF).floor()
    parts = graph.join([high, squares - high * _HALF], 0).cast(np.int32)
    sums = box_sums(graph, parts, DEVIATIONS).cast(np.float32)
    near = (sums.slice(0, 2, 0) * _HALF + sums.slice(2, 4, 0)) / float(DEVIATIONS**2)
    mean = graph.op("ReduceMean", squares.cast(np.float64), graph.constant([1, 2], np.int64), keepdims=1)
    deviations = ((near + mean.cast(np.float32)) / 2.0 + 1.0).sqrt()
    units = (differences * float(UNIT) / deviations).round()
    return units.maximum(-_HIGHEST).minimum(_HIGHEST).cast(np.int32)


def box_sums(graph: Graph, planes: Tensor, side: int) -> Tensor:
    """Return the sums of planes (c, h, w), int32, over the square of an odd side around every pixel."""
    sums = mirrored(graph, planes, side // 2 + 1, side // 2)
    for axis in (1, 2):
        running = graph.op("CumSum", sums, graph.constant(axis, np.int64))
        sums = running.slice(side, None, axis) - running.slice(0, -side, axis)
    return sums


def mirrored(graph: Graph, planes: Tensor, before: int, after: int) -> Tensor:
    """Return planes (c, h, w) with borders in which the pixels repeat mirrored, those at the edge once."""
    pads = graph.constant([0, before, before, 0, after, after], np.int64)
    is_large = planes.size(1).minimum(planes.size(2)) > max(before, after)

    def step_by_step() -> Tensor:
        return turned(_mirrored(graph, turned(_mirrored(graph, planes, before, after)), before, after))

    return graph.choose(is_large, lambda: graph.op("Pad", planes, pads, mode="reflect"), step_by_step)


def _mirrored(graph: Graph, planes: Tensor, before: int, after: int) -> Tensor:
    """Return planes with borders along the second axis, which may be wider than it is long."""
    last = planes.size(1) - 1
    distance = graph.op("Abs", graph.count(last + (before + after + 1)) - before)
    back = graph.op("Mod", distance, (last * 2).maximum(1))
    return planes.gather(back.minimum(last * 2 - back).maximum(0), 1)
