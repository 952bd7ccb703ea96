"""Shared passes: generators that ask for the best windows of weight vectors, answered together."""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.bags import Bags, BestWindows
from lapsvm.blas import one_blas_thread
from lapsvm.latent.scheduling.pool import Pool
from lapsvm.latent.scheduling.replay_log import ReplayLog

T = TypeVar("T")


class PassCoroutine(Protocol):
    """What asks for points: a training, or several one after the other."""

    @property
    def history(self) -> list[dict[str, Any]]:
        """The records of the outer steps so far."""
        ...

    def seen(self, w: Float64, answer: BestWindows) -> BestWindows:
        """Return what a pass over all windows says of those that matter here."""
        ...

    def leave(self) -> None:
        """Give back what was taken, for all is done."""
        ...


@dataclass
class PassCounts:
    """What trainings cost; counts of several calls add up.

    Attributes
    ----------
    passes : int
        Passes over all windows, each for all problems that ask; not those that a log answered.
    vectors : int
        Weight vectors that they answered.
    bytes_read : int
        Bytes of features that passes read, those of positives alone and copying candidates included.
    candidate_calls : int
        Scorings of one problem's candidates.
    candidate_bytes : int
        Bytes of candidates that they read.
    peak_candidate_bytes : int
        Most bytes of candidates that were held at once.
    """

    passes: int = 0
    vectors: int = 0
    bytes_read: int = 0
    candidate_calls: int = 0
    candidate_bytes: int = 0
    peak_candidate_bytes: int = 0


def side_by_side(
    askers: Sequence[tuple[PassCoroutine, Generator[Float64, BestWindows, T]]],
    bags: Bags,
    progress: Callable[[int, dict[str, Any]], None] | None,
    pool: Pool | None = None,
    pass_counts: PassCounts | None = None,
    log: ReplayLog | None = None,
) -> list[T]:
    """Answer the points of all generators from one pass after the other; return what they return, in their order."""
    running = [_Running(place, *one) for place, one in enumerate(askers)]
    with one_blas_thread():
        source = _Source(bags, pool, PassCounts() if pass_counts is None else pass_counts, log)
        found = _drive(running, source, bags.threads, progress)
    return [found[place] for place in range(len(askers))]


class _Source:
    """Where answers come from: passes over all windows, which also give a pool its candidates."""

    def __init__(self, bags: Bags, pool: Pool | None, pass_counts: PassCounts, log: ReplayLog | None):
        self._bags, self._pool, self._counts, self._log = bags, pool, pass_counts, log
        self._row_bytes = bags.dim * bags.dtype.itemsize

    def answers(self, points: Sequence[Float64]) -> Sequence[BestWindows]:
        """Return every bag's best window at each of these points, from the log or from one pass."""
        weights, count = np.stack(points, axis=1), 0 if self._pool is None else self._pool.count
        if self._log is not None and (known := self._log.known(weights, self._bags.n_bags, count)) is not None:
            return known
        found = self._passed(weights)
        if self._log is not None:
            self._log.add(weights, found, count)
        return found

    def _passed(self, weights: Float64) -> Sequence[BestWindows]:
        """Return the answers to the columns of `weights` from one pass."""
        self._counts.passes += 1
        self._counts.vectors += weights.shape[1]
        self._counts.bytes_read += self._bags.n_windows * self._row_bytes
        if self._pool is not None:
            return self._pool.best(weights)
        found = self._bags.best(weights)
        return [found.column(j) for j in range(weights.shape[1])]

    def settle(self) -> None:
        """Hold the candidates that were asked for since the last pass."""
        if self._pool is None:
            return
        self._pool.renew()
        self._counts.peak_candidate_bytes = max(self._counts.peak_candidate_bytes, self._pool.n_rows * self._row_bytes)

    def end(self) -> None:
        """Add up what the candidates cost."""
        if self._pool is not None:
            pool = self._pool
            self._counts.candidate_calls += pool.calls
            self._counts.candidate_bytes += pool.scored_rows * self._row_bytes
            self._counts.bytes_read += (pool.copied_rows + pool.read_rows) * self._row_bytes


def _drive(
    running: list["_Running[T]"],
    source: _Source,
    threads: int,
    progress: Callable[[int, dict[str, Any]], None] | None,
) -> dict[int, T]:
    """Answer until all have returned; return the answers by place. Between passes trainings go on side by side."""
    solutions: dict[int, T] = {}
    with _crew(threads, len(running)) as do:
        while running:
            do(_Running.go_on, running)
            for one in running:
                one.tell(progress)
            solutions |= {one.place: one.solution[0] for one in running if one.solution}
            running = [one for one in running if not one.solution]
            asking = [one for one in running if len(one.asked)]
            if asking:
                answers = source.answers([one.asked for one in asking])
                do(_Running.hear, asking, answers)
            source.settle()
    source.end()
    return solutions


@contextmanager
def _crew(threads: int, jobs: int) -> Iterator[Callable[..., object]]:
    """Yield a map that returns when all is done; interrupted, it begins nothing more."""
    if min(threads, jobs) == 1:
        yield lambda work, *arguments: deque(map(work, *arguments), maxlen=0)
        return
    pool = ThreadPoolExecutor(min(threads, jobs))
    try:
        yield lambda work, *arguments: deque(pool.map(work, *arguments), maxlen=0)
    finally:
        pool.shutdown(cancel_futures=True)


class _Running(Generic[T]):
    """A training in progress, its history told as it grows.

    Attributes
    ----------
    place : int
    asked : (d,) or (0,)
        The last point it asked for; an empty one asks for nothing but its candidates.
    solution : tuple
        What it returned, once it did.
    """

    def __init__(self, place: int, training: PassCoroutine, passes: Generator[Float64, BestWindows, T]):
        self.place, self._passes, self._training, self._told = place, passes, training, 0
        self.asked = np.zeros(0)
        self.solution: tuple[()] | tuple[T] = ()
        self._heard: BestWindows | None = None

    def hear(self, answer: BestWindows) -> None:
        """Take the answer to the last point."""
        self._heard = self._training.seen(self.asked, answer)

    def go_on(self) -> None:
        """Work until the next point, or the end."""
        heard, self._heard = self._heard, None
        try:
            self.asked = next(self._passes) if heard is None else self._passes.send(heard)
        except StopIteration as end:
            self._training.leave()
            self.solution = (end.value,)

    def tell(self, progress: Callable[[int, dict[str, Any]], None] | None) -> None:
        """Tell the records that are new."""
        history = self._training.history
        for record in history[self._told :]:
            if progress is not None:
                progress(self.place, record)
        self._told = len(history)
