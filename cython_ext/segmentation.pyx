"""Graph segmentation of a picture (Felzenszwalb and Huttenlocher, IJCV 2004) for several k at the price of one.

Everything is integer: values in 1/16 of a grey level, ties in raster order, so that a segmentation is one fixed thing.

The lightest edges join whatever k is: as long as the least k accepts every edge that a component meets, so do the
others. That common part is walked once. A component is closed as soon as one of its edges is refused or leads to a
closed component; from then on its edges are left, in order, to each k. What is left is a third of the edges, between
an eighth as many nodes as there are pixels.
"""

import numpy as np

from libc.math cimport sqrtf
from libc.stdint cimport int16_t, int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libcpp.vector cimport vector

cdef extern from *:
    void __builtin_prefetch(const void* place) noexcept nogil

cdef enum:
    LOOKAHEAD = 16         # edges; their nodes lie anywhere in memory
    MAX_WEIGHT = 7067  # 16 * 255 * sqrt(3), rounded up
    NO_EDGE = 65535    # for an edge that would leave the picture
    NUMBERED = -2147483647  # no threshold
    PLACES = 32768  # of a table of pairs, which fits into the second cache


cdef struct Node:
    int32_t up         # the parent, or minus the size at a root
    int32_t threshold  # of a root: the heaviest edge it accepts; of a closed one: -1 - its heaviest inner edge


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
    """Return the weights to the right and to the lower neighbour, uint16 of shape (2, h, w); 65535 where none is."""
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
            out[0, y, w - 1] = NO_EDGE
            if y + 1 < h:
                _distances(row, row + w, &out[1, y, 0], channels, h * w, w, squares.data())
    weights[1, h - 1] = NO_EDGE
    return weights


cdef void _sort(const uint16_t* weights, uint32_t* order, Py_ssize_t n, int32_t* start) noexcept nogil:
    """Stable counting sort of the edges 2 * pixel + (0: to the right, 1: down)."""
    cdef Py_ssize_t p
    cdef int32_t total = 0, count, level
    for p in range(2 * n):
        start[weights[p]] += 1
    for level in range(MAX_WEIGHT + 1):
        count = start[level]
        start[level] = total
        total += count
    for p in range(n):
        if weights[p] != NO_EDGE:
            order[start[weights[p]]] = <uint32_t> (2 * p)
            start[weights[p]] += 1
        if weights[n + p] != NO_EDGE:
            order[start[weights[n + p]]] = <uint32_t> (2 * p + 1)
            start[weights[n + p]] += 1


# ---- union-find

cdef inline int32_t _find(Node* nodes, int32_t a) noexcept nogil:
    """Return the root of a node; two steps without a branch, which would be mispredicted, are enough but for a few."""
    cdef int32_t root = a, up = nodes[a].up
    root = up if up >= 0 else root
    up = nodes[root].up
    root = up if up >= 0 else root
    up = nodes[root].up
    while up >= 0:
        root = up
        up = nodes[root].up
    nodes[a].up = up if root == a else root
    return root


cdef inline int32_t _slack(int32_t k, int32_t size) noexcept nogil:
    """Return k // size: for whole numbers, weight <= inner + k / size (equation 4) is weight <= inner + k // size."""
    return <int32_t> (<float> k / <float> size)


cdef inline void _unite(Node* nodes, int32_t a, int32_t b, int32_t weight, int32_t k) noexcept nogil:
    """Hang the smaller root below the larger."""
    cdef int32_t child = b, root = a
    if nodes[b].up < nodes[a].up:
        child, root = a, b
    nodes[root].up += nodes[child].up
    nodes[child].up = root
    nodes[root].threshold = weight + _slack(k, -nodes[root].up)


cdef inline void _close(Node* node, int32_t k) noexcept nogil:
    if node.threshold >= 0:
        node.threshold = -1 - (node.threshold - _slack(k, -node.up))


cdef void _common(
    Node* nodes, const uint32_t* order, const int32_t* end, Py_ssize_t w, int32_t k, vector[Edge]& rest
) noexcept nogil:
    """Join what every k' >= k joins and list the other edges, in order, between roots; edges of weight i end at end[i].
    """
    cdef Py_ssize_t i = 0
    cdef Edge edge
    for edge.weight in range(MAX_WEIGHT + 1):
        while i < end[edge.weight]:
            __builtin_prefetch(nodes + (order[i + LOOKAHEAD] >> 1))
            __builtin_prefetch(nodes + (order[i + LOOKAHEAD] >> 1) + w)
            edge.a = order[i] >> 1
            edge.b = _find(nodes, edge.a + (<int32_t> w if order[i] & 1 else 1))
            edge.a = _find(nodes, edge.a)
            i += 1
            if edge.a == edge.b:
                continue
            if edge.weight <= min(nodes[edge.a].threshold, nodes[edge.b].threshold):
                _unite(nodes, edge.a, edge.b, edge.weight, k)
            else:
                _close(nodes + edge.a, k)
                _close(nodes + edge.b, k)
                rest.push_back(edge)


cdef void _condense(
    Node* nodes, int32_t* atoms, Py_ssize_t n, int32_t k, vector[Edge]& edges, vector[Node]& condensed
) noexcept nogil:
    """Number the components in raster order as `atoms`; `condensed` holds minus their size and their inner edge."""
    cdef Py_ssize_t p
    cdef size_t i
    cdef int32_t root
    cdef Node atom
    for p in range(n):
        root = _find(nodes, <int32_t> p)
        if nodes[root].threshold != NUMBERED:
            _close(nodes + root, k)
            atom.up, atom.threshold = nodes[root].up, -1 - nodes[root].threshold
            nodes[root].up, nodes[root].threshold = -1 - <int32_t> condensed.size(), NUMBERED
            condensed.push_back(atom)
        atoms[p] = -1 - nodes[root].up
    for i in range(edges.size()):
        edges[i].a, edges[i].b = -1 - nodes[edges[i].a].up, -1 - nodes[edges[i].b].up


