"""Windows of bags: scores and sums in float64, norms, and whether all is finite; the pass itself is in scores.pyx.

Stored halves are widened in registers by integer steps, exactly, subnormal numbers included; no pass ever holds a
float32 copy of the store. On x86-64 with glibc the C floor is compiled for three instruction sets and the machine
picks one when the module is loaded, so the flags stay portable.
"""

from libc.math cimport INFINITY, sqrt

cdef extern from "bags.h":
    double lapsvm_dot64_half(const unsigned short*, const double*, Py_ssize_t) noexcept nogil
    double lapsvm_dot64_bfloat(const short*, const double*, Py_ssize_t) noexcept nogil
    double lapsvm_dot64_float(const float*, const double*, Py_ssize_t) noexcept nogil
    double lapsvm_dot64_double(const double*, const double*, Py_ssize_t) noexcept nogil
    double lapsvm_norm2_half(const unsigned short*, const double*, Py_ssize_t) noexcept nogil
    double lapsvm_norm2_bfloat(const short*, const double*, Py_ssize_t) noexcept nogil
    double lapsvm_norm2_float(const float*, const double*, Py_ssize_t) noexcept nogil
    double lapsvm_norm2_double(const double*, const double*, Py_ssize_t) noexcept nogil
    double lapsvm_length2_half(const unsigned short*, Py_ssize_t) noexcept nogil
    double lapsvm_length2_bfloat(const short*, Py_ssize_t) noexcept nogil
    double lapsvm_length2_float(const float*, Py_ssize_t) noexcept nogil
    double lapsvm_length2_double(const double*, Py_ssize_t) noexcept nogil
    double lapsvm_exact2_bfloat(const short*, Py_ssize_t) noexcept nogil
    double lapsvm_exact2_float(const float*, Py_ssize_t) noexcept nogil
    void lapsvm_add_half(const unsigned short*, double, double*, Py_ssize_t) noexcept nogil
    void lapsvm_add_bfloat(const short*, double, double*, Py_ssize_t) noexcept nogil
    void lapsvm_add_float(const float*, double, double*, Py_ssize_t) noexcept nogil
    void lapsvm_add_double(const double*, double, double*, Py_ssize_t) noexcept nogil
    void lapsvm_prefetch(const void*, size_t) noexcept nogil
    int lapsvm_broken_half(const unsigned short*, Py_ssize_t) noexcept nogil
    int lapsvm_broken_bfloat(const short*, Py_ssize_t) noexcept nogil
    int lapsvm_broken_float(const float*, Py_ssize_t) noexcept nogil
    int lapsvm_broken_double(const double*, Py_ssize_t) noexcept nogil

cdef enum:
    AHEAD = 3  # rows between a row and the one that is prefetched

ctypedef fused Stored:
    unsigned short
    short
    float
    double


cdef inline double _dot64(const Stored* x, const double* w, Py_ssize_t d) noexcept nogil:
    if Stored is double:
        return lapsvm_dot64_double(x, w, d)
    elif Stored is float:
        return lapsvm_dot64_float(x, w, d)
    elif Stored is short:
        return lapsvm_dot64_bfloat(x, w, d)
    else:
        return lapsvm_dot64_half(x, w, d)


cdef inline double _norm2(const Stored* x, const double* scale, Py_ssize_t d) noexcept nogil:
    if Stored is double:
        return lapsvm_norm2_double(x, scale, d)
    elif Stored is float:
        return lapsvm_norm2_float(x, scale, d)
    elif Stored is short:
        return lapsvm_norm2_bfloat(x, scale, d)
    else:
        return lapsvm_norm2_half(x, scale, d)


cdef inline double _length2(const Stored* x, Py_ssize_t d) noexcept nogil:
    """Sum squares in float32 lanes, and in float64 where float32 overflows or is too coarse near 0."""
    cdef double found
    if Stored is double:
        return lapsvm_length2_double(x, d)
    elif Stored is float:
        found = lapsvm_length2_float(x, d)
        return found if 1e-20 < found < INFINITY else lapsvm_exact2_float(x, d)
    elif Stored is short:
        found = lapsvm_length2_bfloat(x, d)
        return found if 1e-20 < found < INFINITY else lapsvm_exact2_bfloat(x, d)
    else:
        return lapsvm_length2_half(x, d)


