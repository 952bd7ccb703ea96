"""Buckets laid over the scores of the negatives."""

from lapsvm._ext.interleaving cimport Grid
from lapsvm._ext.optranks cimport Task
from lapsvm._ext.sample cimport Sample

cdef double LARGEST


cdef bint all_usable(const double* scores, Py_ssize_t n) noexcept nogil

cdef Py_ssize_t grid_size(Py_ssize_t n_neg) noexcept nogil

cdef bint lay_grid(const Task* task, const Sample* sample, Grid* grid) except -1 nogil
