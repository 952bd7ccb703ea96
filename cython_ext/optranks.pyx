"""OptRanks (Mohapatra et al., CVPR 2018, Algorithm 1) on values: no index is moved, no negative is sorted alone."""

from libcpp.algorithm cimport nth_element

from lapsvm._ext.rank_losses cimport RankLoss, best_rank

cdef extern from "<functional>" namespace "std" nogil:
    cdef cppclass Descending "std::greater<double>":
        Descending()

cdef Py_ssize_t SMALL = 24  # insertion sort costs less than selection up to here


cdef void _insertion_sort(double* values, Py_ssize_t n) noexcept nogil:
    """Sort descending."""
    cdef Py_ssize_t k, hole
    cdef double value
    for k in range(1, n):
        value = values[k]
        hole = k
        while hole > 0 and values[hole - 1] < value:
            values[hole] = values[hole - 1]
            hole -= 1
        values[hole] = value


cdef inline double _ap_gain(const RankLoss* loss, const double* positives, Py_ssize_t j, double score,
                            Py_ssize_t i) noexcept nogil:
    """f_j(i + 1) - f_j(i), times P N / 2."""
    return positives[i - 1] - score - 0.5 * loss.n_neg * i / ((<double>i + j - 1) * (<double>i + j))


cdef Py_ssize_t _ap_search(const RankLoss* loss, const double* positives, Py_ssize_t j, double score,
                           Py_ssize_t low, Py_ssize_t high) noexcept nogil:
    """Return opt_j for AP: f_j is concave on ranks 1 .. min(P, j) + 1, and may rise again behind them if j < P."""
    cdef Py_ssize_t begin = low, end = min(high, j + 1), middle, best
    cdef double total = 0
    while begin < end:
        middle = (begin + end) // 2
        if _ap_gain(loss, positives, j, score, middle) >= 0:
            begin = middle + 1
        else:
            end = middle
    best = begin
    for middle in range(best, high if high > j + 1 else best):
        total += _ap_gain(loss, positives, j, score, middle)
        if total >= 0:
            total = 0
            best = middle + 1
    return best


cdef int opt_ranks(const Task* task, Py_ssize_t first, Py_ssize_t last,
                   Py_ssize_t low, Py_ssize_t high) except -1 nogil:
    """Count the ranks, known to lie in low .. high, of the negatives values[first:last]; 0-based, last excluded.

    Values are ordered around every position where the rank changes. The recursion halves the negatives, so its
    depth is at most log2(N) + 1 whatever the scores.
    """
    cdef Py_ssize_t middle, rank
    cdef double* values = task.values  # Cython 3.1 takes the member of a const struct for another type than its sum
    cdef bint is_sorted = False
    while first < last and low < high:
        if not is_sorted and last - first <= SMALL:
            _insertion_sort(values + first, last - first)
            is_sorted = True
        middle = (first + last) // 2
        if not is_sorted:
            nth_element(values + first, values + middle, values + last, Descending())
        if task.search:
            rank = _ap_search(task.loss, task.positives, task.before + middle + 1, values[middle], low, high)
        else:
            rank = best_rank(task.loss, task.positives, task.before + middle + 1, values[middle], low, high,
                             task.gains)
        task.sizes[rank] += 1
        opt_ranks(task, first, middle, low, rank)
        first = middle + 1
        low = rank
    if first < last:
        task.sizes[low] += last - first
    return 0
