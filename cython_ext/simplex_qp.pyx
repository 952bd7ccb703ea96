"""Active-set steps for a concave quadratic over a simplex, the Cholesky factor kept up to date.

    maximise  b.a - a'K a / 2   over   a >= 0, sum(a) = total

On directions whose entries sum to 0, K + sigma 11' is the same matrix as K; it is positive definite wherever planes
do not depend on each other affinely, also where plane 0 (all zeros) takes part. Its factor over the variables in use
gains a row when a variable enters and is repaired by rotations when one leaves.
"""

import numpy as np

from libc.math cimport fabs, sqrt

cdef double RIDGE = 1e-13  # of the largest diagonal entry; keeps dependent planes solvable, vanishes at the solution


cdef struct Work:
    Py_ssize_t m, used, capacity
    const double* gram   # (m, m)
    double sigma, ridge
    double* factor       # rows 0..used-1 of the lower factor, row length `capacity`
    Py_ssize_t* variables  # variable of each row
    double* a            # (m,)
    double* slope        # (m,) b - K a
    double* step         # (capacity,) direction of the variables in use
    double* ones         # (capacity,) scratch


cdef inline double _dot(const double* x, const double* y, Py_ssize_t n) noexcept nogil:
    """Sum in four lanes, so that the compiler may use vectors although floating-point sums must not be reordered."""
    cdef double s0 = 0, s1 = 0, s2 = 0, s3 = 0
    cdef Py_ssize_t i = 0
    while i + 4 <= n:
        s0 += x[i] * y[i]
        s1 += x[i + 1] * y[i + 1]
        s2 += x[i + 2] * y[i + 2]
        s3 += x[i + 3] * y[i + 3]
        i += 4
    while i < n:
        s0 += x[i] * y[i]
        i += 1
    return (s0 + s1) + (s2 + s3)


cdef void _enter(Work* work, Py_ssize_t variable) noexcept nogil:
    """Append a variable to those in use."""
    cdef Py_ssize_t i, last = work.used
    cdef double* row = work.factor + last * work.capacity
    cdef const double* gram = work.gram + variable * work.m
    cdef double rest
    for i in range(last):
        row[i] = (gram[work.variables[i]] + work.sigma - _dot(work.factor + i * work.capacity, row, i)) / (
            work.factor[i * work.capacity + i])
    rest = gram[variable] + work.sigma + work.ridge - _dot(row, row, last)
    row[last] = sqrt(rest if rest > work.ridge else work.ridge)
    work.variables[last] = variable
    work.used += 1


cdef void _leave(Work* work, Py_ssize_t position) noexcept nogil:
    """Remove the variable of a row: the rows behind move up and are rotated back to triangular form."""
    cdef Py_ssize_t i, j, capacity = work.capacity
    cdef double c, s, length, left, right
    cdef double* row
    for i in range(position + 1, work.used):
        work.variables[i - 1] = work.variables[i]
        for j in range(i + 1):
            work.factor[(i - 1) * capacity + j] = work.factor[i * capacity + j]
    work.used -= 1
    for i in range(position, work.used):
        row = work.factor + i * capacity
        length = sqrt(row[i] * row[i] + row[i + 1] * row[i + 1])
        c, s = row[i] / length, row[i + 1] / length
        row[i] = length
        for j in range(i + 1, work.used):
            left, right = work.factor[j * capacity + i], work.factor[j * capacity + i + 1]
            work.factor[j * capacity + i] = c * left + s * right
            work.factor[j * capacity + i + 1] = c * right - s * left


cdef void _solve(const Work* work, double* x) noexcept nogil:
    """Solve with the factor and its transpose, in place."""
    cdef Py_ssize_t i, j
    cdef const double* row
    for i in range(work.used):
        row = work.factor + i * work.capacity
        x[i] = (x[i] - _dot(row, x, i)) / row[i]
    for i in range(work.used - 1, -1, -1):
        row = work.factor + i * work.capacity
        x[i] /= row[i]
        for j in range(i):
            x[j] -= row[j] * x[i]


cdef void _newton(Work* work) noexcept nogil:
    """Write the step to the maximum over the variables in use at a constant sum."""
    cdef Py_ssize_t i, largest = 0
    cdef double along = 0, across = 0, drift = 0
    for i in range(work.used):
        work.step[i] = work.slope[work.variables[i]]
        work.ones[i] = 1.0
    _solve(work, work.step)
    _solve(work, work.ones)
    for i in range(work.used):
        along += work.step[i]
        across += work.ones[i]
    for i in range(work.used):
        work.step[i] -= along / across * work.ones[i]
        drift += work.step[i]
        if work.a[work.variables[i]] > work.a[work.variables[largest]]:
            largest = i
    work.step[largest] -= drift


