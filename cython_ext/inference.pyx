"""Loss-augmented inference, from scores in input order to ranks and coefficients in input order."""

import numpy as np

cimport numpy as cnp
from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free

from lapsvm._ext.counting cimport Candidates, count_ranks
from lapsvm._ext.greedy cimport greedy_ranks
from lapsvm._ext.grid cimport LARGEST as _LARGEST
from lapsvm._ext.grid cimport all_usable, grid_size
from lapsvm._ext.interleaving cimport Cuts, Grid, add_cuts, build_grid, sort_positives, write_few_ranks, write_ranks
from lapsvm._ext.optranks cimport Task, opt_ranks
from lapsvm._ext.rank_losses cimport (
    AP,
    AUC,
    LOG,
    MRR,
    OBJECT,
    PARTIAL_AUC,
    POS_AT_TOP,
    TABLE,
    RankLoss,
    loss_value,
)
from lapsvm._ext.sample cimport Run, Sample, Target, next_run, put, runs_between, score_at

from lapsvm.errors import InputError

cnp.import_array()

cdef enum Method:
    COUNTING = 0
    OPTRANKS = 1
    SEARCH = 2
    GREEDY = 3

cdef enum:
    CANDIDATES = 16  # one negative in so many may be a candidate before a list of them is given up

LARGEST = _LARGEST  # magnitude up to which scores are taken
KINDS = {"ap": AP, "ndcg_log": LOG, "ndcg_table": TABLE, "auc": AUC, "mrr": MRR, "pos_at_top": POS_AT_TOP,
         "partial_auc": PARTIAL_AUC, "object": OBJECT}

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
    Candidates candidates   # for counting

cdef struct Output:
    Target target
    Py_ssize_t* above       # [P] negatives above each positive, best positive first
    double weighted         # coefficients @ scores


cdef void _copy_negatives(const Sample* sample, double* values) noexcept nogil:
    cdef Py_ssize_t k
    cdef Run run = runs_between(sample.positives, sample.n_pos, sample.n)
    while next_run(&run):
        for k in range(run.start, run.end):
            values[k - run.p] = score_at(sample, k)


cdef double _place_positives(const Task* task, const Py_ssize_t* order, double centre,
                             Output* output) noexcept nogil:
    """Write how many negatives are above each positive, and its coefficient; return their weighted sum."""
    cdef Py_ssize_t i, done = 0, n_pos = task.loss.n_pos
    cdef double total = 0, unit = 2.0 / (n_pos * <double>task.loss.n_neg)
    for i in range(n_pos):
        done += task.sizes[i + 1]
        output.above[i] = done
        put(&output.target, order[i], unit * done)
        total += done * (task.positives[i] - centre)
    return unit * total


cdef char* _allocate(Memory* memory, Py_ssize_t n_pos, Py_ssize_t buckets, Py_ssize_t capacity) noexcept nogil:
    """Return a zeroed block, to be freed, cut into the parts of `memory`; NULL if there is none."""
    cdef Py_ssize_t words = 3 * n_pos + 4 * (n_pos + 2)
    cdef char* block = <char*>calloc(words * 8 + (buckets + 2 + capacity) * sizeof(int32_t), 1)
    if block != NULL:
        memory.positives = <double*>block
        memory.gains = memory.positives + n_pos
        memory.high = memory.gains + n_pos
        memory.sizes = <Py_ssize_t*>(memory.high + n_pos)
        memory.rank = memory.sizes + n_pos + 2
        memory.quota = memory.rank + n_pos + 2
        memory.order = memory.quota + n_pos + 2
        memory.first = <int32_t*>(memory.order + n_pos + 2)
        memory.candidates = Candidates(0, capacity, memory.first + buckets + 2)
    return block


cdef Py_ssize_t _buckets(Method method, Py_ssize_t n_neg, Py_ssize_t n_pos) noexcept nogil:
    """Return how many buckets the grid of the method has."""
    if method == COUNTING:
        return grid_size(n_neg)
    return min(4 * n_pos, 1 << 16) if n_neg > 64 else 1


