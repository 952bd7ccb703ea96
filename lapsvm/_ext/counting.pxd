"""Inference by counting: most negatives get their rank from a histogram, without being moved."""

from libc.stdint cimport int32_t

from lapsvm._ext.interleaving cimport Cuts, Grid
from lapsvm._ext.optranks cimport Task


cdef struct Sample:
    # the scores in input order, and where the positives are (ascending)
    const double* scores
    Py_ssize_t n
    const Py_ssize_t* positives
    Py_ssize_t n_pos


cdef Py_ssize_t grid_size(Py_ssize_t n_neg) noexcept nogil

cdef int count_ranks(Task* task, const Sample* sample, Grid* grid, int32_t* first, Cuts* cuts) except -1 nogil
