"""Inference by counting, exact for the same losses as OptRanks.

opt(j, s), the best rank of a negative with score s at position j, does not decrease as j grows or s decreases
(condition C2).
A histogram gives the number of negatives above each bucket edge, so that opt at the edges bounds every rank between
them. Where the bounds are equal, all negatives of a bucket have this rank. OptRanks ranks the few negatives of the
other buckets.
"""

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from libcpp.vector cimport vector

from lapsvm._ext.grid cimport all_usable, lay_grid
from lapsvm._ext.interleaving cimport Cuts, Grid, add_cuts, bucket_of
from lapsvm._ext.optranks cimport Task, opt_ranks
from lapsvm._ext.rank_losses cimport best_rank
from lapsvm._ext.sample cimport Run, Sample, next_run, runs_between, score_at

cdef enum:
    BLOCK = 2048  # scores that stay in the nearest cache

cdef struct Range:
    # buckets first .. last, whose negatives have ranks low .. high
    int32_t first
    int32_t last
    int32_t low
    int32_t high

cdef struct Histogram:
    Py_ssize_t n_ranges
    Range* ranges       # [buckets] in order
    int32_t* before     # [buckets + 1] negatives in earlier buckets
    int32_t* next_slot      # [buckets] next free entry of `values` for the bucket; -1: none

cdef bint _count_block(const double* block, Py_ssize_t n, Py_ssize_t start, const Grid* grid, int32_t* counts,
                       Candidates* candidates) noexcept nogil:
    """Count the n negatives from `start` on and record the candidates; False if one is not usable."""
    cdef Py_ssize_t k
    cdef int32_t below = 0
    cdef double score, bottom = grid.bottom
    if not all_usable(block, n):
        return False
    if candidates.capacity - candidates.n < n:
        candidates.capacity = -1
    if candidates.capacity < 0:
        for k in range(n):
            counts[bucket_of(grid, block[k])] += 1
        return True
    for k in range(n):
        score = block[k]
        if score < bottom:
            below += 1
        else:
            counts[bucket_of(grid, score)] += 1
            candidates.indices[candidates.n] = start + k
            candidates.n += 1
    counts[grid.last] += below
    return True


cdef bint _count(const Sample* sample, const Grid* grid, int32_t* counts, Candidates* candidates) noexcept nogil:
    """Count the negatives of each bucket, a few at a time so that they are read from memory once."""
    cdef Py_ssize_t k, start, stop
    cdef double[BLOCK] copy
    cdef const double* block
    cdef Run run = runs_between(sample.positives, sample.n_pos, sample.n)
    while next_run(&run):
        start = run.start
        while start < run.end:
            stop = min(start + BLOCK, run.end)
            if sample.scores != NULL:
                block = sample.scores + start
            else:
                for k in range(stop - start):
                    copy[k] = score_at(sample, start + k)
                block = copy
            if not _count_block(block, stop - start, start, grid, counts, candidates):
                return False
            start = stop
    return True


cdef int _bound(const Task* task, const Grid* grid, Histogram* histogram,
                Py_ssize_t first, Py_ssize_t last, Py_ssize_t low, Py_ssize_t high) except -1 nogil:
    """Append ranges of buckets, in order, whose ranks are known or that cannot be bounded further."""
    cdef Py_ssize_t middle, above, most, least
    cdef const int32_t* before = histogram.before
    cdef Range* end
    cdef double edge, slack
    while before[first] < before[last + 1]:
        if low == high or first == last:
            end = histogram.ranges + histogram.n_ranges
            end.first, end.last, end.low, end.high = first, last, low, high
            histogram.n_ranges += 1
            return 0
        middle = (first + last) // 2
        above = before[middle + 1]
        if above == before[first]:
            first = middle + 1
            continue
        if above == before[last + 1]:
            last = middle
            continue
        edge = grid.top - (middle + 1) / grid.scale if grid.scale > 0 else -INFINITY
        slack = 1e-15 * (fabs(grid.top) + fabs(edge))  # more than bucket_of can round
        most = best_rank(task.loss, task.positives, above, edge - slack, low, high, task.gains)
        least = best_rank(task.loss, task.positives, above + 1, edge + slack, low, most, task.gains)
        _bound(task, grid, histogram, first, middle, low, most)
        first = middle + 1
        low = least
    return 0


cdef inline void _keep(double score, const Grid* grid, int32_t* next_slot, double* values,
                       size_t capacity) noexcept nogil:
    """Copy one negative; one comparison finds a bucket without a slot (-1) and a slot behind the end."""
    cdef Py_ssize_t b = bucket_of(grid, score)
    if <size_t>next_slot[b] < capacity:
        values[next_slot[b]] = score
        next_slot[b] += 1


cdef void _gather(const Sample* sample, const Grid* grid, const Candidates* candidates, int32_t* next_slot,
                  double* values, size_t capacity) noexcept nogil:
    """Copy the negatives of each bucket with a slot and advance the slot.

    The scores are read a second time, so another thread may have moved one to another bucket since it was counted:
    no write goes beyond `capacity`, and the caller checks the copies before it orders them.
    """
    cdef Py_ssize_t k
    cdef Run run = runs_between(sample.positives, sample.n_pos, sample.n)
    if candidates.capacity >= 0:
        for k in range(candidates.n):
            _keep(score_at(sample, candidates.indices[k]), grid, next_slot, values, capacity)
        return
    while next_run(&run):
        for k in range(run.start, run.end):
            _keep(score_at(sample, k), grid, next_slot, values, capacity)


