"""Overlap of boxes (x1, y1, x2, y2, half-open edges)."""

import numpy as np


cdef inline double _area(const double* box) noexcept nogil:
    cdef double width = box[2] - box[0], height = box[3] - box[1]
    return width * height if width > 0 and height > 0 else 0.0


cdef inline double _overlap(const double* a, const double* b) noexcept nogil:
    """Intersection over union; 0 unless the boxes share a positive area."""
    cdef double width = min(a[2], b[2]) - max(a[0], b[0])
    cdef double height = min(a[3], b[3]) - max(a[1], b[1])
    cdef double shared
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / (_area(a) + _area(b) - shared)


def iou(const double[:, ::1] first, const double[:, ::1] second):
    """Return the overlap of every pair, float64 of shape (n, m)."""
    cdef Py_ssize_t i, j, n = first.shape[0], m = second.shape[0]
    overlaps = np.zeros((n, m))
    cdef double[:, ::1] out = overlaps
    with nogil:
        for i in range(n):
            for j in range(m):
                out[i, j] = _overlap(&first[i, 0], &second[j, 0])
    return overlaps
