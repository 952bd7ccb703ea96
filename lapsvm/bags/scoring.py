"""The best windows of bags that lie in one block of memory: what one part of a store answers to weight vectors.

`best_in` is all that a pass asks of a part. It knows neither files nor threads nor the rest of the store, and its
answer is the same, bit for bit, wherever the bags lie, whatever other bags and weight vectors are asked for beside
them: see ``cython_ext/scores.pyx``. So whoever holds some bags, another process or machine, answers for them alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from lapsvm._ext import bags as _kernel
from lapsvm._ext import scores as _pass
from lapsvm.arrays import Array, Float32, Float64, Index
from lapsvm.bfloat16 import BFLOAT16
from lapsvm.errors import NotFiniteError

_LINE = 64  # bytes; what a tile loads must not straddle cache lines, or it takes twice as long
_NONE = np.empty(0, dtype=np.uint8)
_NEAR_ROWS = 1024  # of near windows that one block may have; bags beyond them are scored again as a whole


@dataclass(frozen=True)
class BestWindows:
    """The best window of every bag for every weight vector.

    Attributes
    ----------
    index : (n_bags,) or (n_bags, k) intp
        Window within its bag, 0-based; the first maximum.
    score : (n_bags,) or (n_bags, k) float64
        Its score.
    """

    index: Index
    score: Float64

    def __iter__(self) -> Iterator[Array]:
        return iter((self.index, self.score))

    def column(self, j: int) -> "BestWindows":
        """Return the answer for weight vector `j` alone, contiguous."""
        return BestWindows(np.ascontiguousarray(self.index[:, j]), np.ascontiguousarray(self.score[:, j]))


class Block(NamedTuple):
    """Bags in memory: bag i holds the rows starts[i] to stops[i] - 1 of `features`.

    `lengths` (n,) float32, if there is one, holds upper bounds of the rows' Euclidean norms, or NaN, and is filled.
    """

    features: Array
    starts: Index
    stops: Index
    lengths: Float32 | None = None


class Question(NamedTuple):
    """Weight vectors as a pass needs them.

    Attributes
    ----------
    exact : (k, d) float64
        One in each row; what winners are scored with.
    packed : 1-d float32, or float64 for a store of float64
        The same in the order of the tiles; what windows compete with.
    rounding : (k,) float64
        By how much two sums may be off together, for windows of length 1.
    least : (k,) float64
        The same for what underflows.
    """

    exact: Float64
    packed: Array
    rounding: Float64
    least: Float64

    @classmethod
    def of(cls, weights: Float64, dtype: DTypeLike) -> Self:
        """Return the question of the columns of `weights` (d, k), scale included, to a store of this type."""
        wide = np.dtype(dtype) == np.float64
        d, k = weights.shape
        lanes, kind = (8, np.float64) if wide else (16, np.float32)
        packed = aligned_empty((k * -(-d // lanes) * lanes,), kind)
        with np.errstate(over="ignore"):  # a weight beyond float32 is infinite there; winners are scored in float64
            columns: Any = np.ascontiguousarray(weights, dtype=kind)
            rounding = 2 * _gamma(d, kind) * np.linalg.norm(weights, axis=0)
        _pass.pack(columns, _pass.WIDEST[_LEVEL], packed)
        least = np.where(rounding > 0, 2 * d * float(np.finfo(kind).smallest_subnormal), 0.0)
        return cls(np.ascontiguousarray(weights.T), packed, rounding, least)

    def margins(self, longest: float) -> Array:
        """Return by how much the sums of two windows of at most this length may be off together (k,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return (longest * self.rounding + (1 + longest) * self.least).astype(self.packed.dtype)


def _gamma(dim: int, kind: DTypeLike) -> float:
    """Return the relative rounding of a sum of products in lanes.

    A sum is off by at most gamma sum |x_j w_j| <= gamma |x| |w|, where gamma counts the roundings of one product on the
    way (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1): the lane, the lanes' reduction, the
    weight's own and those of the margin; in float64 also those of the final score.
    """
    steps = dim / (16 if kind == np.float32 else 6) + 40
    unit = float(np.finfo(kind).eps) / 2
    return float(steps * unit / (1 - steps * unit))


def best_in(block: Block, question: Question, excluded: Array | None = None) -> BestWindows:
    """Return the best window (n, k) of each bag of a block for each weight vector, of equal scores the first.

    `excluded` tells of the windows of these bags, one bag after the other, whether they do not compete. Where none of a
    bag does, its window 0 is returned.

    Raises
    ------
    NotFiniteError
        If no window of a bag that competes has a finite score, because products with the weights overflow.
    """
    stored, k = as_stored(block.features), len(question.exact)
    index = np.empty((len(block.starts), k), dtype=np.intp)
    out = _NONE if excluded is None else excluded.view(np.uint8)
    near = np.empty((_NEAR_ROWS, 3), dtype=np.intp)
    bags = block.starts, block.stops
    count, unsettled = _pass.best_rows(
        stored, *bags, question.packed, _margins(stored, block, question), out, near, index, _LEVEL
    )
    if count:
        _settle(stored, block, question, near[:count], index)
    if unsettled:
        _settle_whole(stored, block, question, excluded, index)
    return BestWindows(index, _row_scores(stored, index + block.starts[:, None], question.exact))


def _margins(stored: Array, block: Block, question: Question) -> Array:
    """Return for each weight vector by how much the sums of two windows of a block may be off together (k,)."""
    lengths = np.full(len(stored), np.nan, dtype=np.float32) if block.lengths is None else block.lengths
    share = (stored.shape[1] / 32 + 8) * 2.0**-23  # rounding of the norms
    return question.margins(_kernel.longest(stored, block.starts, block.stops, share, lengths))


def _settle(stored: Array, block: Block, question: Question, near: Index, index: Index) -> None:
    """Write the best of near windows into `index`; rows of `near` are (bag, weight vector, window), in this order."""
    ends = np.flatnonzero((near[1:, :2] != near[:-1, :2]).any(axis=1)) + 1
    for start, stop in pairwise([0, *ends.tolist(), len(near)]):
        bag, q = near[start, :2]
        windows = near[start:stop, 2]
        scores = _row_scores(stored, (windows + block.starts[bag])[:, None], question.exact[q : q + 1])
        index[bag, q] = windows[np.argmax(scores)]


def _settle_whole(stored: Array, block: Block, question: Question, excluded: Array | None, index: Index) -> None:
    """Write the best window into `index` where it holds -1, by the float64 scores of all windows of the bag."""
    offsets = np.append(0, np.cumsum(block.stops - block.starts))
    for bag, q in zip(*np.nonzero(index < 0), strict=True):
        scores = np.empty(offsets[bag + 1] - offsets[bag])
        _kernel.all_scores(stored[block.starts[bag] : block.stops[bag]], question.exact[q], scores)
        competing = np.ones(len(scores), np.bool_) if excluded is None else ~excluded[offsets[bag] : offsets[bag + 1]]
        usable = np.where(competing & np.isfinite(scores), scores, -np.inf)
        index[bag, q] = np.argmax(usable)
        if usable[index[bag, q]] == -np.inf:
            got = scores[competing][0]
            raise NotFiniteError(f"the scores of a bag's windows must be finite, got {got}; scale weights or features.")


def row_scores(features: Array, rows: Index, weights: Float64) -> Float64:
    """Return the score of row rows[i, j] for column j of `weights` (d, k), summed in float64."""
    return _row_scores(as_stored(features), rows, np.ascontiguousarray(weights.T))


def _row_scores(stored: Array, rows: Index, exact: Float64) -> Float64:
    scores = np.empty(rows.shape)
    _kernel.row_scores(stored, rows, exact, scores)
    return scores


def as_stored(features: Array) -> Array:
    """Return `features` as the kernels take them: halves as their bits, those of bfloat16 as signed numbers."""
    if features.dtype == BFLOAT16:
        return features.view(np.int16)
    return features.view(np.uint16) if features.dtype == np.float16 else features


def aligned_empty(shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Return an array that begins where a cache line does."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.empty(size + _LINE, dtype=np.uint8)
    first = -room.ctypes.data % _LINE
    return room[first : first + size].view(dtype).reshape(shape)


_LEVEL = _pass.level()
