"""Graph segmentation of a picture (Felzenszwalb and Huttenlocher, IJCV 2004) for several k over one sorted edge list.

Everything is integer: values in 1/16 of a grey level, ties in raster order, so that a segmentation is one fixed thing.
"""

import numpy as np

from libc.math cimport sqrtf
from libc.stdint cimport int16_t, int32_t, uint8_t, uint16_t, uint32_t
from libcpp.vector cimport vector

cdef enum:
    MAX_WEIGHT = 7067  # 16 * 255 * sqrt(3), rounded up


cdef struct Node:
    int32_t up         # the parent, or minus the size at a root
    int32_t threshold  # of a root: the heaviest edge it accepts


cdef struct Edge:
    int32_t a
    int32_t b
    int32_t weight


# ---- smoothing

cdef inline int32_t _tap(const int32_t* line, Py_ssize_t i) noexcept nogil:
    return 6 * (line[i - 2] + line[i + 2]) + 58 * (line[i - 1] + line[i + 1]) + 128 * line[i]


cdef void _smooth_plane(
    const uint8_t* plane, int16_t* out, Py_ssize_t h, Py_ssize_t w, int32_t* line
) noexcept nogil:
    """Gaussian of 0.8 pixels (taps 6 58 128 58 6 of 256) along x and y; borders repeat; 1/16 grey levels."""
    cdef Py_ssize_t x, y
    cdef const uint8_t *above2
    cdef const uint8_t *above
    cdef const uint8_t *here
    cdef const uint8_t *below
    cdef const uint8_t *below2
    for y in range(h):
        here = plane + y * w
        above, below = plane + max(y - 1, 0) * w, plane + min(y + 1, h - 1) * w
        above2, below2 = plane + max(y - 2, 0) * w, plane + min(y + 2, h - 1) * w
        for x in range(w):
            line[x + 2] = 6 * (above2[x] + below2[x]) + 58 * (above[x] + below[x]) + 128 * here[x]
        line[0] = line[1] = line[2]
        line[w + 2] = line[w + 3] = line[w + 1]
        for x in range(w):
            out[y * w + x] = <int16_t> ((_tap(line, x + 2) + 2048) >> 12)


def smooth(const uint8_t[:, :, ::1] planes):
    """Return the smoothed planes, int16 of shape (c, h, w), in 1/16 of a grey level."""
    cdef Py_ssize_t c, channels = planes.shape[0], h = planes.shape[1], w = planes.shape[2]
    smoothed = np.empty((channels, h, w), np.int16)
    cdef int16_t[:, :, ::1] out = smoothed
    cdef vector[int32_t] line
    with nogil:
        line.resize(w + 4)
        for c in range(channels):
            _smooth_plane(&planes[c, 0, 0], &out[c, 0, 0], h, w, line.data())
    return smoothed


# ---- edges

cdef void _distances(
    const int16_t* here, const int16_t* there, uint16_t* out, Py_ssize_t channels, Py_ssize_t stride, Py_ssize_t n,
    float* squares
) noexcept nogil:
    """Euclidean distance between neighbours, whole 1/16 grey levels (rounded down)."""
    cdef Py_ssize_t c, x
    cdef int32_t gap
    for x in range(n):
        gap = here[x] - there[x]
        squares[x] = <float> (gap * gap)
    for c in range(1, channels):
        for x in range(n):
            gap = here[c * stride + x] - there[c * stride + x]
            squares[x] += <float> (gap * gap)
    for x in range(n):
        out[x] = <uint16_t> <int32_t> sqrtf(squares[x])


def edge_weights(const int16_t[:, :, ::1] smoothed):
    """Return the weights to the right and to the lower neighbour, uint16 of shape (2, h, w); 0 where there is none."""
    cdef Py_ssize_t y, channels = smoothed.shape[0], h = smoothed.shape[1], w = smoothed.shape[2]
    weights = np.empty((2, h, w), np.uint16)
    cdef uint16_t[:, :, ::1] out = weights
    cdef vector[float] squares
    cdef const int16_t* row
    with nogil:
        squares.resize(w)
        for y in range(h):
            row = &smoothed[0, y, 0]
            _distances(row, row + 1, &out[0, y, 0], channels, h * w, w - 1, squares.data())
            out[0, y, w - 1] = 0
            if y + 1 < h:
                _distances(row, row + w, &out[1, y, 0], channels, h * w, w, squares.data())
    weights[1, h - 1] = 0
    return weights


cdef void _sort(
    const uint16_t* weights, uint32_t* order, uint16_t* ordered, Py_ssize_t h, Py_ssize_t w, int32_t* start
) noexcept nogil:
    """Stable counting sort; the code of an edge is 2 * pixel + (0: to the right, 1: down)."""
    cdef Py_ssize_t x, y, p, n = h * w
    cdef int32_t total = 0, count, level
    cdef uint16_t weight
    for y in range(h):
        for x in range(w):
            p = y * w + x
            if x + 1 < w:
                start[weights[p]] += 1
            if y + 1 < h:
                start[weights[n + p]] += 1
    for level in range(MAX_WEIGHT + 1):
        count = start[level]
        start[level] = total
        total += count
    for y in range(h):
        for x in range(w):
            p = y * w + x
            if x + 1 < w:
                weight = weights[p]
                order[start[weight]] = <uint32_t> (2 * p)
                ordered[start[weight]] = weight
                start[weight] += 1
            if y + 1 < h:
                weight = weights[n + p]
                order[start[weight]] = <uint32_t> (2 * p + 1)
                ordered[start[weight]] = weight
                start[weight] += 1


