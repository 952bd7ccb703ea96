"""Windows that follow the regions of a picture, inside an ONNX graph: selective search with dense operators.

The pixels of a reduced picture are clustered by colour and place. Adjacent clusters then merge round by round: every
pair of regions that are each other's most similar neighbour becomes one region. The boxes of all regions are windows.
"""

from dataclasses import dataclass

import numpy as np

from lapsvm.detection.onnx_file.graph import Graph, Tensor
from lapsvm.detection.onnx_file.resizing import Size, reduced

SIDE = 192  # longer side of the reduced picture in pixels
CLUSTERS = 300
ITERATIONS = 3  # of clustering
CONTRAST = 20.0  # a unit of colour in spacings of the clusters
CUES = ((1.0, 1.0, 1.0), (0.0, 1.0, 1.0))  # weights of colour, size and fill
LEAST_AREA = 0.001  # of the picture
_LUMINANCE = ((0.299, -0.169, 0.5), (0.587, -0.331, -0.419), (0.114, 0.5, -0.081))
_FAR = 1e9


@dataclass(frozen=True)
class _Regions:
    """Regions of a picture: pixels (n, 1), mean colours (n, 3), boxes (n, 4) and adjacency (n, n), all float32."""

    pixels: Tensor
    colours: Tensor
    boxes: Tensor
    adjacent: Tensor

    def of(self, indices: Tensor) -> "_Regions":
        """Return some regions."""
        pixels, colours, boxes = (value.gather(indices, 0) for value in (self.pixels, self.colours, self.boxes))
        return _Regions(pixels, colours, boxes, self.adjacent.gather(indices, 0).gather(indices, 1))


def grouped_windows(graph: Graph, planes: Tensor, max_area: float) -> Tensor:
    """Return the boxes of regions as shares of a picture (3, h, w), float64 of shape (n, 4), without duplicates."""
    small = reduced(graph, planes, SIDE)
    size = Size.of(small)
    found = []
    for colours in _colours(graph, small):
        regions = _described(graph, *_clusters(graph, colours, size), colours, size)
        found += [regions.boxes, *(_merged(graph, regions, cue, size) for cue in CUES)]
    boxes = graph.ops("Unique", (np.float32,), graph.join(found, 0), axis=0)[0].cast(np.float64)
    shares = boxes / graph.join([side.reshape(1) for side in (size.width, size.height)] * 2, 0)
    areas = _areas(shares)
    kept = ~(areas > max_area) & (areas > LEAST_AREA)
    return shares.gather(_places(kept.reshape(-1)), 0)


