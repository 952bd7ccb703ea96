"""Graph segmentation of a picture (Felzenszwalb and Huttenlocher, IJCV 2004) inside an ONNX graph.

The walk over sorted edges is a chain of decisions, but the same partition comes of rounds in which all components act
at once. Edges of a component's least weight are the next that the walk decides for it. Where an edge has the least
weight of both ends, these join if both thresholds admit it: what else of this weight came first has only raised them. A
component whose own threshold refuses its least weight grows no more, so all its edges are done with. Afterwards a small
component joins the neighbour behind its lightest edge, whatever else that has joined by then.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lapsvm.detection.onnx_file.graph import MOST_ROUNDS, Graph, Tensor
from lapsvm.detection.onnx_file.resizing import Size
from lapsvm.windows.colour import LINEAR, MATRIX, ROOT
from lapsvm.windows.selective_search import LEVELS, REFERENCE_PIXELS

SPACES = 2  # HSV and L*a*b*
NUMBERS = 2**16  # of edges; a key is a weight times it, and the edge's scattered number
_DIGIT, _LOW, _HIGH = 2**8, 79, 159  # both digits of a number are multiplied, for steps of two and of one
_TAPS = (6.0, 58.0, 128.0, 58.0, 6.0)  # a Gaussian of 0.8 pixels in 1/256
_FIRST_ROUNDS = (4, 6, 10, 16, 30)  # after each, what is left is numbered anew
_JUMPS = 6  # chains of components that join in one round are 2 ** 6 long
_TABLE = 2**17  # places for pairs of components
_HASH = 509  # times the number of a node, below 2 ** 15, stays below 2 ** 24
_PAIR = 2**15
NONE = int(np.iinfo(np.int32).max)  # the key of no edge


class Edges(NamedTuple):
    """Edges between the nodes of a graph: int32 of shape (e,). No two keys are equal, and lighter edges have less.

    Whole numbers that are divided stay below 2 ** 24: some engines divide them in float32.
    """

    first: Tensor
    second: Tensor
    keys: Tensor

    def between(self, labels: Tensor, where: Tensor | None = None) -> "Edges":
        """Return the edges (of those with `where`) whose ends have different labels, between these."""
        first, second = (labels.at(end) for end in (self.first, self.second))
        apart = ~first.equals(second)
        left = (apart if where is None else apart & where).places()
        return Edges(*(value.at(left) for value in (first, second, self.keys)))

    def of(self, where: Tensor) -> "Edges":
        """Return the edges for which `where` is true."""
        kept = where.places()
        return Edges(*(value.at(kept) for value in self))

    def lightest(self, nodes: Tensor) -> Tensor:
        """Return the least key of every node's edges, (n,); NONE for a node without. `nodes` is any int32 (n,)."""
        return (nodes * 0 + NONE).scatter(self.first, self.keys, "min").scatter(self.second, self.keys, "min")

    def mutual(self, lightest: Tensor) -> Tensor:
        """Return where an edge is the lightest of both its ends."""
        return lightest.at(self.first).equals(self.keys) & lightest.at(self.second).equals(self.keys)

    def distinct(self) -> "Edges":
        """Return the edges without most of those between two nodes that a lighter one joins."""
        graph, low, high = self.first.graph, self.first.minimum(self.second), self.first.maximum(self.second)
        pairs = low * _PAIR + high
        slots = graph.op("Mod", low * _HASH + high, graph.constant(_TABLE, np.int32))
        least = _filled(graph, NONE, _TABLE).scatter(slots, self.keys, "min")
        is_least = least.at(slots).equals(self.keys)
        least_edges = is_least.places()
        holder = _filled(graph, -1, _TABLE).scatter(slots.at(least_edges), pairs.at(least_edges))
        return self.of(graph.op("Or", is_least, ~holder.at(slots).equals(pairs)))


def keyed(weights: Tensor, numbers: Tensor) -> Tensor:
    """Return the keys of edges with weights and numbers, both int32."""
    graph = weights.graph
    high, base = numbers / _DIGIT, graph.constant(_DIGIT, np.int32)
    low = graph.op("Mod", (numbers - high * _DIGIT) * _LOW, base)
    return weights * NUMBERS + low * _DIGIT + graph.op("Mod", high * _HIGH, base)


