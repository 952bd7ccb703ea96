"""The windows of a picture inside an ONNX graph: selective search by scattering and gathering, and a lattice.

A reduced picture is segmented in two colour spaces at several scales. Regions then merge as in selective search by
size, by fill, and by both, all of these hierarchies side by side: in each round every pair of regions that are each
other's best partners becomes one. The boxes of all regions are windows.
"""

from dataclasses import dataclass

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.detection.onnx_file.graph import Graph, Tensor
from lapsvm.detection.onnx_file.pooling import areas
from lapsvm.detection.onnx_file.resizing import Size, reduced
from lapsvm.detection.onnx_file.segmentation import Edges, keyed, picture_edges, segmentations

SIDE = 128  # longer side of the reduced picture in pixels
KS = (80, 160, 320, 640)  # scales of the segmentation, as in `lapsvm.windows.Mode`
CUES = ((1, 0), (-1, 1), (0, 1))  # weights of both regions' pixels and of their box's: size, fill, size and fill
LEAST_AREA = 0.001  # of the picture
_FAR = 2**30
LATTICE_OCTAVES = 1
LATTICE_SIZES = 2  # per octave
LATTICE_ASPECTS = (0.5, 1.0, 2.0)  # width over height, as shares of the picture's sides
LATTICE_STEP = 0.34  # of a window's side


@dataclass(frozen=True)
class _Regions:
    """Regions: boxes (n, 4) in pixels, their numbers of pixels (n,), and neighbours; int32."""

    boxes: Tensor
    pixels: Tensor
    neighbours: Edges


def grouped_windows(graph: Graph, planes: Tensor, max_area: float) -> Tensor:
    """Return the boxes of regions as shares of a picture (3, h, w), float64 of shape (n, 4), without duplicates."""
    small = reduced(graph, planes, SIDE)
    size = Size.of(small)
    edges = picture_edges(graph, small)
    regions = _regions(graph, segmentations(graph, edges, size, KS), edges, size)
    corners = graph.join([regions.boxes, _merged(graph, *_repeated(graph, regions))], 0)
    boxes = graph.ops("Unique", (np.float32,), corners.cast(np.float32), axis=0)[0].cast(np.float64)
    shares = boxes / graph.join([side.reshape(1) for side in (size.width, size.height)] * 2, 0)
    covered = areas(shares)
    kept = ~(covered > max_area) & (covered > LEAST_AREA)
    return shares.gather(kept.reshape(-1).places(), 0)


def _regions(graph: Graph, segmented: list[Tensor], edges: Edges, size: Size) -> _Regions:
    """Return the regions of all segmentations (n,) of the pixels of all colour spaces."""
    count = segmented[0].size(0).cast(np.int32)
    names = graph.join([labels + count * number for number, labels in enumerate(segmented)], 0)
    zeros = names * 0
    pixels = zeros.scatter(names, zeros + 1, "add")
    present = (pixels > 0).places()
    numbers = zeros.scatter(present, graph.count(present.size(0)).cast(np.int32)).at(names)
    pixels = pixels.at(present)
    boxes = graph.join(_extents(graph, numbers, pixels, size), 1)
    labels = numbers.reshape(len(segmented), -1)
    near = [edges.between(labels.gather(graph.constant(number, np.int64), 0)) for number in range(len(segmented))]
    joined = Edges(*(graph.join(parts, 0) for parts in zip(*near, strict=True)))
    return _Regions(boxes, pixels, joined.distinct())


def _extents(graph: Graph, numbers: Tensor, pixels: Tensor, size: Size) -> list[Tensor]:
    """Return where the pixels of each region begin and end, x1, y1, x2 and y2, int32 (regions, 1)."""
    height, width = size.height.cast(np.int32), size.width.cast(np.int32)
    pixel = graph.op("Mod", graph.count(numbers.size(0)).cast(np.int32), height * width)
    row = pixel / width
    lines = [pixel - row * width, row]
    far, before = pixels * 0 + _FAR, pixels * 0 - 1
    first = [far.scatter(numbers, line, "min") for line in lines]
    last = [before.scatter(numbers, line, "max") + 1 for line in lines]
    return [value.reshape(-1, 1) for value in (*first, *last)]


