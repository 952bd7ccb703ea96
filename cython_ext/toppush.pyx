"""Euclidean projection onto {alpha, beta >= 0, sum(alpha) = sum(beta)} in expected linear time.

The solution is alpha = [alpha0 - gamma]_+, beta = [beta0 + gamma]_+, where gamma is the root of a decreasing, piecewise
linear function with breakpoints alpha0 and -beta0. As in quickselect, each round partitions the candidate breakpoints
around a random pivot and keeps one side. Running sums cover the breakpoints whose side is known.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport uint64_t


cdef struct Breakpoints:
    Py_ssize_t first, last   # candidates: their side of the root is unknown, [first, last)
    double* values


cdef inline uint64_t _next(uint64_t* state) noexcept nogil:
    """Return the next number of an xorshift generator; its fixed seed makes the rounding reproducible."""
    state[0] ^= state[0] << 13
    state[0] ^= state[0] >> 7
    state[0] ^= state[0] << 17
    return state[0]


cdef void _split(Breakpoints* points, double pivot, Py_ssize_t* smaller, Py_ssize_t* larger) noexcept nogil:
    """Partition the candidates: below in [first, smaller), equal in [smaller, larger), above in [larger, last)."""
    cdef Py_ssize_t i = points.first, low = points.first, high = points.last
    cdef double value
    while i < high:
        value = points.values[i]
        if value < pivot:
            points.values[i], points.values[low] = points.values[low], value
            low += 1
            i += 1
        elif value > pivot:
            high -= 1
            points.values[i], points.values[high] = points.values[high], value
        else:
            i += 1
    smaller[0], larger[0] = low, high


cdef inline double _sum(const double* x, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    cdef Py_ssize_t i
    cdef double total = 0
    for i in range(first, last):
        total += x[i]
    return total


cdef double _root(Breakpoints a, Breakpoints b) noexcept nogil:
    """Return gamma; a holds the breakpoints alpha0, b the breakpoints -beta0."""
    cdef uint64_t state = 0x9E3779B97F4A7C15
    cdef Py_ssize_t index, a_low, a_high, b_low, b_high, count = 0
    cdef double pivot, total = 0.0, a_above, b_below, reached = -INFINITY
    while a.last - a.first + b.last - b.first > 0:
        index = <Py_ssize_t>(_next(&state) % <uint64_t>(a.last - a.first + b.last - b.first))
        if index < a.last - a.first:
            pivot = a.values[a.first + index]
        else:
            pivot = b.values[b.first + index - (a.last - a.first)]
        _split(&a, pivot, &a_low, &a_high)
        _split(&b, pivot, &b_low, &b_high)
        a_above, b_below = _sum(a.values, a_high, a.last), _sum(b.values, b.first, b_low)
        if total + a_above + b_below < (count + a.last - a_high + b_low - b.first) * pivot:  # the root is below pivot
            total += a_above + (a_high - a_low) * pivot
            count += a.last - a_low
            a.last, b.last = a_low, b_low
        else:
            total += b_below + (b_high - b_low) * pivot
            count += b_high - b.first
            a.first, b.first = a_high, b_high
            reached = max(reached, pivot)
    # with count 0 the solution is 0 for every gamma between `reached` and the next breakpoint
    return total / count if count else reached


def project(double[::1] alpha, double[::1] beta):
    """Project in place; return gamma (minus infinity where both are empty)."""
    cdef Breakpoints a, b
    cdef Py_ssize_t i, m = alpha.shape[0], n = beta.shape[0]
    cdef double gamma
    scratch = np.empty(m + n + 1)
    cdef double[::1] view = scratch
    with nogil:
        a.first, a.last, a.values = 0, m, &view[0]
        b.first, b.last, b.values = 0, n, &view[m]
        for i in range(m):
            a.values[i] = alpha[i]
        for i in range(n):
            b.values[i] = -beta[i]
        gamma = _root(a, b)
        for i in range(m):
            alpha[i] = max(alpha[i] - gamma, 0.0)
        for i in range(n):
            beta[i] = max(beta[i] + gamma, 0.0)
    return gamma
