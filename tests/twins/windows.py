"""Selective search in plain Python: slow, readable twins of the kernels with identical results.

Each function has the name, the arguments and the result of its kernel. Pictures of a few thousand pixels take seconds.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lapsvm.windows.colour import LINEAR, MATRIX, ROOT

Array = NDArray[Any]
Region = tuple[Array, int, Array]  # counts, size and box

NO_EDGE = 65535
ONE = 32767  # similarities are whole numbers of 1 / ONE
COLOUR_BINS, TEXTURE_BINS, DIRECTIONS, LANES = 25, 16, 4, 16
TAPS = (6, 58, 128, 58, 6)  # a Gaussian of 0.8 pixels, in 1/256
SLOPES = ((1, 0), (0, 1), (1, 1), (-1, 1))  # x, y of the forward pixel; the backward one is opposite


# ---- colour spaces, pixel by pixel


def hsv(image: Array) -> Array:
    """Return hue in 1/256 of a turn, saturation and value, uint8 (3, h, w)."""
    return _pixelwise(image, _hsv)


def _hsv(r: int, g: int, b: int) -> tuple[int, int, int]:
    """Convert one pixel."""
    high, spread = max(r, g, b), max(r, g, b) - min(r, g, b)
    if spread == 0:
        return 0, 0, high
    sixths = 4 * spread + r - g
    if high == r:
        sixths = (g - b) % (6 * spread)
    elif high == g:
        sixths = 2 * spread + b - r
    return (256 * sixths + 3 * spread) // (6 * spread) % 256, (255 * spread + high // 2) // high, high


def lab(image: Array) -> Array:
    """Return L* x 2.55, a* + 128 and b* + 128, uint8 (3, h, w)."""
    return _pixelwise(image, _lab)


def _lab(r: int, g: int, b: int) -> tuple[int, int, int]:
    """Convert one pixel; the tables are in 1/4096."""
    light = LINEAR[[r, g, b]].astype(int)
    fx, fy, fz = (int(ROOT[(int(row @ light) + 2048) // 4096]) for row in MATRIX.reshape(3, 3).astype(int))
    lightness = (29580 * fy - 4080 * 4096 + 204800) // 409600  # 2.55 (116 f(Y) - 16), to the nearest
    a, b_ = (500 * (fx - fy) + 2048) // 4096 + 128, (200 * (fy - fz) + 2048) // 4096 + 128
    return tuple(min(max(value, 0), 255) for value in (lightness, a, b_))  # type: ignore[return-value]


def rgi(image: Array) -> Array:
    """Return the shares of red and green, and the intensity, uint8 (3, h, w)."""
    return _pixelwise(image, _rgi)


def _rgi(r: int, g: int, b: int) -> tuple[int, int, int]:
    """Convert one pixel; black has equal shares."""
    total, red, green = (r + g + b, r, g) if r + g + b else (3, 1, 1)
    shares = (255 * red + total // 2) // total, (255 * green + total // 2) // total
    return *shares, (77 * r + 150 * g + 29 * b + 128) // 256


def _pixelwise(image: Array, convert: Any) -> Array:
    """Apply `convert` to every pixel."""
    pixels = [convert(*map(int, pixel)) for pixel in image.reshape(-1, 3)]
    return np.array(pixels, np.uint8).T.reshape(3, *image.shape[:2]).copy()


# ---- segmentation


def smooth(planes: Array) -> Array:
    """Return each plane under a Gaussian of 0.8 pixels, in 1/16 of a grey level, int16; borders repeat."""
    height, width = planes.shape[1:]
    padded = np.pad(planes.astype(int), ((0, 0), (2, 2), (2, 2)), mode="edge")
    down: Any = sum(tap * padded[:, i : i + height] for i, tap in enumerate(TAPS))
    both = sum(tap * down[:, :, i : i + width] for i, tap in enumerate(TAPS))
    return np.asarray((both + 2048) // 4096, dtype=np.int16)


def edge_weights(smoothed: Array) -> Array:
    """Return the Euclidean distances to the right and to the lower neighbour, rounded down, uint16 (2, h, w).

    65535 marks a missing neighbour.
    """
    values = smoothed.astype(int)
    weights = np.full((2, *values.shape[1:]), NO_EDGE, np.uint16)
    weights[0, :, :-1] = np.sqrt((np.diff(values, axis=2) ** 2).sum(axis=0).astype(np.float32))
    weights[1, :-1] = np.sqrt((np.diff(values, axis=1) ** 2).sum(axis=0).astype(np.float32))
    return weights


def sorted_edges(weights: Array) -> list[tuple[int, int, int]]:
    """Return the edges as (weight, pixel, pixel), by weight, then in raster order, to the right before down."""
    _, height, width = weights.shape
    edges = []
    for y, x in np.ndindex(height, width):
        p = y * width + x
        edges += [(int(weights[0, y, x]), p, p + 1), (int(weights[1, y, x]), p, p + width)]
    return sorted((edge for edge in edges if edge[0] != NO_EDGE), key=lambda edge: edge[0])


def segment(weights: Array, k: int, min_size: int) -> Array:
    """Return the labels in raster order, int32 (h, w): the paper's algorithm 1.

    An edge joins two components if its weight is at most the heaviest edge inside each component plus k over its size.
    Then each component below `min_size` joins a neighbour, lightest edges first. The kernel handles several k at once
    and returns labels of atoms.
    """
    edges = sorted_edges(weights)
    component = list(range(weights[0].size))
    members = {p: [p] for p in component}
    inside = dict.fromkeys(component, 0)

    def join(a: int, b: int, weight: int) -> None:
        for p in members[b]:
            component[p] = a
        members[a] += members.pop(b)
        inside[a] = weight

    for weight, p, q in edges:
        a, b = component[p], component[q]
        if a != b and all(weight <= inside[c] + k / len(members[c]) for c in (a, b)):
            join(a, b, weight)
    for weight, p, q in edges:
        a, b = component[p], component[q]
        if a != b and min(len(members[a]), len(members[b])) < min_size:
            join(a, b, weight)
    return _numbered(component).reshape(weights.shape[1:])


def _numbered(keys: list[Any]) -> Array:
    """Return 0, 1, ... for the keys in the order of their first appearance, int32."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int32)


