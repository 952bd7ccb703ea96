"""Hierarchical grouping of regions (Uijlings et al., IJCV 2013, section 3.1) with a heap of similarities.

A similarity is a whole number of 1/32767, so that comparisons are exact and the order is deterministic.
"""

import numpy as np

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libcpp.algorithm cimport make_heap, pop_heap, push_heap
from libcpp.vector cimport vector

cdef enum:
    ONE = 32767
    COLOUR = 1
    TEXTURE = 2
    SIZE = 4
    FILL = 8
    ID_BITS = 23  # numbers of regions, leaves and unions together, stay below 2 ** 23
    ID_MASK = 8388607


cdef struct State:
    int32_t* counts       # (leaves, dims): a union uses the row of its first member
    int16_t* shares       # (leaves, dims): counts as shares of ONE
    int32_t* row          # (2 leaves - 1,) region -> row
    int64_t* sizes
    int32_t* boxes
    uint8_t* alive
    Py_ssize_t dims
    Py_ssize_t texture_start
    int32_t channels
    int32_t directions
    int64_t pixels
    int32_t cues


cdef void _share(const int32_t* counts, int16_t* shares, Py_ssize_t n, float scale) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(n):
        shares[j] = <int16_t> <int32_t> (<float> counts[j] * scale)


cdef void _refresh(State* s, int32_t region) noexcept nogil:
    """Compute the shares of a region from its counts: they sum to at most ONE for colour, and for texture."""
    cdef Py_ssize_t at = s.row[region] * s.dims
    cdef float one = ONE
    if s.cues & COLOUR:
        _share(s.counts + at, s.shares + at, s.texture_start, one / <float> (s.channels * s.sizes[region]))
    if s.cues & TEXTURE:
        at += s.texture_start
        _share(
            s.counts + at, s.shares + at, s.dims - s.texture_start,
            one / <float> (s.channels * s.directions * s.sizes[region])
        )


cdef inline int32_t _common(const int16_t* a, const int16_t* b, Py_ssize_t n) noexcept nogil:
    """Histogram intersection; fits in 16 bits because the shares sum to at most ONE."""
    cdef int16_t total = 0
    cdef Py_ssize_t j
    for j in range(n):
        total += a[j] if a[j] < b[j] else b[j]
    return total


cdef int64_t _similarity(State* s, int32_t a, int32_t b) noexcept nogil:
    """Sum of the chosen cues, equations 1 to 5 of the paper, each in 0..ONE."""
    cdef const int16_t* first = s.shares + s.row[a] * s.dims
    cdef const int16_t* second = s.shares + s.row[b] * s.dims
    cdef const int32_t* p = s.boxes + 4 * a
    cdef const int32_t* q = s.boxes + 4 * b
    cdef int64_t total = 0, both = s.sizes[a] + s.sizes[b], around
    if s.cues & COLOUR:
        total += _common(first, second, s.texture_start)
    if s.cues & TEXTURE:
        total += _common(first + s.texture_start, second + s.texture_start, s.dims - s.texture_start)
    if s.cues & SIZE:
        total += ONE * (s.pixels - both) // s.pixels
    if s.cues & FILL:
        around = <int64_t> (max(p[2], q[2]) - min(p[0], q[0])) * (max(p[3], q[3]) - min(p[1], q[1]))
        total += ONE * (s.pixels - around + both) // s.pixels
    return total


cdef inline uint64_t _entry(State* s, int32_t a, int32_t b) noexcept nogil:
    """Return the heap key of a pair: similarity, then lower numbers first (a < b)."""
    return (<uint64_t> _similarity(s, a, b) << (2 * ID_BITS)) | (
        <uint64_t> (ID_MASK - a) << ID_BITS) | <uint64_t> (ID_MASK - b)


cdef void _unite(State* s, int32_t a, int32_t b, int32_t union_) noexcept nogil:
    """Make region `union_` of a and b."""
    cdef Py_ssize_t j
    cdef int32_t* into = s.counts + s.row[a] * s.dims
    cdef const int32_t* from_ = s.counts + s.row[b] * s.dims
    cdef Py_ssize_t first = 0 if s.cues & COLOUR else s.texture_start
    cdef Py_ssize_t last = s.dims if s.cues & TEXTURE else s.texture_start
    for j in range(first, last):
        into[j] += from_[j]
    for j in range(2):
        s.boxes[4 * union_ + j] = min(s.boxes[4 * a + j], s.boxes[4 * b + j])
        s.boxes[4 * union_ + j + 2] = max(s.boxes[4 * a + j + 2], s.boxes[4 * b + j + 2])
    s.sizes[union_] = s.sizes[a] + s.sizes[b]
    s.row[union_] = s.row[a]
    s.alive[a] = s.alive[b] = 0
    s.alive[union_] = 1
    _refresh(s, union_)


