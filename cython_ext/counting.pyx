"""Inference by counting, exact for the same losses as OptRanks.

opt(j, s), the best rank of a negative with score s at position j, never falls as j grows or s falls (condition C2).
So when a histogram tells how many negatives lie above the edge of a bucket, opt at the edges bounds every rank
between them. Where the bounds meet, a whole bucket gets its rank without being looked at again; the few negatives
of the other buckets are gathered and left to OptRanks.
"""

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from libcpp.algorithm cimport sort
from libcpp.vector cimport vector

from lapsvm._ext.interleaving cimport Cuts, Grid, add_cuts, bucket_of
from lapsvm._ext.optranks cimport Task, opt_ranks
from lapsvm._ext.rank_losses cimport best_rank

cdef extern from "<functional>" namespace "std" nogil:
    cdef cppclass Descending "std::greater<double>":
        Descending()

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
    int32_t* slots      # [buckets] where in `values` a bucket's negatives go; -1: nowhere

cdef Py_ssize_t SAMPLE = 1024
cdef Py_ssize_t WHOLE = 8192  # up to here the extremes are read off all negatives


cdef Py_ssize_t grid_size(Py_ssize_t n_neg) noexcept nogil:
    """Return how many buckets suit that many negatives."""
    cdef Py_ssize_t size = 64
    while size < n_neg and size < 1 << 16:
        size *= 2
    return size


cdef Py_ssize_t _negative_place(const Sample* sample, Py_ssize_t k) noexcept nogil:
    """Return the place in the input of the k-th negative (0-based)."""
    cdef Py_ssize_t low = 0, high = sample.n_pos, middle
    while low < high:
        middle = (low + high) // 2
        if sample.positives[middle] - middle <= k:
            low = middle + 1
        else:
            high = middle
    return k + low


cdef int _extremes(const Sample* sample, Grid* grid) except -1 nogil:
    """Span the grid over all negatives."""
    cdef Py_ssize_t p, k, start = 0, end
    cdef double highest = -INFINITY, lowest = INFINITY, score
    for p in range(sample.n_pos + 1):
        end = sample.positives[p] if p < sample.n_pos else sample.n
        for k in range(start, end):
            score = sample.scores[k]
            highest = score if score > highest else highest
            lowest = score if score < lowest else lowest
        start = end + 1
    grid.top = highest
    grid.bottom = lowest
    return 0


cdef int _likely_span(const Task* task, const Sample* sample, Grid* grid) except -1 nogil:
    """Span the grid over the scores where, by a sample, ranks are neither all 1 nor all P + 1.

    A guess only: the open-ended buckets at both ends are examined like all others.
    """
    cdef vector[double] values
    cdef Py_ssize_t n_neg = sample.n - sample.n_pos, n_pos = sample.n_pos, k, low, high, middle, j
    cdef unsigned long long state = 0x9E3779B97F4A7C15
    values.resize(SAMPLE)
    for k in range(SAMPLE):
        state = state * 6364136223846793005ULL + 1442695040888963407ULL
        values[k] = sample.scores[_negative_place(sample, <Py_ssize_t>((state >> 16) % <unsigned long long>n_neg))]
    sort(values.begin(), values.end(), Descending())
    low, high = 0, SAMPLE - 1
    while low < high:
        middle = (low + high) // 2
        # a position that hardly lies below the true one
        j = 1 + <Py_ssize_t>(max(middle - 8, 0) * 0.8 * (<double>n_neg / SAMPLE))
        if best_rank(task.loss, task.positives, j, values[middle], 1, n_pos + 1, task.gains) == n_pos + 1:
            high = middle
        else:
            low = middle + 1
    grid.bottom = values[low]
    low, high = 0, SAMPLE - 1
    while low < high:
        middle = (low + high + 1) // 2
        j = min(n_neg, 1 + <Py_ssize_t>((middle + 8) * 1.25 * (<double>n_neg / SAMPLE)))
        if best_rank(task.loss, task.positives, j, values[middle], 1, n_pos + 1, task.gains) == 1:
            low = middle
        else:
            high = middle - 1
    grid.top = values[low]
    return 0


