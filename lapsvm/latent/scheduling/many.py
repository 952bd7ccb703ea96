"""Training of many problems on shared passes, each for one or more values of C.

Trainings ask for the best windows at weight vectors, and one pass answers all of them.

A plane below the risk is valid for every C, and the best windows for one C are a start for the next. So each training
of a path starts from the weights, windows and planes of the previous one. The order decides in which local minimum CCCP
ends: from the largest C downwards, a model that fits the labels chooses the first windows; upwards, a strongly
regularised model does, and later windows stay near these.
"""

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from lapsvm.arrays import Float64
from lapsvm.bags import Bags, BestWindows, as_bags
from lapsvm.blas import one_blas_thread
from lapsvm.errors import ShapeError
from lapsvm.latent.cccp.problem import LatentProblem, LatentSolution
from lapsvm.latent.scheduling.candidates import CANDIDATES, make_pool, make_training
from lapsvm.latent.scheduling.pool import PassCounts, Pool
from lapsvm.latent.scheduling.replay_log import ReplayLog

Progress = Callable[[int, dict[str, Any]], None]


def fit_many(
    problems: Iterable[LatentProblem],
    bags: Bags | Sequence[ArrayLike],
    progress: Progress | None = None,
    *,
    candidates: int = CANDIDATES,
    pass_counts: PassCounts | None = None,
    log: ReplayLog | None = None,
) -> list[LatentSolution]:
    """Train every problem on the same bags; each pass over the windows serves all that are not finished.

    Parameters
    ----------
    problems : iterable of LatentProblem
        Classes, values of C, folds (labels 0 leave images out), in any mixture.
    bags : Bags or sequence of (n_i, d) arrays
        The images.
    progress : callable, optional
        Called with (index of the problem, its history record) after every outer step.
    candidates : int, default 20
        Number of sections into which a pass cuts every image; best windows of the best sections are its candidates, on
        which training continues until the next pass (see `lapsvm.latent.scheduling.candidates`). 0 selects the plain
        solver, which passes over all windows for every plane; so do images with fewer than 4 windows per candidate,
        structural problems and problems with `trim`.
    pass_counts : PassCounts, optional
        Counts passes and bytes.
    log : ReplayLog, optional
        Answers of the passes of an earlier, interrupted call with the same arguments; new answers are appended.

    Returns
    -------
    list of LatentSolution
        In the order of `problems`; each is what training it alone gives, but for rounding, after which it may end at
        another step within `tol`.

    Raises
    ------
    InputError
        If labels or initial windows do not fit the bags, or `candidates` is no whole number of 0 or more.
    CertificateError
        If a lower bound is above an objective, because the planes of the user's risk do not lie below it.

    Warns
    -----
    ConvergenceWarning
        For each problem that stopped at max_calls or max_iter.
    """
    fits = _fit([[problem] for problem in problems], bags, progress, candidates, pass_counts, log)
    return [solution for (solution,) in fits]


def fit_paths(
    problems: Iterable[LatentProblem],
    values: Iterable[Sequence[float]],
    bags: Bags | Sequence[ArrayLike],
    progress: Progress | None = None,
    *,
    candidates: int = CANDIDATES,
    pass_counts: PassCounts | None = None,
    log: ReplayLog | None = None,
) -> list[list[LatentSolution]]:
    """Train every problem for each of its values of C in turn; each pass over the windows serves all problems.

    Parameters
    ----------
    problems : iterable of LatentProblem
        Classes and folds, in any mixture; their `C` is ignored.
    values : iterable of sequences of float
        For each problem its values of C, > 0, in the order of training. The first starts as `LatentProblem` describes,
        each later one from the weights, windows and planes of the previous one.
    bags : Bags or sequence of (n_i, d) arrays
        The images.
    progress : callable, optional
        Called with (index of the problem, its history record) after every outer step.
    candidates, pass_counts, log
        As for `fit_many`.

    Returns
    -------
    list of lists of LatentSolution
        For each problem one solution per value.

    Raises
    ------
    InputError
        If there is not one sequence of one or more values per problem, a value is not above 0, or labels or initial
        windows do not fit the bags.

    Warns
    -----
    ConvergenceWarning
        For each training that stopped at max_calls or max_iter.
    """
    starts, sequences = list(problems), [list(sequence) for sequence in values]
    if len(starts) != len(sequences) or not all(sequences):
        raise ShapeError(
            f"values must hold one or more values of C for each problem, got "
            f"{[len(sequence) for sequence in sequences]} values for {len(starts)} problems."
        )
    paths = [[replace(start, C=C) for C in sequence] for start, sequence in zip(starts, sequences, strict=True)]
    return _fit(paths, bags, progress, candidates, pass_counts, log)


