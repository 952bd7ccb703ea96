"""The scores of one ranking as they came, and where the ranking's coefficients go."""


cdef struct Sample:
    # the scores in input order, and where the positives are (ascending)
    const double* scores      # NULL: scale * narrow
    const float* narrow
    double scale
    Py_ssize_t n
    const Py_ssize_t* positives
    Py_ssize_t n_pos


cdef struct Target:
    # either ranks and coefficients in float64, or factor * coefficients in float32
    Py_ssize_t* ranks         # [N] in input order, or NULL
    double* coefficients      # [n] in input order, zeros before, or NULL
    float* gradient           # [n] in input order, zeros before, or NULL
    double factor


cdef struct Run:
    # the negatives start .. end - 1, which are consecutive, behind p of the positives (ascending); there may be none
    const Py_ssize_t* positives
    Py_ssize_t n_pos
    Py_ssize_t n
    Py_ssize_t p
    Py_ssize_t start
    Py_ssize_t end


cdef inline Run runs_between(const Py_ssize_t* positives, Py_ssize_t n_pos, Py_ssize_t n) noexcept nogil:
    """Return the place in front of the first run of negatives among n samples."""
    return Run(positives, n_pos, n, -1, 0, -1)


cdef inline bint next_run(Run* run) noexcept nogil:
    """Move on to the next run of negatives; False behind the last one."""
    if run.p == run.n_pos:
        return False
    run.p += 1
    run.start = run.end + 1
    run.end = run.positives[run.p] if run.p < run.n_pos else run.n
    return True


cdef inline double score_at(const Sample* sample, Py_ssize_t k) noexcept nogil:
    return sample.scores[k] if sample.scores != NULL else sample.scale * <double>sample.narrow[k]


cdef inline void put(const Target* target, Py_ssize_t k, double coefficient) noexcept nogil:
    if target.coefficients != NULL:
        target.coefficients[k] = coefficient
    else:
        target.gradient[k] = <float>(target.factor * coefficient)
