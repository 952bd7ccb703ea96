"""What loss-augmented inference asks of a rank loss, as inline C: the discrete derivatives d_j(i).

Positions j and ranks i are the papers' 1-based ones. All values are multiplied by P N / 2, so that the objective's
derivative f_j(i + 1) - f_j(i) is plainly s+_i - s*_j + gain_j(i).
"""

from libc.math cimport log2


cdef enum LossKind:
    AP = 0         # -i / (P (i + j - 1) (i + j))
    LOG = 1        # NDCG whose discount 1 / log2(1 + i) is computed where it is needed
    TABLE = 2      # NDCG with a tabulated discount
    AUC = 3        # -1 / (P N)
    MRR = 4        # -1 / (j (j + 1)) at i = 1
    POS_AT_TOP = 5  # -1 / P at j = 1
    PARTIAL_AUC = 6  # -min(max(B - (j - 1), 0), 1) / (P B)
    OBJECT = 7     # a Python object's derivative


cdef struct RankLoss:
    int kind
    Py_ssize_t n_pos
    Py_ssize_t n_neg
    double norm              # NDCG: C, the sum of the first P discounts; PARTIAL_AUC: B, the negatives that count
    const double* discount   # TABLE: discount[i] is D(i); entry 0 is unused
    void* gains              # OBJECT: a borrowed callable (j, first, n) -> float64 (n,), d_j(first + k)


cdef inline int object_gains(const RankLoss* loss, Py_ssize_t j, Py_ssize_t first, Py_ssize_t n,
                             double* out) except -1 with gil:
    """Copy the result of the user's loss: Python never gets a view of the kernel's memory, which a traceback could outlive."""
    cdef object answer = (<object>loss.gains)(j, first, n)
    cdef const double[::1] values
    cdef Py_ssize_t k
    cdef double half = 0.5 * loss.n_pos * <double>loss.n_neg
    if answer is None:
        raise ValueError("gains of a loss must be an array, got None.")
    values = answer
    if values.shape[0] != n:
        raise ValueError(f"gains of a loss must be {n} numbers, got {values.shape[0]}.")
    for k in range(n):
        out[k] = half * values[k]
    return 0


cdef inline void ap_gains(double scale, Py_ssize_t j, Py_ssize_t first, Py_ssize_t n, double* out) noexcept nogil:
    cdef Py_ssize_t k
    cdef double i = first, position = first + j - 1
    for k in range(n):
        out[k] = scale * (i + k) / ((position + k) * (position + k + 1))


cdef inline void log_gains(double scale, Py_ssize_t j, Py_ssize_t first, Py_ssize_t n, double* out) noexcept nogil:
    cdef Py_ssize_t k
    cdef double before = 1 / log2(<double>(first + j)), after
    for k in range(n):
        after = 1 / log2(<double>(first + j + 1 + k))
        out[k] = scale * (after - before)
        before = after


cdef inline int fill_gains(const RankLoss* loss, Py_ssize_t j, Py_ssize_t first, Py_ssize_t n,
                           double* out) except -1 nogil:
    """Write P N / 2 d_j(i) for i = first .. first + n - 1."""
    cdef Py_ssize_t k
    cdef double half = 0.5 * loss.n_pos * <double>loss.n_neg, constant = 0
    cdef const double* discount
    if loss.kind == AP:
        ap_gains(-0.5 * loss.n_neg, j, first, n, out)
        return 0
    if loss.kind == LOG:
        log_gains(half / loss.norm, j, first, n, out)
        return 0
    if loss.kind == TABLE:
        half /= loss.norm
        discount = loss.discount + first + j - 1
        for k in range(n):
            out[k] = half * (discount[k + 1] - discount[k])
        return 0
    if loss.kind == OBJECT:
        return object_gains(loss, j, first, n, out)
    if loss.kind == AUC:
        constant = -0.5
    elif loss.kind == PARTIAL_AUC:
        constant = -0.5 * loss.n_neg * min(max(loss.norm - (j - 1), 0.0), 1.0) / loss.norm
    elif loss.kind == POS_AT_TOP and j == 1:
        constant = -0.5 * loss.n_neg
    for k in range(n):
        out[k] = constant
    if loss.kind == MRR and first == 1 and n > 0:
        out[0] = -half / (<double>j * (j + 1))
    return 0


cdef inline Py_ssize_t best_rank(const RankLoss* loss, const double* positives, Py_ssize_t j, double score,
                                 Py_ssize_t low, Py_ssize_t high, double* gains) except -1 nogil:
    """Return opt_j, the largest argmax of f_j over ranks low .. high, for a negative at position j with this score.

    `positives` are sorted, best first; `gains` is scratch for P values.
    """
    cdef Py_ssize_t k, best = low
    cdef double total = 0, highest = 0
    if low == high:
        return low
    fill_gains(loss, j, low, high - low, gains)
    positives += low - 1
    for k in range(high - low):
        total += positives[k] - score + gains[k]
        if total >= highest:
            highest = total
            best = low + k + 1
    return best


cdef inline double discount_at(const RankLoss* loss, Py_ssize_t i) noexcept nogil:
    """D(i) of an NDCG loss."""
    return loss.discount[i] if loss.kind == TABLE else 1 / log2(1.0 + i)


cdef inline double loss_value(const RankLoss* loss, const Py_ssize_t* above) noexcept nogil:
    """Return Delta, given the number of negatives above each positive, best first; 0 for OBJECT."""
    cdef Py_ssize_t i
    cdef double total = 0
    if loss.kind == MRR:
        return above[0] / (1.0 + above[0])
    for i in range(loss.n_pos):
        if loss.kind == AP:
            total += above[i] / (1.0 + i + above[i])
        elif loss.kind == AUC:
            total += above[i] / <double>loss.n_neg
        elif loss.kind == PARTIAL_AUC:
            total += min(<double>above[i], loss.norm) / loss.norm
        elif loss.kind == POS_AT_TOP:
            total += above[i] > 0
        elif loss.kind == LOG or loss.kind == TABLE:
            total += discount_at(loss, i + 1) - discount_at(loss, i + 1 + above[i])
    if loss.kind == LOG or loss.kind == TABLE:
        return total / loss.norm
    return total / loss.n_pos
