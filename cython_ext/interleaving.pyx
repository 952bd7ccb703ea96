"""From runs of equal rank to ranks and coefficients in input order.

The paper's interleaving rank r_j (1 .. P + 1) of a negative is one plus the number of positives above it; its
position j among the negatives is 1-based too. Arrays here start at 0.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libcpp.algorithm cimport sort
from libcpp.pair cimport pair
from libcpp.vector cimport vector

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


cdef double _write_run(const double* scores, Py_ssize_t n, const Grid* grid, const int32_t* first, Cuts* cuts,
                       Py_ssize_t n_pos, double unit, double centre, Py_ssize_t* ranks,
                       double* coefficients) noexcept nogil:
    """Write rank and coefficient of n consecutive negatives; return the sum of coefficient * (score - centre)."""
    cdef Py_ssize_t k, r
    cdef double total = 0
    for k in range(n):
        r = _rank_of(scores[k], grid, first, cuts)
        ranks[k] = r
        if r <= n_pos:
            coefficients[k] = -unit * (n_pos + 1 - r)
            total += (n_pos + 1 - r) * (scores[k] - centre)
    return -unit * total


cdef double write_few_ranks(const double* scores, const int32_t* indices, Py_ssize_t n_indices,
                            const Py_ssize_t* positives, Py_ssize_t n_pos, Py_ssize_t n_neg, const Grid* grid,
                            const int32_t* first, Cuts* cuts, double centre, Py_ssize_t* ranks,
                            double* coefficients) noexcept nogil:
    """Write the ranks and coefficients of the negatives at these indices (ascending); all others have rank P + 1."""
    cdef Py_ssize_t k, p = 0
    cdef double total = 0, unit = 2.0 / (n_pos * <double>n_neg)
    for k in range(n_neg):
        ranks[k] = n_pos + 1
    for k in range(n_indices):
        while p < n_pos and positives[p] < indices[k]:
            p += 1
        total += _write_run(scores + indices[k], 1, grid, first, cuts, n_pos, unit, centre, ranks + indices[k] - p,
                            coefficients + indices[k])
    return total


cdef double write_ranks(const double* scores, Py_ssize_t n, const Py_ssize_t* positives, Py_ssize_t n_pos,
                        const Grid* grid, const int32_t* first, Cuts* cuts, double centre,
                        Py_ssize_t* ranks, double* coefficients) noexcept nogil:
    """Write every negative's rank and coefficient, run by run between the positives (ascending)."""
    cdef Py_ssize_t p, start = 0, end, done = 0
    cdef double total = 0, unit = 2.0 / (n_pos * <double>(n - n_pos))
    for p in range(n_pos + 1):
        end = positives[p] if p < n_pos else n
        if end > start:
            total += _write_run(scores + start, end - start, grid, first, cuts, n_pos, unit, centre,
                                ranks + done, coefficients + start)
            done += end - start
        start = end + 1
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
