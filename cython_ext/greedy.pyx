"""Greedy inference as in Yue et al. (SIGIR 2007, AP) and Chakrabarti et al. (KDD 2008, NDCG).

The negatives are sorted and each one tries all P + 1 ranks by itself: O(N log N + P N). Exact for QS-suitable losses;
kept as the honest yardstick of the quicksort-flavoured method.
"""

from libcpp.algorithm cimport sort

from lapsvm._ext.optranks cimport Task
from lapsvm._ext.rank_losses cimport best_rank

cdef extern from "<functional>" namespace "std" nogil:
    cdef cppclass Descending "std::greater<double>":
        Descending()


cdef int greedy_ranks(const Task* task, Py_ssize_t n) except -1 nogil:
    """Sort task.values and count the ranks of all n negatives."""
    cdef Py_ssize_t k, rank, highest = 1, n_pos = task.loss.n_pos
    cdef double* values = task.values  # Cython 3.1 takes the member of a const struct for another type than its sum
    sort(values, values + n, Descending())
    for k in range(n):
        rank = best_rank(task.loss, task.positives, k + 1, values[k], 1, n_pos + 1, task.gains)
        # in exact arithmetic ranks never fall again; rounding of equal alternatives may make them
        highest = max(highest, rank)
        task.sizes[highest] += 1
    return 0
