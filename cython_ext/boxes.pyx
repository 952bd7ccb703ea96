"""Overlap of boxes (x1, y1, x2, y2, half-open edges)."""

import numpy as np


cdef inline double _area(const double* box) noexcept nogil:
    cdef double width = box[2] - box[0], height = box[3] - box[1]
    return width * height if width > 0 and height > 0 else 0.0


cdef inline double _overlap(const double* a, const double* b) noexcept nogil:
    """Intersection over union; 0 unless the boxes share a positive area."""
    cdef double width = min(a[2], b[2]) - max(a[0], b[0])
    cdef double height = min(a[3], b[3]) - max(a[1], b[1])
    cdef double shared = width * height
    if width <= 0 or height <= 0 or shared <= 0:  # the product of two tiny sides may be 0
        return 0.0
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


def nearest(
    const double[:, ::1] boxes, const Py_ssize_t[::1] pictures,
    const double[:, ::1] objects, const Py_ssize_t[::1] offsets,
):
    """Return each box's largest overlap with an object of its picture (n,), and the object's row (n,), -1 for none.

    Picture p has the objects offsets[p]:offsets[p + 1]; the first of equals counts.
    """
    cdef Py_ssize_t i, j, picture, n = boxes.shape[0], n_pictures = offsets.shape[0] - 1
    cdef double value
    largest, nearest_row = np.zeros(n), np.full(n, -1, dtype=np.intp)
    cdef double[::1] best = largest
    cdef Py_ssize_t[::1] row = nearest_row
    with nogil:
        for i in range(n):
            picture = pictures[i]
            if not 0 <= picture < n_pictures:
                continue
            for j in range(max(offsets[picture], 0), min(offsets[picture + 1], objects.shape[0])):
                value = _overlap(&boxes[i, 0], &objects[j, 0])
                if value > best[i]:
                    best[i], row[i] = value, j
    return largest, nearest_row


cdef void _vote(
    const double* box, const double[:, ::1] voters, const double[::1] weights, double near, double* mean
) noexcept nogil:
    """Write the weighted mean of the voters that overlap `box` at least `near`; `box` itself where none weighs."""
    cdef double total = 0.0
    cdef double[4] sums
    cdef Py_ssize_t i, side
    for side in range(4):
        sums[side] = 0.0
    for i in range(voters.shape[0]):
        if _overlap(box, &voters[i, 0]) >= near:
            total += weights[i]
            for side in range(4):
                sums[side] += weights[i] * voters[i, side]
    for side in range(4):
        mean[side] = sums[side] / total if total > 0 else box[side]


def votes(const double[:, ::1] found, const double[:, ::1] voters, const double[::1] weights, double near):
    """Return for every found box the weighted mean of the voters around it, float64 of shape (k, 4)."""
    cdef Py_ssize_t i
    means = np.empty((found.shape[0], 4))
    cdef double[:, ::1] out = means
    with nogil:
        for i in range(found.shape[0]):
            _vote(&found[i, 0], voters, weights, near, &out[i, 0])
    return means


cdef Py_ssize_t _nms(
    const double[:, ::1] boxes, double threshold, Py_ssize_t limit, double[:, ::1] chosen, Py_ssize_t[::1] kept
) noexcept nogil:
    """Fill `kept` with the rows of `boxes` (best first) that no row kept before them overlaps too much; count them."""
    cdef Py_ssize_t i, j, count = 0
    for i in range(boxes.shape[0]):
        if count == limit:
            break
        for j in range(count):  # the boxes kept lie side by side in `chosen`: nothing is gathered through an index
            if _overlap(&chosen[j, 0], &boxes[i, 0]) > threshold:
                break
        else:
            chosen[count, :] = boxes[i, :]
            kept[count] = i
            count += 1
    return count


def nms(const double[:, ::1] boxes, double threshold, Py_ssize_t limit):
    """Return the rows kept of boxes (n, 4) sorted best first, at most `limit` of them, intp of shape (k,)."""
    cdef Py_ssize_t capacity = min(limit, boxes.shape[0]), count
    rows = np.empty(capacity, dtype=np.intp)
    cdef Py_ssize_t[::1] kept = rows
    cdef double[:, ::1] chosen = np.empty((capacity, 4))
    with nogil:
        count = _nms(boxes, threshold, capacity, chosen, kept)
    return rows[:count]
