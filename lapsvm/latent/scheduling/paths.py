"""Regularisation paths: the same problem for several values of C, each started from the previous solution.

A plane below the risk is valid for every C, and the best windows for one C are a start for the next. So each training
of a path starts from the weights, windows and planes of the previous one. The order decides in which local minimum CCCP
ends: from the largest C downwards, a model that fits the labels chooses the first windows; upwards, a strongly
regularised model does, and later windows stay near these.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from lapsvm.arrays import Float64
from lapsvm.bags import Bags, BestWindows, as_bags
from lapsvm.errors import ShapeError
from lapsvm.latent.cccp.problem import LatentProblem, LatentSolution
from lapsvm.latent.scheduling.candidates import CANDIDATES, make_pool, make_training
from lapsvm.latent.scheduling.many import warn_unless_converged
from lapsvm.latent.scheduling.passes import PassCounts, run_all
from lapsvm.latent.scheduling.pool import Pool
from lapsvm.latent.scheduling.replay_log import ReplayLog


def fit_paths(
    problems: Iterable[LatentProblem],
    values: Iterable[Sequence[float]],
    bags: Bags | Sequence[ArrayLike],
    progress: Callable[[int, dict[str, Any]], None] | None = None,
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
    data = as_bags(bags)
    paths = _paths(list(problems), [list(sequence) for sequence in values])
    pool = make_pool([path[0] for path in paths], data, candidates)
    trainings = [_PathTraining(path, data, pool) for path in paths]
    solutions = run_all([(training, training.run()) for training in trainings], data, progress, pool, pass_counts, log)
    warn_unless_converged(
        [problem for path in paths for problem in path], [solution for path in solutions for solution in path]
    )
    return solutions


def _paths(problems: Sequence[LatentProblem], values: Sequence[Sequence[float]]) -> list[list[LatentProblem]]:
    """Return every problem at its values of C."""
    if len(problems) != len(values) or not all(values):
        raise ShapeError(
            f"values must hold one or more values of C for each problem, got "
            f"{[len(sequence) for sequence in values]} values for "
            f"{len(problems)} problems."
        )
    return [[replace(problem, C=C) for C in sequence] for problem, sequence in zip(problems, values, strict=True)]


class _PathTraining:
    """The trainings of one path, in sequence."""

    def __init__(self, path: Sequence[LatentProblem], bags: Bags, pool: Pool | None):
        self._path, self._bags, self._pool = path, bags, pool
        self._current = make_training(path[0], bags, pool)
        self._finished: list[dict[str, Any]] = []

    @property
    def history(self) -> list[dict[str, Any]]:
        """The records of all trainings so far."""
        return self._finished + self._current.history

    def receive(self, w: Float64, answer: BestWindows) -> BestWindows:
        """Return the best windows of the current training's problem, given those of a pass."""
        return self._current.receive(w, answer)

    def close(self) -> None:
        """Release the candidates."""
        self._current.close()

    def run(self) -> Generator[Float64, BestWindows, list[LatentSolution]]:
        """Yield points and receive their best windows; return the solutions."""
        solutions = [(yield from self._current.run())]
        for problem in self._path[1:]:
            previous, self._current = self._current, make_training(problem, self._bags, self._pool)
            self._finished += previous.history
            solutions.append((yield from self._current.run(previous)))
        return solutions
