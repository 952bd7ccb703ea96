"""Colour spaces of selective search in integer arithmetic: RGB pixels in, 8-bit planes out."""

import numpy as np

from libc.stdint cimport int32_t, uint8_t


cdef inline int32_t _hue(int32_t r, int32_t g, int32_t b, int32_t high, int32_t spread) noexcept nogil:
    """Angle on the colour circle, 0..255 for a full turn; 0 for a grey."""
    cdef int32_t sixths
    if spread == 0:
        return 0
    if high == r:
        sixths = g - b if g >= b else g - b + 6 * spread
    elif high == g:
        sixths = b - r + 2 * spread
    else:
        sixths = r - g + 4 * spread
    return ((256 * sixths + 3 * spread) // (6 * spread)) & 255


cdef void _hsv(const uint8_t* rgb, uint8_t* out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t p
    cdef int32_t r, g, b, high, spread
    for p in range(n):
        r, g, b = rgb[3 * p], rgb[3 * p + 1], rgb[3 * p + 2]
        high = max(r, max(g, b))
        spread = high - min(r, min(g, b))
        out[p] = <uint8_t> _hue(r, g, b, high, spread)
        out[n + p] = <uint8_t> ((255 * spread + high // 2) // high if high > 0 else 0)
        out[2 * n + p] = <uint8_t> high


cdef inline uint8_t _byte(int32_t value) noexcept nogil:
    return <uint8_t> min(max(value, 0), 255)


cdef void _lab(
    const uint8_t* rgb, const int32_t* linear, const int32_t* root, const int32_t* matrix, uint8_t* out, Py_ssize_t n
) noexcept nogil:
    """CIE L*a*b* with 255/100 L*, a* + 128, b* + 128; tables in 1/4096, see lapsvm.windows.colour."""
    cdef Py_ssize_t p
    cdef int32_t r, g, b, fx, fy, fz
    for p in range(n):
        r, g, b = linear[rgb[3 * p]], linear[rgb[3 * p + 1]], linear[rgb[3 * p + 2]]
        fx = root[(matrix[0] * r + matrix[1] * g + matrix[2] * b + 2048) >> 12]
        fy = root[(matrix[3] * r + matrix[4] * g + matrix[5] * b + 2048) >> 12]
        fz = root[(matrix[6] * r + matrix[7] * g + matrix[8] * b + 2048) >> 12]
        out[p] = _byte((29580 * fy - 4080 * 4096 + 204800) // 409600)
        out[n + p] = _byte(((500 * (fx - fy) + 2048) >> 12) + 128)
        out[2 * n + p] = _byte(((200 * (fy - fz) + 2048) >> 12) + 128)


cdef inline uint8_t _grey(const uint8_t* rgb) noexcept nogil:
    return <uint8_t> ((77 * <int32_t> rgb[0] + 150 * <int32_t> rgb[1] + 29 * <int32_t> rgb[2] + 128) >> 8)


cdef void _rgi(const uint8_t* rgb, uint8_t* out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t p
    cdef int32_t r, g, total
    for p in range(n):
        r, g = rgb[3 * p], rgb[3 * p + 1]
        total = r + g + rgb[3 * p + 2]
        if total == 0:
            r, g, total = 1, 1, 3
        out[p] = <uint8_t> ((255 * r + total // 2) // total)
        out[n + p] = <uint8_t> ((255 * g + total // 2) // total)
        out[2 * n + p] = _grey(rgb + 3 * p)


def hsv(const uint8_t[:, :, ::1] image):
    """Return hue, saturation and value, uint8 of shape (3, h, w)."""
    planes = np.empty((3, image.shape[0], image.shape[1]), np.uint8)
    cdef uint8_t[:, :, ::1] out = planes
    with nogil:
        _hsv(&image[0, 0, 0], &out[0, 0, 0], image.shape[0] * image.shape[1])
    return planes


def lab(const uint8_t[:, :, ::1] image, const int32_t[::1] linear, const int32_t[::1] root, const int32_t[::1] matrix):
    """Return L*, a* and b*, uint8 of shape (3, h, w)."""
    planes = np.empty((3, image.shape[0], image.shape[1]), np.uint8)
    cdef uint8_t[:, :, ::1] out = planes
    with nogil:
        _lab(&image[0, 0, 0], &linear[0], &root[0], &matrix[0], &out[0, 0, 0], image.shape[0] * image.shape[1])
    return planes


def rgi(const uint8_t[:, :, ::1] image):
    """Return the shares of red and green, and the intensity, uint8 of shape (3, h, w)."""
    planes = np.empty((3, image.shape[0], image.shape[1]), np.uint8)
    cdef uint8_t[:, :, ::1] out = planes
    with nogil:
        _rgi(&image[0, 0, 0], &out[0, 0, 0], image.shape[0] * image.shape[1])
    return planes