# ---- regions


def refine(labels: Array) -> tuple[Array, int]:
    """Return the common refinement of segmentations (k, n), numbered in order of appearance, and its size."""
    cells = _numbered(list(zip(*labels.tolist(), strict=True)))
    return cells, int(cells.max()) + 1


def extents(cells: Array, count: int) -> tuple[Array, Array]:
    """Return the sizes (n,) and the bounding boxes (n, 4)."""
    pixels = [np.nonzero(cells == cell) for cell in range(count)]
    boxes = [[x.min(), y.min(), x.max() + 1, y.max() + 1] for y, x in pixels]
    return np.array([len(y) for y, _ in pixels], np.int32), np.array(boxes, np.int32)


def neighbours(cells: Array, count: int) -> Array:
    """Return the pairs (a < b) that share an edge of a pixel, sorted, int32 (m, 2)."""
    adjacent = np.concatenate(
        [
            np.stack([cells[:, :-1], cells[:, 1:]], -1).reshape(-1, 2),
            np.stack([cells[:-1], cells[1:]], -1).reshape(-1, 2),
        ]
    )
    pairs = {(min(a, b), max(a, b)) for a, b in adjacent.tolist() if a != b}
    return np.array(sorted(pairs), np.int32).reshape(-1, 2)


def describe(cells: Array, count: int, planes: Array, smoothed: Array, step: int) -> Array:
    """Return the counts of colours and of slopes in each cell, int32 (n, d)."""
    channels, height, width = planes.shape
    start = -(-COLOUR_BINS * channels // LANES) * LANES
    counts = np.zeros((count, start + TEXTURE_BINS * DIRECTIONS * channels), np.int32)
    for y, x in np.ndindex(height, width):
        row = counts[cells[y, x]]
        for c in range(channels):
            row[COLOUR_BINS * c + int(planes[c, y, x]) * COLOUR_BINS // 256] += 1
            for j, slope in enumerate(_slopes(smoothed[c], y, x, step)):
                row[start + TEXTURE_BINS * (DIRECTIONS * c + j) + slope] += 1
    return counts


def _slopes(plane: Array, y: int, x: int, step: int) -> list[int]:
    """Return the bins of the central differences in four directions; bin 8 is a difference of 0."""
    height, width = plane.shape

    def at(dx: int, dy: int) -> int:
        return int(plane[min(max(y + dy, 0), height - 1), min(max(x + dx, 0), width - 1)])

    rises = [at(dx, dy) - at(-dx, -dy) for dx, dy in SLOPES]
    return [8 + min(max((rise + 2 ** (step - 1)) // 2**step, -7), 7) for rise in rises]


def pool(
    owner: Array, n_regions: int, counts: Array, sizes: Array, boxes: Array, pairs: Array
) -> tuple[Array, Array, Array, Array]:
    """Return counts, sizes, boxes and neighbours of regions, each the sum of its cells."""
    members = [np.flatnonzero(owner == region) for region in range(n_regions)]
    bounds = [[*boxes[cells, :2].min(axis=0), *boxes[cells, 2:].max(axis=0)] for cells in members]
    touching = {(min(a, b), max(a, b)) for a, b in owner[pairs].tolist() if a != b}
    return (
        np.array([counts[cells].sum(axis=0) for cells in members], np.int32),
        np.array([sizes[cells].sum() for cells in members], np.int32),
        np.array(bounds, np.int32),
        np.array(sorted(touching), np.int32).reshape(-1, 2),
    )


# ---- grouping


def group(
    counts: Array,
    sizes: Array,
    boxes: Array,
    pairs: Array,
    channels: int,
    directions: int,
    texture_start: int,
    pixels: int,
    cues: int,
) -> tuple[Array, Array, Array]:
    """Return the merges (n - 1, 2), all boxes (2n - 1, 4) and sizes: repeatedly join the most similar neighbours.

    Among equally similar pairs the one with the lower numbers joins first; a union gets the next number.
    """
    regions = {i: (counts[i].astype(int), int(sizes[i]), boxes[i].astype(int)) for i in range(len(counts))}
    touching = {frozenset(pair) for pair in pairs.tolist()}
    all_boxes, merges = [box for _, _, box in regions.values()], []

    def similarity(a: int, b: int) -> int:
        return _similarity(regions[a], regions[b], (channels, directions, texture_start), pixels, cues)

    while touching:
        a, b = max((tuple(sorted(pair)) for pair in touching), key=lambda pair: (similarity(*pair), -pair[0], -pair[1]))
        union = len(all_boxes)
        regions[union] = (regions[a][0] + regions[b][0], regions[a][1] + regions[b][1], _around(regions, a, b))
        all_boxes.append(regions[union][2])
        merges.append((a, b))
        renamed = (frozenset(union if region in (a, b) else region for region in pair) for pair in touching)
        touching = {pair for pair in renamed if len(pair) == 2}
    sizes = np.array([regions[i][1] for i in range(len(all_boxes))], np.int32)
    return np.array(merges, np.int32).reshape(-1, 2), np.array(all_boxes, np.int32), sizes


def _around(regions: dict[int, Region], a: int, b: int) -> Array:
    """Return the bounding box of two regions."""
    first, second = regions[a][2], regions[b][2]
    return np.concatenate([np.minimum(first[:2], second[:2]), np.maximum(first[2:], second[2:])])


def _similarity(first: Region, second: Region, layout: tuple[int, int, int], pixels: int, cues: int) -> int:
    """Return the sum of the cues (1 colour, 2 texture, 4 size, 8 fill), equations 1 to 5 of the paper, in 1/ONE."""
    (h, m, p), (g, n, q) = first, second
    channels, directions, start = layout
    total = 0
    if cues & 1:
        total += _common(h[:start], g[:start], m * channels, n * channels)
    if cues & 2:
        total += _common(h[start:], g[start:], m * channels * directions, n * channels * directions)
    if cues & 4:
        total += ONE * (pixels - m - n) // pixels
    if cues & 8:
        area = int((max(p[2], q[2]) - min(p[0], q[0])) * (max(p[3], q[3]) - min(p[1], q[1])))
        total += ONE * (pixels - area + m + n) // pixels
    return total


def _common(h: Array, g: Array, h_total: int, g_total: int) -> int:
    """Return the intersection of two histograms as shares of ONE, each rounded down in single precision."""
    shares = [
        (histogram.astype(np.float32) * (np.float32(ONE) / np.float32(total))).astype(int)
        for histogram, total in ((h, h_total), (g, g_total))
    ]
    return int(np.minimum(*shares).sum())


# ---- order


def cut(labels: Array, count: int, step: int, boxes: Array) -> Array:
    """Return the pixels of regions below `count` that each box, on a grid, separates from the rest, int64 (n,)."""
    found = []
    for x1, y1, x2, y2 in _on_grid(boxes, step, *labels.shape):
        inside = labels[y1:y2, x1:x2]
        parts = [(int((inside == region).sum()), int((labels == region).sum())) for region in range(count)]
        found.append(sum(min(part, whole - part) for part, whole in parts))
    return np.array(found, np.int64)


def edge_sums(weights: Array, step: int, boxes: Array) -> Array:
    """Return the sum of the edge weights (2, h, w) in each box, on a grid, int64 (n,)."""
    known = np.where(weights == NO_EDGE, 0, weights).astype(np.int64)
    return np.array(
        [known[:, y1:y2, x1:x2].sum() for x1, y1, x2, y2 in _on_grid(boxes, step, *known.shape[1:])], np.int64
    )


def _on_grid(boxes: Array, step: int, height: int, width: int) -> list[list[int]]:
    """Return boxes with their edges on the nearest multiples of `step`, half up, inside the picture."""
    ends = [width, height] * 2
    return [
        [min((edge + step // 2) // step * step, end) for edge, end in zip(box, ends, strict=True)]
        for box in boxes.tolist()
    ]


def cover(boxes: Array, weights: Array, limit: int) -> Array | None:
    """Return the order in which greedy cover takes the boxes; None if more than `limit` pairs have an IoU above .5."""
    values = [[_cover(a, b) for b in boxes.tolist()] for a in boxes.tolist()]
    if sum(value > 0 for row in values for value in row) - len(boxes) > 2 * limit:
        return None
    covered, left, order = [0] * len(boxes), list(range(len(boxes))), []
    while left:
        gains = [
            sum(int(w) * max(0, new - old) for w, new, old in zip(weights, values[i], covered, strict=True))
            for i in left
        ]
        best = left.pop(gains.index(max(gains)))
        covered = [max(pair) for pair in zip(covered, values[best], strict=True)]
        order.append(best)
    return np.array(order, np.int32)


def _gain(weights: list[int], values: list[int], covered: list[int]) -> int:
    """Return by how much a box raises the weighted cover."""
    return sum(w * max(0, new - old) for w, new, old in zip(weights, values, covered, strict=True))


def _cover(a: list[int], b: list[int]) -> int:
    """Return 255 (2 IoU - 1), rounded down, at least 0."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    shared = max(0, width) * max(0, height)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return max(0, 255 * (2 * shared - union) // union)


# ---- parts that differ from their surroundings


def components(values: Array, thresholds: Array, least: int) -> tuple[Array, Array, Array]:
    """Return boxes, pixels and sums of the 8-connected parts at or above each threshold, without those listed before.

    A part is new if it holds a pixel below the threshold before; parts with a side below `least` are left out.
    """
    found: list[tuple[list[int], int, int]] = []
    before = 32768
    for threshold in thresholds.tolist():
        left = {(int(y), int(x)) for y, x in np.argwhere(values >= threshold)}
        for start in sorted(left):
            if start in left and values[start] < before:
                part = _connected(left, start)
                left -= part
                rows, columns = [y for y, _ in part], [x for _, x in part]
                box = [min(columns), min(rows), max(columns) + 1, max(rows) + 1]
                if min(box[2] - box[0], box[3] - box[1]) >= least:
                    found.append((box, len(part), sum(int(values[pixel]) for pixel in part)))
        before = threshold
    boxes, pixels, sums = zip(*found, strict=True) if found else ([], [], [])
    return np.array(boxes, np.int32).reshape(-1, 4), np.array(pixels, np.int32), np.array(sums, np.int64)


def _connected(pixels: set[tuple[int, int]], start: tuple[int, int]) -> set[tuple[int, int]]:
    """Return the pixels that a chain of neighbours, also diagonal ones, links with one of them."""
    part, edge = {start}, [start]
    while edge:
        y, x = edge.pop()
        around = {(y + j, x + i) for j in (-1, 0, 1) for i in (-1, 0, 1)} & pixels - part
        part |= around
        edge += around
    return part
