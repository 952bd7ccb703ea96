"""Rounding of float32 numbers to float16, and the way back; NumPy's own conversions take ten times as long."""

from libc.stdint cimport uint16_t

cdef extern from "float16.h":
    bint lapsvm_round_row(const float* numbers, uint16_t* rounded, Py_ssize_t n) noexcept nogil
    void lapsvm_widen_row(const uint16_t* stored, float* numbers, Py_ssize_t n) noexcept nogil


def from_float32(const float[:, ::1] numbers, uint16_t[:, ::1] out):
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
            misfit = lapsvm_round_row(&numbers[i, 0], &out[i, 0], d)
            if misfit:
                break
    return not misfit


def to_float32(const uint16_t[:, ::1] stored, float[:, ::1] out):
    """Write the numbers whose float16 bits are given."""
    cdef Py_ssize_t i, n = stored.shape[0], d = stored.shape[1]
    if out.shape[0] != n or out.shape[1] != d:
        raise ValueError(f"out must be of shape {(n, d)}, got {(out.shape[0], out.shape[1])}.")
    if n == 0 or d == 0:
        return
    with nogil:
        for i in range(n):
            lapsvm_widen_row(&stored[i, 0], &out[i, 0], d)
