"""Means of a map over windows, from the sums of the map over every rectangle that begins at its origin.

A window's mean is a weighted sum of at most 16 such sums, whatever its size. Along one axis the share of a cell in the
window is constant but for the first and the last, so the differences of neighbouring shares, which are the weights,
vanish but for four. A window inside one cell gets the weights -1 and 1 exactly.

The sums are float64, made for a few channels at a time and used while they are in the cache. A difference of such sums
that rounding may explain is set to 0: divided by its length, it would be noise.
"""

import numpy as np

from libc.math cimport HUGE_VAL, ceil, fabs, floor
from libc.stdint cimport int32_t
from libcpp.vector cimport vector

cdef extern from "pooling.h":
    void lapsvm_pool(
        const double* sums, const int32_t* offsets, const double* weights, const int32_t* counts, Py_ssize_t n,
        Py_ssize_t most, double* out
    ) noexcept nogil

cdef enum:
    EDGES = 4  # sums along one axis that a window's mean needs
    LANES = 32  # channels at a time, as in pooling.h


# ---- the terms of windows

cdef Py_ssize_t _edges(double low, double high, Py_ssize_t size, Py_ssize_t* offsets, double* weights) noexcept nogil:
    """Write the weights along one axis of the sums up to `offsets`; return how many there are."""
    cdef double length, inner, first_share, last_share
    cdef Py_ssize_t first, last
    low, high = max(low, 0.0), min(high, <double> size)
    length = high - low
    if not length > 0:
        return 0
    first = min(<Py_ssize_t> floor(low), size - 1)
    last = max(<Py_ssize_t> ceil(high) - 1, first)
    offsets[0], offsets[1] = first, first + 1
    if first == last:
        weights[0], weights[1] = -1.0, 1.0
        return 2
    first_share, last_share, inner = (<double> (first + 1) - low) / length, (high - <double> last) / length, 1 / length
    weights[0] = -first_share
    if last == first + 1:
        weights[1], weights[2], offsets[2] = first_share - last_share, last_share, last + 1
        return 3
    weights[1], weights[2], weights[3] = first_share - inner, inner - last_share, last_share
    offsets[2], offsets[3] = last, last + 1
    return 4


cdef Py_ssize_t _window_terms(
    const double* window, double weight, Py_ssize_t rows, Py_ssize_t columns, int32_t* offsets, double* weights
) noexcept nogil:
    """Write the weighted sums of which a window's mean consists; return how many there are."""
    cdef Py_ssize_t across[EDGES]
    cdef Py_ssize_t down[EDGES]
    cdef double across_weights[EDGES]
    cdef double down_weights[EDGES]
    cdef Py_ssize_t i, j, count = 0
    cdef Py_ssize_t n_across = _edges(window[0], window[2], columns, across, across_weights)
    cdef Py_ssize_t n_down = _edges(window[1], window[3], rows, down, down_weights)
    for i in range(n_down):
        for j in range(n_across):
            if down[i] and across[j]:  # the sums of nothing are 0
                offsets[count] = <int32_t> (down[i] * (columns + 1) + across[j])
                weights[count] = weight * down_weights[i] * across_weights[j]
                count += 1
    return count


cdef void _all_terms(
    const double[:, :, ::1] windows, const double[:, ::1] shares, Py_ssize_t rows, Py_ssize_t columns,
    vector[int32_t]& offsets, vector[double]& weights, vector[int32_t]& counts
) noexcept nogil:
    """Write the terms of groups of windows (n, m, 4), offsets for 16 m of each, and their numbers (n,)."""
    cdef Py_ssize_t n = windows.shape[0], m = windows.shape[1], most = EDGES * EDGES * m, i, j, at
    offsets.resize(n * most)
    weights.resize(n * most)
    counts.assign(n, 0)
    for i in range(n):
        for j in range(m):
            at = i * most + counts[i]
            counts[i] += <int32_t> _window_terms(
                &windows[i, j, 0], shares[i, j], rows, columns, offsets.data() + at, weights.data() + at
            )


# ---- sums of a map

cdef void _integrate(
    const float* cells, Py_ssize_t channels, Py_ssize_t rows, Py_ssize_t columns, double* sums, double* sizes
) noexcept nogil:
    """Write the sums ((rows + 1) * (columns + 1), LANES) of at most LANES channels, and those of absolute values.

    The lanes beyond hold zeros.
    """
    cdef Py_ssize_t row, column, channel, width = (columns + 1) * LANES
    cdef double total
    cdef float cell
    cdef double* out
    for channel in range(channels):
        sizes[channel] = 0.0
        for row in range(rows):
            total = 0.0
            out = sums + (row + 1) * width + channel
            for column in range(columns):
                cell = cells[(channel * rows + row) * columns + column]
                total += cell
                sizes[channel] += fabs(cell)
                out[(column + 1) * LANES] = total
    for row in range(1, rows):
        out = sums + (row + 1) * width
        for column in range(width):
            out[column] += out[column - width]


