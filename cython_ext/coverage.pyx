"""The order of windows: what of a picture a box cuts, and greedy cover of weighted boxes (facility location).

All sums are of whole numbers, so that the order is one fixed thing.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t
from libcpp.algorithm cimport make_heap, pop_heap, push_heap, upper_bound
from libcpp.vector cimport vector

cdef enum:
    NO_EDGE = 65535
    FULL = 255  # the cover of a box by itself


cdef struct Bid:
    int64_t gain
    int32_t box
    int32_t round


cdef bint _lower(const Bid& a, const Bid& b) noexcept nogil:
    """Order bids for the heap: by gain, the lower number on top among equals."""
    return a.gain < b.gain or (a.gain == b.gain and a.box > b.box)


# ---- what a box holds, on a grid of the picture

cdef inline Py_ssize_t _line(Py_ssize_t edge, Py_ssize_t step, Py_ssize_t n) noexcept nogil:
    """Return the line of the grid next to an edge, at most the last one, n."""
    return min((edge + step // 2) // step, n)


cdef void _integrate(int32_t* sums, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t lanes) noexcept nogil:
    """Turn sums of grid cells, (rows + 1, columns + 1, lanes) with zeros first, into integral images."""
    cdef Py_ssize_t y, x, width = (columns + 1) * lanes
    cdef int32_t* row
    for y in range(1, rows + 1):
        row = sums + y * width
        for x in range(lanes, width):
            row[x] += row[x - lanes]
        for x in range(width):
            row[x] += row[x - width]


cdef int64_t _cut(
    const int32_t* a, const int32_t* b, const int32_t* c, const int32_t* d, const int32_t* all_, Py_ssize_t lanes
) noexcept nogil:
    """Sum over regions the smaller of its parts inside and outside; d - b - c + a is inside."""
    cdef Py_ssize_t i
    cdef int32_t inside, outside, total = 0  # at most the pixels of the picture
    for i in range(lanes):
        inside = d[i] - b[i] - c[i] + a[i]
        outside = all_[i] - inside
        total += inside if inside < outside else outside
    return total


def cut(const int32_t[:, ::1] labels, int count, int step, const int32_t[:, ::1] boxes):
    """Return how many pixels of regions each box separates from the rest, int64 (n,).

    `labels` (h, w) below `count`; labels of `count` and above are left out. Edges of boxes are moved to a grid of
    `step` pixels.
    """
    cdef Py_ssize_t h = labels.shape[0], w = labels.shape[1], i, x, y, width, left, top, right, bottom
    cdef Py_ssize_t rows = (h + step - 1) // step, columns = (w + step - 1) // step
    found = np.empty(boxes.shape[0], np.int64)
    cdef int64_t[::1] out = found
    cdef vector[int32_t] sums
    cdef int32_t* cells
    with nogil:
        sums.assign((rows + 1) * (columns + 1) * count, 0)
        width, cells = (columns + 1) * count, sums.data()
        for y in range(h):
            for x in range(w):
                if labels[y, x] < count:
                    cells[(y // step + 1) * width + (x // step + 1) * count + labels[y, x]] += 1
        _integrate(cells, rows, columns, count)
        for i in range(boxes.shape[0]):
            left, top = _line(boxes[i, 0], step, columns) * count, _line(boxes[i, 1], step, rows) * width
            right, bottom = _line(boxes[i, 2], step, columns) * count, _line(boxes[i, 3], step, rows) * width
            out[i] = _cut(
                cells + top + left, cells + top + right, cells + bottom + left, cells + bottom + right,
                cells + rows * width + columns * count, count
            )
    return found


def edge_sums(const uint16_t[:, :, ::1] weights, int step, const int32_t[:, ::1] boxes):
    """Return the sum of the edge weights (2, h, w) in each box, int64 (n,); edges of boxes as in `cut`."""
    cdef Py_ssize_t h = weights.shape[1], w = weights.shape[2], i, j, x, y, left, top, right, bottom
    cdef Py_ssize_t rows = (h + step - 1) // step, columns = (w + step - 1) // step, width = columns + 1
    found = np.empty(boxes.shape[0], np.int64)
    cdef int64_t[::1] out = found
    cdef vector[int64_t] sums
    with nogil:
        sums.assign((rows + 1) * width, 0)
        for j in range(2):
            for y in range(h):
                for x in range(w):
                    if weights[j, y, x] != NO_EDGE:
                        sums[(y // step + 1) * width + x // step + 1] += weights[j, y, x]
        for y in range(1, rows + 1):
            for x in range(1, width):
                sums[y * width + x] += (
                    sums[y * width + x - 1] + sums[(y - 1) * width + x] - sums[(y - 1) * width + x - 1]
                )
        for i in range(boxes.shape[0]):
            left, top = _line(boxes[i, 0], step, columns), _line(boxes[i, 1], step, rows) * width
            right, bottom = _line(boxes[i, 2], step, columns), _line(boxes[i, 3], step, rows) * width
            out[i] = sums[bottom + right] - sums[bottom + left] - sums[top + right] + sums[top + left]
    return found


# ---- greedy cover

cdef struct Sides:
    vector[float] left
    vector[float] top
    vector[float] right
    vector[float] bottom
    vector[float] area
    vector[float] shared


cdef struct Pairs:
    vector[int32_t] first
    vector[int32_t] second
    vector[uint8_t] value


cdef void _read(const int32_t[:, ::1] boxes, Sides& s) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(boxes.shape[0]):
        s.left.push_back(<float> boxes[i, 0])
        s.top.push_back(<float> boxes[i, 1])
        s.right.push_back(<float> boxes[i, 2])
        s.bottom.push_back(<float> boxes[i, 3])
        s.area.push_back(<float> (boxes[i, 2] - boxes[i, 0]) * <float> (boxes[i, 3] - boxes[i, 1]))
    s.shared.resize(boxes.shape[0])


cdef void _shared(
    const float* left, const float* top, const float* right, const float* bottom, Py_ssize_t i, Py_ssize_t end,
    float* out
) noexcept nogil:
    """Write the areas that box i shares with the boxes after it, up to `end`."""
    cdef Py_ssize_t j
    cdef float x1 = left[i], y1 = top[i], x2 = right[i], y2 = bottom[i], width, height
    for j in range(i + 1, end):
        width = (x2 if x2 < right[j] else right[j]) - (x1 if x1 > left[j] else left[j])
        height = (y2 if y2 < bottom[j] else bottom[j]) - (y1 if y1 > top[j] else top[j])
        width = width if width > 0 else 0
        height = height if height > 0 else 0
        out[j] = width * height


cdef inline int32_t _value(const int32_t* a, const int32_t* b) noexcept nogil:
    """Return 255 (2 IoU - 1), rounded down, or 0 where the IoU is below a half."""
    cdef int64_t width = min(a[2], b[2]) - max(a[0], b[0]), height = min(a[3], b[3]) - max(a[1], b[1])
    cdef int64_t shared = width * height
    cdef int64_t together = (
        <int64_t> (a[2] - a[0]) * (a[3] - a[1]) + <int64_t> (b[2] - b[0]) * (b[3] - b[1]) - shared
    )
    return <int32_t> (FULL * (2 * shared - together) // together) if 2 * shared > together else 0


cdef bint _pair(const int32_t[:, ::1] boxes, Sides& s, Py_ssize_t limit, Pairs& pairs) noexcept nogil:
    """List the pairs of boxes, sorted by area, with an IoU above a half; False if there are more than `limit`."""
    cdef Py_ssize_t i, j, end, n = boxes.shape[0]
    cdef int32_t value
    cdef float area
    for i in range(n):
        area = s.area[i]
        end = upper_bound(s.area.begin() + i, s.area.end(), <float> (area * 2.001)) - s.area.begin()
        _shared(s.left.data(), s.top.data(), s.right.data(), s.bottom.data(), i, end, s.shared.data())
        for j in range(i + 1, end):
            # single precision only passes over pairs that are far from a half; `_value` is exact
            if s.shared[j] * <float> 3.001 > area + s.area[j]:
                value = _value(&boxes[i, 0], &boxes[j, 0])
                if value > 0:
                    pairs.first.push_back(<int32_t> i)
                    pairs.second.push_back(<int32_t> j)
                    pairs.value.push_back(<uint8_t> value)
        if <Py_ssize_t> pairs.first.size() > limit:
            return False
    return True


cdef struct Graph:
    vector[int64_t] start   # the neighbours of box i are start[i] .. start[i + 1]
    vector[int32_t] other
    vector[uint8_t] value
    vector[uint8_t] covered


cdef void _link(Pairs& pairs, Py_ssize_t n, Graph& g) noexcept nogil:
    """Make lists of neighbours of the pairs."""
    cdef vector[int64_t] at
    cdef size_t i
    g.start.assign(n + 1, 0)
    for i in range(pairs.first.size()):
        g.start[pairs.first[i] + 1] += 1
        g.start[pairs.second[i] + 1] += 1
    for i in range(<size_t> n):
        g.start[i + 1] += g.start[i]
    at = g.start
    g.other.resize(2 * pairs.first.size())
    g.value.resize(2 * pairs.first.size())
    g.covered.assign(n, 0)
    for i in range(pairs.first.size()):
        _place(g, at, pairs.first[i], pairs.second[i], pairs.value[i])
        _place(g, at, pairs.second[i], pairs.first[i], pairs.value[i])


cdef inline void _place(Graph& g, vector[int64_t]& at, int32_t box, int32_t other, uint8_t value) noexcept nogil:
    g.other[at[box]] = other
    g.value[at[box]] = value
    at[box] += 1


cdef int64_t _gain(const Graph& g, const int32_t* weights, int32_t box) noexcept nogil:
    """Return by how much the weighted cover rises if a box is taken."""
    cdef int64_t i, total = <int64_t> weights[box] * (FULL - g.covered[box])
    cdef int32_t more
    for i in range(g.start[box], g.start[box + 1]):
        more = <int32_t> g.value[i] - <int32_t> g.covered[g.other[i]]
        total += <int64_t> weights[g.other[i]] * (more if more > 0 else 0)
    return total


cdef void _take(Graph& g, int32_t box) noexcept nogil:
    cdef int64_t i
    g.covered[box] = FULL
    for i in range(g.start[box], g.start[box + 1]):
        g.covered[g.other[i]] = max(g.covered[g.other[i]], g.value[i])


cdef void _greedy(Graph& g, const int32_t* weights, int32_t n, int32_t* order) noexcept nogil:
    """Take the box with the greatest gain again and again; gains only fall, so a stale bid is an upper bound."""
    cdef vector[Bid] heap
    cdef Bid bid
    cdef int32_t taken = 0
    bid.round = 0
    for bid.box in range(n):
        bid.gain = _gain(g, weights, bid.box)
        heap.push_back(bid)
    make_heap(heap.begin(), heap.end(), _lower)
    while not heap.empty():
        bid = heap.front()
        pop_heap(heap.begin(), heap.end(), _lower)
        heap.pop_back()
        if bid.round == taken:
            order[taken] = bid.box
            _take(g, bid.box)
            taken += 1
        else:
            bid.gain, bid.round = _gain(g, weights, bid.box), taken
            heap.push_back(bid)
            push_heap(heap.begin(), heap.end(), _lower)


def cover(const int32_t[:, ::1] boxes, const int32_t[::1] weights, Py_ssize_t limit):
    """Return the order in which greedy cover takes the boxes, int32 (n,); None if more than `limit` pairs overlap.

    The cover of box i by box j is 255 (2 IoU - 1), rounded down, or 0 where the IoU is at most a half. Each step takes
    the box that raises the sum over i of weight i times its greatest cover by a box taken most; among equals the first.
    `boxes` (n, 4) are distinct, not empty and sorted by area, n is at least 1; `weights` (n,) are 1 to 32767.
    """
    cdef Py_ssize_t n = boxes.shape[0]
    cdef Sides sides
    cdef Pairs pairs
    cdef Graph graph
    cdef bint few
    found = np.empty(n, np.int32)
    cdef int32_t[::1] order = found
    with nogil:
        _read(boxes, sides)
        few = _pair(boxes, sides, limit, pairs)
        if few:
            _link(pairs, n, graph)
            _greedy(graph, &weights[0], <int32_t> n, &order[0])
    return found if few else None
