"""Loss-diminished inference for AP: how many negatives stand above each positive.

In units of 2 / (P N) the i-th positive with n negatives above it adds h_i(n) = S(n) - n s+_i - N/2 n / (i + n) to
F - Delta, where S(n) is the sum of the n best negatives' scores. So the numbers n_1 <= n_2 <= ... maximise a sum over
the positives. Two rules confine each of them to a band, and dynamic programming chooses inside:

* Let a_i be the smallest maximiser of h_i on 0 .. a_{i+1}, from the last positive to the first. Every best ranking
  has n_i >= a_i: raising all numbers that are smaller only gains.
* Let b_i be the smallest maximiser of h_i on b_{i-1} .. M, from the first positive to the last. One of the best
  rankings has n_i <= b_i: the one with the fewest swapped pairs.

The term -N/2 n / (i + n) is convex, and S concave. On an interval a chord bounds the first from above, and the sum of
chord and S is concave, so that a binary search finds its maximum: branch and bound. With 1,000 positives and 20,000
negatives this takes a fortieth of the time of the programme over all cells (`diminished.pyx`).
"""

from libc.math cimport INFINITY
from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

cdef Py_ssize_t FEW = 8  # numbers of an interval that are tried one by one

cdef struct Column:
    # one positive, and what it adds with n negatives above it, less what it adds with `origin`
    const double* negatives      # [M] sorted, best first, less the centre
    const double* sums           # [M + 1] of the best negatives
    const double* rests          # [M + 1] what rounding took from the sums
    double score                 # of the positive, less the centre
    double place                 # i, from 1
    double half                  # N / 2
    Py_ssize_t origin

cdef struct Best:
    Py_ssize_t n
    double gain


cdef inline double _sum_between(const Column* column, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    return (column.sums[end] - column.sums[start]) + (column.rests[end] - column.rests[start])


cdef inline double _gain(const Column* column, Py_ssize_t n) noexcept nogil:
    """Return h_i(n) - h_i(origin)."""
    cdef double more = n - column.origin
    cdef double cost = column.half * column.place * more / ((column.place + column.origin) * (column.place + n))
    return _sum_between(column, column.origin, n) - column.score * more - cost


cdef inline void _try(const Column* column, Py_ssize_t n, Best* best) noexcept nogil:
    cdef double gain = _gain(column, n)
    if gain > best.gain or (gain == best.gain and n < best.n):
        best.n = n
        best.gain = gain


cdef inline Py_ssize_t _not_below(const double* negatives, Py_ssize_t low, Py_ssize_t high,
                                  double score) noexcept nogil:
    """Return how many of the best negatives are not below the score, if they are from low to high."""
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) // 2
        if negatives[middle] >= score:
            low = middle + 1
        else:
            high = middle
    return low


cdef void _search(const Column* column, Py_ssize_t low, Py_ssize_t high, Best* best) noexcept nogil:
    """Replace the best number by a better one in low .. high, or by a smaller one that is as good.

    Each interval is a quarter or more of the one before, so that the recursion is shallow.
    """
    cdef Py_ssize_t middle, quarter, n
    cdef double slope, bound
    while high - low > FEW:
        slope = column.score + column.half * column.place / ((column.place + low) * (column.place + high))
        middle = _not_below(column.negatives, low, high, slope)
        bound = _gain(column, low) + _sum_between(column, low, middle) - slope * (middle - low)
        if bound < best.gain or (bound == best.gain and low >= best.n):
            return
        quarter = (high - low) // 4
        middle = min(max(middle, low + quarter), high - quarter)
        _search(column, middle, high, best)
        high = middle
    for n in range(low, high + 1):
        _try(column, n, best)


cdef Py_ssize_t _best_number(Column* column, Py_ssize_t low, Py_ssize_t high) noexcept nogil:
    """Return the smallest of the best numbers in low .. high."""
    cdef Best best
    column.origin = high
    best.n = high
    best.gain = 0
    _try(column, low, &best)
    _search(column, low, high, &best)
    return best.n


