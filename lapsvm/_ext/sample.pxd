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


cdef inline double score_at(const Sample* sample, Py_ssize_t k) noexcept nogil:
    return sample.scores[k] if sample.scores != NULL else sample.scale * <double>sample.narrow[k]


cdef inline void put(const Target* target, Py_ssize_t k, double coefficient) noexcept nogil:
    if target.coefficients != NULL:
        target.coefficients[k] = coefficient
    else:
        target.gradient[k] = <float>(target.factor * coefficient)
