"""The predicted ranking, max_R F(R), and loss-diminished inference, max_R F(R) - Delta(R).

A ranking is a staircase of swapped cells: (i, j) is swapped if the j-th best negative is above the i-th best positive,
and with a cell those of all worse positives and all better negatives are. In units of 2 / (P N) a swapped cell adds
s*_j - s+_i to F and -gain_j(i) >= 0 to Delta. So cells outside of the predicted staircase only cost, and negatives
below every positive take no part. `ap_diminished.pyx` is for AP.
"""

cimport numpy as cnp
from libc.math cimport INFINITY
from libc.stdint cimport uint64_t
from libcpp.algorithm cimport sort
from libcpp.pair cimport pair
from libcpp.vector cimport vector

from lapsvm._ext.ap_diminished cimport choose_prefixes
from lapsvm._ext.grid cimport LARGEST, all_usable
from lapsvm._ext.inference cimport check_loss
from lapsvm._ext.interleaving cimport Grid, bucket_of, sort_positives
from lapsvm._ext.rank_losses cimport AP, OBJECT, RankLoss, fill_gains, loss_value
from lapsvm._ext.sample cimport Run, next_run, runs_between

from lapsvm.errors import ShapeError

cnp.import_array()

ctypedef pair[double, Py_ssize_t] Place

cdef enum Method:
    PREDICTED = 0
    DIMINISHED = 1

cdef struct Task:
    const RankLoss* loss
    const double* positives      # [P] sorted, best first
    const double* negatives      # [M] sorted, best first: those that take part
    Py_ssize_t n                 # M
    Py_ssize_t* above            # [P] negatives above each positive: predicted, and then found
    Py_ssize_t* ranks            # [M] predicted, and then found


cdef struct Positives:
    # sorted, best first, with a grid over their scores: those of bucket b are first[b] .. first[b + 1] - 1
    Py_ssize_t n
    const double* scores
    const Py_ssize_t* order      # [P] input indices
    Grid grid
    Py_ssize_t* first            # [buckets + 1]


cdef void _lay_grid(Positives* positives, Py_ssize_t buckets) noexcept nogil:
    """Spread the positives over buckets of equal width."""
    cdef Py_ssize_t b = 0, k
    cdef double width = positives.scores[0] - positives.scores[positives.n - 1]
    positives.grid = Grid(positives.scores[0], -INFINITY, 0.0, buckets - 1)
    if width > 0 and (buckets - 1) / width < INFINITY:
        positives.grid.scale = (buckets - 1) / width
    positives.first[0] = 0
    for k in range(positives.n):
        while b < bucket_of(&positives.grid, positives.scores[k]):
            b += 1
            positives.first[b] = k
    while b < buckets:
        b += 1
        positives.first[b] = positives.n


cdef inline Py_ssize_t _positives_above(const Positives* positives, double score, Py_ssize_t index) noexcept nogil:
    """Return how many positives are above a negative; among equal scores the first in input order is the higher one."""
    cdef Py_ssize_t b = bucket_of(&positives.grid, score)
    cdef Py_ssize_t first = positives.first[b], length = positives.first[b + 1] - first, half
    while length > 0:
        half = length // 2
        if positives.scores[first + half] > score or (positives.scores[first + half] == score
                                                      and positives.order[first + half] < index):
            first += half + 1
            length -= half + 1
        else:
            length = half
    return first


cdef Py_ssize_t _best_prefix(const Task* task, Py_ssize_t i, Py_ssize_t low, Py_ssize_t high) except -1 nogil:
    """Return the smallest best number of negatives above the i-th positive (from 1) in low .. high."""
    cdef Py_ssize_t j, best = low
    cdef double total = 0, highest = 0, gain
    for j in range(low + 1, high + 1):
        fill_gains(task.loss, j, i, 1, &gain)
        total += task.negatives[j - 1] - task.positives[i - 1] + gain
        if total > highest:
            highest = total
            best = j
    return best


cdef int _choose_prefixes(const Task* task, Py_ssize_t first, Py_ssize_t last, Py_ssize_t low,
                          Py_ssize_t high) except -1 nogil:
    """Replace above[first .. last], which is in low .. high, by divide and conquer over the positives.

    Right where -gain_j(i) does not rise with i: then a worse positive has no fewer negatives above it.
    """
    cdef Py_ssize_t middle, best
    if first > last:
        return 0
    middle = (first + last) // 2
    best = _best_prefix(task, middle + 1, low, min(high, max(low, task.above[middle])))
    _choose_prefixes(task, first, middle - 1, low, best)
    task.above[middle] = best
    return _choose_prefixes(task, middle + 1, last, best, high)