def _filled(graph: Graph, value: int, length: int) -> Tensor:
    return graph.op("Expand", graph.constant(value, np.int32), graph.constant([length], np.int64))


# ---- edges


def picture_edges(graph: Graph, planes: Tensor) -> Edges:
    """Return the edges between neighbours in a picture (3, h, w), its pixels in HSV first, then in L*a*b*."""
    smoothed = _smoothed(graph, graph.join([space(graph, planes).unsqueeze(0) for space in (_hsv, _lab)], 0))
    height, width = smoothed.size(2).reshape(1), smoothed.size(3).reshape(1)
    shape = graph.join([graph.constant([SPACES], np.int64), height, width], 0)
    count = (smoothed.size(2) * smoothed.size(3)) * SPACES
    pixels = graph.op("Reshape", graph.count(count).cast(np.int32), shape)
    right, down = (_neighbours(graph, smoothed, pixels, direction) for direction in range(2))
    first, second, keys = (graph.join(list(pair), 0) for pair in zip(right, down, strict=True))
    return Edges(first, second, keys)


def _neighbours(graph: Graph, smoothed: Tensor, pixels: Tensor, direction: int) -> list[Tensor]:
    """Return both ends and the keys of the edges to the right (0) or down (1)."""
    axis = 2 - direction
    first, second = pixels.slice(0, -1, axis), pixels.slice(1, None, axis)
    gaps = (smoothed.slice(0, -1, axis + 1) - smoothed.slice(1, None, axis + 1)).cast(np.int32)
    red, green, blue = ((gaps * gaps).gather(graph.constant(channel, np.int64), 1) for channel in range(3))
    weights = (red + green + blue).cast(np.float32).sqrt().floor().cast(np.int32)
    return [value.reshape(-1) for value in (first, second, keyed(weights, first * 2 + direction))]


def _hsv(graph: Graph, planes: Tensor) -> Tensor:
    """Return hue, saturation and value as `lapsvm.windows.colour.hsv`, float32 (3, h, w)."""
    red, green, blue = (_plane(graph, planes, channel) for channel in range(3))
    high = red.maximum(green).maximum(blue)
    spread = high - red.minimum(green).minimum(blue)
    from_red = graph.where(green < blue, green - blue + spread * 6.0, green - blue)
    from_others = graph.where(high.equals(green), blue - red + spread * 2.0, red - green + spread * 4.0)
    sixths = graph.where(high.equals(red), from_red, from_others)
    hue = _quotient(sixths * 256.0 + spread * 3.0, (spread * 6.0).maximum(1.0))
    hue = graph.where(hue > 255.0, hue - 256.0, hue) * (spread > 0.0).cast(np.float64)
    saturation = _quotient(spread * 255.0 + (high / 2.0).floor(), high.maximum(1.0))
    return graph.join([plane.cast(np.float32) for plane in (hue, saturation, high)], 0)


def _quotient(numerators: Tensor, denominators: Tensor) -> Tensor:
    """Return quotients of whole numbers rounded down, also where division is not exact to the last bit."""
    return ((numerators + 0.5) / denominators).floor()


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


class _Components(NamedTuple):
    """Components: the one of every pixel (n,), their pixels and heaviest inner edges (m,), and the edges between them.

    All are int32, edges in 1/16 of a level.
    """

    names: Tensor
    sizes: Tensor
    inner: Tensor
    edges: Edges

    def joined(self, parent: Tensor, sizes: Tensor, inner: Tensor) -> "_Components":
        """Return the components, numbered anew, after some joined others: each one's last parent is given."""
        roots = parent.equals(_numbers(parent)).places()
        numbers = (parent * 0).scatter(roots, _numbers(roots))
        new = numbers.at(parent)
        return _Components(new.at(self.names), sizes.at(roots), inner.at(roots),
                           self.edges.between(new).distinct())  # fmt: skip


