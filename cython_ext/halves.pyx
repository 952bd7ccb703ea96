"""Rounding of float32 numbers to float16, and the way back; NumPy's own conversions take ten times as long."""

from libc.stdint cimport uint16_t

cdef extern from "halves.h":
    bint lapsvm_to_halves(const float* numbers, uint16_t* halves, Py_ssize_t n) noexcept nogil
    void lapsvm_from_halves(const uint16_t* halves, float* numbers, Py_ssize_t n) noexcept nogil


def to_halves(const float[:, ::1] numbers, uint16_t[:, ::1] out):
    """Write the bits of the nearest float16 of each number, ties to even; return whether all numbers fit.

    A number fits if it is finite and at most 65504 in absolute value. Nothing is written after the first row with one
    that does not.
    """
    cdef Py_ssize_t i, n = numbers.shape[0], d = numbers.shape[1]
    cdef bint misfit = False
    if out.shape[0] != n or out.shape[1] != d:
        raise ValueError(f"out must be of shape {(n, d)}, got {(out.shape[0], out.shape[1])}.")
    if n == 0 or d == 0:
        return True
    with nogil:
        for i in range(n):
            misfit = lapsvm_to_halves(&numbers[i, 0], &out[i, 0], d)
            if misfit:
                break
    return not misfit


def from_halves(const uint16_t[:, ::1] halves, float[:, ::1] out):
    """Write the numbers whose float16 bits are given."""
    cdef Py_ssize_t i, n = halves.shape[0], d = halves.shape[1]
    if out.shape[0] != n or out.shape[1] != d:
        raise ValueError(f"out must be of shape {(n, d)}, got {(out.shape[0], out.shape[1])}.")
    if n == 0 or d == 0:
        return
    with nogil:
        for i in range(n):
            lapsvm_from_halves(&halves[i, 0], &out[i, 0], d)