cdef void _count(const Sample* sample, const Grid* grid, int32_t* counts) noexcept nogil:
    """Count the negatives of each bucket."""
    cdef Py_ssize_t p, k, start = 0, end
    cdef int32_t below = 0
    cdef double score
    for p in range(sample.n_pos + 1):
        end = sample.positives[p] if p < sample.n_pos else sample.n
        for k in range(start, end):
            score = sample.scores[k]
            if score < grid.bottom:
                below += 1
            else:
                counts[bucket_of(grid, score)] += 1
        start = end + 1
    counts[grid.last] += below


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
        edge = grid.top - (middle + 1) / grid.scale
        slack = 1e-15 * (fabs(grid.top) + fabs(edge))  # more than bucket_of can round
        most = best_rank(task.loss, task.positives, above, edge - slack, low, high, task.gains)
        least = best_rank(task.loss, task.positives, above + 1, edge + slack, low, most, task.gains)
        _bound(task, grid, histogram, first, middle, low, most)
        first = middle + 1
        low = least
    return 0


cdef void _gather(const Sample* sample, const Grid* grid, int32_t* slots, double* values) noexcept nogil:
    """Copy the negatives of each bucket with a slot there; the slot moves to their end."""
    cdef Py_ssize_t p, k, start = 0, end, b
    cdef double score
    cdef bint skip = slots[grid.last] < 0
    for p in range(sample.n_pos + 1):
        end = sample.positives[p] if p < sample.n_pos else sample.n
        for k in range(start, end):
            score = sample.scores[k]
            if skip and score < grid.bottom:
                continue
            b = bucket_of(grid, score)
            if slots[b] >= 0:
                values[slots[b]] = score
                slots[b] += 1
        start = end + 1


cdef Py_ssize_t _give_slots(Histogram* histogram, Py_ssize_t n_buckets) noexcept nogil:
    """Reserve room, in order, for the buckets whose ranks are unknown. Return its size."""
    cdef Py_ssize_t k, needed = 0
    cdef const Range* part
    memset(histogram.slots, 0xFF, n_buckets * sizeof(int32_t))
    for k in range(histogram.n_ranges):
        part = histogram.ranges + k
        if part.low < part.high:
            histogram.slots[part.first] = needed
            needed += histogram.before[part.first + 1] - histogram.before[part.first]
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
    """Rank the next n of task.values, all of one bucket."""
    cdef Py_ssize_t* totals = task.sizes
    cdef Py_ssize_t r
    low = max(low, cuts.rank[cuts.n])
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
    """Walk down the buckets: solve the unknown ones, count ranks and set the cuts of each bucket."""
    cdef Py_ssize_t b = 0, k, n
    cdef const Range* part
    cuts.rank[0] = 0
    for k in range(histogram.n_ranges):
        part = histogram.ranges + k
        while b <= part.first:
            first[b] = cuts.n
            b += 1
        n = histogram.before[part.last + 1] - histogram.before[part.first]
        if part.low == part.high:
            task.sizes[part.low] += n
            _cut_before(cuts, part.low)
        else:
            task.before = histogram.before[part.first]
            _solve(task, n, part.low, part.high, sizes, cuts)
    while b <= last + 1:
        first[b] = cuts.n
        b += 1
    return 0


cdef int _span(const Task* task, const Sample* sample, Grid* grid) except -1 nogil:
    """Lay grid.last + 1 buckets over the negatives."""
    if sample.n - sample.n_pos <= WHOLE:
        _extremes(sample, grid)
    else:
        _likely_span(task, sample, grid)
    grid.scale = grid.last / (grid.top - grid.bottom) if grid.top > grid.bottom else 0.0
    if not grid.scale < INFINITY:
        grid.scale = 0.0
    return 0


cdef int _count_ranks(Task* task, const Sample* sample, Grid* grid, Histogram* histogram, Py_ssize_t* sizes,
                      int32_t* first, Cuts* cuts) except -1 nogil:
    """Do the work of count_ranks in the memory given."""
    cdef Py_ssize_t b
    cdef vector[double] values
    _span(task, sample, grid)
    memset(first, 0, (grid.last + 1) * sizeof(int32_t))
    _count(sample, grid, first)
    histogram.before[0] = 0
    for b in range(grid.last + 1):
        histogram.before[b + 1] = histogram.before[b] + first[b]
    _bound(task, grid, histogram, 0, grid.last, 1, sample.n_pos + 1)
    values.resize(_give_slots(histogram, grid.last + 1))
    _gather(sample, grid, histogram.slots, values.data())
    task.values = values.data()
    return _settle(task, histogram, grid.last, sizes, first, cuts)


cdef int count_ranks(Task* task, const Sample* sample, Grid* grid, int32_t* first, Cuts* cuts) except -1 nogil:
    """Fill task.sizes, the cuts and first[b], the number of cuts in buckets before b; grid.last is given.

    task.values is not used; memory of its own holds the negatives that are not settled by counting.
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
    histogram.slots = histogram.before + buckets + 1
    try:
        return _count_ranks(task, sample, grid, &histogram, sizes, first, cuts)
    finally:
        free(memory)
