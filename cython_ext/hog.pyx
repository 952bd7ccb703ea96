"""Histograms of oriented gradients of many windows of one picture, each warped to the same square."""

import numpy as np

from libc.math cimport copysignf, fabsf, sqrt, sqrtf
from libc.string cimport memset

cdef struct Geometry:
    Py_ssize_t side    # of the square, in its pixels
    Py_ssize_t cell    # of a cell, in the square's pixels
    Py_ssize_t cells   # along one axis
    Py_ssize_t bins    # of the orientation, over half a turn
    double floor       # added in quadrature to the norm of a block
    double clip        # of an entry of a normalised block


cdef struct Span:
    # the stretch of the picture that one pixel of the square is the mean of, as places in a summed table
    Py_ssize_t first, last
    double first_part, last_part, over


cdef struct Linear:
    # between the middles of cell `at` - 1 and cell `at` (0-based), at this share of the way
    Py_ssize_t at
    float share


cdef inline void _place(double edge, Py_ssize_t limit, Py_ssize_t* at, double* part) noexcept nogil:
    edge = edge if edge > 0 else 0.0  # not NaN either: no place lies outside the table
    at[0] = <Py_ssize_t>edge if edge < limit - 1 else limit - 1
    part[0] = edge - at[0]


cdef void _spans(double low, double high, Py_ssize_t limit, Py_ssize_t side, Span* spans) noexcept nogil:
    """A pixel of the square is the mean over its own stretch, or over one pixel where that is more.

    So shrinking takes area means, and enlarging is linear interpolation.
    """
    cdef double step = (high - low) / side, half = max(step, 1.0) / 2, centre, start, stop
    cdef Py_ssize_t i
    for i in range(side):
        centre = low + (i + 0.5) * step
        start, stop = max(centre - half, 0.0), min(centre + half, <double>limit)
        _place(start, limit, &spans[i].first, &spans[i].first_part)
        _place(stop, limit, &spans[i].last, &spans[i].last_part)
        spans[i].over = 1.0 / (stop - start)


cdef void _warp(const double* table, Py_ssize_t stride, const Span* rows, const Span* columns, Py_ssize_t side,
                double* line, float* square) noexcept nogil:
    """Fill the square from the summed table of the picture; `line` has room for a row of the table."""
    cdef Py_ssize_t i, j, first = columns[0].first, last = columns[side - 1].last + 1
    cdef const double* top
    cdef const double* bottom
    cdef double before, after, upper, lower
    for i in range(side):
        top, bottom = table + rows[i].first * stride, table + rows[i].last * stride
        before, after = rows[i].first_part, rows[i].last_part
        for j in range(first, last + 1):
            upper = top[j] + before * (top[j + stride] - top[j])
            lower = bottom[j] + after * (bottom[j + stride] - bottom[j])
            line[j] = (lower - upper) * rows[i].over
        for j in range(side):
            upper = line[columns[j].first] + columns[j].first_part * (
                line[columns[j].first + 1] - line[columns[j].first])
            lower = line[columns[j].last] + columns[j].last_part * (line[columns[j].last + 1] - line[columns[j].last])
            square[i * side + j] = <float>((lower - upper) * columns[j].over)


cdef void _places(const Geometry* shape, Linear* place) noexcept nogil:
    """Place each pixel of the square's side between the middles of two cells."""
    cdef Py_ssize_t i
    cdef float along
    for i in range(shape.side):
        along = (i + <float>0.5) / shape.cell + <float>0.5
        place[i].at = <Py_ssize_t>along
        place[i].share = along - place[i].at


cdef inline float _half_turn(float x, float y) noexcept nogil:
    """Angle of (x, y) as a share of half a turn, in [0, 1]; the arc tangent is a polynomial, exact to 8e-8.

    It has no branches, which would depend on the picture and be mispredicted, so the compiler vectorises it.
    """
    cdef float width = fabsf(x), height = fabsf(y), difference = fabsf(width - height)
    # the smaller over the larger; the constant avoids 0 / 0
    cdef float ratio = (width + height - difference) / (width + height + difference + <float>1e-30)
    cdef float square = ratio * ratio
    cdef float angle = <float>0.0241661895 - <float>0.00466877331 * square
    angle = <float>-0.0593671008 + square * angle
    angle = <float>0.099060969 + square * angle
    angle = <float>-0.14016585 + square * angle
    angle = <float>0.199692354 + square * angle
    angle = <float>-0.333319597 + square * angle
    angle = ratio * (<float>0.999999898 + square * angle) * <float>0.318309886  # 1 / pi
    angle = <float>0.25 - copysignf(<float>0.25 - angle, width - height)
    return <float>0.5 - copysignf(<float>0.5 - angle, x * y)


cdef void _gradients(const float* line, const float* above, const float* below, Py_ssize_t side, float* across,
                     float* length, float* turn) noexcept nogil:
    """Length and direction (in half turns) of the gradient along one row; the border is repeated."""
    cdef Py_ssize_t x
    cdef float down
    for x in range(1, side - 1):
        across[x] = line[x + 1] - line[x - 1]
    across[0], across[side - 1] = line[1] - line[0], line[side - 1] - line[side - 2]
    for x in range(side):
        down = below[x] - above[x]
        length[x] = across[x] * across[x] + down * down
        turn[x] = _half_turn(across[x], down)
    for x in range(side):
        length[x] = sqrtf(length[x])


