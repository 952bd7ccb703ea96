"""Loss-diminished inference for AP."""


cdef int choose_prefixes(const double* positives, Py_ssize_t n_pos, const double* negatives, Py_ssize_t n,
                         Py_ssize_t n_neg, Py_ssize_t* above) except -1 nogil
