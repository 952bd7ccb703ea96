"""Graph segmentation of a picture (Felzenszwalb and Huttenlocher, IJCV 2004) inside an ONNX graph.

The walk over sorted edges is a chain of decisions, but the same partition comes of rounds in which all components act
at once. A component's lightest edge is the next that the walk decides for it. Where it is so at both ends, they join if
both thresholds admit it. A component whose own threshold refuses its lightest edge grows no more, so all its edges are
done with. Edges of one weight come in a scattered order: in the raster's, a plane of one colour would take as many
rounds as it is long.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from lapsvm.detection.onnx_file.graph import Graph, Tensor
from lapsvm.detection.onnx_file.resizing import Size
from lapsvm.windows.colour import LINEAR, MATRIX, ROOT
from lapsvm.windows.selective_search import LEVELS, REFERENCE_PIXELS

SPACES = 2  # HSV and L*a*b*
NUMBERS = 2**20  # of edges; a key is a weight times it, and the edge's number
SCATTER = 387_420_489  # odd, so that its multiples below 2 ** 20 are different
_TAPS = (6.0, 58.0, 128.0, 58.0, 6.0)  # a Gaussian of 0.8 pixels in 1/256
_FIRST_ROUNDS = 8  # after these most nodes are gone
_TABLE = 2**17  # places for pairs of components
NONE = int(np.iinfo(np.int64).max)  # the key of no edge


class Edges(NamedTuple):
    """Edges between the nodes of a graph: int64 of shape (e,). No two keys are equal, and lighter edges have less."""

    first: Tensor
    second: Tensor
    keys: Tensor

    def between(self, labels: Tensor, where: Tensor | None = None) -> "Edges":
        """Return the edges (of those with `where`) whose ends have different labels, between these."""
        first, second = (labels.gather(end, 0) for end in (self.first, self.second))
        apart = ~first.equals(second)
        left = (apart if where is None else apart & where).places()
        return Edges(*(value.gather(left, 0) for value in (first, second, self.keys)))

    def of(self, where: Tensor) -> "Edges":
        """Return the edges for which `where` is true."""
        kept = where.places()
        return Edges(*(value.gather(kept, 0) for value in self))

    def lightest(self, none: Tensor) -> Tensor:
        """Return the least key of every node's edges, (n,); `none` is the value of nodes without."""
        return none.scatter(self.first, self.keys, "min").scatter(self.second, self.keys, "min")

    def mutual(self, lightest: Tensor) -> Tensor:
        """Return where an edge is the lightest of both its ends."""
        return lightest.gather(self.first, 0).equals(self.keys) & lightest.gather(self.second, 0).equals(self.keys)

    def distinct(self) -> "Edges":
        """Return the edges without most of those between two nodes that a lighter one joins."""
        graph, high = self.first.graph, self.first.maximum(self.second)
        pairs = self.first.minimum(self.second) * 2**31 + high
        slots = graph.op("Mod", self.first.minimum(self.second) * 40503 + high, graph.constant(_TABLE, np.int64))
        least = _filled(graph, NONE, _TABLE).scatter(slots, self.keys, "min")
        own = least.gather(slots, 0).equals(self.keys)
        winners = own.places()
        holder = _filled(graph, -1, _TABLE).scatter(slots.gather(winners, 0), pairs.gather(winners, 0))
        return self.of(graph.op("Or", own, ~holder.gather(slots, 0).equals(pairs)))


def keyed(weights: Tensor, numbers: Tensor) -> Tensor:
    """Return the keys of edges with weights and numbers, both int64."""
    return weights * NUMBERS + weights.graph.op("Mod", numbers * SCATTER, weights.graph.constant(NUMBERS, np.int64))


def _filled(graph: Graph, value: int, length: int) -> Tensor:
    return graph.op("Expand", graph.constant(value, np.int64), graph.constant([length], np.int64))


# ---- edges


def picture_edges(graph: Graph, planes: Tensor) -> Edges:
    """Return the edges between neighbours in a picture (3, h, w), its pixels in HSV first, then in L*a*b*."""
    smoothed = _smoothed(graph, graph.join([space(graph, planes).unsqueeze(0) for space in (_hsv, _lab)], 0))
    height, width = smoothed.size(2).reshape(1), smoothed.size(3).reshape(1)
    shape = graph.join([graph.constant([SPACES], np.int64), height, width], 0)
    count = (smoothed.size(2) * smoothed.size(3)) * SPACES
    pixels = graph.op("Reshape", graph.count(count), shape)
    right, down = (_neighbours(graph, smoothed, pixels, direction) for direction in range(2))
    first, second, keys = (graph.join(list(pair), 0) for pair in zip(right, down, strict=True))
    return Edges(first, second, keys)