cdef Py_ssize_t _assign_slots(Histogram* histogram, Py_ssize_t n_buckets) noexcept nogil:
    """Reserve slots, in order, for the buckets whose ranks are unknown. Return their number."""
    cdef Py_ssize_t k, needed = 0
    cdef const Range* range_
    memset(histogram.next_slot, 0xFF, n_buckets * sizeof(int32_t))
    for k in range(histogram.n_ranges):
        range_ = histogram.ranges + k
        if range_.low < range_.high:
            histogram.next_slot[range_.first] = needed
            needed += histogram.before[range_.first + 1] - histogram.before[range_.first]
    return needed


cdef void _cut_before(Cuts* cuts, Py_ssize_t rank) noexcept nogil:
    """If the rank changes between two buckets, put a cut in front of the second one."""
    if cuts.rank[cuts.n] == rank:
        return
    if cuts.rank[cuts.n] > 0:
        cuts.high[cuts.n] = INFINITY
        cuts.quota[cuts.n] = 0
        cuts.n += 1
    cuts.rank[cuts.n] = rank


cdef int _solve(Task* task, Py_ssize_t n, Py_ssize_t low, Py_ssize_t high, Py_ssize_t* sizes,
                Cuts* cuts) except -1 nogil:
    """Rank the next n of task.values, all of one bucket; cuts.rank[cuts.n] <= low <= high."""
    cdef Py_ssize_t* totals = task.sizes
    cdef Py_ssize_t r
    for r in range(low, high + 1):
        sizes[r] = 0
    task.sizes = sizes
    opt_ranks(task, 0, n, low, high)
    task.sizes = totals
    for r in range(low, high + 1):
        totals[r] += sizes[r]
    while sizes[low] == 0:
        low += 1
    _cut_before(cuts, low)
    add_cuts(cuts, task.values, n, sizes, low, high)
    task.values += n
    return 0


cdef int _settle(Task* task, const Histogram* histogram, Py_ssize_t last, Py_ssize_t* sizes, int32_t* first,
                 Cuts* cuts) except -1 nogil:
    """Walk down the buckets: solve the unknown ones, count ranks and set the cuts of each bucket.

    A range begins no lower than the rank reached. With condition C2 only rounding makes a difference there; without
    it, ranks would fall from one bucket to the next, and there would be more cuts than P.
    """
    cdef Py_ssize_t b = 0, k, n, low, high
    cdef const Range* range_
    cuts.rank[0] = 0
    for k in range(histogram.n_ranges):
        range_ = histogram.ranges + k
        while b <= range_.first:
            first[b] = cuts.n
            b += 1
        n = histogram.before[range_.last + 1] - histogram.before[range_.first]
        low = max(<Py_ssize_t>range_.low, cuts.rank[cuts.n])
        high = max(<Py_ssize_t>range_.high, low)
        if range_.low == range_.high:
            task.sizes[low] += n
            _cut_before(cuts, low)
        else:
            task.before = histogram.before[range_.first]
            _solve(task, n, low, high, sizes, cuts)
    while b <= last + 1:
        first[b] = cuts.n
        b += 1
    return 0


cdef bint _count_ranks(Task* task, const Sample* sample, Grid* grid, Histogram* histogram, Py_ssize_t* sizes,
                       int32_t* first, Cuts* cuts, Candidates* candidates) except -1 nogil:
    """Do the work of count_ranks in the memory given."""
    cdef Py_ssize_t b
    cdef vector[double] values
    cdef const Range* lowest
    if not lay_grid(task, sample, grid):
        return False
    memset(first, 0, (grid.last + 1) * sizeof(int32_t))
    if not _count(sample, grid, first, candidates):
        return False
    histogram.before[0] = 0
    for b in range(grid.last + 1):
        histogram.before[b + 1] = histogram.before[b] + first[b]
    _bound(task, grid, histogram, 0, grid.last, 1, sample.n_pos + 1)
    lowest = histogram.ranges + histogram.n_ranges - 1
    if lowest.last == grid.last and lowest.low < sample.n_pos + 1:
        candidates.capacity = -1
    values.resize(_assign_slots(histogram, grid.last + 1))
    _gather(sample, grid, candidates, histogram.next_slot, values.data(), values.size())
    if not all_usable(values.data(), values.size()):
        return False
    task.values = values.data()
    _settle(task, histogram, grid.last, sizes, first, cuts)
    return True


cdef bint count_ranks(Task* task, const Sample* sample, Grid* grid, int32_t* first, Cuts* cuts,
                      Candidates* candidates) except -1 nogil:
    """Fill task.sizes, the cuts and first[b], the number of cuts in buckets before b; grid.last is given.

    False if a negative is not usable. If candidates.capacity stays >= 0, all negatives except the candidates
    have rank P + 1. task.values is not used; separate memory holds the negatives that counting does not rank.
    """
    cdef Py_ssize_t buckets = grid.last + 1, n_ranks = sample.n_pos + 2
    cdef char* memory = <char*>malloc(buckets * (sizeof(Range) + 8) + 8 + n_ranks * sizeof(Py_ssize_t))
    cdef Histogram histogram
    if memory == NULL:
        with gil:
            raise MemoryError
    cdef Py_ssize_t* sizes = <Py_ssize_t*>memory
    histogram.n_ranges = 0
    histogram.ranges = <Range*>(sizes + n_ranks)
    histogram.before = <int32_t*>(histogram.ranges + buckets)
    histogram.next_slot = histogram.before + buckets + 1
    try:
        return _count_ranks(task, sample, grid, &histogram, sizes, first, cuts, candidates)
    finally:
        free(memory)
