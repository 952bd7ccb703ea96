"""Euclidean projection onto {alpha, beta >= 0, sum(alpha) = sum(beta)} in expected linear time.

The solution is alpha = [alpha0 - gamma]_+, beta = [beta0 + gamma]_+ at the root gamma of a falling, piecewise linear
function with bends at alpha0 and -beta0. The bends are halved around random pivots, as in quickselect; sums over bends
whose side is known are kept, so that a round costs no more than the bends that are left.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport uint64_t


cdef struct Bends:
    Py_ssize_t first, last   # those whose side of the root is not known: [first, last)
    double* at


cdef inline uint64_t _next(uint64_t* state) noexcept nogil:
    """Return the next number of an xorshift generator; its seed is fixed, so the rounding of the sums is too."""
    state[0] ^= state[0] << 13
    state[0] ^= state[0] >> 7
    state[0] ^= state[0] << 17
    return state[0]


cdef void _split(Bends* bends, double u, Py_ssize_t* smaller, Py_ssize_t* larger) noexcept nogil:
    """Order the unknown bends: below u in [first, smaller), equal in [smaller, larger), above in [larger, last)."""
    cdef Py_ssize_t i = bends.first, low = bends.first, high = bends.last
    cdef double value
    while i < high:
        value = bends.at[i]
        if value < u:
            bends.at[i], bends.at[low] = bends.at[low], value
            low += 1
            i += 1
        elif value > u:
            high -= 1
            bends.at[i], bends.at[high] = bends.at[high], value
        else:
            i += 1
    smaller[0], larger[0] = low, high


cdef inline double _sum(const double* x, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    cdef Py_ssize_t i
    cdef double total = 0
    for i in range(first, last):
        total += x[i]
    return total


cdef double _root(Bends a, Bends b) noexcept nogil:
    """Return gamma; a holds the bends alpha0, b the bends -beta0."""
    cdef uint64_t state = 0x9E3779B97F4A7C15
    cdef Py_ssize_t pick, a_low, a_high, b_low, b_high, count = 0
    cdef double u, total = 0.0, a_above, b_below, reached = -INFINITY
    while a.last - a.first + b.last - b.first > 0:
        pick = <Py_ssize_t>(_next(&state) % <uint64_t>(a.last - a.first + b.last - b.first))
        u = a.at[a.first + pick] if pick < a.last - a.first else b.at[b.first + pick - (a.last - a.first)]
        _split(&a, u, &a_low, &a_high)
        _split(&b, u, &b_low, &b_high)
        a_above, b_below = _sum(a.at, a_high, a.last), _sum(b.at, b.first, b_low)
        if total + a_above + b_below < (count + a.last - a_high + b_low - b.first) * u:  # the root is below u
            total += a_above + (a_high - a_low) * u
            count += a.last - a_low
            a.last, b.last = a_low, b_low
        else:
            total += b_below + (b_high - b_low) * u
            count += b_high - b.first
            a.first, b.first = a_high, b_high
            reached = max(reached, u)
    # nothing is positive where no bend counts: every gamma from `reached` to the next bend gives zeros
    return total / count if count else reached


def balance(double[::1] alpha, double[::1] beta):
    """Project in place; return gamma (minus infinity where both are empty)."""
    cdef Bends a, b
    cdef Py_ssize_t i, m = alpha.shape[0], n = beta.shape[0]
    cdef double gamma
    scratch = np.empty(m + n + 1)
    cdef double[::1] view = scratch
    with nogil:
        a.first, a.last, a.at = 0, m, &view[0]
        b.first, b.last, b.at = 0, n, &view[m]
        for i in range(m):
            a.at[i] = alpha[i]
        for i in range(n):
            b.at[i] = -beta[i]
        gamma = _root(a, b)
        for i in range(m):
            alpha[i] = max(alpha[i] - gamma, 0.0)
        for i in range(n):
            beta[i] = max(beta[i] + gamma, 0.0)
    return gamma
