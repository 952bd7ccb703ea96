"""The lines of a result file of the VOC devkit, read in one pass; odd ones are left to the caller."""

import numpy as np

from libcpp.vector cimport vector


cdef extern from "<algorithm>" namespace "std" nogil:
    Py_ssize_t count(const char* first, const char* last, char value)


cdef extern from "<string_view>" namespace "std" nogil:
    cdef cppclass string_view:
        const char* data()
        size_t size()


cdef extern from "result_lines.h" namespace "lapsvm" nogil:
    cdef struct OddLine:
        Py_ssize_t row, number, start, stop

    cdef cppclass ResultLines:
        Py_ssize_t n_rows
        vector[string_view] names
        vector[OddLine] odd

    ResultLines read_result_lines(
        const char* text, Py_ssize_t length, double* numbers, Py_ssize_t* places) except +


def read_lines(bytes text not None):
    """Return the lines ``id score x1 y1 x2 y2`` of a text whose lines end in a line feed.

    Returns
    -------
    numbers : ndarray of shape (n, 5), float64
        Of the lines that are not blank.
    places : ndarray of shape (n,), intp
        The place of the line's id in `names`; -1 for an odd line.
    names : list of bytes
        Every id once, in ASCII, in the order of the first lines.
    odd : list of (row, line, start, stop)
        Lines that are malformed or that Python reads otherwise (letters beyond ASCII, numbers out of range): the row
        below n, the number of the line from 1, and its bytes. Their numbers are undefined.
    """
    cdef Py_ssize_t length = len(text)
    cdef const char* start = text
    cdef Py_ssize_t most = count(start, start + length, b"\n") + 1
    cdef double[:, ::1] numbers = np.empty((most, 5))
    cdef Py_ssize_t[::1] places = np.empty(most, dtype=np.intp)
    cdef ResultLines lines
    cdef Py_ssize_t i
    with nogil:
        lines = read_result_lines(start, length, &numbers[0, 0], &places[0])
    names = [lines.names[i].data()[:lines.names[i].size()] for i in range(<Py_ssize_t> lines.names.size())]
    odd = [(line.row, line.number, line.start, line.stop) for line in lines.odd]
    return np.asarray(numbers)[:lines.n_rows], np.asarray(places)[:lines.n_rows], names, odd