cdef bint _move_ranks(Task* task, const Sample* sample, Method method, Grid* grid, const Memory* memory,
                      Cuts* cuts) except -1 nogil:
    """Find the ranks with a method that moves a copy of the negatives; False if one is not usable."""
    cdef Py_ssize_t n_neg = task.loss.n_neg, n_pos = task.loss.n_pos
    _copy_negatives(sample, memory.values)
    if not all_usable(memory.values, n_neg):
        return False
    if method == GREEDY:
        greedy_ranks(task, n_neg)
    else:
        opt_ranks(task, 0, n_neg, 1, n_pos + 1)
    add_cuts(cuts, memory.values, n_neg, memory.sizes, 1, n_pos + 1)
    build_grid(grid, cuts, memory.first)
    return True


cdef bint _solve(const RankLoss* loss, const Sample* sample, Method method, Memory* memory,
                 Output* output) except -1 nogil:
    """Write the output; False if a score is not usable.

    Another thread may change the scores meanwhile. So what is sorted is a copy, checked after it was made, and what
    is read again only chooses among indices that exist.
    """
    cdef Py_ssize_t k, n_neg = loss.n_neg, n_pos = loss.n_pos
    cdef Task task = Task(loss, memory.positives, memory.values, 0, memory.sizes, memory.gains, method == SEARCH)
    cdef Cuts cuts = Cuts(0, memory.high, memory.quota, memory.rank)
    cdef Grid grid
    cdef double centre
    for k in range(n_pos):
        memory.positives[k] = score_at(sample, sample.positives[k])
    if not all_usable(memory.positives, n_pos):
        return False
    grid.last = _buckets(method, n_neg, n_pos) - 1
    sort_positives(sample.positives, n_pos, memory.positives, memory.order)
    if method == COUNTING:
        if not count_ranks(&task, sample, &grid, memory.first, &cuts, &memory.candidates):
            return False
    else:
        if not _move_ranks(&task, sample, method, &grid, memory, &cuts):
            return False
        memory.candidates.capacity = -1
    centre = memory.positives[n_pos - 1]
    if memory.candidates.capacity >= 0:
        output.weighted = write_few_ranks(
            sample, memory.candidates.indices, memory.candidates.n, &grid, memory.first, &cuts, centre, &output.target)
    else:
        output.weighted = write_ranks(sample, &grid, memory.first, &cuts, centre, &output.target)
    output.weighted += _place_positives(&task, memory.order, centre, output)
    return True


cdef int check_loss(const RankLoss* loss, Py_ssize_t n_discounts) except -1:
    """Raise unless the C floor can work with the loss: a class of a user's may say anything of itself."""
    if not AP <= loss.kind <= OBJECT:
        raise InputError(f"kind of a loss must be {<int>AP} to {<int>OBJECT}, got {loss.kind}.")
    if (loss.kind == LOG or loss.kind == TABLE or loss.kind == PARTIAL_AUC) and not 0 < loss.norm < INFINITY:
        raise InputError(f"norm of a loss must be finite and greater than 0, got {loss.norm}.")
    if loss.kind == TABLE and n_discounts <= loss.n_pos + loss.n_neg:
        raise InputError(f"discounts must be those of the ranks 0 to {loss.n_pos + loss.n_neg}, got {n_discounts}.")
    return 0


def first_violation(const Py_ssize_t[::1] order, const Py_ssize_t[::1] ranks, const Py_ssize_t[::1] starts,
                    const double[::1] values, Py_ssize_t n_pos, double slack):
    """Return the row and the column of the first derivative that is more than `slack` below an earlier row's.

    Row k gives ranks[k], ranks[k] + 1, ..., each of 1 .. n_pos, the values starts[k] .. starts[k + 1] - 1; rows are
    taken in `order`. (-1, -1) if none falls; NaN never does.
    """
    cdef Py_ssize_t at, k, entry, rank, row = -1, found = -1
    cdef double value
    floor = np.full(n_pos + 1, -INFINITY)
    cdef double[::1] least = floor
    with nogil:
        for at in range(order.shape[0]):
            k = order[at]
            for entry in range(starts[k], starts[k + 1]):
                rank = ranks[k] + entry - starts[k]
                value = values[entry]
                if value < least[rank]:
                    row, found = k, entry - starts[k]
                    break
                if value - slack > least[rank]:
                    least[rank] = value - slack
            if row >= 0:
                break
    return row, found