cdef inline void _add(const Stored* x, double coefficient, double* out, Py_ssize_t d) noexcept nogil:
    if Stored is double:
        lapsvm_add_double(x, coefficient, out, d)
    elif Stored is float:
        lapsvm_add_float(x, coefficient, out, d)
    elif Stored is short:
        lapsvm_add_bfloat(x, coefficient, out, d)
    else:
        lapsvm_add_half(x, coefficient, out, d)


cdef inline bint _broken(const Stored* x, Py_ssize_t d) noexcept nogil:
    if Stored is double:
        return lapsvm_broken_double(x, d)
    elif Stored is float:
        return lapsvm_broken_float(x, d)
    elif Stored is short:
        return lapsvm_broken_bfloat(x, d)
    else:
        return lapsvm_broken_half(x, d)


def row_scores(
    const Stored[:, ::1] features, const Py_ssize_t[:, ::1] rows, const double[:, ::1] weights, double[:, ::1] out
):
    """Write the float64 products of rows (m, k) of `features` with `weights` (k, d), column by column, into `out`."""
    cdef Py_ssize_t i, q, d = features.shape[1]
    with nogil:
        for i in range(rows.shape[0]):
            if i + AHEAD < rows.shape[0]:  # rows lie anywhere
                lapsvm_prefetch(&features[rows[i + AHEAD, 0], 0], d * sizeof(Stored))
            for q in range(rows.shape[1]):
                out[i, q] = _dot64(&features[rows[i, q], 0], &weights[q, 0], d)


def all_scores(const Stored[:, ::1] features, const double[::1] weights, double[::1] out):
    """Write the float64 product of every row of `features` with `weights` into `out`."""
    cdef Py_ssize_t i, d = features.shape[1]
    with nogil:
        for i in range(features.shape[0]):
            out[i] = _dot64(&features[i, 0], &weights[0], d)


def sums_of_norms(
    const Stored[:, ::1] features, const Py_ssize_t[::1] starts, const Py_ssize_t[::1] stops, const double[::1] scale,
    double[::1] out,
):
    """Write the sum of the Euclidean norms of rows starts[i] to stops[i] - 1, times `scale` (d,), into out[i]."""
    cdef Py_ssize_t i, row, d = features.shape[1]
    with nogil:
        for i in range(starts.shape[0]):
            out[i] = 0
            for row in range(starts[i], stops[i]):
                out[i] += sqrt(_norm2(&features[row, 0], &scale[0], d))


def longest(
    const Stored[:, ::1] features, const Py_ssize_t[::1] starts, const Py_ssize_t[::1] stops, double share,
    float[::1] lengths,
):
    """Return the largest of `lengths` over rows starts[i] to stops[i] - 1.

    Where it holds NaN, (1 + share) times the row's Euclidean norm is written first.
    """
    cdef Py_ssize_t i, row, d = features.shape[1]
    cdef float found = 0
    with nogil:
        for i in range(starts.shape[0]):
            for row in range(starts[i], stops[i]):
                if lengths[row] != lengths[row]:
                    lengths[row] = <float>((1 + share) * sqrt(_length2(&features[row, 0], d)))
                found = max(found, lengths[row])
    return found


def add_rows(
    const Stored[:, ::1] features, const Py_ssize_t[::1] rows, const double[::1] coefficients, double[::1] out
):
    """Add coefficients[i] times row rows[i] of `features` to `out` (d,); a coefficient 0 reads nothing."""
    cdef Py_ssize_t i, d = features.shape[1]
    with nogil:
        for i in range(rows.shape[0]):
            if i + AHEAD < rows.shape[0]:
                lapsvm_prefetch(&features[rows[i + AHEAD], 0], d * sizeof(Stored))
            if coefficients[i] != 0:
                _add(&features[rows[i], 0], coefficients[i], &out[0], d)


def first_broken_row(const Stored[:, ::1] features):
    """Return the first row that holds NaN or infinity, or -1."""
    cdef Py_ssize_t i, found = -1, d = features.shape[1]
    with nogil:
        for i in range(features.shape[0]):
            if _broken(&features[i, 0], d):
                found = i
                break
    return found