cdef void _spread(const float* length, const float* turn, const Linear* place, const Geometry* shape,
                  float* row) noexcept nogil:
    """Add the gradients of one row to (cells + 2) x (bins + 2) slots, linearly in place and direction.

    A direction lies between the middles of two bins. Slot k + 1 is bin k; the first and the last slot are the
    bins one further round, which `_close` brings home.
    """
    cdef Py_ssize_t slots = shape.bins + 2, x, slot
    cdef float along, near, far
    memset(row, 0, (shape.cells + 2) * slots * sizeof(float))
    for x in range(shape.side):
        along = turn[x] * shape.bins + <float>0.5
        slot = <int>along
        far = length[x] * (along - slot)
        near = length[x] - far
        slot += place[x].at * slots
        row[slot] += near * (1 - place[x].share)
        row[slot + 1] += far * (1 - place[x].share)
        row[slot + slots] += near * place[x].share
        row[slot + slots + 1] += far * place[x].share


cdef void _close(const float* row, const Geometry* shape, float* closed) noexcept nogil:
    """Bring slots to bins: half a turn further is the same orientation."""
    cdef Py_ssize_t bins = shape.bins, _, k
    for _ in range(shape.cells + 2):
        for k in range(bins):
            closed[k] = row[k + 1]
        closed[0] += row[bins + 1]
        closed[bins - 1] += row[0]
        closed += bins
        row += bins + 2


cdef void _cell_histograms(const float* square, const Linear* place, const Geometry* shape, float* work,
                           float* cells) noexcept nogil:
    """Fill (cells + 2) x (cells + 2) x bins; the outermost ring is what fell outside and is not used."""
    cdef Py_ssize_t side = shape.side, width = (shape.cells + 2) * shape.bins, y, k
    cdef const float* line
    cdef float* length = work + side
    cdef float* turn = length + side
    cdef float* row = turn + side
    cdef float* closed = row + (shape.cells + 2) * (shape.bins + 2)
    cdef float* top
    memset(cells, 0, (shape.cells + 2) * width * sizeof(float))
    for y in range(side):
        line = square + y * side
        _gradients(line, line - (side if y > 0 else 0), line + (side if y < side - 1 else 0), side, work, length, turn)
        _spread(length, turn, place, shape, row)
        _close(row, shape, closed)
        top = cells + place[y].at * width
        for k in range(width):
            top[k] += (1 - place[y].share) * closed[k]
        for k in range(width):
            top[width + k] += place[y].share * closed[k]


cdef void _normalise(float* block, Py_ssize_t size, double floor, double clip) noexcept nogil:
    """Divide by the norm, of which the floor is a part, clip, and give back the length before clipping."""
    cdef double total = 0, clipped = 0, length
    cdef Py_ssize_t k
    for k in range(size):
        total += block[k] * block[k]
    length = sqrt(total + floor * floor)
    for k in range(size):
        block[k] = <float>min(block[k] / length, clip)
        clipped += block[k] * block[k]
    length = sqrt(total / clipped) / length if clipped > 0 else 0
    for k in range(size):
        block[k] = <float>(block[k] * length)


cdef void _blocks(const float* cells, const Geometry* shape, float* out) noexcept nogil:
    """Write every block of 2 x 2 cells, normalised."""
    cdef Py_ssize_t bins = shape.bins, width = (shape.cells + 2) * shape.bins, y, x, k
    for y in range(1, shape.cells):
        for x in range(1, shape.cells):
            for k in range(2 * bins):
                out[k] = cells[y * width + x * bins + k]
                out[2 * bins + k] = cells[(y + 1) * width + x * bins + k]
            _normalise(out, 4 * bins, shape.floor, shape.clip)
            out += 4 * bins


def describe(const double[:, ::1] table, const double[:, ::1] boxes, Py_ssize_t side, Py_ssize_t cell, Py_ssize_t bins,
             double floor, double clip):
    """Return the features of windows, float32 of shape (n, (side/cell - 1)^2 * 4 * bins).

    `table` (h + 1, w + 1) is the summed table of a grey picture; boxes lie inside it. An empty one gives zeros.
    """
    cdef Py_ssize_t n = boxes.shape[0], cells = side // cell, i
    cdef Py_ssize_t height = table.shape[0] - 1, width = table.shape[1] - 1
    cdef Geometry shape = Geometry(side, cell, cells, bins, floor, clip)
    cdef float[:, ::1] out = np.zeros((n, (cells - 1) ** 2 * 4 * bins), np.float32)
    cdef float[::1] square = np.empty(side * side, np.float32)
    cdef float[::1] work = np.empty(3 * side + (cells + 2) * (2 * bins + 2), np.float32)
    cdef float[::1] histograms = np.empty((cells + 2) ** 2 * bins, np.float32)
    cdef double[::1] line = np.empty(width + 1)
    cdef unsigned char[::1] memory = np.empty(side * (2 * sizeof(Span) + sizeof(Linear)), np.uint8)
    cdef Span* rows = <Span*>&memory[0]
    cdef Span* columns = rows + side
    cdef Linear* place = <Linear*>(columns + side)
    if n == 0:
        return np.asarray(out)
    with nogil:
        _places(&shape, place)
        for i in range(n):
            if boxes[i, 2] <= boxes[i, 0] or boxes[i, 3] <= boxes[i, 1]:
                continue
            _spans(boxes[i, 1], boxes[i, 3], height, side, rows)
            _spans(boxes[i, 0], boxes[i, 2], width, side, columns)
            _warp(&table[0, 0], width + 1, rows, columns, side, &line[0], &square[0])
            _cell_histograms(&square[0], place, &shape, &work[0], &histograms[0])
            _blocks(&histograms[0], &shape, &out[i, 0])
    return np.asarray(out)