cdef void _inherit(
    State* s, vector[vector[int32_t]]& near, int32_t part, int32_t union_, vector[int32_t]& met, vector[uint64_t]& heap
) noexcept nogil:
    """Make the living neighbours of a merged region neighbours of the union, and push their similarities."""
    cdef int32_t other
    cdef size_t i
    for i in range(near[part].size()):
        other = near[part][i]
        if s.alive[other] and met[other] != union_:
            met[other] = union_
            near[other].push_back(union_)
            near[union_].push_back(other)
            heap.push_back(_entry(s, other, union_))
            push_heap(heap.begin(), heap.end())
    near[part].clear()


cdef void _group(State* s, const int32_t* pairs, Py_ssize_t n_pairs, int32_t n, int32_t* merges) noexcept nogil:
    cdef vector[vector[int32_t]] near
    cdef vector[int32_t] met
    cdef vector[uint64_t] heap
    cdef uint64_t best
    cdef Py_ssize_t i
    cdef int32_t a, b, union_ = n
    near.resize(2 * n)
    met.assign(2 * n, -1)
    for a in range(n):
        _refresh(s, a)
    for i in range(n_pairs):
        a, b = pairs[2 * i], pairs[2 * i + 1]
        near[a].push_back(b)
        near[b].push_back(a)
        heap.push_back(_entry(s, a, b))
    make_heap(heap.begin(), heap.end())
    while not heap.empty():
        best = heap.front()
        pop_heap(heap.begin(), heap.end())
        heap.pop_back()
        a = ID_MASK - <int32_t> ((best >> ID_BITS) & ID_MASK)
        b = ID_MASK - <int32_t> (best & ID_MASK)
        if not (s.alive[a] and s.alive[b]):
            continue
        merges[2 * (union_ - n)] = a
        merges[2 * (union_ - n) + 1] = b
        _unite(s, a, b, union_)
        _inherit(s, near, a, union_, met, heap)
        _inherit(s, near, b, union_, met, heap)
        union_ += 1


def group(
    const int32_t[:, ::1] counts, const int32_t[::1] sizes, const int32_t[:, ::1] boxes, const int32_t[:, ::1] pairs,
    int channels, int directions, Py_ssize_t texture_start, Py_ssize_t pixels, int cues
):
    """Return the merges (n - 1, 2) in order, and the boxes (2n - 1, 4) and sizes of the leaves and each union, int32.

    `pairs` are the regions that touch, each once, lower number first, and connect them all; `cues` adds 1 for
    colour, 2 for texture, 4 for size, 8 for fill.
    """
    cdef Py_ssize_t n = counts.shape[0], i
    merged, around = np.empty((n - 1, 2), np.int32), np.empty((2 * n - 1, 4), np.int32)
    pixel_counts = np.empty(2 * n - 1, np.int32)
    around[:n], pixel_counts[:n] = boxes, sizes
    cdef int32_t[:, ::1] merges = merged, out_boxes = around
    cdef int32_t[::1] out_sizes = pixel_counts
    cdef vector[int32_t] counts_copy, row
    cdef vector[int16_t] shares
    cdef vector[int64_t] all_sizes
    cdef vector[uint8_t] alive
    cdef State s
    if n < 2:
        return merged, around, pixel_counts
    with nogil:
        if cues & (COLOUR | TEXTURE):
            counts_copy.assign(&counts[0, 0], &counts[0, 0] + n * counts.shape[1])
            shares.resize(n * counts.shape[1])
            s.dims, s.texture_start = counts.shape[1], texture_start
        else:  # size and fill need no histograms
            s.dims = s.texture_start = 0
        row.resize(2 * n)
        all_sizes.resize(2 * n)
        alive.assign(2 * n, 0)
        for i in range(n):
            row[i], all_sizes[i], alive[i] = <int32_t> i, sizes[i], 1
        s.counts, s.shares, s.row, s.sizes = counts_copy.data(), shares.data(), row.data(), all_sizes.data()
        s.boxes, s.alive = &out_boxes[0, 0], alive.data()
        s.channels, s.directions, s.pixels, s.cues = channels, directions, pixels, cues
        _group(&s, &pairs[0, 0], pairs.shape[0], <int32_t> n, &merges[0, 0])
        for i in range(n, 2 * n - 1):
            out_sizes[i] = <int32_t> all_sizes[i]
    return merged, around, pixel_counts
