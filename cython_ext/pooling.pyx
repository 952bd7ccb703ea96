"""Means of a map over windows, from the sums of the map over every rectangle that begins at its origin.

A window's mean is a weighted sum of at most 16 such sums, whatever its size. Along one axis the share of a cell in the
window is constant but for the first and the last, so the differences of neighbouring shares, which are the weights,
vanish but for four. A window inside one cell gets the weights -1 and 1 exactly.

Groups of windows may be mixed, such as a window and the one around it, in several ways at once: the rectangles of each
window are summed once.

The sums are float64, made for a few channels at a time and used while they are in the cache. A difference of such sums
that rounding may explain is set to 0: divided by its length, it would be noise.
"""

import numpy as np

from libc.math cimport ceil, fabs, floor
from libc.stdint cimport int32_t
from libcpp.vector cimport vector

cdef extern from "pooling.h":
    ctypedef struct lapsvm_pooling:
        Py_ssize_t n, m, o
        const int32_t* offsets
        const double* weights
        const int32_t* counts
        const double* mixes
        const double* rounding
        const double* sums
        const double* sizes
        double* means

    void lapsvm_integrate(
        const float* cells, Py_ssize_t channels, Py_ssize_t rows, Py_ssize_t columns, float* line, double* sums,
        double* sizes
    ) noexcept nogil
    void lapsvm_pool_means(
        const lapsvm_pooling* pooling, Py_ssize_t channels, float* out, Py_ssize_t stride, Py_ssize_t across
    ) noexcept nogil
    void lapsvm_pool_squares(const lapsvm_pooling* pooling, double* out) noexcept nogil

cdef enum:
    EDGES = 4  # sums along one axis that a window's mean needs
    TERMS = 16  # EDGES * EDGES, as in pooling.h
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


cdef int32_t _window_terms(
    const double* window, Py_ssize_t rows, Py_ssize_t columns, int32_t* offsets, double* weights
) noexcept nogil:
    """Write the weighted sums of which a window's mean consists; return how many there are."""
    cdef Py_ssize_t across[EDGES]
    cdef Py_ssize_t down[EDGES]
    cdef double across_weights[EDGES]
    cdef double down_weights[EDGES]
    cdef Py_ssize_t i, j
    cdef int32_t count = 0
    cdef Py_ssize_t n_across = _edges(window[0], window[2], columns, across, across_weights)
    cdef Py_ssize_t n_down = _edges(window[1], window[3], rows, down, down_weights)
    for i in range(n_down):
        for j in range(n_across):
            if down[i] and across[j]:  # the sums of nothing are 0
                offsets[count] = <int32_t> (down[i] * (columns + 1) + across[j])
                weights[count] = down_weights[i] * across_weights[j]
                count += 1
    return count


# ---- groups of windows in one map

