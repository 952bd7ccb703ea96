"""The best windows, for some weight vectors, of bags that lie in one block of memory.

`best_in` is the kernel of a pass. It knows neither files nor threads nor the rest of the store, and its answer for a
bag and a weight vector has the same bits whatever other bags and weight vectors are in the call (see
``cython_ext/scores.pyx``). So any process or machine can compute the answer for the bags that it holds.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from lapsvm._ext import bags as _kernel
from lapsvm._ext import scores as _pass
from lapsvm.arrays import Array, Float32, Float64, Index, check_choice
from lapsvm.bfloat16 import BFLOAT16, narrowed, widened
from lapsvm.errors import NotFiniteError

_CACHE_LINE = 64  # bytes; loads that straddle cache lines take twice as long
_NONE = np.empty(0, dtype=np.uint8)
VARIABLE = "LAPSVM_INSTRUCTIONS"
LEVELS = {"plain": 1, "avx2": 3, "avx512": 4, "amx": 5}
AMX = LEVELS["amx"]
AMX_FROM = 8  # weight vectors: fewer are as fast by AVX-512
_TIE_ROWS = 1024  # near ties of one block; bags beyond them are scored again completely


@dataclass(frozen=True)
class BestWindows:
    """The best window of every bag for every weight vector.

    Attributes
    ----------
    index : (n_bags,) or (n_bags, k) intp
        Window within its bag, 0-based; the first one of the highest score.
    score : (n_bags,) or (n_bags, k) float64
        Score of that window.
    """

    index: Index
    score: Float64

    def __iter__(self) -> Iterator[Array]:
        return iter((self.index, self.score))

    def column(self, j: int) -> "BestWindows":
        """Return the best windows for weight vector `j`, as contiguous arrays."""
        return BestWindows(np.ascontiguousarray(self.index[:, j]), np.ascontiguousarray(self.score[:, j]))


class Block(NamedTuple):
    """Bags in memory: bag i holds the rows starts[i] to stops[i] - 1 of `features`.

    `lengths` (n,) float32, if given, holds upper bounds of the rows' Euclidean norms; kernels replace NaN by bounds.
    """

    features: Array
    starts: Index
    stops: Index
    lengths: Float32 | None = None


class PackedWeights(NamedTuple):
    """Weight vectors as a pass needs them.

    Attributes
    ----------
    exact : (k, d) float64
        One per row; the best windows are scored with these.
    packed : 1-d float32, or float64 for a store of float64
        The same in the order of the tiles; the windows are compared with these.
    level : int
        The instruction set that these are packed for.
    rounding : (k,) float64
        Bound of the joint rounding error of two sums, for windows of length 1.
    least : (k,) float64
        The same for underflow.
    """

    exact: Float64
    packed: Array
    level: int
    rounding: Float64
    least: Float64

    @classmethod
    def of(cls, weights: Float64, dtype: DTypeLike) -> Self:
        """Pack the columns of `weights` (d, k), scale included, for a store of type `dtype`."""
        d, kind = len(weights), np.float64 if np.dtype(dtype) == np.float64 else np.float32
        with np.errstate(over="ignore"):  # beyond float32 is infinite; the best windows are scored in float64
            columns: Any = np.ascontiguousarray(weights, dtype=kind)
            lengths = np.linalg.norm(weights, axis=0)
        exact, limits = np.ascontiguousarray(weights.T), np.finfo(kind)
        if LEVEL >= AMX and np.dtype(dtype).itemsize == 2 and len(exact) >= AMX_FROM:
            lost = np.where(lengths > 0, 8 * d * float(limits.tiny) * (1 + lengths), 0.0)  # it has no subnormal numbers
            return cls(exact, _in_pairs(columns), AMX, 2 * _gamma_of_pairs(d) * lengths, lost)
        level = min(LEVEL, AMX - 1)
        lost = np.where(lengths > 0, 2 * d * float(limits.smallest_subnormal), 0.0)
        return cls(exact, _in_lanes(columns, level), level, 2 * _gamma(d, kind) * lengths, lost)

    def margins(self, longest: float) -> Array:
        """Return a bound (k,) of the joint rounding error of two windows of at most the length `longest`."""
        with np.errstate(over="ignore", invalid="ignore"):
            return (longest * self.rounding + (1 + longest) * self.least).astype(self.packed.dtype)


def _in_lanes(columns: Array, level: int) -> Array:
    """Return weights (d, k) in the order of a level's tiles."""
    (d, k), lanes = columns.shape, _CACHE_LINE // columns.itemsize
    packed = aligned_empty((k * -(-d // lanes) * lanes,), columns.dtype)
    _pass.pack(columns, _pass.WIDEST[level], packed)
    return packed


def _in_pairs(columns: Array) -> Array:
    """Return weights (d, k) in the order of the tiles of AMX, as the float32 numbers that have these bits."""
    (d, k), step, group = columns.shape, _pass.STEP, _pass.GROUP
    filled = np.zeros((-(-d // step) * step, -(-k // group) * group), np.float32)
    filled[:d, :k] = columns
    high = narrowed(filled, BFLOAT16)
    with np.errstate(invalid="ignore"):  # infinite weights; the best windows are scored in float64
        low = narrowed(filled - widened(high), BFLOAT16)
    # a pair is a feature f of a step and f + 16
    parts = np.stack([high, low]).view(np.uint16).reshape(2, -1, 2, step // 2, filled.shape[1] // group, group)
    ordered = parts.transpose(4, 1, 0, 3, 5, 2)  # group, step, high or low, pair, vector, feature of the pair
    packed = aligned_empty(ordered.shape, np.uint16)
    packed[:] = ordered
    return packed.reshape(-1).view(np.float32)


def _gamma(dim: int, kind: DTypeLike) -> float:
    """Return the relative rounding of a sum of products in lanes.

    The error of a sum is at most gamma sum |x_j w_j| <= gamma |x| |w|, where gamma counts the roundings of one product
    (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1): in its lane, in the sum of the lanes, of the
    weight and of the margin; in float64 also those of the final score.
    """
    steps = dim / (16 if kind == np.float32 else 6) + 40
    unit = float(np.finfo(kind).eps) / 2
    return float(steps * unit / (1 - steps * unit))


def _gamma_of_pairs(dim: int) -> float:
    """Return the relative rounding of a sum of products by AMX (see `_gamma`).

    Two bfloat16 numbers hold a weight but for 2^-16 of it, and the product of the second numbers of a weight and a
    feature, 2^-16 of theirs at most, is left out. A product is summed with 15 others before it is added to the sum of
    three products for each 32 features.
    """
    steps, unit = 3 * -(-dim // _pass.STEP) + 40, 2.0**-24
    return 2.0**-15 + float(steps * unit / (1 - steps * unit))


def best_in(block: Block, packed: PackedWeights, excluded: Array | None = None) -> BestWindows:
    """Return the best window (n, k) of each bag of a block for each weight vector, of equal scores the first.

    `excluded` is the mask, bag after bag, of windows that do not compete. A bag without a competing window returns 0.

    Raises
    ------
    NotFiniteError
        If no competing window of a bag has a finite score, because products with the weights overflow.
    """
    stored, k = as_stored(block.features), len(packed.exact)
    index = np.empty((len(block.starts), k), dtype=np.intp)
    out = _NONE if excluded is None else excluded.view(np.uint8)
    ties = np.empty((_TIE_ROWS, 3), dtype=np.intp)
    bags = block.starts, block.stops
    count, undecided = _pass.best_rows(
        stored, *bags, packed.packed, _margins(stored, block, packed), out, ties, index, packed.level
    )
    if count:
        _resolve_ties(stored, block, packed, ties[:count], index)
    if undecided:
        _rescore_bags(stored, block, packed, excluded, index)
    return BestWindows(index, _row_scores(stored, index + block.starts[:, None], packed.exact))


def _margins(stored: Array, block: Block, packed: PackedWeights) -> Array:
    """Return for each weight vector a bound (k,) of the joint rounding error of two windows of a block."""
    lengths = np.full(len(stored), np.nan, dtype=np.float32) if block.lengths is None else block.lengths
    share = (stored.shape[1] / 32 + 8) * 2.0**-23  # rounding of the norms
    return packed.margins(_kernel.longest(stored, block.starts, block.stops, share, lengths))


def _resolve_ties(stored: Array, block: Block, packed: PackedWeights, ties: Index, index: Index) -> None:
    """Write the best of nearly tied windows into `index`; rows of `ties` are (bag, weight vector, window), sorted."""
    ends = np.flatnonzero((ties[1:, :2] != ties[:-1, :2]).any(axis=1)) + 1
    for start, stop in pairwise([0, *ends.tolist(), len(ties)]):
        bag, q = ties[start, :2]
        windows = ties[start:stop, 2]
        scores = _row_scores(stored, (windows + block.starts[bag])[:, None], packed.exact[q : q + 1])
        index[bag, q] = windows[np.argmax(scores)]


def _rescore_bags(stored: Array, block: Block, packed: PackedWeights, excluded: Array | None, index: Index) -> None:
    """Replace -1 in `index` by the best window, by the float64 scores of all windows of the bag."""
    offsets = np.append(0, np.cumsum(block.stops - block.starts))
    for bag, q in zip(*np.nonzero(index < 0), strict=True):
        features = stored[block.starts[bag] : block.stops[bag]]
        mask = None if excluded is None else excluded[offsets[bag] : offsets[bag + 1]]
        index[bag, q] = _best_of_bag(features, packed.exact[q], mask)


def best_of_bag(features: Array, weights: Float64, excluded: Array | None = None) -> int:
    """Return the best window of one bag (n, d) for `weights` (d,), by the float64 scores of all that are finite.

    Raises
    ------
    NotFiniteError
        If no competing window has a finite score.
    """
    return _best_of_bag(as_stored(features), np.ascontiguousarray(weights), excluded)


def _best_of_bag(stored: Array, exact: Float64, excluded: Array | None) -> int:
    products = np.empty((len(stored), 1))
    _kernel.all_scores(stored, exact[None], products)
    scores = products[:, 0]
    competing = np.ones(len(scores), np.bool_) if excluded is None else ~excluded
    usable = np.where(competing & np.isfinite(scores), scores, -np.inf)
    best = int(np.argmax(usable))
    if usable[best] == -np.inf:
        raise NotFiniteError(
            f"scores of windows must be finite, got {scores[competing][0]}; scale the weights or features."
        )
    return best


def row_scores(features: Array, rows: Index, weights: Float64) -> Float64:
    """Return the score of row rows[i, j] for column j of `weights` (d, k), summed in float64."""
    return _row_scores(as_stored(features), rows, np.ascontiguousarray(weights.T))


def _row_scores(stored: Array, rows: Index, exact: Float64) -> Float64:
    scores = np.empty(rows.shape)
    _kernel.row_scores(stored, rows, exact, scores)
    return scores


def as_stored(features: Array) -> Array:
    """Return `features` as the kernels take them: float16 as uint16, bfloat16 as int16."""
    if features.dtype == BFLOAT16:
        return features.view(np.int16)
    return features.view(np.uint16) if features.dtype == np.float16 else features


def aligned_empty(shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Return an empty array that begins at a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + _CACHE_LINE, dtype=np.uint8)
    first = -memory.ctypes.data % _CACHE_LINE
    return memory[first : first + size].view(dtype).reshape(shape)


def allowed_level() -> int:
    """Return the machine's instruction set, or the one that the environment variable names if the machine has it.

    Raises
    ------
    OptionError
        If the variable names none.
    """
    name = os.environ.get(VARIABLE, "amx")
    check_choice(f"the environment variable {VARIABLE}", name, LEVELS)
    return min(_pass.level(), LEVELS[name])


LEVEL = allowed_level()
