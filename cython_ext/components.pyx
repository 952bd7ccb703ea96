"""Connected parts of a map above falling thresholds, by one union-find for all of them.

All sums are of whole numbers, so that the parts are one fixed thing.
"""

import numpy as np

from libc.stdint cimport int16_t, int32_t, int64_t
from libcpp.vector cimport vector

ctypedef fused Whole:
    int32_t
    int64_t


cdef struct Part:
    int32_t left
    int32_t top
    int32_t right
    int32_t bottom
    int32_t area
    int32_t reported  # the round in which it was last reported
    int64_t total


cdef struct Forest:
    vector[int32_t] parent
    vector[Part] parts
    vector[int32_t] number  # of each pixel of the picture with a border of one; -1 if it is not in a part yet


cdef struct Found:
    vector[int32_t] boxes
    vector[int32_t] areas
    vector[int64_t] totals


cdef inline int32_t _root(int32_t* parent, int32_t i) noexcept nogil:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


cdef inline int32_t _joined(Forest& forest, int32_t i, int32_t j) noexcept nogil:
    """Join two roots and return the new one, the larger part."""
    cdef Part *a
    cdef Part *b
    if forest.parts[i].area < forest.parts[j].area:
        i, j = j, i
    a, b = &forest.parts[i], &forest.parts[j]
    forest.parent[j] = i
    a.left, a.top = min(a.left, b.left), min(a.top, b.top)
    a.right, a.bottom = max(a.right, b.right), max(a.bottom, b.bottom)
    a.area += b.area
    a.total += b.total
    return i


cdef void _add(Forest& forest, int32_t x, int32_t y, int64_t value, int32_t width) noexcept nogil:
    """Add a pixel as a part, and join the parts around it."""
    cdef int32_t i = <int32_t> forest.parts.size(), other, u, v
    cdef int32_t* row
    cdef Part part
    part.left, part.top, part.right, part.bottom = x, y, x + 1, y + 1
    part.area, part.reported, part.total = 1, 0, value
    forest.parts.push_back(part)
    forest.parent.push_back(i)
    forest.number[(y + 1) * width + x + 1] = i
    for v in range(3):
        row = forest.number.data() + (y + v) * width + x
        for u in range(3):
            if row[u] >= 0:
                other = _root(forest.parent.data(), row[u])
                if other != i:
                    i = _joined(forest, i, other)


cdef void _report(Forest& forest, size_t begin, int32_t round, int32_t least, Found& found) noexcept nogil:
    """List the parts that hold a pixel from `begin` on, each once, without those with a side below `least`."""
    cdef size_t i
    cdef Part* part
    for i in range(begin, forest.parts.size()):
        part = &forest.parts[_root(forest.parent.data(), <int32_t> i)]
        if part.reported != round:
            part.reported = round
            if part.right - part.left >= least and part.bottom - part.top >= least:
                found.boxes.push_back(part.left)
                found.boxes.push_back(part.top)
                found.boxes.push_back(part.right)
                found.boxes.push_back(part.bottom)
                found.areas.push_back(part.area)
                found.totals.push_back(part.total)


cdef struct Pixels:
    vector[int32_t] x
    vector[int32_t] y
    vector[int16_t] value


cdef void _sort(
    const int16_t[:, ::1] values, const int32_t[::1] thresholds, vector[Pixels]& pixels
) noexcept nogil:
    """Give each pixel, in raster order, to the first threshold that it reaches."""
    cdef Py_ssize_t x, y, t, n = thresholds.shape[0]
    cdef int32_t last = thresholds[n - 1]
    cdef int16_t value
    pixels.resize(n)
    for y in range(values.shape[0]):
        for x in range(values.shape[1]):
            value = values[y, x]
            if value < last:
                continue
            for t in range(n):
                if value >= thresholds[t]:
                    pixels[t].x.push_back(<int32_t> x)
                    pixels[t].y.push_back(<int32_t> y)
                    pixels[t].value.push_back(value)
                    break


def components(const int16_t[:, ::1] values, const int32_t[::1] thresholds, int least):
    """Return the 8-connected parts of the pixels at or above each threshold: boxes, pixels and sums of values.

    `values` (h, w), `thresholds` (k,) falling, k at least 1. A part that was listed before is not listed
    again, one with a side below `least` pixels is not listed. The order is that of the thresholds, then of the first
    new pixel of a part in raster order. Boxes int32 (n, 4), pixels int32 (n,), sums int64 (n,).
    """
    cdef int32_t width = <int32_t> values.shape[1] + 2, t
    cdef size_t begin, p
    cdef vector[Pixels] pixels
    cdef Forest forest
    cdef Found found
    with nogil:
        _sort(values, thresholds, pixels)
        forest.number.assign((values.shape[0] + 2) * width, -1)
        for t in range(<int32_t> pixels.size()):
            begin = forest.parts.size()
            for p in range(pixels[t].x.size()):
                _add(forest, pixels[t].x[p], pixels[t].y[p], pixels[t].value[p], width)
            _report(forest, begin, t + 1, least, found)
    boxes, areas = _array(found.boxes.data(), found.boxes.size()), _array(found.areas.data(), found.areas.size())
    return boxes.reshape(-1, 4), areas, _array(found.totals.data(), found.totals.size())


cdef _array(const Whole* values, Py_ssize_t n):
    cdef Py_ssize_t i
    array = np.empty(n, np.int32 if Whole is int32_t else np.int64)
    cdef Whole[::1] out = array
    for i in range(n):
        out[i] = values[i]
    return array
