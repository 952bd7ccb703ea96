"""Detections against objects as the PASCAL VOC devkit pairs them (VOCevaldet.m), in its order of arithmetic.

Boxes are the devkit's: 1-based, both edges inside. `pixel` is what it adds to a difference of edges, 1.
"""

import numpy as np


cdef inline double _side(double low_a, double high_a, double low_b, double high_b, double pixel) noexcept nogil:
    """Length of the common part of two intervals; not above 0 where they have none."""
    return (high_a if high_a < high_b else high_b) - (low_a if low_a > low_b else low_b) + pixel


cdef inline double _area(const double* box, double pixel) noexcept nogil:
    return (box[2] - box[0] + pixel) * (box[3] - box[1] + pixel)


cdef inline double _overlap(const double* a, const double* b, double pixel) noexcept nogil:
    """Intersection over union; 0 where the boxes do not meet."""
    cdef double width = _side(a[0], a[2], b[0], b[2], pixel)
    cdef double height = _side(a[1], a[3], b[1], b[3], pixel)
    cdef double shared = width * height
    if width <= 0 or height <= 0 or shared <= 0:
        return 0.0
    return shared / (_area(a, pixel) + _area(b, pixel) - shared)


cdef void _match(
    const double[:, ::1] boxes, const Py_ssize_t[::1] images,
    const double[:, ::1] objects, const Py_ssize_t[::1] offsets, const unsigned char[::1] difficult,
    double threshold, bint strict, double pixel,
    unsigned char[::1] taken, signed char[::1] outcome, Py_ssize_t[::1] partner, double[::1] overlap,
) noexcept nogil:
    cdef Py_ssize_t i, j, best, image, n_images = offsets.shape[0] - 1, n_objects = objects.shape[0]
    cdef double value, largest
    for i in range(boxes.shape[0]):
        best, largest, image = -1, 0.0, images[i]
        if not 0 <= image < n_images:
            partner[i], overlap[i], outcome[i] = -1, 0.0, -1
            continue
        for j in range(max(offsets[image], 0), min(offsets[image + 1], n_objects)):
            value = _overlap(&boxes[i, 0], &objects[j, 0], pixel)
            if value > largest:  # the first of equals stays
                best, largest = j, value
        partner[i], overlap[i] = best, largest
        if best < 0 or largest < threshold or (strict and largest == threshold):
            partner[i], outcome[i] = -1, -1
        elif difficult[best]:
            outcome[i] = 0
        elif taken[best]:
            outcome[i] = -1
        else:
            outcome[i], taken[best] = 1, 1


def match(
    const double[:, ::1] boxes, const Py_ssize_t[::1] images,
    const double[:, ::1] objects, const Py_ssize_t[::1] offsets, const unsigned char[::1] difficult,
    double threshold, bint strict, double pixel,
):
    """Return outcome (n,) int8, partner (n,) intp and overlap (n,) float64 of detections sorted best first."""
    cdef Py_ssize_t n = boxes.shape[0]
    outcome, partner, overlap = np.zeros(n, dtype=np.int8), np.empty(n, dtype=np.intp), np.empty(n)
    cdef signed char[::1] outcome_view = outcome
    cdef Py_ssize_t[::1] partner_view = partner
    cdef double[::1] overlap_view = overlap
    cdef unsigned char[::1] taken = np.zeros(objects.shape[0], dtype=np.uint8)
    with nogil:
        _match(boxes, images, objects, offsets, difficult, threshold, strict, pixel,
               taken, outcome_view, partner_view, overlap_view)
    return outcome, partner, overlap
