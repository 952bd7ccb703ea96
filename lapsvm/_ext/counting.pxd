"""Inference by counting: most negatives get their rank from a histogram, without being moved."""

from libc.stdint cimport int32_t

from lapsvm._ext.interleaving cimport Cuts, Grid
from lapsvm._ext.optranks cimport Task
from lapsvm._ext.sample cimport Sample


cdef struct Candidates:
    # indices of the negatives that are not below the grid, ascending; capacity < 0: too many for a list
    Py_ssize_t n
    Py_ssize_t capacity
    int32_t* indices


cdef bint count_ranks(Task* task, const Sample* sample, Grid* grid, int32_t* first, Cuts* cuts,
                      Candidates* found) except -1 nogil