cdef void _drop_repeated(vector[Edge]& edges) noexcept nogil:
    """Remove most edges whose two atoms an earlier edge joins.

    Neither walk needs them: a component that refuses an edge grows no more, so heavier ones are refused as well, and
    two components that are large enough not to be absorbed along one edge are so for the others.
    """
    cdef size_t i, place, count = 0
    cdef int32_t a, b
    cdef uint64_t pair
    cdef vector[uint64_t] seen  # the last pair at each place; 0 is none, for no edge joins an atom with itself
    seen.assign(PLACES, 0)
    for i in range(edges.size()):
        a, b = min(edges[i].a, edges[i].b), max(edges[i].a, edges[i].b)
        pair = (<uint64_t> a << 32) | <uint64_t> b
        place = (<size_t> a * 40503 + <size_t> b) & (PLACES - 1)
        if seen[place] != pair:
            seen[place] = pair
            edges[count] = edges[i]
            count += 1
    edges.resize(count)


cdef Py_ssize_t _grow(Node* nodes, const Edge* edges, Py_ssize_t n, int32_t k, Edge* refused) noexcept nogil:
    """Walk the edges that the common part has left, for one k; list those that are refused, and return their number."""
    cdef Py_ssize_t i, count = 0
    cdef int32_t a, b, weight
    for i in range(n):
        a = _find(nodes, edges[i].a)
        b = _find(nodes, edges[i].b)
        weight = edges[i].weight
        if a == b:
            continue
        if weight <= min(nodes[a].threshold, nodes[b].threshold):
            _unite(nodes, a, b, weight, k)
        else:
            refused[count].a, refused[count].b = a, b
            count += 1
    return count


cdef void _absorb(Node* nodes, const Edge* edges, Py_ssize_t n, int32_t min_size) noexcept nogil:
    """Join each component below `min_size` pixels to the neighbour behind its lightest edge."""
    cdef Py_ssize_t i
    cdef int32_t a, b
    for i in range(n):
        a = _find(nodes, edges[i].a)
        b = _find(nodes, edges[i].b)
        if a != b and (nodes[a].up > -min_size or nodes[b].up > -min_size):
            _unite(nodes, a, b, 0, 0)


cdef int32_t _number(Node* nodes, int32_t* labels, Py_ssize_t n) noexcept nogil:
    """Number the components in the order of their first atoms; return how many there are."""
    cdef Py_ssize_t i
    cdef int32_t root, count = 0
    for i in range(n):
        nodes[i].threshold = -1  # now the number of a root
    for i in range(n):
        root = _find(nodes, <int32_t> i)
        if nodes[root].threshold < 0:
            nodes[root].threshold = count
            count += 1
        labels[i] = nodes[root].threshold
    return count


cdef void _segment_one(
    const vector[Node]& atoms, const vector[Edge]& edges, int32_t k, int32_t min_size, vector[Node]& nodes,
    vector[Edge]& refused, int32_t* labels
) noexcept nogil:
    cdef size_t i
    cdef Py_ssize_t n_refused
    nodes = atoms
    for i in range(nodes.size()):
        nodes[i].threshold += _slack(k, -nodes[i].up)
    refused.resize(edges.size())
    n_refused = _grow(nodes.data(), edges.data(), edges.size(), k, refused.data())
    _absorb(nodes.data(), refused.data(), n_refused, min_size)
    _number(nodes.data(), labels, nodes.size())


def segment(const uint16_t[:, :, ::1] weights, const int32_t[::1] ks, const int32_t[::1] min_sizes):
    """Return the atoms (h, w) and the label of each atom for each k (n_k, n_atoms), int32, all in raster order.

    No segmentation splits an atom. `ks` are in 1/16 grey levels; the picture must have two pixels or more.
    """
    cdef Py_ssize_t i, n = weights.shape[1] * weights.shape[2], w = weights.shape[2], n_edges = 2 * n - n // w - w
    cdef int32_t least = min(ks)
    atoms = np.empty((weights.shape[1], w), np.int32)
    cdef int32_t[:, ::1] out_atoms = atoms
    cdef int32_t[:, ::1] out_labels
    cdef vector[int32_t] start
    cdef vector[Node] nodes, condensed
    cdef vector[uint32_t] order
    cdef vector[Edge] edges, refused
    cdef Node pixel
    pixel.up, pixel.threshold = -1, least
    with nogil:
        start.assign(NO_EDGE + 1, 0)
        nodes.assign(n, pixel)
        order.resize(n_edges + LOOKAHEAD)
        _sort(&weights[0, 0, 0], order.data(), n, start.data())
        _common(nodes.data(), order.data(), start.data(), w, least, edges)
        _condense(nodes.data(), &out_atoms[0, 0], n, least, edges, condensed)
        _drop_repeated(edges)
    labels = np.empty((ks.shape[0], condensed.size()), np.int32)
    out_labels = labels
    with nogil:
        for i in range(ks.shape[0]):
            _segment_one(condensed, edges, ks[i], min_sizes[i], nodes, refused, &out_labels[i, 0])
    return atoms, labels
