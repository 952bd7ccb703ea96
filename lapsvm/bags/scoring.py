"""The best windows of bags that lie in one block of memory: what one part of a store answers to weight vectors.

`best_in` is all that a pass asks of a part. It knows neither files nor threads nor the rest of the store, and its
answer is the same, bit for bit, wherever the bags lie, whatever other bags and weight vectors are asked for beside
them: see ``cython_ext/scores.pyx``. So whoever holds some bags, another process or machine, answers for them alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from lapsvm._ext import bags as _kernel
from lapsvm._ext import scores as _pass
from lapsvm.arrays import Array, Float64, Index
from lapsvm.bfloat16 import BFLOAT16

_LINE = 64  # bytes; what a tile loads must not straddle cache lines, or it takes twice as long
_NONE = np.empty(0, dtype=np.uint8)


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
    """Bags in memory: bag i holds the rows starts[i] to stops[i] - 1 of `features`."""

    features: Array
    starts: Index
    stops: Index


class Question(NamedTuple):
    """Weight vectors as a pass needs them.

    Attributes
    ----------
    exact : (k, d) float64
        One in each row; what winners are scored with.
    packed : 1-d float32, or float64 for a store of float64
        The same in the order of the tiles; what windows compete with.
    """

    exact: Float64
    packed: Array

    @classmethod
    def of(cls, weights: Float64, dtype: DTypeLike) -> Self:
        """Return the question of the columns of `weights` (d, k), scale included, to a store of this type."""
        wide = np.dtype(dtype) == np.float64
        d, k = weights.shape
        lanes, kind = (8, np.float64) if wide else (16, np.float32)
        packed = aligned_empty((k * -(-d // lanes) * lanes,), kind)
        with np.errstate(over="ignore"):  # a weight beyond float32 is infinite there; winners are scored in float64
            columns: Any = np.ascontiguousarray(weights, dtype=kind)
        _pass.pack(columns, _pass.WIDEST[_LEVEL], packed)
        return cls(np.ascontiguousarray(weights.T), packed)


def best_in(block: Block, question: Question, excluded: Array | None = None) -> BestWindows:
    """Return the best window (n, k) of each bag of a block for each weight vector.

    `excluded` tells of the windows of these bags, one bag after the other, whether they do not compete; each bag has
    one that does.
    """
    stored, k = as_stored(block.features), len(question.exact)
    index = np.empty((len(block.starts), k), dtype=np.intp)
    out = _NONE if excluded is None else excluded.view(np.uint8)
    room = np.empty(k, dtype=question.packed.dtype)
    _pass.best_rows(stored, block.starts, block.stops, question.packed, out, room, index, _LEVEL)
    return BestWindows(index, _row_scores(stored, index + block.starts[:, None], question.exact))


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