def sort_edges(const uint16_t[:, :, ::1] weights):
    """Return the codes of the edges in ascending order of weight, uint32, and their weights, uint16."""
    cdef Py_ssize_t h = weights.shape[1], w = weights.shape[2], n = 2 * h * w - h - w
    order, ordered = np.empty(n, np.uint32), np.empty(n, np.uint16)
    cdef uint32_t[::1] codes = order
    cdef uint16_t[::1] sorted_weights = ordered
    cdef vector[int32_t] start
    if n == 0:
        return order, ordered
    with nogil:
        start.assign(MAX_WEIGHT + 1, 0)
        _sort(&weights[0, 0, 0], &codes[0], &sorted_weights[0], h, w, start.data())
    return order, ordered


# ---- union-find

cdef inline int32_t _find(Node* nodes, int32_t a) noexcept nogil:
    cdef int32_t up = nodes[a].up, higher
    while up >= 0:
        higher = nodes[up].up
        if higher < 0:
            return up
        nodes[a].up = higher
        a = higher
        up = nodes[a].up
    return a


cdef inline void _unite(Node* nodes, int32_t a, int32_t b, int32_t weight, int32_t k) noexcept nogil:
    """Hang the smaller root below the larger; threshold = weight + k / size (equation 4 of the paper)."""
    cdef int32_t child = b, root = a
    if nodes[b].up < nodes[a].up:
        child, root = a, b
    nodes[root].up += nodes[child].up
    nodes[child].up = root
    nodes[root].threshold = weight + <int32_t> (<float> k / <float> (-nodes[root].up))


cdef inline void _try(Node* nodes, int32_t a, int32_t b, int32_t weight, int32_t k) noexcept nogil:
    a = _find(nodes, a)
    b = _find(nodes, b)
    if a != b and weight <= nodes[a].threshold and weight <= nodes[b].threshold:
        _unite(nodes, a, b, weight, k)


cdef Py_ssize_t _live(Node* nodes, Edge* edges, Py_ssize_t first, Py_ssize_t n) noexcept nogil:
    """Keep the edges between two components that may still grow, moved up to their roots.

    A component whose threshold lies below every edge to come has its final shape, so its edges can go.
    """
    cdef Py_ssize_t i, kept = 0
    cdef int32_t a, b, weight, least = edges[first].weight
    for i in range(first, n):
        a = _find(nodes, edges[i].a)
        b = _find(nodes, edges[i].b)
        weight = edges[i].weight
        edges[kept].a = a
        edges[kept].b = b
        edges[kept].weight = weight
        kept += (a != b) & (nodes[a].threshold >= least) & (nodes[b].threshold >= least)
    return kept


cdef void _grow(
    Node* nodes, const uint32_t* order, const uint16_t* weights, Py_ssize_t n, int32_t w, int32_t k, Edge* edges
) noexcept nogil:
    """Kruskal's pass; the second part of the edges is thinned before it is walked, and again at each half."""
    cdef Py_ssize_t i, first = n // 4, left
    cdef int32_t a
    for i in range(first):
        a = order[i] >> 1
        _try(nodes, a, a + (w if order[i] & 1 else 1), weights[i], k)
    for i in range(first, n):
        a = order[i] >> 1
        edges[i - first].a = a
        edges[i - first].b = a + (w if order[i] & 1 else 1)
        edges[i - first].weight = weights[i]
    left, first = n - first, 0
    while left > first:
        left = _live(nodes, edges, first, left)
        first = left // 2 if left > 256 else left
        for i in range(first):
            _try(nodes, edges[i].a, edges[i].b, edges[i].weight, k)


cdef void _absorb(
    Node* nodes, const uint32_t* order, Py_ssize_t n, int32_t w, int32_t min_size
) noexcept nogil:
    """Join each component below `min_size` pixels to the neighbour behind its lightest edge."""
    cdef Py_ssize_t i
    cdef int32_t a, b
    for i in range(n):
        a = order[i] >> 1
        b = _find(nodes, a + (w if order[i] & 1 else 1))
        a = _find(nodes, a)
        if a != b and (nodes[a].up > -min_size or nodes[b].up > -min_size):
            _unite(nodes, a, b, 0, 0)


cdef int32_t _number(Node* nodes, int32_t* labels, Py_ssize_t n) noexcept nogil:
    """Label the components 0, 1, ... in the raster order of their first pixels."""
    cdef Py_ssize_t p
    cdef int32_t root, count = 0
    for p in range(n):
        nodes[p].threshold = -1  # now the number of a root
    for p in range(n):
        root = _find(nodes, <int32_t> p)
        if nodes[root].threshold < 0:
            nodes[root].threshold = count
            count += 1
        labels[p] = nodes[root].threshold
    return count


def segment(
    const uint32_t[::1] order, const uint16_t[::1] weights, Py_ssize_t height, Py_ssize_t width, int k, int min_size
):
    """Return the labels, int32 of shape (h, w), numbered in raster order, and their number; `k` in 1/16 grey levels."""
    cdef Py_ssize_t i, n = height * width, n_edges = order.shape[0]
    cdef int32_t count
    labels = np.empty((height, width), np.int32)
    cdef int32_t[:, ::1] out = labels
    cdef vector[Node] nodes
    cdef vector[Edge] edges
    with nogil:
        nodes.resize(n)
        for i in range(n):
            nodes[i].up = -1
            nodes[i].threshold = k
        if n_edges > 0:
            edges.resize(n_edges)
            _grow(nodes.data(), &order[0], &weights[0], n_edges, <int32_t> width, k, edges.data())
            _absorb(nodes.data(), &order[0], n_edges, <int32_t> width, min_size)
        count = _number(nodes.data(), &out[0, 0], n)
    return labels, count