def _colours(graph: Graph, planes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the colours of all pixels (n, 3) in two spaces: luminance and chrominance, and shares of a sum."""
    levels = planes.reshape(3, -1).transposed(1, 0) / 255.0
    total = levels.sum(1) + 1e-3
    shares = graph.join([levels.column(0, 2) / total, total / 3.0], 1)
    return levels @ graph.constant(np.array(_LUMINANCE), np.float32), shares


def _clusters(graph: Graph, colours: Tensor, size: Size) -> tuple[Tensor, Tensor]:
    """Return the cluster of every pixel, int64 (n,), and float32 (n, clusters): 1 for its own, 0 elsewhere."""
    rows = (size.height * float(CLUSTERS) / size.width).sqrt().round().maximum(1.0)
    columns = (graph.constant(float(CLUSTERS)) / rows).round().maximum(1.0)
    count = (rows * columns).cast(np.int64)
    spacing = (size.height * size.width / (rows * columns)).sqrt()
    y, x = (graph.count(side) for side in (size.height, size.width))
    first = (y * rows / size.height).floor().unsqueeze(1) * columns + (x * columns / size.width).floor().unsqueeze(0)
    nowhere = first * 0.0
    places = [((nowhere + axis) / spacing).reshape(-1, 1).cast(np.float32) for axis in (x.unsqueeze(0), y.unsqueeze(1))]
    points = _with_ones(graph, graph.join([colours * CONTRAST, *places], 1))
    labels = first.reshape(-1).cast(np.int64)
    for _ in range(ITERATIONS):
        sums = points.transposed(1, 0) @ _one_hot(graph, labels, count)
        centres, pixels = _part(graph, sums, 0, -1, 0), _part(graph, sums, -1, None, 0)
        centres = centres / pixels.maximum(1.0)
        lengths = (centres * centres).sum(0) + graph.where(pixels > 0.0, pixels * 0.0, _FAR)
        distances = points @ graph.join([centres * -2.0, lengths], 0)  # squared, less the points' own lengths
        labels = graph.op("ArgMin", distances, axis=1, keepdims=0, dtype=np.int64)
    return labels, _one_hot(graph, labels, count)


def _with_ones(graph: Graph, values: Tensor) -> Tensor:
    """Return values (n, d) with a last column of ones, so that a product sums and counts at once."""
    return graph.join([values, values.column(0) * 0.0 + 1.0], 1)


def _one_hot(graph: Graph, labels: Tensor, count: Tensor) -> Tensor:
    """Return labels (n,) as float32 of shape (n, count)."""
    return graph.op("OneHot", labels, count, graph.constant([0.0, 1.0], np.float32), axis=-1, dtype=np.float32)


def _described(graph: Graph, labels: Tensor, inside: Tensor, colours: Tensor, size: Size) -> _Regions:
    """Return the clusters that have pixels as regions."""
    height, width = (side.cast(np.int64).reshape(1) for side in (size.height, size.width))
    sums = inside.transposed(1, 0) @ _with_ones(graph, colours)
    pixels = sums.column(3)
    means = sums.column(0, 3) / pixels.maximum(1.0)
    cells = graph.op("Reshape", inside, graph.join([height, width, graph.constant([-1], np.int64)], 0))
    edges = [_edges(graph, cells.sum(axis), 1 - axis) for axis in (0, 1)]
    boxes = graph.join([edge for pair in zip(*edges, strict=True) for edge in pair], 1)
    adjacent = _adjacent(graph, graph.op("Reshape", labels, graph.join([height, width], 0)), inside.size(1))
    return _Regions(pixels, means, boxes, adjacent).of(_places((pixels > 0.0).reshape(-1)))


def _edges(graph: Graph, counts: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return where the pixels of each cluster begin and end along an axis, (clusters, 1)."""
    at = graph.count(counts.size(axis)).cast(np.float32).unsqueeze(1)
    counts = graph.op("Squeeze", counts, graph.constant([1 - axis], np.int64))
    present, nothing = counts > 0.0, counts * 0.0
    last = graph.where(present, nothing + at + 1.0, 0.0).largest(0)
    first = graph.where(present, nothing - at, -_FAR).largest(0) * -1.0
    return first.transposed(1, 0), last.transposed(1, 0)


def _adjacent(graph: Graph, labels: Tensor, count: Tensor) -> Tensor:
    """Return which labels (h, w) touch, float32 of shape (count, count), symmetric."""
    pairs = []
    for axis in (0, 1):
        first, second = (_part(graph, labels, begin, end, axis).reshape(-1) for begin, end in ((0, -1), (1, None)))
        pairs += [first * count + second, second * count + first]
    indices = graph.join(pairs, 0)
    blank = graph.op("Expand", graph.constant(np.float32(0)), (count * count).reshape(1))
    ones = graph.op("Expand", graph.constant(np.float32(1)), indices.size(0).reshape(1))
    touching = graph.op("ScatterElements", blank, indices, ones, axis=0)
    square = graph.op("Reshape", touching, graph.join([count.reshape(1)] * 2, 0))
    return _without_itself(graph, square)


def _part(graph: Graph, values: Tensor, first: int, last: int | None, axis: int) -> Tensor:
    """Return a slice of an axis."""
    end = np.iinfo(np.int64).max if last is None else last
    return graph.op("Slice", values, *(graph.constant([value], np.int64) for value in (first, end, axis)))


def _without_itself(graph: Graph, square: Tensor) -> Tensor:
    """Return a matrix (n, n) with zeros in its diagonal."""
    return square * (graph.op("EyeLike", square) * -1.0 + 1.0)


def _merged(graph: Graph, regions: _Regions, cue: tuple[float, float, float], size: Size) -> Tensor:
    """Return the boxes of all regions that merging makes, (m, 4)."""
    area = (size.height * size.width).cast(np.float32)

    def one_round(body: Graph, *state: Tensor) -> list[Tensor]:
        own, found = _Regions(*state[:4]), state[4]
        partner = _partners(body, own, cue, body.here(area)[0])
        index = body.count(partner.size(0))
        joined, first = _joined(body, own, partner), _places(index < partner)
        kept = joined.of(_places(~(partner < index)))
        boxes = body.join([found, joined.boxes.gather(first, 0)], 0)
        return [first.size(0) > 0, kept.pixels, kept.colours, kept.boxes, _without_itself(body, kept.adjacent), boxes]

    none = regions.boxes.gather(graph.constant([], np.int64), 0)
    return graph.loop([regions.pixels, regions.colours, regions.boxes, regions.adjacent, none], one_round)[-1]


def _partners(graph: Graph, regions: _Regions, cue: tuple[float, float, float], area: Tensor) -> Tensor:
    """Return for each region its most similar neighbour where that is mutual, itself otherwise; int64 (n,)."""
    colour, amount, fill = cue
    pixels = regions.pixels + regions.pixels.transposed(1, 0)
    low, high = _union(regions.boxes.unsqueeze(0), regions.boxes.unsqueeze(1))
    sides = high - low
    empty = graph.op("Squeeze", sides.column(0) * sides.column(1), graph.constant([2], np.int64)) - pixels
    apart = (pixels * amount + empty * fill) / area
    if colour:
        squares = regions.colours.unsqueeze(0) - regions.colours.unsqueeze(1)
        lengths = (squares * squares).sum(2).sqrt()
        apart = apart + graph.op("Squeeze", lengths, graph.constant([2], np.int64)) * colour
    likeness = graph.where(regions.adjacent > 0.0, apart * -1.0, -_FAR)
    best = graph.op("ArgMax", likeness, axis=1, keepdims=0, dtype=np.int64)
    index = graph.count(best.size(0))
    mutual = best.gather(best, 0).equals(index) & (likeness.largest(1).reshape(-1) > -_FAR / 2)
    return graph.where(mutual, best, index)


def _joined(graph: Graph, regions: _Regions, partner: Tensor) -> _Regions:
    """Return every region together with its partner."""
    alone = partner.equals(graph.count(partner.size(0))).reshape(-1, 1)
    pixels, colours = (value.gather(partner, 0) for value in (regions.pixels, regions.colours))
    total = regions.pixels + pixels
    means = (regions.colours * regions.pixels + colours * pixels) / total
    boxes = graph.join(list(_union(regions.boxes, regions.boxes.gather(partner, 0))), 1)
    touching = regions.adjacent.maximum(regions.adjacent.gather(partner, 0))
    touching = touching.maximum(touching.gather(partner, 1))
    return _Regions(graph.where(alone, regions.pixels, total), means, boxes, touching)


def _union(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return the corners of the boxes around two boxes each."""
    return first.column(0, 2).minimum(second.column(0, 2)), first.column(2, 4).maximum(second.column(2, 4))


def _places(where: Tensor) -> Tensor:
    """Return the indices of what is true, int64 (m,)."""
    return where.graph.op("NonZero", where, dtype=np.int64).reshape(-1)


def _areas(boxes: Tensor) -> Tensor:
    """Return the areas (n, 1)."""
    sides = boxes.column(2, 4) - boxes.column(0, 2)
    return sides.column(0) * sides.column(1)
