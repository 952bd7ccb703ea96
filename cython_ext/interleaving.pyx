"""From runs of equal rank to ranks and coefficients in input order.

The paper's interleaving rank r_j (1 .. P + 1) of a negative is one plus the number of positives above it; its
position j among the negatives is 1-based too. Arrays here start at 0.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libcpp.algorithm cimport sort
from libcpp.pair cimport pair
from libcpp.vector cimport vector

from lapsvm._ext.sample cimport Run, next_run, put, runs_between, score_at

ctypedef pair[double, Py_ssize_t] Place

cdef Py_ssize_t FEW = 8  # cuts of a bucket that are walked through, not searched
cdef Py_ssize_t UNLIMITED = <Py_ssize_t>1 << 62


cdef void add_cuts(Cuts* cuts, const double* values, Py_ssize_t n, const Py_ssize_t* sizes,
                   Py_ssize_t low, Py_ssize_t high) noexcept nogil:
    """Append the cuts inside n negatives of which sizes[r] have rank r in low .. high.

    `values` need only be ordered around the cuts: nothing before a cut is below values[cut - 1], nothing from it on
    is above values[cut]. The rank below the last cut is left in cuts.rank[cuts.n].
    """
    cdef Py_ssize_t r, k, done = 0, cut = 0, above = 0, start = cuts.n
    cdef double score
    for r in range(low, high + 1):
        if sizes[r] == 0:
            continue
        cuts.rank[cuts.n] = r
        cut = done + sizes[r]
        if cut == n:
            return
        score = values[cut - 1]
        cuts.high[cuts.n] = score
        cuts.quota[cuts.n] = UNLIMITED
        if values[cut] == score:
            if cuts.n > start and cuts.high[cuts.n - 1] == score:
                cuts.quota[cuts.n] = sizes[r]
            else:
                above = done
                for k in range(done, cut):
                    above += values[k] > score
                cuts.quota[cuts.n] = cut - above
        cuts.n += 1
        done = cut


cdef void build_grid(Grid* grid, const Cuts* cuts, int32_t* first) noexcept nogil:
    """Spread the cuts over grid.last + 1 buckets: first[b] is the number of cuts in earlier buckets."""
    cdef Py_ssize_t q, b = 0
    cdef double width
    grid.top = cuts.high[0] if cuts.n else 0.0
    grid.bottom = -INFINITY
    width = grid.top - cuts.high[cuts.n - 1] if cuts.n else 0.0
    grid.scale = grid.last / width if width > 0 else 0.0
    if not grid.scale < INFINITY:
        grid.scale = 0.0
    first[0] = 0
    for q in range(cuts.n):
        while b < bucket_of(grid, cuts.high[q]):
            b += 1
            first[b] = q
    while b <= grid.last:
        b += 1
        first[b] = cuts.n


cdef Py_ssize_t _first_not_above(const Cuts* cuts, Py_ssize_t q, Py_ssize_t end, double score) noexcept nogil:
    """Return the first cut of q .. end - 1 whose value is not above the score, or end."""
    cdef Py_ssize_t middle
    while q < end:
        middle = (q + end) // 2
        if cuts.high[middle] > score:
            q = middle + 1
        else:
            end = middle
    return q


cdef inline Py_ssize_t _rank_of(double score, const Grid* grid, const int32_t* first, Cuts* cuts) noexcept nogil:
    """Return the rank of the next negative with that score."""
    cdef Py_ssize_t b = bucket_of(grid, score)
    cdef Py_ssize_t q = first[b], end = first[b + 1]
    if end - q > FEW:
        q = _first_not_above(cuts, q, end, score)
    while q < end and (score < cuts.high[q] or (score == cuts.high[q] and cuts.quota[q] <= 0)):
        q += 1
    if q < end and score == cuts.high[q]:
        cuts.quota[q] -= 1
    return cuts.rank[q]


cdef double _write_run(const Sample* sample, Py_ssize_t start, Py_ssize_t end, Py_ssize_t p, const Grid* grid,
                       const int32_t* first, Cuts* cuts, double centre, const Target* target) noexcept nogil:
    """Write rank and coefficient of consecutive negatives behind p positives.

    Returns the sum of coefficient * (score - centre).
    """
    cdef Py_ssize_t k, r, n_pos = sample.n_pos
    cdef double total = 0, score, unit = 2.0 / (n_pos * <double>(sample.n - n_pos))
    for k in range(start, end):
        score = score_at(sample, k)
        r = _rank_of(score, grid, first, cuts)
        if target.ranks != NULL:
            target.ranks[k - p] = r
        if r <= n_pos:
            put(target, k, -unit * (n_pos + 1 - r))
            total += (n_pos + 1 - r) * (score - centre)
    return -unit * total


cdef double write_few_ranks(const Sample* sample, const int32_t* indices, Py_ssize_t n_indices, const Grid* grid,
                            const int32_t* first, Cuts* cuts, double centre, const Target* target) noexcept nogil:
    """Write the ranks and coefficients of the negatives at these indices (ascending); all others have rank P + 1."""
    cdef Py_ssize_t k, p = 0
    cdef double total = 0
    if target.ranks != NULL:
        for k in range(sample.n - sample.n_pos):
            target.ranks[k] = sample.n_pos + 1
    for k in range(n_indices):
        while p < sample.n_pos and sample.positives[p] < indices[k]:
            p += 1
        total += _write_run(sample, indices[k], indices[k] + 1, p, grid, first, cuts, centre, target)
    return total


cdef double write_ranks(const Sample* sample, const Grid* grid, const int32_t* first, Cuts* cuts, double centre,
                        const Target* target) noexcept nogil:
    """Write every negative's rank and coefficient, run by run between the positives (ascending)."""
    cdef double total = 0
    cdef Run run = runs_between(sample.positives, sample.n_pos, sample.n)
    while next_run(&run):
        total += _write_run(sample, run.start, run.end, run.p, grid, first, cuts, centre, target)
    return total


cdef void sort_positives(const Py_ssize_t* positives, Py_ssize_t n_pos, double* values,
                         Py_ssize_t* order) noexcept nogil:
    """Sort the positives' scores, best first, and write the input index of each; equal ones keep their input order.

    NaN among the values would break the order that the sort relies on: the caller checks them.
    """
    cdef vector[Place] indices
    cdef Py_ssize_t k
    indices.resize(n_pos)
    for k in range(n_pos):
        indices[k].first = -values[k]
        indices[k].second = positives[k]
    sort(indices.begin(), indices.end())
    for k in range(n_pos):
        values[k] = -indices[k].first
        order[k] = indices[k].second