def _neighbours(graph: Graph, smoothed: Tensor, pixels: Tensor, direction: int) -> list[Tensor]:
    """Return both ends and the keys of the edges to the right (0) or down (1)."""
    axis = 2 - direction
    first, second = pixels.part(0, -1, axis), pixels.part(1, None, axis)
    gaps = smoothed.part(0, -1, axis + 1) - smoothed.part(1, None, axis + 1)
    red, green, blue = ((gaps * gaps).gather(graph.constant(channel, np.int64), 1) for channel in range(3))
    weights = (red + green + blue).sqrt().floor().cast(np.int64)
    return [value.reshape(-1) for value in (first, second, keyed(weights, first * 2 + direction))]


def _hsv(graph: Graph, planes: Tensor) -> Tensor:
    """Return hue, saturation and value as `lapsvm.windows.colour.hsv`, float32 (3, h, w)."""
    red, green, blue = (_plane(graph, planes, channel) for channel in range(3))
    high = red.maximum(green).maximum(blue)
    spread = high - red.minimum(green).minimum(blue)
    from_red = graph.where(green < blue, green - blue + spread * 6.0, green - blue)
    from_others = graph.where(high.equals(green), blue - red + spread * 2.0, red - green + spread * 4.0)
    sixths = graph.where(high.equals(red), from_red, from_others)
    hue = ((sixths * 256.0 + spread * 3.0) / (spread * 6.0).maximum(1.0)).floor()
    hue = graph.where(hue > 255.0, hue - 256.0, hue) * (spread > 0.0).cast(np.float64)
    saturation = ((spread * 255.0 + (high / 2.0).floor()) / high.maximum(1.0)).floor()
    return graph.join([plane.cast(np.float32) for plane in (hue, saturation, high)], 0)


def _lab(graph: Graph, planes: Tensor) -> Tensor:
    """Return L*, a* and b* as `lapsvm.windows.colour.lab`, float32 (3, h, w)."""
    linear, root = (graph.constant(table, np.float64) for table in (LINEAR, ROOT))
    light = [linear.gather(_plane(graph, planes, channel).cast(np.int64), 0) for channel in range(3)]
    x, y, z = (
        root.gather(_whole(light[0] * row[0] + light[1] * row[1] + light[2] * row[2]).cast(np.int64), 0)
        for row in MATRIX.reshape(3, 3).astype(float).tolist()
    )
    lightness = ((y * 29580.0 + (204800.0 - 4080.0 * 4096.0)) / 409600.0).floor()
    colours = (_whole((x - y) * 500.0) + 128.0, _whole((y - z) * 200.0) + 128.0)
    return graph.join([plane.maximum(0.0).minimum(255.0).cast(np.float32) for plane in (lightness, *colours)], 0)


def _whole(values: Tensor) -> Tensor:
    """Return whole numbers of 1/4096 rounded to whole ones."""
    return ((values + 2048.0) / 4096.0).floor()


def _plane(graph: Graph, planes: Tensor, channel: int) -> Tensor:
    """Return a plane, float64 (1, h, w)."""
    return planes.gather(graph.constant([channel], np.int64), 0).cast(np.float64)


def _smoothed(graph: Graph, planes: Tensor) -> Tensor:
    """Return planes (spaces, 3, h, w) in 1/16 of a level; sums are below 2 ** 24, so float32 holds them."""
    size = planes.size(2).reshape(1), planes.size(3).reshape(1)
    batch = graph.op("Reshape", planes, graph.join([graph.constant([SPACES * 3, 1], np.int64), *size], 0))
    sums = graph.op("Pad", batch, graph.constant([0, 0, 2, 2, 0, 0, 2, 2], np.int64), mode="edge")
    for shape in ((1, 1, 5, 1), (1, 1, 1, 5)):
        sums = graph.op("Conv", sums, graph.constant(np.reshape(_TAPS, shape), np.float32))
    return _whole(graph.op("Reshape", sums, graph.join([graph.constant([SPACES, 3], np.int64), *size], 0)))


# ---- components