cdef int _run(RankLoss* loss, const double[::1] discount, const Sample* sample, Method method, double* values,
              Output* output, double* delta) except -1:
    """Check the loss and write the output and Delta; 0 if a score is not usable."""
    cdef Memory memory
    cdef bint usable = False
    check_loss(loss, 0 if discount is None else discount.shape[0])
    if discount is not None:
        loss.discount = &discount[0]
    memory.values = values
    cdef Py_ssize_t buckets = _buckets(method, loss.n_neg, loss.n_pos)
    cdef char* block = _allocate(&memory, loss.n_pos, buckets, loss.n_neg // CANDIDATES)
    if block == NULL:
        raise MemoryError
    try:
        with nogil:
            usable = _solve(loss, sample, method, &memory, output)
            if usable:
                delta[0] = loss_value(loss, output.above)
    finally:
        free(block)
    return usable


def most_violated(const double[::1] scores, const Py_ssize_t[::1] positive, int kind, double norm,
                  const double[::1] discount or None, gains, int method):
    """Return ranks, coefficients, negatives above each positive, Delta (0 for a Python loss) and coefficients @ scores.

    `positive` are the positives' indices in ascending order. None if a score is not finite or above LARGEST.
    """
    cdef cnp.npy_intp n = scores.shape[0], n_pos = positive.shape[0], n_neg = n - n_pos
    cdef RankLoss loss = RankLoss(kind, n_pos, n_neg, norm, NULL, <void*>gains)
    cdef Sample sample = Sample(&scores[0], NULL, 1.0, n, &positive[0], n_pos)
    cdef Output output
    cdef double* moved = NULL
    cdef double delta = 0
    ranks = cnp.PyArray_EMPTY(1, &n_neg, cnp.NPY_INTP, 0)
    coefficients = cnp.PyArray_ZEROS(1, &n, cnp.NPY_DOUBLE, 0)
    above = cnp.PyArray_EMPTY(1, &n_pos, cnp.NPY_INTP, 0)
    values = None if method == COUNTING else cnp.PyArray_EMPTY(1, &n_neg, cnp.NPY_DOUBLE, 0)
    if values is not None:
        moved = <double*>cnp.PyArray_DATA(values)
    output.target = Target(
        <Py_ssize_t*>cnp.PyArray_DATA(ranks), <double*>cnp.PyArray_DATA(coefficients), NULL, 1.0)
    output.above = <Py_ssize_t*>cnp.PyArray_DATA(above)
    if not _run(&loss, discount, &sample, <Method>method, moved, &output, &delta):
        return None
    return ranks, coefficients, above, delta, output.weighted


def violation_gradient(const float[::1] scores, double scale, const Py_ssize_t[::1] positive, int kind, double norm,
                       const double[::1] discount or None):
    """Return the violation's gradient in float32, Delta and coefficients @ scores.

    The scores are scale * `scores` in float64, and the answer is that of `most_violated` by counting, without a copy of
    the scores and without arrays of ranks and coefficients. The loss is no Python object. None if a score is not finite
    or above LARGEST.
    """
    cdef cnp.npy_intp n = scores.shape[0], n_pos = positive.shape[0]
    cdef RankLoss loss = RankLoss(kind, n_pos, n - n_pos, norm, NULL, NULL)
    cdef Sample sample = Sample(NULL, &scores[0], scale, n, &positive[0], n_pos)
    cdef Output output
    cdef double delta = 0
    if kind == OBJECT:
        raise InputError(f"kind of a loss must be {<int>AP} to {<int>PARTIAL_AUC}, got {kind}.")
    gradient = cnp.PyArray_ZEROS(1, &n, cnp.NPY_FLOAT, 0)
    above = cnp.PyArray_EMPTY(1, &n_pos, cnp.NPY_INTP, 0)
    output.target = Target(NULL, NULL, <float*>cnp.PyArray_DATA(gradient), -scale)
    output.above = <Py_ssize_t*>cnp.PyArray_DATA(above)
    if not _run(&loss, discount, &sample, COUNTING, NULL, &output, &delta):
        return None
    return gradient, delta, output.weighted
