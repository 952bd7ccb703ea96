"""Windows of bags: scores and sums in float64, norms, and whether all is finite; the pass itself is in scores.pyx.

Stored halves are widened in registers, exactly, subnormal numbers included; no pass ever holds a float32 copy of the
store. On x86-64 with glibc the C floor is compiled for three instruction sets and the machine picks one when the module
is loaded, so the flags stay portable; the products of halves are written for each of them.
"""

from libc.math cimport sqrt

cdef extern from "bags.h":  # each function for every type
    void lapsvm_prefetch(const void*, size_t) noexcept nogil
    double lapsvm_dot64(const unsigned short*, const double*, Py_ssize_t) noexcept nogil
    double lapsvm_norm2(const unsigned short*, const double*, Py_ssize_t) noexcept nogil
    double lapsvm_length2(const unsigned short*, Py_ssize_t) noexcept nogil
    void lapsvm_add(const unsigned short*, double, double*, Py_ssize_t) noexcept nogil
    int lapsvm_broken(const unsigned short*, Py_ssize_t) noexcept nogil
    double lapsvm_dot64(const short*, const double*, Py_ssize_t) noexcept nogil
    double lapsvm_norm2(const short*, const double*, Py_ssize_t) noexcept nogil
    double lapsvm_length2(const short*, Py_ssize_t) noexcept nogil
    void lapsvm_add(const short*, double, double*, Py_ssize_t) noexcept nogil
    int lapsvm_broken(const short*, Py_ssize_t) noexcept nogil
    double lapsvm_dot64(const float*, const double*, Py_ssize_t) noexcept nogil
    double lapsvm_norm2(const float*, const double*, Py_ssize_t) noexcept nogil
    double lapsvm_length2(const float*, Py_ssize_t) noexcept nogil
    void lapsvm_add(const float*, double, double*, Py_ssize_t) noexcept nogil
    int lapsvm_broken(const float*, Py_ssize_t) noexcept nogil
    double lapsvm_dot64(const double*, const double*, Py_ssize_t) noexcept nogil
    double lapsvm_norm2(const double*, const double*, Py_ssize_t) noexcept nogil
    double lapsvm_length2(const double*, Py_ssize_t) noexcept nogil
    void lapsvm_add(const double*, double, double*, Py_ssize_t) noexcept nogil
    int lapsvm_broken(const double*, Py_ssize_t) noexcept nogil
    ctypedef double (*lapsvm_half_dot)(const unsigned short*, const double*, Py_ssize_t) noexcept nogil
    lapsvm_half_dot lapsvm_dot_at(int) noexcept nogil

cdef enum:
    LOOKAHEAD = 3  # rows between a row and the one that is prefetched

ctypedef fused Stored:
    unsigned short
    short
    float
    double


def row_scores(
    const Stored[:, ::1] features, const Py_ssize_t[:, ::1] rows, const double[:, ::1] weights, double[:, ::1] out
):
    """Write the float64 products of rows (m, k) of `features` with `weights` (k, d), column by column, into `out`."""
    cdef Py_ssize_t i, q, d = features.shape[1]
    with nogil:
        for i in range(rows.shape[0]):
            if i + LOOKAHEAD < rows.shape[0]:  # rows lie anywhere
                lapsvm_prefetch(&features[rows[i + LOOKAHEAD, 0], 0], d * sizeof(Stored))
            for q in range(rows.shape[1]):
                out[i, q] = lapsvm_dot64(&features[rows[i, q], 0], &weights[q, 0], d)


def all_scores(const Stored[:, ::1] features, const double[:, ::1] weights, double[:, ::1] out):
    """Write the float64 products of every row of `features` with the rows of `weights` (k, d) into `out` (n, k)."""
    cdef Py_ssize_t i, q, d = features.shape[1]
    with nogil:
        for i in range(features.shape[0]):
            for q in range(weights.shape[0]):
                out[i, q] = lapsvm_dot64(&features[i, 0], &weights[q, 0], d)


def half_score(const unsigned short[::1] row, const double[::1] weights, int level):
    """Return the float64 product of a row of halves with `weights`, by the instructions of a level (see scores.pyx)."""
    return lapsvm_dot_at(level)(&row[0], &weights[0], row.shape[0])


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
                out[i] += sqrt(lapsvm_norm2(&features[row, 0], &scale[0], d))


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
                    lengths[row] = <float>((1 + share) * sqrt(lapsvm_length2(&features[row, 0], d)))
                found = max(found, lengths[row])
    return found


def add_rows(
    const Stored[:, ::1] features, const Py_ssize_t[::1] rows, const double[::1] coefficients, double[::1] out
):
    """Add coefficients[i] times row rows[i] of `features` to `out` (d,); a coefficient 0 reads nothing."""
    cdef Py_ssize_t i, d = features.shape[1]
    with nogil:
        for i in range(rows.shape[0]):
            if i + LOOKAHEAD < rows.shape[0]:
                lapsvm_prefetch(&features[rows[i + LOOKAHEAD], 0], d * sizeof(Stored))
            if coefficients[i] != 0:
                lapsvm_add(&features[rows[i], 0], coefficients[i], &out[0], d)


def first_broken_row(const Stored[:, ::1] features):
    """Return the first row that holds NaN or infinity, or -1."""
    cdef Py_ssize_t i, found = -1, d = features.shape[1]
    with nogil:
        for i in range(features.shape[0]):
            if lapsvm_broken(&features[i, 0], d):
                found = i
                break
    return found
