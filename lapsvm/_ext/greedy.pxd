"""The papers' baselines: every rank tried for every negative."""

from lapsvm._ext.optranks cimport Task


cdef int greedy_ranks(const Task* task, Py_ssize_t n) except -1 nogil
