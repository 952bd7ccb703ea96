"""Shared passes: trainings ask for the best windows at weight vectors, and one pass answers all of them."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.bags import Bags, BestWindows
from lapsvm.blas import one_blas_thread
from lapsvm.latent.scheduling.paths import PathTraining
from lapsvm.latent.scheduling.pool import PassCounts, Pool
from lapsvm.latent.scheduling.replay_log import ReplayLog


def run_all(
    trainings: Sequence[PathTraining],
    bags: Bags,
    progress: Callable[[int, dict[str, Any]], None] | None,
    pool: Pool | None,
    pass_counts: PassCounts | None,
    log: ReplayLog | None,
) -> None:
    """Run passes until all trainings have ended."""
    counts = PassCounts() if pass_counts is None else pass_counts
    source = _PassSource(bags, pool, counts, log)
    if pool is not None:
        pool.counts = counts
    with one_blas_thread(), _thread_map(bags.threads, len(trainings)) as map_all:
        running = list(trainings)
        while running:
            map_all(PathTraining.advance, running)
            for training in running:
                training.report(progress)
            running = [training for training in running if not training.has_ended]
            waiting = [training for training in running if len(training.point)]
            if waiting:
                answers = source.answers([training.point for training in waiting])
                map_all(PathTraining.receive, waiting, answers)
            if pool is not None:
                pool.update()


class _PassSource:
    """Answers weight vectors by passes over all windows."""

    def __init__(self, bags: Bags, pool: Pool | None, pass_counts: PassCounts, log: ReplayLog | None):
        self._bags, self._pool, self._counts, self._log = bags, pool, pass_counts, log

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
        self._counts.bytes_read += self._bags.n_windows * self._bags.dim * self._bags.dtype.itemsize
        if self._pool is not None:
            return self._pool.best(weights)
        best = self._bags.best(weights)
        return [best.column(j) for j in range(weights.shape[1])]


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