cdef class _Pooling:
    """The terms of windows in maps of one size, and buffers for the sums of LANES channels."""
    cdef vector[int32_t] offsets
    cdef vector[int32_t] counts
    cdef vector[double] weights
    cdef vector[double] sums
    cdef vector[double] pooled  # (n, LANES)
    cdef vector[double] sizes  # (LANES,) sums of the absolute values of each channel
    cdef vector[double] rounding  # (n,) largest error of a mean, as a share of the channel's size
    cdef Py_ssize_t most

    def __cinit__(
        self, const float[:, :, ::1] cells, const double[:, :, ::1] windows, const double[:, ::1] weights
    ):
        cdef Py_ssize_t rows = cells.shape[1], columns = cells.shape[2], i, j
        cdef double share
        with nogil:
            self.sizes.assign(LANES, 0.0)
            self.rounding.assign(windows.shape[0], 0.0)
            for i in range(windows.shape[0]):
                share = 0.0
                for j in range(windows.shape[1]):
                    share += fabs(weights[i, j])
                self.rounding[i] = 4 * (rows + columns + 16) * 2.0**-52 * share
            self.most = EDGES * EDGES * windows.shape[1]
            _all_terms(windows, weights, rows, columns, self.offsets, self.weights, self.counts)
            self.sums.assign((rows + 1) * (columns + 1) * LANES, 0.0)
            self.pooled.resize(windows.shape[0] * LANES)

    cdef Py_ssize_t pool(self, const float[:, :, ::1] cells, Py_ssize_t start) noexcept nogil:
        """Compute the means of LANES channels from `start` on; return how many channels there are."""
        cdef Py_ssize_t channels = min(<Py_ssize_t> LANES, cells.shape[0] - start)
        if channels < LANES:
            self.sums.assign(self.sums.size(), 0.0)
            self.sizes.assign(LANES, 0.0)
        if cells.shape[1] and cells.shape[2]:
            _integrate(
                &cells[start, 0, 0], channels, cells.shape[1], cells.shape[2], self.sums.data(), self.sizes.data()
            )
        lapsvm_pool(
            self.sums.data(), self.offsets.data(), self.weights.data(), self.counts.data(), self.counts.size(),
            self.most, self.pooled.data()
        )
        self._clear_rounding()
        return channels

    cdef void _clear_rounding(self) noexcept nogil:
        cdef Py_ssize_t i, j
        cdef double bound
        for i in range(<Py_ssize_t> self.rounding.size()):
            for j in range(LANES):
                bound = self.rounding[i] * self.sizes[j]
                if fabs(self.pooled[i * LANES + j]) <= bound < HUGE_VAL:
                    self.pooled[i * LANES + j] = 0.0


def weighted_means(
    const float[:, :, ::1] cells, const double[:, :, ::1] windows, const double[:, ::1] weights
):
    """Return for each group of windows the weighted sum of a map's means over them, (n, channels), float32.

    `cells` is the map (channels, rows, columns); `windows` (n, m, 4) are x1, y1, x2, y2 in cells; `weights`
    is (n, m). The mean over a window without area inside the map is 0.
    """
    cdef Py_ssize_t n = windows.shape[0], block, start, i, j, count
    cdef _Pooling pooling = _Pooling(cells, windows, weights)
    pooled = np.empty((n, cells.shape[0]), np.float32)
    cdef float[:, ::1] out = pooled
    with nogil:
        for block in range((cells.shape[0] + LANES - 1) // LANES):
            start = block * LANES
            count = pooling.pool(cells, start)
            for i in range(n):
                for j in range(count):
                    out[i, start + j] = <float> pooling.pooled[i * LANES + j]
    return pooled


def squared_lengths(
    const float[:, :, ::1] cells, const double[:, :, ::1] windows, const double[:, ::1] weights
):
    """Return the squared lengths (n,), float64, of the rows that `weighted_means` gives, before these are rounded."""
    cdef Py_ssize_t n = windows.shape[0], block, i
    cdef _Pooling pooling = _Pooling(cells, windows, weights)
    squares = np.zeros(n * LANES)
    cdef double[::1] out = squares
    with nogil:
        for block in range((cells.shape[0] + LANES - 1) // LANES):
            pooling.pool(cells, block * LANES)
            for i in range(n * LANES):
                out[i] += pooling.pooled[i] * pooling.pooled[i]
    return squares.reshape(n, LANES).sum(axis=1)