def segmentations(graph: Graph, edges: Edges, size: Size, ks: Sequence[int]) -> list[Tensor]:
    """Return the component of every pixel for each k, smallest first, int32 (n,).

    A greater k goes on with the components of the one before.
    """
    nodes = graph.count((size.height * size.width).cast(np.int64) * SPACES).cast(np.int32)
    grown = _Components(nodes, nodes * 0 + 1, nodes * 0, edges)
    for rounds in _FIRST_ROUNDS:
        grown = _grown(graph, grown, ks[0] * LEVELS, rounds)
    scale, labels = (size.height * size.width / float(REFERENCE_PIXELS)).sqrt().minimum(1.0), []
    for k in ks:
        grown = _grown(graph, grown, k * LEVELS)
        least = (scale * float(k)).round().maximum(1.0).cast(np.int32)
        labels.append(_absorbed(graph, grown, least).at(grown.names))
    return labels


def _grown(graph: Graph, before: _Components, k: int, rounds: int = MOST_ROUNDS) -> _Components:
    """Return the components after the joins that this k admits, or after some rounds."""

    def one_round(*state: Tensor) -> list[Tensor]:
        edges, (sizes, inner, parent) = Edges(*state[:3]), state[3:]
        nodes = _numbers(sizes)  # made here: OpenVINO scatters into what comes from outside of a loop
        least, weights = edges.lightest(sizes) / NUMBERS, edges.keys / NUMBERS
        closed = least > inner + graph.constant(k, np.int32) / sizes
        going = ~graph.op("Or", closed.at(edges.first), closed.at(edges.second))
        lightest = ~(weights > least.at(edges.first).minimum(least.at(edges.second)))
        joined = edges.of(lightest & going)
        low, high = joined.first.minimum(joined.second), joined.first.maximum(joined.second)
        into = _hooked(graph, nodes, nodes.scatter(high, low, "min"))
        moved = (~into.equals(nodes)).places()
        roots_of = into.at(moved)
        sizes = sizes.scatter(roots_of, sizes.at(moved), "add")
        inner = inner.scatter(roots_of, least.at(moved))
        left = edges.between(into, going)
        return [left.first.size(0) > 0, *left, sizes, inner, into.at(parent)]

    state = [*before.edges, before.sizes, before.inner, _numbers(before.sizes)]
    *_, sizes, inner, parent = graph.loop(state, one_round, rounds)
    return before.joined(parent, sizes, inner)


def _hooked(graph: Graph, nodes: Tensor, target: Tensor) -> Tensor:
    """Return the nodes at the ends of short chains of targets, and the nodes themselves at the begin of longer ones."""
    for _ in range(_JUMPS):
        target = target.at(target)
    return graph.where(target.at(target).equals(target), target, nodes)


def _absorbed(graph: Graph, grown: _Components, least: Tensor) -> Tensor:
    """Return the names after components of fewer than `least` pixels joined the neighbours at their lightest edges."""

    def one_round(*state: Tensor) -> list[Tensor]:
        edges, (sizes, parent) = Edges(*state[:3]), state[3:]
        lightest, nodes = edges.lightest(sizes), _numbers(sizes)
        at_first, at_second = (lightest.at(end).equals(edges.keys) & (sizes.at(end) < least) for end in edges[:2])
        target = nodes
        for small, neighbour, hooks in ((1, 0, at_second), (0, 1, at_first & ~at_second)):
            places = hooks.places()
            target = target.scatter(edges[small].at(places), edges[neighbour].at(places))
        into = _hooked(graph, nodes, target)
        moved = (~into.equals(nodes)).places()
        sizes = sizes.scatter(into.at(moved), sizes.at(moved), "add")
        left = _with_small(edges.between(into), sizes, least)
        return [left.first.size(0) > 0, *left, sizes, into.at(parent)]

    state = [*_with_small(grown.edges, grown.sizes, least), grown.sizes, _numbers(grown.sizes)]
    return graph.loop(state, one_round)[-1]


def _numbers(nodes: Tensor) -> Tensor:
    """Return 0, 1, ... for as many nodes, int32."""
    return nodes.graph.count(nodes.size(0)).cast(np.int32)


def _with_small(edges: Edges, sizes: Tensor, least: Tensor) -> Edges:
    """Return the edges of components of fewer than `least` pixels."""
    return edges.of(edges.first.graph.op("Or", *(sizes.at(end) < least for end in edges[:2])))
