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
    """Return sum_k weights[k] row k of the (n, d) matrix in compressed sparse row form; None if an index lies outside.

    Every index is looked at when it is used: the arrays are the caller's, and may change at any time.
    """
    cdef Py_ssize_t k, entry, first, last, column, n_data = min(data.shape[0], indices.shape[0])
    cdef double weight
    total = np.zeros(d)
    cdef double[::1] out = total
    if starts.shape[0] <= weights.shape[0]:
        return None
    with nogil:
        for k in range(weights.shape[0]):
            weight = weights[k]
            if weight != 0:
                first, last = starts[k], starts[k + 1]
                if not 0 <= first <= last <= n_data:
                    with gil:
                        return None
                for entry in range(first, last):
                    column = indices[entry]
                    if <size_t>column >= <size_t>d:
                        with gil:
                            return None
                    out[column] += weight * data[entry]
    return total
