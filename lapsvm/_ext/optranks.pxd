"""OptRanks: the sizes of the runs of equal rank, by divide and conquer on unsorted scores."""

from lapsvm._ext.rank_losses cimport RankLoss


cdef struct Task:
    const RankLoss* loss
    const double* positives   # [P] sorted, best first
    double* values            # scores of negatives, in any order: partitioned in place
    Py_ssize_t before         # how many negatives rank above values[0] .. values[n - 1]
    Py_ssize_t* sizes         # [P + 2] sizes[r] counts the negatives with rank r
    double* gains             # [P] scratch of best_rank
    bint search               # AP: binary search on the concave range


cdef int opt_ranks(const Task* task, Py_ssize_t first, Py_ssize_t last,
                   Py_ssize_t low, Py_ssize_t high) except -1 nogil
