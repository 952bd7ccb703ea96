"""Regions of several segmentations at once: their common refinement into cells, and what is counted in each.

A cell is a set of pixels that no segmentation separates, so that every region is a union of cells.
"""

import numpy as np

from libc.stdint cimport int16_t, int32_t, uint8_t
from libcpp.vector cimport vector

cdef enum:
    COLOUR_BINS = 25
    DIRECTIONS = 4
    TEXTURE_BINS = 16
    LANES = 16  # rows are padded to whole vectors


cdef struct Link:
    int32_t value
    int32_t next


# ---- common refinement

cdef inline int32_t _link(vector[int32_t]& head, vector[Link]& links, int32_t key, int32_t value) noexcept nogil:
    """Return the number of the pair (key, value), a new one at its first appearance."""
    cdef int32_t i = head[key]
    cdef Link link
    while i >= 0:
        if links[i].value == value:
            return i
        i = links[i].next
    link.value, link.next = value, head[key]
    head[key] = <int32_t> links.size()
    links.push_back(link)
    return head[key]


cdef int32_t _split(int32_t* cells, const int32_t* labels, Py_ssize_t n, int32_t count) noexcept nogil:
    """Split `cells` in place by `labels`, numbered in order of appearance; return how many there are."""
    cdef vector[int32_t] head
    cdef vector[Link] links
    cdef Py_ssize_t i
    head.assign(count, -1)
    for i in range(n):
        cells[i] = _link(head, links, cells[i], labels[i])
    return <int32_t> links.size()


def refine(const int32_t[:, ::1] labels):
    """Return the cell of each atom, int32 (n,), numbered in order of appearance, and their number.

    `labels` (k, n) are those of the atoms in each segmentation; in the first one they are in order of appearance.
    """
    cdef Py_ssize_t i, n = labels.shape[1]
    cdef int32_t count = 0
    refined = np.array(labels[0])
    cdef int32_t[::1] cells = refined
    with nogil:
        for i in range(n):
            count = max(count, cells[i] + 1)
        for i in range(1, labels.shape[0]):
            count = _split(&cells[0], &labels[i, 0], n, count)
    return refined, count


# ---- extents and neighbours

cdef void _extents(const int32_t* cells, int32_t* sizes, int32_t* boxes, Py_ssize_t h, Py_ssize_t w) noexcept nogil:
    cdef Py_ssize_t x, y, first
    cdef int32_t cell
    cdef int32_t* box
    for y in range(h):
        x = 0
        while x < w:
            first, cell = x, cells[y * w + x]
            while x < w and cells[y * w + x] == cell:
                x += 1
            sizes[cell] += <int32_t> (x - first)
            box = boxes + 4 * cell
            box[0] = min(box[0], <int32_t> first)
            box[1] = min(box[1], <int32_t> y)
            box[2] = max(box[2], <int32_t> x)
            box[3] = <int32_t> (y + 1)


def extents(const int32_t[:, ::1] cells, int count):
    """Return the number of pixels (n,) and the bounding box (n, 4) of each cell, int32."""
    cdef Py_ssize_t h = cells.shape[0], w = cells.shape[1]
    sizes = np.zeros(count, np.int32)
    boxes = np.empty((count, 4), np.int32)
    boxes[:] = w, h, 0, 0
    cdef int32_t[::1] out_sizes = sizes
    cdef int32_t[:, ::1] out_boxes = boxes
    with nogil:
        _extents(&cells[0, 0], &out_sizes[0], &out_boxes[0, 0], h, w)
    return sizes, boxes


cdef inline void _meeting(vector[int32_t]& head, vector[Link]& links, vector[int32_t]& pairs, int32_t a, int32_t b
                          ) noexcept nogil:
    """Note that cells a and b touch, once."""
    cdef Py_ssize_t known = links.size()
    if a > b:
        a, b = b, a
    if _link(head, links, a, b) == known:
        pairs.push_back(a)
        pairs.push_back(b)