cdef int _mirrored(const Task* task) except -1 nogil:
    """Choose the number of negatives above each positive, and write the negatives' ranks."""
    cdef Py_ssize_t j, i = 0
    if task.loss.kind == AP:
        choose_prefixes(task.positives, task.loss.n_pos, task.negatives, task.n, task.loss.n_neg, task.above)
    else:
        _choose_prefixes(task, 0, task.loss.n_pos - 1, 0, task.n)
    for j in range(task.n):
        while i < task.loss.n_pos and task.above[i] <= j:
            i += 1
        task.ranks[j] = i + 1
    return 0


cdef int _choose_ranks(const Task* task, Py_ssize_t j, double* gains, double* best, uint64_t* taken) except -1 nogil:
    """Do one step of the dynamic programme: best[r - 1] becomes that of the negatives j, j + 1, ... with ranks >= r.

    Bit r - 1 of `taken` is set where the j-th negative takes rank r rather than a higher one.
    """
    cdef Py_ssize_t r, n_pos = task.loss.n_pos
    cdef double total = 0, highest = best[n_pos], candidate, score = task.negatives[j - 1]
    fill_gains(task.loss, j, 1, n_pos, gains)
    for r in range(n_pos, 0, -1):
        total += score - task.positives[r - 1] + gains[r - 1]
        candidate = total + best[r - 1]
        if candidate > highest:
            highest = candidate
            taken[(r - 1) >> 6] |= <uint64_t>1 << ((r - 1) & 63)
        best[r - 1] = highest
    return 0


cdef int _programme(const Task* task) except -1 nogil:
    """Find the ranks by dynamic programming over the staircases, from the worst negative to the best: O(P N).

    A user's loss may have gains of any sign, so all cells are tried.
    """
    cdef Py_ssize_t j, r, n_pos = task.loss.n_pos, words = ((n_pos - 1) >> 6) + 1
    cdef vector[double] gains, best
    cdef vector[uint64_t] taken
    gains.resize(n_pos)
    best.resize(n_pos + 1)
    taken.resize(task.n * words)
    for j in range(task.n, 0, -1):
        _choose_ranks(task, j, gains.data(), best.data(), taken.data() + (j - 1) * words)
    r = 1
    for j in range(task.n):
        while r <= n_pos and not (taken[j * words + ((r - 1) >> 6)] >> ((r - 1) & 63)) & 1:
            r += 1
        task.ranks[j] = r
    return 0


cdef void _count_above(Py_ssize_t* above, const Py_ssize_t* ranks, Py_ssize_t n, Py_ssize_t n_pos) noexcept nogil:
    """Write the number of ranks up to i for each positive i."""
    cdef Py_ssize_t j, i
    for i in range(n_pos):
        above[i] = 0
    for j in range(n):
        if ranks[j] <= n_pos:
            above[ranks[j] - 1] += 1
    for i in range(1, n_pos):
        above[i] += above[i - 1]


cdef bint _rank_negatives(const double* scores, Py_ssize_t n, const Py_ssize_t* positive, const Positives* positives,
                          Py_ssize_t* ranks) noexcept nogil:
    """Write every negative's predicted rank; False if a score is not usable."""
    cdef Py_ssize_t k
    cdef Run run = runs_between(positive, positives.n, n)
    while next_run(&run):
        for k in range(run.start, run.end):
            if not -LARGEST <= scores[k] <= LARGEST:
                return False
            ranks[k - run.p] = 1 + _positives_above(positives, scores[k], k)
    return True


cdef int _gather(const double* scores, Py_ssize_t n, const Py_ssize_t* positive, Py_ssize_t n_pos,
                 const Py_ssize_t* ranks, Py_ssize_t last_rank, vector[Place]* places) except -1 nogil:
    """Append the negatives with ranks up to the last one."""
    cdef Py_ssize_t k
    cdef Run run = runs_between(positive, n_pos, n)
    places.reserve(n - n_pos)
    while next_run(&run):
        for k in range(run.start, run.end):
            if ranks[k - run.p] <= last_rank:
                places.push_back(Place(-scores[k], k - run.p))
                if not -LARGEST <= places.back().first <= LARGEST:  # the copy counts: scores may change meanwhile
                    places.pop_back()
    return 0