def _fit(
    paths: Sequence[Sequence[LatentProblem]],
    bags: Bags | Sequence[ArrayLike],
    progress: Progress | None,
    candidates: int,
    pass_counts: PassCounts | None,
    log: ReplayLog | None,
) -> list[list[LatentSolution]]:
    """Train the problems of every path in turn, all paths side by side."""
    data = as_bags(bags)
    counts = PassCounts() if pass_counts is None else pass_counts
    pool = make_pool([path[0] for path in paths], data, candidates)
    if pool is not None:
        pool.counts = counts
    source = _PassSource(data, pool, counts, log)
    trainings = [_PathTraining(number, path, data, pool) for number, path in enumerate(paths)]
    with one_blas_thread(), data.keeping_means(), _thread_map(data.threads, len(trainings)) as map_all:
        running = trainings
        while running:
            map_all(_PathTraining.advance, running)
            for training in running:
                training.report(progress)
            running = [training for training in running if not training.has_ended]
            waiting = [training for training in running if len(training.point)]
            if waiting:
                map_all(_PathTraining.receive, waiting, source.answers([training.point for training in waiting]))
            if pool is not None:
                pool.update()
    for path, training in zip(paths, trainings, strict=True):
        _warn_unless_converged(path, training.solutions)
    return [training.solutions for training in trainings]


def _warn_unless_converged(problems: Iterable[LatentProblem], solutions: Iterable[LatentSolution]) -> None:
    """Warn of each solution that stopped early, with a remedy; the warning points at the caller of this file."""
    for problem, solution in zip(problems, solutions, strict=True):
        if solution.converged:
            continue
        last = solution.history[-1]
        if last["calls"] >= problem.max_calls:
            remedy = f"max_calls={problem.max_calls} calls were not enough; raise it, lower C or raise tol"
        elif last["gap"] > last["tol"] and len(solution.history) < problem.max_iter:
            remedy = "rounding prevents a smaller gap; raise tol, lower C or scale the features to a mean norm near 1"
        else:
            remedy = f"max_iter={problem.max_iter} outer steps were not enough; raise it or raise tol"
        warnings.warn(
            f"training stopped at a duality gap of {solution.gap:.2g} with {last['changed']} windows still changing: "
            f"{remedy}.",
            ConvergenceWarning,
            stacklevel=4,
        )


class _PathTraining:
    """The trainings of one path in progress, in sequence.

    Attributes
    ----------
    point : (d,) or (0,)
        The last point that a training asked for; an empty one needs no pass, only the update of its candidates.
    solutions : list of LatentSolution
        Those of the trainings that have ended.
    """

    def __init__(self, number: int, path: Sequence[LatentProblem], bags: Bags, pool: Pool | None):
        self._number, self._path, self._bags, self._pool = number, path, bags, pool
        self._current = make_training(path[0], bags, pool)
        self._finished: list[dict[str, Any]] = []
        self._n_reported = 0
        self._steps = self._run()
        self._answer: BestWindows | None = None
        self.point = np.zeros(0)
        self.solutions: list[LatentSolution] = []

    @property
    def has_ended(self) -> bool:
        """Whether every problem has its solution."""
        return len(self.solutions) == len(self._path)

    def receive(self, answer: BestWindows) -> None:
        """Store the answer to the last point."""
        self._answer = self._current.receive(self.point, answer)

    def advance(self) -> None:
        """Run to the next point, or to the end, at which the candidates are released."""
        answer, self._answer = self._answer, None
        try:
            self.point = next(self._steps) if answer is None else self._steps.send(answer)
        except StopIteration:
            self._current.close()

    def report(self, progress: Progress | None) -> None:
        """Pass new records of the history to `progress`."""
        history = self._finished + self._current.history
        for record in history[self._n_reported :]:
            if progress is not None:
                progress(self._number, record)
        self._n_reported = len(history)

    def _run(self) -> Generator[Float64, BestWindows, None]:
        """Yield points and receive their best windows."""
        self.solutions.append((yield from self._current.run()))
        for problem in self._path[1:]:
            previous, self._current = self._current, make_training(problem, self._bags, self._pool)
            self._finished += previous.history
            self.solutions.append((yield from self._current.run(previous)))


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
