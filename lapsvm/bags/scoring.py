"""One pass over the windows: every weight vector's score, and each bag's best window while the block is in cache.

The windows are cut into chunks of whole bags by a rule that knows neither the number of threads nor the weights, a
chunk into blocks of rows that stay in cache. So the answer is the same, bit for bit, for any number of threads.
Another block size may change the rounding of the float32 scores that compete, hence the winner among windows whose
scores lie within that rounding; the score handed out is always the winner's own, summed in float64.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from lapsvm._ext import bags as _kernel
from lapsvm.arrays import Array, Float64, Index
from lapsvm.blas import one_blas_thread

BLOCK_NUMBERS = 1 << 18
"""float32 numbers in a block: 1 MiB, so that a block, its scores and the weights share the second-level cache."""

T = TypeVar("T")

_CHUNK_ROWS = 4096
_FEW = 2  # up to here a dot product per row and weight vector reads each window once and beats widening it first
_WORTH_THREADS = 4_000_000  # products; below, starting threads costs more than it saves


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


@dataclass(frozen=True)
class Chunk:
    """Consecutive bags that lie side by side in the store: bags first..last-1, rows start..stop-1."""

    first: int
    last: int
    start: int
    stop: int


@dataclass(frozen=True)
class Layout:
    """Where bags lie in a store: bag i holds rows starts[i] to stops[i] - 1; `chunks` cover all bags in order."""

    starts: Index
    stops: Index
    chunks: tuple[Chunk, ...]


def plan(starts: Index, stops: Index) -> Layout:
    """Return these bags' layout; a chunk ends where the store jumps, and after `_CHUNK_ROWS` rows."""
    chunks, first = [], 0
    for bag in range(1, len(starts) + 1):
        if bag == len(starts) or starts[bag] != stops[bag - 1] or stops[bag - 1] - starts[first] >= _CHUNK_ROWS:
            chunks.append(Chunk(first, bag, int(starts[first]), int(stops[bag - 1])))
            first = bag
    return Layout(starts, stops, tuple(chunks))


def best_windows(
    features: Array,
    layout: Layout,
    weights: Float64,
    threads: int,
    block_numbers: int = BLOCK_NUMBERS,
    excluded: Array | None = None,
) -> BestWindows:
    """Return the best window per bag for the columns of `weights` (d, k), whose scale is folded in.

    `excluded` tells of every window, bag after bag, whether it does not compete; each bag has one that does.
    """
    n_bags, k = len(layout.starts), weights.shape[1]
    index, best = np.zeros((n_bags, k), dtype=np.intp), np.full((n_bags, k), -np.inf)
    scorer = _Scorer(features, weights, block_numbers)
    before = np.append(0, np.cumsum(layout.stops - layout.starts))  # windows of the bags before each bag

    def one(chunk: Chunk) -> None:
        bags = slice(chunk.first, chunk.last)
        offsets = np.append(layout.starts[bags], layout.stops[chunk.last - 1]) - chunk.start
        for row, scores in scorer.blocks(chunk.start, chunk.stop):
            if excluded is not None:
                place = before[chunk.first] + row - chunk.start
                scores[excluded[place : place + len(scores)]] = -np.inf
            _kernel.keep_best(scores, row - chunk.start, offsets, index[bags], best[bags])

    run_side_by_side(one, layout.chunks, threads if features.size * k >= _WORTH_THREADS else 1, blas=scorer.needs_blas)
    _kernel.row_scores(as_stored(features), index + layout.starts[:, None], np.ascontiguousarray(weights.T), best)
    return BestWindows(index, best)


def window_scores(features: Array, layout: Layout, weights: Float64, threads: int) -> Float64:
    """Return the float64 score of every window, bag after bag."""
    chunks = layout.chunks
    ends = np.cumsum([chunk.stop - chunk.start for chunk in chunks])
    scores, stored = np.empty(int(ends[-1])), as_stored(features)

    def one(job: tuple[Chunk, int]) -> None:
        chunk, end = job
        rows = stored[chunk.start : chunk.stop]
        _kernel.all_scores(rows, weights, scores[end - len(rows) : end])

    run_side_by_side(one, zip(chunks, ends, strict=True), threads if stored.size >= _WORTH_THREADS else 1, blas=False)
    return scores


def as_stored(features: Array) -> Array:
    """Return `features` as the kernels take them: halves as their bits."""
    return features.view(np.uint16) if features.dtype == np.float16 else features


class _Scorer:
    """Scores of blocks of rows for fixed weights, by the way that suits their number and the stored type."""

    def __init__(self, features: Array, weights: Float64, block_numbers: int):
        self._features = as_stored(features)
        self._halves = features.dtype == np.float16
        self._few = features.dtype != np.float64 and weights.shape[1] <= _FEW
        narrow: Any = np.float64 if features.dtype == np.float64 else np.float32
        self._weights: Array = np.ascontiguousarray(weights.T if self._few else weights, dtype=narrow)
        self._block_rows = max(1, block_numbers // max(1, features.shape[1]))
        self.needs_blas = not self._few

    def blocks(self, start: int, stop: int) -> Iterable[tuple[int, Array]]:
        """Yield (first row, scores (rows, k)) over the rows start..stop-1; each block reuses the same memory."""
        rows = min(self._block_rows, stop - start)
        k = self._weights.shape[0 if self._few else 1]
        scores = np.empty((rows, k), dtype=self._weights.dtype)
        wide = np.empty((rows, self._features.shape[1]), dtype=np.float32) if self._halves and not self._few else None
        for row in range(start, stop, rows):
            block = self._features[row : min(row + rows, stop)]
            out = scores[: len(block)]
            self._score(block, None if wide is None else wide[: len(block)], out)
            yield row, out

    def _score(self, block: Array, wide: Array | None, out: Array) -> None:
        if self._few:
            _kernel.few_scores(block, self._weights, out)
        elif wide is None:
            np.matmul(block, self._weights, out=out)
        else:
            _kernel.widen(block, wide)
            np.matmul(wide, self._weights, out=out)


def run_side_by_side(work: Callable[[T], None], jobs: Iterable[T], threads: int, *, blas: bool) -> None:
    """Do every job, on `threads` threads; BLAS then keeps to one thread per job."""
    with one_blas_thread() if blas else nullcontext():
        if threads == 1:
            for job in jobs:
                work(job)
            return
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(work, jobs):
                pass
