"""How interleaving ranks are kept while they are found: cuts between runs of negatives with the same rank.

Only values are sorted or partitioned, never indices. A cut lies behind a run of negatives that share a rank; it
remembers the score of the run's last negative, and every negative's rank follows from its own score. Equal scores on
both sides of a cut are separated by a quota: the first ones in input order stay above it.
"""

from libc.stdint cimport int32_t

from lapsvm._ext.sample cimport Sample, Target


cdef struct Grid:
    # buckets of equal width below `top`, numbered downwards; the first and the last one are open-ended
    double top
    double bottom          # scores below it fall into the last bucket
    double scale           # buckets per unit of score
    Py_ssize_t last        # the last bucket's number


cdef struct Cuts:
    Py_ssize_t n
    double* high           # [n] score of the last negative above the cut; +inf: every negative of the bucket is below
    Py_ssize_t* quota      # [n] how many negatives with just that score stay above
    Py_ssize_t* rank       # [n + 1] rank above each cut; the last one is the rank below all cuts


cdef inline Py_ssize_t bucket_of(const Grid* grid, double score) noexcept nogil:
    """Non-decreasing as the score falls, in floating point too; NaN falls into bucket 0."""
    cdef double position
    if score < grid.bottom:
        return grid.last
    position = (grid.top - score) * grid.scale
    if not position > 0:
        return 0
    if position >= grid.last:
        return grid.last
    return <Py_ssize_t>position


cdef void add_cuts(Cuts* cuts, const double* values, Py_ssize_t n, const Py_ssize_t* sizes,
                   Py_ssize_t low, Py_ssize_t high) noexcept nogil

cdef double write_ranks(const Sample* sample, const Grid* grid, const int32_t* first, Cuts* cuts, double centre,
                        const Target* target) noexcept nogil

cdef double write_few_ranks(const Sample* sample, const int32_t* indices, Py_ssize_t n_indices, const Grid* grid,
                            const int32_t* first, Cuts* cuts, double centre, const Target* target) noexcept nogil

cdef void build_grid(Grid* grid, const Cuts* cuts, int32_t* first) noexcept nogil

cdef void sort_positives(const Py_ssize_t* positives, Py_ssize_t n_pos, double* values,
                         Py_ssize_t* order) noexcept nogil
