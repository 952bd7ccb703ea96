"""Weighted sums of feature rows that touch only the rows whose weight is not zero; accumulated in float64."""

import numpy as np

from libc.stdint cimport int32_t, int64_t

ctypedef fused real:
    float
    double

ctypedef fused integer:
    int32_t
    int64_t


cdef void _add_row(double weight, const real* row, Py_ssize_t d, double* total) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(d):
        total[c] += weight * row[c]


def dense(const real[:, :] rows, const double[::1] weights):
    """Return sum_k weights[k] rows[k], float64 of shape (d,); the entries of a row lie side by side."""
    cdef Py_ssize_t k, d = rows.shape[1]
    total = np.zeros(d)
    cdef double[::1] out = total
    if d:
        with nogil:
            for k in range(rows.shape[0]):
                if weights[k] != 0:
                    _add_row(weights[k], &rows[k, 0], d, &out[0])
    return total


def csr(const real[::1] data, const integer[::1] indices, const integer[::1] starts, const double[::1] weights,
        Py_ssize_t d):
    """Return sum_k weights[k] row k of the (n, d) matrix in compressed sparse row form."""
    cdef Py_ssize_t k, place
    total = np.zeros(d)
    cdef double[::1] out = total
    with nogil:
        for k in range(weights.shape[0]):
            if weights[k] != 0:
                for place in range(starts[k], starts[k + 1]):
                    out[indices[place]] += weights[k] * data[place]
    return total
