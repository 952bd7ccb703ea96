"""Shared passes: coroutines yield weight vectors and receive the best windows, from one pass for all of them."""

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
    """One training, or several in sequence, that the scheduler runs."""

    @property
    def history(self) -> list[dict[str, Any]]:
        """The records of the outer steps so far."""
        ...

    def receive(self, w: Float64, answer: BestWindows) -> BestWindows:
        """Return the best windows of this problem, given those of a pass over all windows."""
        ...

    def close(self) -> None:
        """Release the candidates; nothing follows."""
        ...


@dataclass
class PassCounts:
    """The cost of training; counts of several calls add up.

    Attributes
    ----------
    passes : int
        Passes over all windows, each shared by all problems; not those that a log answered.
    vectors : int
        Weight vectors of these passes.
    bytes_read : int
        Bytes of features that were read by passes, by passes over positives alone, and to copy candidates.
    candidate_calls : int
        How often one problem's candidates were scored.
    candidate_bytes : int
        Bytes of candidates that this read.
    peak_candidate_bytes : int
        Most bytes of candidates in memory at once.
    """

    passes: int = 0
    vectors: int = 0
    bytes_read: int = 0
    candidate_calls: int = 0
    candidate_bytes: int = 0
    peak_candidate_bytes: int = 0


def run_all(
    coroutines: Sequence[tuple[PassCoroutine, Generator[Float64, BestWindows, T]]],
    bags: Bags,
    progress: Callable[[int, dict[str, Any]], None] | None,
    pool: Pool | None = None,
    pass_counts: PassCounts | None = None,
    log: ReplayLog | None = None,
) -> list[T]:
    """Run all coroutines on shared passes; return their results in order."""
    running = [_Running(number, *coroutine) for number, coroutine in enumerate(coroutines)]
    with one_blas_thread():
        source = _PassSource(bags, pool, PassCounts() if pass_counts is None else pass_counts, log)
        results = _drive(running, source, bags.threads, progress)
    return [results[number] for number in range(len(coroutines))]


class _PassSource:
    """Answers weight vectors by passes over all windows, and supplies a pool with its candidates."""

    def __init__(self, bags: Bags, pool: Pool | None, pass_counts: PassCounts, log: ReplayLog | None):
        self._bags, self._pool, self._counts, self._log = bags, pool, pass_counts, log
        self._row_bytes = bags.dim * bags.dtype.itemsize

    def answers(self, points: Sequence[Float64]) -> Sequence[BestWindows]:
        """Return every bag's best window at each point, from the log or from one pass."""
        weights, count = np.stack(points, axis=1), 0 if self._pool is None else self._pool.count
        if self._log is not None and (logged := self._log.replay(weights, self._bags.n_bags, count)) is not None:
            return logged
        answers = self._run_pass(weights)
        if self._log is not None:
            self._log.add(weights, answers, count)
        return answers

    def _run_pass(self, weights: Float64) -> Sequence[BestWindows]:
        """Return the best windows for each column of `weights` from one pass."""
        self._counts.passes += 1
        self._counts.vectors += weights.shape[1]
        self._counts.bytes_read += self._bags.n_windows * self._row_bytes
        if self._pool is not None:
            return self._pool.best(weights)
        best = self._bags.best(weights)
        return [best.column(j) for j in range(weights.shape[1])]

    def update_candidates(self) -> None:
        """Copy the candidates that were requested since the last pass."""
        if self._pool is None:
            return
        self._pool.update()
        self._counts.peak_candidate_bytes = max(self._counts.peak_candidate_bytes, self._pool.n_rows * self._row_bytes)

    def finish(self) -> None:
        """Add the cost of the candidates to the counts."""
        if self._pool is not None:
            pool = self._pool
            self._counts.candidate_calls += pool.calls
            self._counts.candidate_bytes += pool.scored_rows * self._row_bytes
            self._counts.bytes_read += (pool.copied_rows + pool.read_rows) * self._row_bytes


def _drive(
    running: list["_Running[T]"],
    source: _PassSource,
    threads: int,
    progress: Callable[[int, dict[str, Any]], None] | None,
) -> dict[int, T]:
    """Run passes until all coroutines have returned; return their results by number."""
    results: dict[int, T] = {}
    with _thread_map(threads, len(running)) as map_all:
        while running:
            map_all(_Running.advance, running)
            for training in running:
                training.report(progress)
            results |= {training.number: training.result[0] for training in running if training.result}
            running = [training for training in running if not training.result]
            waiting = [training for training in running if len(training.point)]
            if waiting:
                answers = source.answers([training.point for training in waiting])
                map_all(_Running.receive, waiting, answers)
            source.update_candidates()
    source.finish()
    return results


@contextmanager
def _thread_map(threads: int, jobs: int) -> Iterator[Callable[..., object]]:
    """Yield a `map` on threads that waits for all results; an interruption cancels what has not started."""
    if min(threads, jobs) == 1:
        yield lambda function, *arguments: deque(map(function, *arguments), maxlen=0)
        return
    pool = ThreadPoolExecutor(min(threads, jobs))
    try:
        yield lambda function, *arguments: deque(pool.map(function, *arguments), maxlen=0)
    finally:
        pool.shutdown(cancel_futures=True)


class _Running(Generic[T]):
    """A coroutine in progress.

    Attributes
    ----------
    number : int
        Its position among all.
    point : (d,) or (0,)
        The last point that it yielded; an empty one needs no pass, only the update of its candidates.
    result : tuple
        Its result, once it has returned.
    """

    def __init__(self, number: int, training: PassCoroutine, steps: Generator[Float64, BestWindows, T]):
        self.number, self._steps, self._training, self._n_reported = number, steps, training, 0
        self.point = np.zeros(0)
        self.result: tuple[()] | tuple[T] = ()
        self._answer: BestWindows | None = None

    def receive(self, answer: BestWindows) -> None:
        """Store the answer to the last point."""
        self._answer = self._training.receive(self.point, answer)

    def advance(self) -> None:
        """Run to the next point, or to the end."""
        answer, self._answer = self._answer, None
        try:
            self.point = next(self._steps) if answer is None else self._steps.send(answer)
        except StopIteration as end:
            self._training.close()
            self.result = (end.value,)

    def report(self, progress: Callable[[int, dict[str, Any]], None] | None) -> None:
        """Pass new records of the history to `progress`."""
        history = self._training.history
        for record in history[self._n_reported :]:
            if progress is not None:
                progress(self.number, record)
        self._n_reported = len(history)