cdef void _place_bands(Column* column, const double* positives, double centre, Py_ssize_t n_pos,
                       const Py_ssize_t* above, Py_ssize_t* lows, Py_ssize_t* highs) noexcept nogil:
    """Write the bounds a_i and b_i of each number; negatives below a positive only cost, so `above` bounds it too."""
    cdef Py_ssize_t i, bound
    for i in range(n_pos - 1, -1, -1):
        column.score = positives[i] - centre
        column.place = i + 1
        bound = above[i] if i == n_pos - 1 else min(above[i], lows[i + 1])
        lows[i] = _best_number(column, 0, bound)
    bound = 0
    for i in range(n_pos):
        column.score = positives[i] - centre
        column.place = i + 1
        if above[i] > bound:
            bound = _best_number(column, bound, above[i])
        bound = max(bound, lows[i])  # equal but for rounding
        highs[i] = bound


cdef int _choose(Column* column, const double* positives, double centre, Py_ssize_t n_pos, const Py_ssize_t* lows,
                 const Py_ssize_t* highs, Py_ssize_t* above) except -1 nogil:
    """Write the best numbers inside the bands; of several, the smallest.

    best[n] is what the positives so far add if the last one has at most n negatives above it. One bit is kept for each
    n of a band: set where n itself is better than all smaller numbers.
    """
    cdef Py_ssize_t i, n
    cdef double value, highest
    cdef vector[double] best
    cdef vector[size_t] starts
    cdef vector[uint64_t] taken
    cdef uint64_t* row
    best.resize(highs[n_pos - 1] + 1)
    starts.resize(n_pos)
    for i in range(n_pos):
        column.score = positives[i] - centre
        column.place = i + 1
        column.origin = lows[i]
        starts[i] = taken.size()
        taken.resize(starts[i] + ((highs[i] - lows[i]) >> 6) + 1)
        row = taken.data() + starts[i]
        if i > 0:
            for n in range(highs[i - 1] + 1, highs[i] + 1):
                best[n] = best[highs[i - 1]]
        highest = -INFINITY
        for n in range(lows[i], highs[i] + 1):
            value = _gain(column, n) + best[n]
            if value > highest:
                highest = value
                row[(n - lows[i]) >> 6] |= <uint64_t>1 << ((n - lows[i]) & 63)
            best[n] = highest
    n = highs[n_pos - 1]
    for i in range(n_pos - 1, -1, -1):
        n = min(n, highs[i])
        while n > lows[i] and not (taken[starts[i] + ((n - lows[i]) >> 6)] >> ((n - lows[i]) & 63)) & 1:
            n -= 1
        above[i] = n
    return 0


cdef int choose_prefixes(const double* positives, Py_ssize_t n_pos, const double* negatives, Py_ssize_t n,
                         Py_ssize_t n_neg, Py_ssize_t* above) except -1 nogil:
    """Replace the predicted numbers of negatives above each positive by those with the largest F - Delta.

    `positives` [n_pos] and `negatives` [n] are sorted, best first; the latter are those above some positive, of
    `n_neg` in all. A predicted number may exceed n, where another thread has changed the scores since it was counted.
    """
    cdef Py_ssize_t k
    cdef double total = 0, rest = 0, value, after, centre = positives[(n_pos - 1) // 2]
    cdef vector[double] values, sums, rests
    cdef vector[Py_ssize_t] lows, highs
    cdef Column column
    values.resize(n + 1)
    sums.resize(n + 1)
    rests.resize(n + 1)
    for k in range(n):
        value = values[k] = negatives[k] - centre
        after = total + value
        rest += (total - (after - (after - total))) + (value - (after - total))
        total = after
        sums[k + 1] = total
        rests[k + 1] = rest
    lows.resize(n_pos)
    highs.resize(n_pos)
    column.negatives = values.data()
    column.sums = sums.data()
    column.rests = rests.data()
    column.half = 0.5 * n_neg
    for k in range(n_pos):
        above[k] = min(above[k], n)  # the arrays end at n
    _place_bands(&column, positives, centre, n_pos, above, lows.data(), highs.data())
    return _choose(&column, positives, centre, n_pos, lows.data(), highs.data(), above)