def segmentations(graph: Graph, edges: Edges, size: Size, ks: Sequence[int]) -> list[Tensor]:
    """Return the component of every pixel for each k, smallest first, int64 (n,).

    A greater k goes on with the components of the one before.
    """
    nodes = graph.count((size.height * size.width).cast(np.int64) * SPACES)
    found, names = [], nodes
    sizes, inner = nodes * 0 + 1, nodes * 0
    scale = (size.height * size.width / float(REFERENCE_PIXELS)).sqrt().minimum(1.0)
    for k in ks:
        roots, sizes, inner = _grown(graph, edges, nodes, sizes, inner, k * LEVELS)
        names, edges = roots.gather(names, 0), edges.between(roots).distinct()
        least = (scale * float(k)).round().maximum(1.0).cast(np.int64)
        found.append(_absorbed(graph, edges, nodes, sizes, least).gather(names, 0))
    return found


def _grown(
    graph: Graph, edges: Edges, nodes: Tensor, sizes: Tensor, inner: Tensor, k: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return for one k the node that names each node's component, and at these sizes and heaviest inner edges, (n,)."""
    none = nodes * 0 + NONE
    state = [*edges, sizes, inner, nodes]
    *ends, sizes, inner, parent = graph.loop(state, _round(graph, none, k), _FIRST_ROUNDS)
    rest = Edges(*ends)
    present = (none * 0).scatter(rest.first, rest.first * 0 + 1).scatter(rest.second, rest.second * 0 + 1)
    kept = (present > 0).places()
    own = graph.count(kept.size(0))
    rest = rest.between(none.scatter(kept, own)).distinct()
    state = [*rest, sizes.gather(kept, 0), inner.gather(kept, 0), own]
    *_, last_sizes, last_inner, last = graph.loop(state, _round(graph, own * 0 + NONE, k))
    parent = parent.scatter(kept, kept.gather(last, 0))
    return _roots(graph, parent), sizes.scatter(kept, last_sizes), inner.scatter(kept, last_inner)


def _round(graph: Graph, none: Tensor, k: int) -> Callable[..., list[Tensor]]:
    """Return the body of a loop in which components join; its state is the edges, and per node sizes, inner, parent."""

    def one_round(*state: Tensor) -> list[Tensor]:
        edges, (sizes, inner, parent) = Edges(*state[:3]), state[3:]
        lightest = edges.lightest(none)
        closed = lightest > (inner + graph.constant(k, np.int64) / sizes + 1) * NUMBERS - 1
        going = ~graph.op("Or", closed.gather(edges.first, 0), closed.gather(edges.second, 0))
        joined = edges.of(edges.mutual(lightest) & going)
        parent = parent.scatter(joined.second, joined.first)
        sizes = sizes.scatter(joined.first, sizes.gather(joined.second, 0), "add")
        inner = inner.scatter(joined.first, joined.keys / NUMBERS)
        left = edges.between(parent, going)
        return [left.first.size(0) > 0, *left, sizes, inner, parent]

    return one_round


def _roots(graph: Graph, parent: Tensor) -> Tensor:
    """Return the last of every node's parents."""

    def twice(own: Tensor) -> list[Tensor]:
        after = own.gather(own, 0)
        return [(~after.equals(own)).places().size(0) > 0, after]

    return graph.loop([parent], twice)[0]


def _absorbed(graph: Graph, edges: Edges, nodes: Tensor, sizes: Tensor, least: Tensor) -> Tensor:
    """Return the names after components of less than so many pixels joined the neighbours behind lightest edges."""
    none = nodes * 0 + NONE

    def small(edges: Edges, sizes: Tensor) -> Tensor:
        return graph.op("Or", sizes.gather(edges.first, 0) < least, sizes.gather(edges.second, 0) < least)

    def one_round(*state: Tensor) -> list[Tensor]:
        edges, (sizes, parent) = Edges(*state[:3]), state[3:]
        joined = edges.of(edges.mutual(edges.lightest(none)))
        parent = parent.scatter(joined.second, joined.first)
        sizes = sizes.scatter(joined.first, sizes.gather(joined.second, 0), "add")
        left = edges.between(parent)
        left = left.of(small(left, sizes))
        return [left.first.size(0) > 0, *left, sizes, parent]

    state = [*edges.of(small(edges, sizes)), sizes, nodes]
    return _roots(graph, graph.loop(state, one_round)[-1])
