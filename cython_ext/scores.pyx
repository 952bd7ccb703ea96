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
    void lapsvm_pack(
        const float* weights, Py_ssize_t d, Py_ssize_t k, Py_ssize_t widest, float* packed) noexcept nogil
    void lapsvm_pack(
        const double* weights, Py_ssize_t d, Py_ssize_t k, Py_ssize_t widest, double* packed) noexcept nogil
    void lapsvm_pass[Type](int level, const Type* features, Request* request) noexcept nogil
    cppclass Kept "lapsvm_scores::Kept<double>":
        pass

cdef extern from "scores.h" namespace "lapsvm_scores":
    struct NearTies:
        Py_ssize_t* rows
        Py_ssize_t capacity, count, undecided

    struct Request:
        Py_ssize_t d, n_bags, k
        const Py_ssize_t* starts
        const Py_ssize_t* stops
        const void* packed
        const void* margins
        const unsigned char* excluded
        void* kept
        void* floors
        void* sums
        Py_ssize_t* index
        NearTies ties

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
    is 0. `excluded` is empty, or has one number per row of the bags, in order: 1 for a row that does not compete.

    Returns how many rows of `near` were written, and how often -1 was.
    """
    cdef Py_ssize_t columns = -(-index.shape[1] // GROUP) * GROUP
    cdef unsigned char[::1] kept = np.empty(index.shape[1] * sizeof(Kept), dtype=np.uint8)
    cdef double[:, ::1] work = np.empty((1 + PANEL, columns))
    cdef Request request
    request.d, request.n_bags, request.k = features.shape[1], starts.shape[0], index.shape[1]
    request.starts, request.stops = &starts[0], &stops[0]
    request.packed, request.margins = &packed[0], &margins[0]
    request.excluded = &excluded[0] if excluded.shape[0] else NULL
    request.kept, request.floors, request.sums = &kept[0], &work[0, 0], &work[1, 0]
    request.index = &index[0, 0]
    request.ties = NearTies(&near[0, 0], near.shape[0], 0, 0)
    with nogil:
        lapsvm_pass(level, &features[0, 0], &request)
    return request.ties.count, request.ties.undecided