cdef class _Pooling:
    """The terms of groups of windows in maps of one size, and buffers for the sums of LANES channels."""
    cdef lapsvm_pooling view
    cdef vector[int32_t] offsets
    cdef vector[int32_t] counts
    cdef vector[double] weights
    cdef vector[double] rounding
    cdef vector[double] sums
    cdef vector[double] sizes
    cdef vector[double] means
    cdef vector[float] line

    def __cinit__(
        self, const float[:, :, ::1] cells not None, const double[:, :, ::1] windows not None,
        const double[:, :, ::1] mixes not None
    ):
        cdef Py_ssize_t rows = cells.shape[1], columns = cells.shape[2]
        self.view.n, self.view.m, self.view.o = windows.shape[0], windows.shape[1], mixes.shape[1]
        with nogil:
            self._set_terms(windows, rows, columns)
            self._set_rounding(mixes, 4 * (rows + columns + 16) * 2.0**-52)
            self.sums.assign((rows + 1) * (columns + 1) * LANES, 0.0)
            self.sizes.assign(LANES, 0.0)
            self.means.assign(self.view.m * LANES, 0.0)
            self.line.assign(columns * LANES, 0.0)
        self.view.mixes = &mixes[0, 0, 0] if mixes.size else NULL
        self.view.sums, self.view.sizes, self.view.means = self.sums.data(), self.sizes.data(), self.means.data()

    cdef void _set_terms(self, const double[:, :, ::1] windows, Py_ssize_t rows, Py_ssize_t columns) noexcept nogil:
        cdef Py_ssize_t i, j, k = 0
        self.offsets.resize(windows.shape[0] * windows.shape[1] * TERMS)
        self.weights.resize(windows.shape[0] * windows.shape[1] * TERMS)
        self.counts.resize(windows.shape[0] * windows.shape[1])
        self.view.offsets, self.view.weights = self.offsets.data(), self.weights.data()
        self.view.counts = self.counts.data()
        for i in range(windows.shape[0]):
            for j in range(windows.shape[1]):
                self.counts[k] = _window_terms(
                    &windows[i, j, 0], rows, columns, self.offsets.data() + k * TERMS, self.weights.data() + k * TERMS
                )
                k += 1

    cdef void _set_rounding(self, const double[:, :, ::1] mixes, double of_one) noexcept nogil:
        cdef Py_ssize_t i, j, k
        cdef double share
        self.rounding.resize(mixes.shape[0] * mixes.shape[1])
        self.view.rounding = self.rounding.data()
        for i in range(mixes.shape[0]):
            for k in range(mixes.shape[1]):
                share = 0.0
                for j in range(mixes.shape[2]):
                    share += fabs(mixes[i, k, j])
                self.rounding[i * mixes.shape[1] + k] = of_one * share

    cdef Py_ssize_t integrate(self, const float[:, :, ::1] cells, Py_ssize_t start) noexcept nogil:
        """Sum LANES channels from `start` on over rectangles; return how many channels there are."""
        cdef Py_ssize_t channels = min(<Py_ssize_t> LANES, cells.shape[0] - start)
        if channels < LANES:
            self.line.assign(self.line.size(), 0.0)
        if cells.shape[1] and cells.shape[2]:
            lapsvm_integrate(
                &cells[start, 0, 0], channels, cells.shape[1], cells.shape[2], self.line.data(), self.sums.data(),
                self.sizes.data()
            )
        return channels


def mixed_means(
    const float[:, :, ::1] cells, const double[:, :, ::1] windows, const double[:, :, ::1] mixes
):
    """Return for each group of windows the mixed means of a map over them, (n, o * channels), float32.

    `cells` is the map (channels, rows, columns); `windows` (n, m, 4) are x1, y1, x2, y2 in cells; `mixes`
    (n, o, m) are the weights of the m means in each of the o mixtures, whose channels follow each other. The mean over
    a window without area inside the map is 0.
    """
    cdef Py_ssize_t block, count, channels = cells.shape[0], stride = mixes.shape[1] * channels
    cdef _Pooling pooling = _Pooling(cells, windows, mixes)
    mixed = np.empty((windows.shape[0], stride), np.float32)
    cdef float[:, ::1] out = mixed
    if not mixed.size:
        return mixed
    with nogil:
        for block in range((channels + LANES - 1) // LANES):
            count = pooling.integrate(cells, block * LANES)
            lapsvm_pool_means(&pooling.view, count, &out[0, block * LANES], stride, channels)
    return mixed


def squared_lengths(
    const float[:, :, ::1] cells, const double[:, :, ::1] windows, const double[:, :, ::1] mixes
):
    """Return the squared lengths (n, o), float64, of the means that `mixed_means` gives, before these are rounded."""
    cdef Py_ssize_t block
    cdef _Pooling pooling = _Pooling(cells, windows, mixes)
    squares = np.zeros((mixes.shape[0], mixes.shape[1], 8))
    cdef double[:, :, ::1] out = squares
    if not squares.size:
        return squares.sum(axis=2)
    with nogil:
        for block in range((cells.shape[0] + LANES - 1) // LANES):
            pooling.integrate(cells, block * LANES)
            lapsvm_pool_squares(&pooling.view, &out[0, 0, 0])
    return squares.sum(axis=2)