cdef void _exchange(Work* work) noexcept nogil:
    """Write the step that takes from the smallest variable in use for the one that entered last."""
    cdef Py_ssize_t i, smallest = 0
    for i in range(work.used):
        work.step[i] = 0.0
        if work.slope[work.variables[i]] < work.slope[work.variables[smallest]]:
            smallest = i
    work.step[smallest] -= 1.0
    work.step[work.used - 1] += 1.0


cdef bint _go(Work* work, double floor) noexcept nogil:
    """Walk along the step to the maximum or the first bound; variables at 0 leave. False if it does not ascent."""
    cdef Py_ssize_t i, k
    cdef double ascent = 0, curvature = 0, length = -1.0
    cdef const double* gram
    for i in range(work.used):
        ascent += work.step[i] * work.slope[work.variables[i]]
        if work.step[i] < 0 and (length < 0 or -work.a[work.variables[i]] / work.step[i] < length):
            length = -work.a[work.variables[i]] / work.step[i]
    if not (ascent > 0 and length > 0):
        return False
    for i in range(work.used):
        gram = work.gram + work.variables[i] * work.m
        for k in range(work.used):
            curvature += work.step[i] * work.step[k] * gram[work.variables[k]]
    if curvature > 0 and ascent / curvature < length:
        length = ascent / curvature
    for i in range(work.used):
        gram = work.gram + work.variables[i] * work.m
        work.a[work.variables[i]] += length * work.step[i]
        for k in range(work.m):
            work.slope[k] -= length * work.step[i] * gram[k]
    for i in range(work.used - 1, -1, -1):
        if work.a[work.variables[i]] <= floor:
            work.a[work.variables[i]] = 0.0
            _leave(work, i)
    return True


cdef void _refresh(Work* work, const double* linear) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(work.m):
        work.slope[i] = linear[i] - _dot(work.gram + i * work.m, work.a, work.m)


cdef Py_ssize_t _run(Work* work, const double* linear, double total, double tol, Py_ssize_t most) noexcept nogil:
    """Step until the gap is at most `tol`, or rounding allows no more; return the number of steps."""
    cdef Py_ssize_t i, steepest, count = 0
    cdef double inside, size
    cdef bint entered
    for i in range(work.m):
        if work.a[i] > 0:
            _enter(work, i)
    while count < most:
        if count % 32 == 0:
            _refresh(work, linear)
        steepest, inside, size = 0, 0.0, 0.0
        for i in range(work.m):
            inside += work.a[i] * work.slope[i]
            size += work.a[i] * (fabs(linear[i]) + fabs(linear[i] - work.slope[i]))
            if work.slope[i] > work.slope[steepest]:
                steepest = i
        if total * work.slope[steepest] - inside <= max(tol, 1e-15 * size):
            break
        entered = work.a[steepest] <= 0
        if entered and work.used == work.m:  # numbers that are not finite can keep a variable in use twice
            break
        if entered:
            _enter(work, steepest)
        _newton(work)
        count += 1
        if (not entered or work.step[work.used - 1] > 0) and _go(work, 1e-15 * total):
            continue
        if not entered:
            break
        _exchange(work)
        if not _go(work, 1e-15 * total):
            break
    return count


def maximise(
    const double[:, ::1] gram, const double[::1] linear, double total, double[::1] a, double tol, Py_ssize_t most
):
    """Improve the feasible `a` (m,) in place; return the number of steps taken."""
    cdef Work work
    cdef Py_ssize_t i, steps, m = gram.shape[0]
    factor, numbers = np.empty((m + 1) * (m + 1)), np.empty((3, m + 1))
    row_variables = np.empty(m + 1, dtype=np.intp)
    cdef double[::1] factor_view = factor
    cdef double[:, ::1] number_view = numbers
    cdef Py_ssize_t[::1] variables_view = row_variables
    cdef double largest = 0.0
    for i in range(m):
        largest = max(largest, gram[i, i])
    work.m, work.used, work.capacity = m, 0, m + 1
    work.gram, work.a = &gram[0, 0], &a[0]
    work.sigma = largest if largest > 0 else 1.0
    work.ridge = RIDGE * work.sigma
    work.factor, work.variables = &factor_view[0], &variables_view[0]
    work.slope, work.step, work.ones = &number_view[0, 0], &number_view[1, 0], &number_view[2, 0]
    with nogil:
        steps = _run(&work, &linear[0], total, tol, most)
    return steps