cdef void _touching(const int32_t* cells, int count, Py_ssize_t h, Py_ssize_t w, vector[int32_t]& pairs) noexcept nogil:
    """List the pairs of cells that share an edge of a pixel."""
    cdef vector[int32_t] head
    cdef vector[Link] links
    cdef Py_ssize_t x, y
    cdef const int32_t* row = cells
    head.assign(count, -1)
    for y in range(h):
        for x in range(w - 1):
            if row[x] != row[x + 1]:
                _meeting(head, links, pairs, row[x], row[x + 1])
        if y + 1 < h:
            for x in range(w):
                # along a border one look-up is enough
                if row[x] != row[x + w] and not (x > 0 and row[x] == row[x - 1] and row[x + w] == row[x + w - 1]):
                    _meeting(head, links, pairs, row[x], row[x + w])
        row += w


cdef object _as_pairs(vector[int32_t]& flat):
    """Return the numbers two by two, int32 (m, 2)."""
    cdef Py_ssize_t i
    found = np.empty((flat.size() // 2, 2), np.int32)
    cdef int32_t[:, ::1] out = found
    for i in range(found.shape[0]):
        out[i, 0], out[i, 1] = flat[2 * i], flat[2 * i + 1]
    return found


def neighbours(const int32_t[:, ::1] cells, int count):
    """Return the pairs (a < b) of cells that touch, int32 of shape (m, 2), each once."""
    cdef vector[int32_t] pairs
    with nogil:
        _touching(&cells[0, 0], count, cells.shape[0], cells.shape[1], pairs)
    return _as_pairs(pairs)


# ---- histograms

cdef inline void _bin_row(
    const int16_t* after, const int16_t* before, Py_ssize_t first, Py_ssize_t last,
    Py_ssize_t side_a, Py_ssize_t side_b, uint8_t offset, int32_t step, uint8_t* out
) noexcept nogil:
    """Bin the slope between two shifted rows for x in [first, last)."""
    cdef Py_ssize_t x
    cdef int16_t slope
    for x in range(first, last):
        slope = <int16_t> ((after[x + side_a] - before[x + side_b] + (1 << (step - 1))) >> step)
        slope = min(max(slope, <int16_t> -7), <int16_t> 7)
        out[x] = <uint8_t> (slope + 8 + offset)


cdef void _texture_row(
    const int16_t* plane, Py_ssize_t y, Py_ssize_t h, Py_ssize_t w, uint8_t offset, int32_t step, uint8_t* out,
    Py_ssize_t stride
) noexcept nogil:
    """Bins of the central differences along x, y and both diagonals in one row; borders repeat."""
    cdef Py_ssize_t j, right, last = w - 1
    cdef const int16_t* after
    cdef const int16_t* before
    for j in range(DIRECTIONS):
        after = plane + (y if j == 0 else min(y + 1, h - 1)) * w
        before = plane + (y if j == 0 else max(y - 1, 0)) * w
        right = 0 if j == 1 else (-1 if j == 3 else 1)
        _bin_row(after, before, 0, 1, min(max(right, 0), last), min(max(-right, 0), last), offset, step, out)
        _bin_row(after, before, 1, last, right, -right, offset, step, out)
        _bin_row(after, before, last, w, max(min(right, 0), -last), max(min(-right, 0), -last), offset, step, out)
        offset += TEXTURE_BINS
        out += stride


cdef void _colour_row(const uint8_t* plane, Py_ssize_t w, uint8_t offset, uint8_t* out) noexcept nogil:
    cdef Py_ssize_t x
    for x in range(w):
        out[x] = <uint8_t> (((<int32_t> plane[x] * COLOUR_BINS) >> 8) + offset)


cdef void _tally(
    const int32_t* cells, const uint8_t* colours, const uint8_t* textures, Py_ssize_t w, Py_ssize_t stride,
    Py_ssize_t channels, Py_ssize_t texture_start, Py_ssize_t dims, int32_t* counts
) noexcept nogil:
    """Count one row of pixels into the histograms of their cells."""
    cdef Py_ssize_t x, j
    cdef int32_t* row
    for x in range(w):
        row = counts + cells[x] * dims
        for j in range(channels):
            row[colours[j * stride + x]] += 1
        row += texture_start
        for j in range(DIRECTIONS * channels):
            row[textures[j * stride + x]] += 1


def bins(int channels):
    """Return the start of the texture bins, and the length of a row of counts."""
    start = (COLOUR_BINS * channels + LANES - 1) // LANES * LANES
    return start, start + TEXTURE_BINS * DIRECTIONS * channels


def describe(
    const int32_t[:, ::1] cells, int count, const uint8_t[:, :, ::1] planes, const int16_t[:, :, ::1] smoothed, int step
):
    """Return the counts of colours and slopes in each cell, int32 of shape (n, d); see `bins` for the layout."""
    cdef Py_ssize_t channels = planes.shape[0], h = planes.shape[1], w = planes.shape[2], c, y, start, dims
    start, dims = bins(channels)
    counts = np.zeros((count, dims), np.int32)
    cdef int32_t[:, ::1] out = counts
    cdef Py_ssize_t stride = w + 64  # apart in the cache also where w is a power of two
    cdef vector[uint8_t] colours, textures
    with nogil:
        colours.resize(channels * stride)
        textures.resize(DIRECTIONS * channels * stride)
        for y in range(h):
            for c in range(channels):
                _colour_row(&planes[c, y, 0], w, <uint8_t> (c * COLOUR_BINS), colours.data() + c * stride)
                _texture_row(
                    &smoothed[c, 0, 0], y, h, w, <uint8_t> (c * DIRECTIONS * TEXTURE_BINS), step,
                    textures.data() + DIRECTIONS * c * stride, stride
                )
            _tally(
                &cells[y, 0], colours.data(), textures.data(), w, stride, channels, start, dims, &out[0, 0]
            )
    return counts


# ---- from cells to the regions of one segmentation

cdef void _pool(
    const int32_t* owner, const int32_t* counts, const int32_t* sizes, const int32_t* boxes, Py_ssize_t n,
    Py_ssize_t dims, int32_t* out_counts, int32_t* out_sizes, int32_t* out_boxes
) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef const int32_t* source
    cdef int32_t* target
    for i in range(n):
        source, target = counts + i * dims, out_counts + owner[i] * dims
        for j in range(dims):
            target[j] += source[j]
        out_sizes[owner[i]] += sizes[i]
        source, target = boxes + 4 * i, out_boxes + 4 * owner[i]
        for j in range(2):
            target[j] = min(target[j], source[j])
            target[j + 2] = max(target[j + 2], source[j + 2])


cdef void _pool_pairs(
    const int32_t* owner, int n_regions, const int32_t[:, ::1] pairs, vector[int32_t]& found
) noexcept nogil:
    """List the pairs of different regions whose cells touch."""
    cdef vector[int32_t] head
    cdef vector[Link] links
    cdef Py_ssize_t i
    head.assign(n_regions, -1)
    for i in range(pairs.shape[0]):
        if owner[pairs[i, 0]] != owner[pairs[i, 1]]:
            _meeting(head, links, found, owner[pairs[i, 0]], owner[pairs[i, 1]])


def pool(
    const int32_t[::1] owner, int n_regions, const int32_t[:, ::1] counts, const int32_t[::1] sizes,
    const int32_t[:, ::1] boxes, const int32_t[:, ::1] pairs
):
    """Sum the cells of each region: counts (r, d), sizes (r,), boxes (r, 4), neighbours (m, 2).

    `owner` is the region of each cell; the other arguments are the same things of the cells.
    """
    region_counts = np.zeros((n_regions, counts.shape[1]), np.int32)
    region_sizes = np.zeros(n_regions, np.int32)
    region_boxes = np.empty((n_regions, 4), np.int32)
    region_boxes[:] = 2147483647, 2147483647, 0, 0
    cdef int32_t[:, ::1] out_counts = region_counts
    cdef int32_t[::1] out_sizes = region_sizes
    cdef int32_t[:, ::1] out_boxes = region_boxes
    cdef vector[int32_t] region_pairs
    with nogil:
        _pool(
            &owner[0], &counts[0, 0], &sizes[0], &boxes[0, 0], owner.shape[0], counts.shape[1],
            &out_counts[0, 0], &out_sizes[0], &out_boxes[0, 0]
        )
        _pool_pairs(&owner[0], n_regions, pairs, region_pairs)
    return region_counts, region_sizes, region_boxes, _as_pairs(region_pairs)