cdef int _sort(const Grid* grid, vector[Place]* places) except -1 nogil:
    """Sort the negatives, best first: distribute them over the buckets, and sort each bucket."""
    cdef Py_ssize_t b, k, buckets = grid.last + 1, n = places.size()
    cdef vector[Place] sorted_places
    cdef vector[Py_ssize_t] ends
    if n < buckets:
        sort(places.begin(), places.end())
        return 0
    ends.resize(buckets + 1)
    sorted_places.resize(n)
    for k in range(n):
        ends[bucket_of(grid, -places.at(k).first) + 1] += 1
    for b in range(buckets):
        ends[b + 1] += ends[b]
    for k in range(n):
        b = bucket_of(grid, -places.at(k).first)
        sorted_places[ends[b]] = places.at(k)
        ends[b] += 1
    k = 0
    for b in range(buckets):
        if ends[b] - k > 1:
            sort(sorted_places.begin() + k, sorted_places.begin() + ends[b])
        k = ends[b]
    places.swap(sorted_places)
    return 0


cdef int _diminish(const RankLoss* loss, const double* positives, vector[Place]* places, Py_ssize_t* ranks,
                   Py_ssize_t* above) except -1 nogil:
    """Replace the predicted ranks and numbers above by those with the largest F - Delta."""
    cdef Py_ssize_t j, n = places.size()
    cdef vector[double] negatives
    cdef vector[Py_ssize_t] found
    cdef Task task
    negatives.resize(n)
    found.resize(n)
    for j in range(n):
        negatives[j] = -places.at(j).first
        found[j] = ranks[places.at(j).second]
    task = Task(loss, positives, negatives.data(), n, above, found.data())
    if loss.kind == OBJECT:
        _programme(&task)
    else:
        _mirrored(&task)
    for j in range(n):
        ranks[places.at(j).second] = found[j]
    _count_above(above, found.data(), n, loss.n_pos)
    return 0


cdef void _write_coefficients(const Py_ssize_t* ranks, Py_ssize_t n, const Py_ssize_t* positive,
                              const Py_ssize_t* order, const Py_ssize_t* above, Py_ssize_t n_pos,
                              double* coefficients) noexcept nogil:
    """Write Psi(R*) - Psi(R) in input order."""
    cdef Py_ssize_t k
    cdef double unit = 2.0 / (n_pos * <double>(n - n_pos))
    cdef Run run = runs_between(positive, n_pos, n)
    while next_run(&run):
        for k in range(run.start, run.end):
            coefficients[k] = -unit * (n_pos + 1 - ranks[k - run.p])
    for k in range(n_pos):
        coefficients[order[k]] = unit * above[k]


cdef struct Sorted:
    vector[double] scores
    vector[Py_ssize_t] order
    vector[Py_ssize_t] first


cdef bint _sort_positives(const double* scores, const Py_ssize_t* positive, Py_ssize_t n_pos, Sorted* kept,
                          Positives* positives) except -1 nogil:
    """Sort the positives and lay the grid; False if one is not usable. `kept` holds the memory of `positives`."""
    cdef Py_ssize_t k, buckets = min(16 * n_pos, 1 << 16)
    kept.scores.resize(n_pos)
    kept.order.resize(n_pos)
    kept.first.resize(buckets + 1)
    for k in range(n_pos):
        kept.scores[k] = scores[positive[k]]
    if not all_usable(kept.scores.data(), n_pos):
        return False
    sort_positives(positive, n_pos, kept.scores.data(), kept.order.data())
    positives.n = n_pos
    positives.scores = kept.scores.data()
    positives.order = kept.order.data()
    positives.first = kept.first.data()
    _lay_grid(positives, buckets)
    return True


cdef bint _solve(const RankLoss* loss, const double* scores, const Py_ssize_t* positive, Method method,
                 Py_ssize_t* ranks, double* coefficients, Py_ssize_t* above) except -1 nogil:
    """Write the output; False if a score is not usable.

    Another thread may change the scores meanwhile. What is sorted is a copy, checked when it was made.
    """
    cdef Py_ssize_t n_pos = loss.n_pos, n = loss.n_pos + loss.n_neg
    cdef Sorted kept
    cdef vector[Place] places
    cdef Positives positives
    if not _sort_positives(scores, positive, n_pos, &kept, &positives):
        return False
    if not _rank_negatives(scores, n, positive, &positives, ranks):
        return False
    _count_above(above, ranks, loss.n_neg, n_pos)
    if method == DIMINISHED:
        _gather(scores, n, positive, n_pos, ranks, n_pos + 1 if loss.kind == OBJECT else n_pos, &places)
        _sort(&positives.grid, &places)
        _diminish(loss, positives.scores, &places, ranks, above)
    _write_coefficients(ranks, n, positive, positives.order, above, n_pos, coefficients)
    return True


