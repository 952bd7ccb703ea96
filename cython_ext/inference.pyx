"""Loss-augmented inference, from scores in input order to ranks and coefficients in input order."""

cimport numpy as cnp
from libc.math cimport fabs
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free

from lapsvm._ext.counting cimport Sample, count_ranks, grid_size
from lapsvm._ext.greedy cimport greedy_ranks
from lapsvm._ext.interleaving cimport Cuts, Grid, add_cuts, build_grid, place, sort_positives
from lapsvm._ext.optranks cimport Task, opt_ranks
from lapsvm._ext.rank_losses cimport RankLoss, loss_value

cnp.import_array()

cdef enum Method:
    COUNTING = 0
    OPTRANKS = 1
    SEARCH = 2
    GREEDY = 3

LARGEST = 1e290  # sums of that many scores still stay below the largest float64
cdef double _LARGEST = LARGEST

cdef struct Memory:
    # per call: one block, cut into the arrays of a Task and of Cuts
    double* positives       # [P]
    double* gains           # [P]
    double* high            # [P]
    Py_ssize_t* sizes       # [P + 2]
    Py_ssize_t* rank        # [P + 2]
    Py_ssize_t* quota       # [P + 2]
    Py_ssize_t* order       # [P + 2]
    int32_t* first          # [buckets + 1]
    double* values          # [N], NULL for counting


cdef bint _all_usable(const double* scores, Py_ssize_t n) noexcept nogil:
    """Whether every score is finite and not beyond LARGEST."""
    cdef Py_ssize_t k
    cdef int bad = 0
    for k in range(n):
        bad |= not fabs(scores[k]) <= _LARGEST
    return not bad


cdef void _copy_negatives(const Sample* sample, double* values) noexcept nogil:
    cdef Py_ssize_t p, k, start = 0, end
    for p in range(sample.n_pos + 1):
        end = sample.positives[p] if p < sample.n_pos else sample.n
        for k in range(start, end):
            values[k - p] = sample.scores[k]
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


cdef char* _allocate(Memory* memory, Py_ssize_t n_pos, Py_ssize_t buckets) noexcept nogil:
    """Return a zeroed block, to be freed, cut into the parts of `memory`; NULL if there is no room."""
    cdef Py_ssize_t words = 3 * n_pos + 4 * (n_pos + 2)
    cdef char* block = <char*>calloc(words * 8 + (buckets + 2) * sizeof(int32_t), 1)
    if block != NULL:
        memory.positives = <double*>block
        memory.gains = memory.positives + n_pos
        memory.high = memory.gains + n_pos
        memory.sizes = <Py_ssize_t*>(memory.high + n_pos)
        memory.rank = memory.sizes + n_pos + 2
        memory.quota = memory.rank + n_pos + 2
        memory.order = memory.quota + n_pos + 2
        memory.first = <int32_t*>(memory.order + n_pos + 2)
    return block


cdef double _solve(const RankLoss* loss, const Sample* sample, Method method, const Memory* memory, Py_ssize_t* ranks,
                   double* coefficients, Py_ssize_t* above) except? -1 nogil:
    """Write ranks, coefficients and the negatives above each positive; return coefficients @ scores."""
    cdef Py_ssize_t n_neg = loss.n_neg, n_pos = loss.n_pos
    cdef Task task = Task(loss, memory.positives, memory.values, 0, memory.sizes, memory.gains, method == SEARCH)
    cdef Cuts cuts = Cuts(0, memory.high, memory.quota, memory.rank)
    cdef Grid grid
    cdef double centre
    grid.last = _buckets(method, n_neg, n_pos) - 1
    sort_positives(sample.scores, sample.positives, n_pos, memory.positives, memory.order)
    if method == COUNTING:
        count_ranks(&task, sample, &grid, memory.first, &cuts)
    else:
        _copy_negatives(sample, memory.values)
        if method == GREEDY:
            greedy_ranks(&task, n_neg)
        else:
            opt_ranks(&task, 0, n_neg, 1, n_pos + 1)
        add_cuts(&cuts, memory.values, n_neg, memory.sizes, 1, n_pos + 1)
        build_grid(&grid, &cuts, memory.first)
    centre = memory.positives[n_pos - 1]
    return (place(sample.scores, sample.n, sample.positives, n_pos, &grid, memory.first, &cuts, centre, ranks,
                  coefficients)
            + _place_positives(&task, memory.order, centre, above, coefficients))


cdef Py_ssize_t _buckets(Method method, Py_ssize_t n_neg, Py_ssize_t n_pos) noexcept nogil:
    """Return how many buckets the grid of the method has."""
    if method == COUNTING:
        return grid_size(n_neg)
    return min(4 * n_pos, 1 << 16) if n_neg > 64 else 1


def most_violated(const double[::1] scores, const Py_ssize_t[::1] positive, int kind, double norm,
                  const double[::1] discount, gains, int method):
    """Return ranks, coefficients, negatives above each positive, Delta (0 for a Python loss) and coefficients @ scores.

    `positive` are the positives' places, ascending. None if a score is not finite or beyond LARGEST.
    """
    cdef cnp.npy_intp n = scores.shape[0], n_pos = positive.shape[0], n_neg = n - n_pos
    cdef RankLoss loss = RankLoss(kind, n_pos, n_neg, norm, NULL, <void*>gains)
    cdef Sample sample = Sample(&scores[0], n, &positive[0], n_pos)
    cdef Memory memory
    cdef char* block
    cdef double delta, weighted
    cdef Py_ssize_t* ranks_data
    cdef Py_ssize_t* above_data
    cdef double* coefficients_data
    if not _all_usable(sample.scores, n):
        return None
    if discount is not None:
        loss.discount = &discount[0]
    ranks = cnp.PyArray_EMPTY(1, &n_neg, cnp.NPY_INTP, 0)
    coefficients = cnp.PyArray_ZEROS(1, &n, cnp.NPY_DOUBLE, 0)
    above = cnp.PyArray_EMPTY(1, &n_pos, cnp.NPY_INTP, 0)
    values = None if method == COUNTING else cnp.PyArray_EMPTY(1, &n_neg, cnp.NPY_DOUBLE, 0)
    ranks_data = <Py_ssize_t*>cnp.PyArray_DATA(ranks)
    coefficients_data = <double*>cnp.PyArray_DATA(coefficients)
    above_data = <Py_ssize_t*>cnp.PyArray_DATA(above)
    memory.values = NULL
    if values is not None:
        memory.values = <double*>cnp.PyArray_DATA(values)
    block = _allocate(&memory, n_pos, _buckets(<Method>method, n_neg, n_pos))
    if block == NULL:
        raise MemoryError
    try:
        with nogil:
            weighted = _solve(&loss, &sample, <Method>method, &memory, ranks_data, coefficients_data,
                              above_data)
            delta = loss_value(&loss, above_data)
    finally:
        free(block)
    return ranks, coefficients, above, delta, weighted