def _repeated(graph: Graph, regions: _Regions) -> tuple[_Regions, Tensor, Tensor]:
    """Return the regions once for each cue, and each cue's weights at the pairs of neighbours, int32 (e,)."""
    count, near = regions.pixels.size(0).cast(np.int32), regions.neighbours
    first, second = (
        graph.join([end + count * copy for copy in range(len(CUES))], 0) for end in (near.first, near.second)
    )
    boxes, pixels = (graph.join([value] * len(CUES), 0) for value in (regions.boxes, regions.pixels))
    by_pixels, by_box = (graph.join([near.first * 0 + cue[index] for cue in CUES], 0) for index in range(2))
    return _Regions(boxes, pixels, Edges(first, second, first)), by_pixels, by_box


def _merged(graph: Graph, regions: _Regions, by_pixels: Tensor, by_box: Tensor) -> Tensor:
    """Return the boxes of all regions that merging makes, int32 (m, 4)."""

    def one_round(*state: Tensor) -> list[Tensor]:
        first, second, by_pixels, by_box, boxes, pixels, parent, merged = state
        both = pixels.at(first) + pixels.at(second)
        around = _union(boxes.gather(first, 0), boxes.gather(second, 0))
        apart = both * by_pixels + areas(around).reshape(-1) * by_box
        near = Edges(first, second, keyed(apart, graph.count(apart.size(0)).cast(np.int32)))
        joined = near.mutual(near.lightest(pixels)).places()
        into, new = first.at(joined), around.gather(joined, 0)
        parent = parent.scatter(second.at(joined), into)
        boxes = graph.op("ScatterND", boxes, into.unsqueeze(1).cast(np.int64), new)
        pixels = pixels.scatter(into, both.at(joined))
        first, second = (parent.at(end) for end in (first, second))
        left = (~first.equals(second)).places()
        rest = [value.at(left) for value in (first, second, by_pixels, by_box)]
        return [left.size(0) > 0, *rest, boxes, pixels, parent, graph.join([merged, new], 0)]

    near, nothing, numbers = (
        regions.neighbours,
        regions.boxes.slice(0, 0, 0),
        graph.count(regions.pixels.size(0)).cast(np.int32),
    )
    state = [near.first, near.second, by_pixels, by_box, regions.boxes, regions.pixels, numbers]
    return graph.loop([*state, nothing], one_round)[-1]


def _union(first: Tensor, second: Tensor) -> Tensor:
    """Return the boxes around two boxes each."""
    low, high = first.column(0, 2).minimum(second.column(0, 2)), first.column(2, 4).maximum(second.column(2, 4))
    return first.graph.join([low, high], 1)


def lattice(max_area: float = 0.9) -> Float64:
    """Return windows of several sizes and shapes, spread evenly over the unit square.

    They are for objects that fill the picture, and for pictures without regions.

    Parameters
    ----------
    max_area : float, default 0.9
        Area of the largest ones.

    Returns
    -------
    ndarray of shape (n, 4), float64
        x1, y1, x2, y2 as shares of the picture's width and height, without duplicates.
    """
    sides = max_area**0.5 * 2.0 ** (-np.arange(LATTICE_OCTAVES * LATTICE_SIZES + 1) / LATTICE_SIZES)
    windows = np.concatenate(
        [_lattice_part(*_lattice_shape(side, aspect)) for side in sides for aspect in LATTICE_ASPECTS]
    )
    return np.unique(windows.round(6), axis=0)


def _lattice_shape(side: float, aspect: float) -> tuple[float, float]:
    """Return the width and height of windows with an area of side * side, within the unit square."""
    width = min(1.0, max(side * aspect**0.5, side * side))
    return width, min(1.0, side * side / width)


def _lattice_part(width: float, height: float) -> Float64:
    """Return the windows of one size."""
    left, top = (
        np.linspace(0, 1 - side, 1 + int(np.ceil((1 - side) / (side * LATTICE_STEP) - 1e-9)))
        for side in (width, height)
    )
    x, y = np.meshgrid(left, top)
    return np.stack([x, y, x + width, y + height], axis=-1).reshape(-1, 4)
