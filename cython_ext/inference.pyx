"""Loss-augmented inference, from scores in input order to ranks and coefficients in input order."""

import numpy as np

from libc.math cimport fabs
from libc.stdint cimport int32_t

from lapsvm._ext.greedy cimport greedy_ranks
from lapsvm._ext.interleaving cimport Cuts, Grid, add_cuts, build_grid, place, sort_positives
from lapsvm._ext.optranks cimport Task, opt_ranks
from lapsvm._ext.rank_losses cimport RankLoss, loss_value

cdef enum Method:
    OPTRANKS = 0
    SEARCH = 1
    GREEDY = 2

LARGEST = 1e290  # sums of that many scores still stay below the largest float64
cdef double _LARGEST = LARGEST


cdef bint _all_usable(const double* scores, Py_ssize_t n) noexcept nogil:
    """Whether every score is finite and not beyond LARGEST."""
    cdef Py_ssize_t k
    cdef int bad = 0
    for k in range(n):
        bad |= not fabs(scores[k]) <= _LARGEST
    return not bad


cdef void _copy_negatives(const double* scores, Py_ssize_t n, const Py_ssize_t* positives, Py_ssize_t n_pos,
                          double* values) noexcept nogil:
    cdef Py_ssize_t p, k, start = 0, end
    for p in range(n_pos + 1):
        end = positives[p] if p < n_pos else n
        for k in range(start, end):
            values[k - p] = scores[k]
        start = end + 1


cdef double _place_positives(const Task* task, const Py_ssize_t* order, double centre, Py_ssize_t* above,
                             double* coefficients) noexcept nogil:
    """Write how many negatives are above each positive, and its coefficient; return their weighted sum."""
    cdef Py_ssize_t i, done = 0, n_pos = task.loss.n_pos
    cdef double total = 0, unit = 2.0 / (n_pos * <double>task.loss.n_neg)
    for i in range(n_pos):
        done += task.sizes[i + 1]
        above[i] = done
        coefficients[order[i]] = unit * done
        total += done * (task.positives[i] - centre)
    return unit * total


def most_violated(const double[::1] scores, const Py_ssize_t[::1] positive, int kind, double norm,
                  const double[::1] discount, gains, int method):
    """Return ranks, coefficients, negatives above each positive, Delta (0 for a Python loss) and coefficients @ scores.

    `positive` are the positives' places, ascending. None if a score is not finite or beyond LARGEST.
    """
    cdef Py_ssize_t n = scores.shape[0], n_pos = positive.shape[0], n_neg = n - n_pos
    cdef RankLoss loss = RankLoss(kind, n_pos, n_neg, norm, NULL, <void*>gains)
    cdef Task task
    cdef Cuts cuts
    cdef Grid grid
    cdef double delta, weighted, centre
    if not _all_usable(&scores[0], n):
        return None
    if discount is not None:
        loss.discount = &discount[0]
    ranks, coefficients, above = np.empty(n_neg, np.intp), np.zeros(n), np.empty(n_pos, np.intp)
    cdef Py_ssize_t[::1] ranks_view = ranks, above_view = above
    cdef double[::1] coefficients_view = coefficients, values = np.empty(n_neg)
    cdef double[:, ::1] floats = np.empty((3, n_pos))
    cdef Py_ssize_t[:, ::1] integers = np.zeros((4, n_pos + 2), np.intp)
    grid.last = min(4 * n_pos, 1 << 16) if n_neg > 64 else 0
    cdef int32_t[::1] first = np.empty(grid.last + 2, np.int32)
    task = Task(&loss, &floats[0, 0], &values[0], 0, &integers[0, 0], &floats[1, 0], method == SEARCH)
    cuts = Cuts(0, &floats[2, 0], &integers[1, 0], &integers[2, 0])
    with nogil:
        sort_positives(&scores[0], &positive[0], n_pos, &floats[0, 0], &integers[3, 0])
        _copy_negatives(&scores[0], n, &positive[0], n_pos, &values[0])
        if method == GREEDY:
            greedy_ranks(&task, n_neg)
        else:
            opt_ranks(&task, 0, n_neg, 1, n_pos + 1)
        add_cuts(&cuts, task.values, n_neg, task.sizes, 1, n_pos + 1)
        build_grid(&grid, &cuts, &first[0])
        centre = task.positives[n_pos - 1]
        weighted = place(&scores[0], n, &positive[0], n_pos, &grid, &first[0], &cuts, centre, &ranks_view[0],
                         &coefficients_view[0])
        weighted += _place_positives(&task, &integers[3, 0], centre, &above_view[0], &coefficients_view[0])
        delta = loss_value(&loss, &above_view[0])
    return ranks, coefficients, above, delta, weighted
