"""Where the buckets go: over the scores at which the rank of a negative is likely to change."""

from libc.math cimport INFINITY
from libc.stdint cimport uint64_t
from libc.string cimport memcpy
from libcpp.algorithm cimport sort

from lapsvm._ext.interleaving cimport Grid
from lapsvm._ext.optranks cimport Task
from lapsvm._ext.rank_losses cimport best_rank
from lapsvm._ext.sample cimport Run, next_run, runs_between, score_at

cdef extern from "<functional>" namespace "std" nogil:
    cdef cppclass Descending "std::greater<double>":
        Descending()

cdef double LARGEST = 1e290  # sums of that many scores still stay below the largest float64
cdef enum:
    SAMPLE = 1024
    WHOLE = 8192  # up to here the extremes are read off all negatives


cdef bint all_usable(const double* scores, Py_ssize_t n) noexcept nogil:
    """Whether every score is finite and not beyond LARGEST.

    Magnitudes order like their bits, NaN above all; adding `lift` sets the highest bit of those beyond LARGEST. Unlike
    a comparison of floats this is vectorised on every machine.
    """
    cdef const uint64_t* bits = <const uint64_t*>scores
    cdef uint64_t highest = (<uint64_t>1) << 63, seen = 0, lift
    cdef Py_ssize_t k
    cdef double largest = LARGEST
    memcpy(&lift, &largest, sizeof(double))
    lift = highest - 1 - lift
    for k in range(n):
        seen |= (bits[k] & (highest - 1)) + lift
    return seen < highest


cdef Py_ssize_t grid_size(Py_ssize_t n_neg) noexcept nogil:
    """Return how many buckets suit that many negatives."""
    cdef Py_ssize_t size = 64
    while size < n_neg and size < 1 << 16:
        size *= 2
    return size


cdef Py_ssize_t _negative_place(const Sample* sample, Py_ssize_t k) noexcept nogil:
    """Return the input index of the k-th negative (0-based)."""
    cdef Py_ssize_t low = 0, high = sample.n_pos, middle
    while low < high:
        middle = (low + high) // 2
        if sample.positives[middle] - middle <= k:
            low = middle + 1
        else:
            high = middle
    return k + low


cdef void _extremes(const Sample* sample, Grid* grid) noexcept nogil:
    """Span the grid over all negatives."""
    cdef Py_ssize_t k
    cdef double highest = -INFINITY, lowest = INFINITY, score
    cdef Run run = runs_between(sample.positives, sample.n_pos, sample.n)
    while next_run(&run):
        for k in range(run.start, run.end):
            score = score_at(sample, k)
            highest = score if score > highest else highest
            lowest = score if score < lowest else lowest
    grid.top = highest
    grid.bottom = lowest


cdef void _draw(const Sample* sample, double* values) noexcept nogil:
    """Draw SAMPLE negatives, always the same ones, and sort their scores, best first."""
    cdef unsigned long long state = 0x9E3779B97F4A7C15, n_neg = sample.n - sample.n_pos
    cdef Py_ssize_t k
    for k in range(SAMPLE):
        state = state * 6364136223846793005ULL + 1442695040888963407ULL
        values[k] = score_at(sample, _negative_place(sample, <Py_ssize_t>((state >> 16) % n_neg)))
    if all_usable(values, SAMPLE):
        sort(values, values + SAMPLE, Descending())


cdef int _likely_span(const Task* task, const Sample* sample, const double* values, Grid* grid) except -1 nogil:
    """Span the grid over the scores where, by the sample, ranks are neither all 1 nor all P + 1.

    A guess only: the open-ended buckets at both ends are examined like all others.
    """
    cdef Py_ssize_t low = 0, high = SAMPLE - 1, middle, j, n_neg = sample.n - sample.n_pos, n_pos = sample.n_pos
    cdef double share = <double>n_neg / SAMPLE
    while low < high:
        middle = (low + high) // 2
        j = 1 + <Py_ssize_t>(0.8 * share * max(middle - 8, 0))  # hardly below the true position
        if best_rank(task.loss, task.positives, j, values[middle], 1, n_pos + 1, task.gains) == n_pos + 1:
            high = middle
        else:
            low = middle + 1
    grid.bottom = values[low]
    low, high = 0, SAMPLE - 1
    while low < high:
        middle = (low + high + 1) // 2
        j = min(n_neg, 1 + <Py_ssize_t>(1.25 * share * (middle + 8)))  # hardly above the true position
        if best_rank(task.loss, task.positives, j, values[middle], 1, n_pos + 1, task.gains) == 1:
            low = middle
        else:
            high = middle - 1
    grid.top = values[low]
    return 0


cdef bint lay_grid(const Task* task, const Sample* sample, Grid* grid) except -1 nogil:
    """Lay grid.last + 1 buckets over the negatives; False if a score was seen that is not usable."""
    cdef double values[SAMPLE]
    if sample.n - sample.n_pos <= WHOLE:
        _extremes(sample, grid)
    else:
        _draw(sample, values)
        if not all_usable(values, SAMPLE):
            return False
        _likely_span(task, sample, values, grid)
    grid.scale = grid.last / (grid.top - grid.bottom) if grid.top > grid.bottom else 0.0
    if not grid.scale < INFINITY:
        grid.scale = 0.0
    return True