cdef bint _subtract(const double* scores, Py_ssize_t n, const Py_ssize_t* positive, Py_ssize_t n_pos,
                    double* coefficients, Py_ssize_t* above) except -1 nogil:
    """Subtract the predicted ranking's coefficients and write `above`, zeros before; False if a score is not usable."""
    cdef Py_ssize_t k, swapped
    cdef double unit = 2.0 / (n_pos * <double>(n - n_pos))
    cdef Sorted kept
    cdef Positives positives
    cdef Run run = runs_between(positive, n_pos, n)
    if not _sort_positives(scores, positive, n_pos, &kept, &positives):
        return False
    while next_run(&run):
        for k in range(run.start, run.end):
            if not -LARGEST <= scores[k] <= LARGEST:
                return False
            swapped = n_pos - _positives_above(&positives, scores[k], k)
            if swapped > 0:
                above[n_pos - swapped] += 1
                coefficients[k] -= -unit * swapped
    for k in range(n_pos):
        if k > 0:
            above[k] += above[k - 1]
        coefficients[positives.order[k]] -= unit * above[k]
    return True


def subtract_predicted(const double[::1] scores, const Py_ssize_t[::1] positive, int kind, double norm,
                       const double[::1] discount or None, double[::1] coefficients):
    """Subtract the predicted ranking's coefficients in place; return negatives above each positive and Delta.

    As `rank`, without an array of ranks; Delta is 0 for a Python loss.
    """
    cdef cnp.npy_intp n = scores.shape[0], n_pos = positive.shape[0]
    cdef RankLoss loss = RankLoss(kind, n_pos, n - n_pos, norm, NULL, NULL)
    cdef double delta = 0
    cdef bint usable = False
    check_loss(&loss, 0 if discount is None else discount.shape[0])
    if discount is not None:
        loss.discount = &discount[0]
    if coefficients.shape[0] != n:
        raise ShapeError(f"coefficients must be as many as scores, {n}, got {coefficients.shape[0]}.")
    above = cnp.PyArray_ZEROS(1, &n_pos, cnp.NPY_INTP, 0)
    cdef Py_ssize_t* above_out = <Py_ssize_t*>cnp.PyArray_DATA(above)
    with nogil:
        usable = _subtract(&scores[0], n, &positive[0], n_pos, &coefficients[0], above_out)
        if usable:
            delta = loss_value(&loss, above_out)
    return (above, delta) if usable else None


def rank(const double[::1] scores, const Py_ssize_t[::1] positive, int kind, double norm,
         const double[::1] discount or None, gains, bint diminished):
    """Return ranks, coefficients, negatives above each positive and Delta (0 for a Python loss).

    `positive` are the positives' indices in ascending order, at least one and not all; a table of discounts has the
    ranks up to the number of scores. None if a score is not finite or above LARGEST.
    """
    cdef cnp.npy_intp n = scores.shape[0], n_pos = positive.shape[0], n_neg = n - n_pos
    cdef RankLoss loss = RankLoss(kind, n_pos, n_neg, norm, NULL, <void*>gains)
    cdef double delta = 0
    cdef bint usable = False
    check_loss(&loss, 0 if discount is None else discount.shape[0])
    if discount is not None:
        loss.discount = &discount[0]
    ranks = cnp.PyArray_EMPTY(1, &n_neg, cnp.NPY_INTP, 0)
    coefficients = cnp.PyArray_EMPTY(1, &n, cnp.NPY_DOUBLE, 0)
    above = cnp.PyArray_EMPTY(1, &n_pos, cnp.NPY_INTP, 0)
    cdef Py_ssize_t* ranks_out = <Py_ssize_t*>cnp.PyArray_DATA(ranks)
    cdef double* coefficients_out = <double*>cnp.PyArray_DATA(coefficients)
    cdef Py_ssize_t* above_out = <Py_ssize_t*>cnp.PyArray_DATA(above)
    with nogil:
        usable = _solve(&loss, &scores[0], &positive[0], DIMINISHED if diminished else PREDICTED, ranks_out,
                        coefficients_out, above_out)
        if usable:
            delta = loss_value(&loss, above_out)
    return (ranks, coefficients, above, delta) if usable else None
