"""The pass over the windows: scores of a tile of rows for a few weight vectors, and each bag's best windows at once.

A score is summed in 16 lanes (8 of float64) from the first feature to the last, and the lanes in one fixed order. Tiles
only share loads, so a score has the same bits whatever else is in its tile: other windows, other weight vectors,
another block of the store. Stored halves are widened in registers. On x86-64 the machine's instruction set is looked up
when the module is loaded: AVX-512 and AVX2 fuse products into the sums and agree bit for bit; plain C, on
other machines, fuses where the processor always can and else rounds every product. AMX sums halves of many weight
vectors otherwise (score_amx.h) and coarser.

Sums round, so a window may be the best one though its sum is not. Whatever lies within a margin below the best
sum is kept, up to 16 windows a bag and weight vector; the caller scores those again in float64. A window whose
features are those of an earlier one never wins, and is not kept.
"""

import numpy as np

cdef extern from "scores.h":
    int lapsvm_level() noexcept nogil
    void lapsvm_pack(const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void lapsvm_pack(const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    Py_ssize_t lapsvm_pass[Type](
        int, const Type*, Py_ssize_t, const Py_ssize_t*, const Py_ssize_t*, Py_ssize_t, const void*, const void*,
        Py_ssize_t, const unsigned char*, void*, void*, void*, Py_ssize_t*, Py_ssize_t, Py_ssize_t*,
        Py_ssize_t*) noexcept nogil
    cppclass Kept "lapsvm_scores::Kept<double>":
        pass

ctypedef fused Stored:
    unsigned short
    short
    float
    double

ctypedef fused Real:
    float
    double

WIDEST = {1: 1, 3: 3, 4: 5}  # weight vectors of a tile, by level
PANEL, GROUP, STEP = 32, 16, 32  # windows, weight vectors and features that AMX takes at once, as in score_amx.h


def level():
    """Return the machine's instruction set: 5 for AMX, 4 for AVX-512, 3 for AVX2, 1 for plain C."""
    return lapsvm_level()


def pack(const Real[:, ::1] weights, Py_ssize_t widest, Real[::1] out):
    """Lay out weights (d, k) as the tiles read them; `out` holds k times d rounded up to 16 floats or 8 doubles."""
    with nogil:
        lapsvm_pack(&weights[0, 0], weights.shape[0], weights.shape[1], widest, &out[0])


def best_rows(
    const Stored[:, ::1] features, const Py_ssize_t[::1] starts, const Py_ssize_t[::1] stops, const Real[::1] packed,
    const Real[::1] margins, const unsigned char[::1] excluded, Py_ssize_t[:, ::1] near, Py_ssize_t[:, ::1] index,
    int level,
):
    """Write the best row of rows starts[i] to stops[i] - 1 into `index` (n, k), counted from starts[i].

    `packed` is of float64 if the features are, else of float32, as are `margins` (k,) >= 0. Where several different
    rows score within the margin of the best one, each is written into `near` (m, 3) as (i, vector, row counted from
    starts[i]); -1 stands in `index` where these are too many, or no score is a number. Where no row competes, `index`
    is 0. `excluded` is empty, or tells of every row of the bags, one after the other, whether it does not compete.

    Returns how many rows of `near` were written, and how often -1 was.
    """
    cdef const unsigned char* out = &excluded[0] if excluded.shape[0] else NULL
    cdef Py_ssize_t count, unsettled = 0, size = sizeof(Kept)
    cdef Py_ssize_t columns = -(-index.shape[1] // GROUP) * GROUP
    room, levels = np.empty(index.shape[1] * size, dtype=np.uint8), np.empty((1 + PANEL) * columns)
    cdef unsigned char[::1] kept = room
    cdef double[::1] floors = levels
    with nogil:
        count = lapsvm_pass(
            level, &features[0, 0], features.shape[1], &starts[0], &stops[0], starts.shape[0], &packed[0],
            &margins[0], index.shape[1], out, &kept[0], &floors[0], &floors[columns], &near[0, 0], near.shape[0],
            &index[0, 0], &unsettled)
    return count, unsettled
