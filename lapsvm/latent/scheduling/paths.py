"""The same problem for several values of C, each begun where the one before it ended.

A plane below the risk holds for every C, and the windows that were best for one C are a start for the next: a training
on a path begins with the weights, windows and planes of the one before. Which local minimum CCCP ends in depends on the
order: from the largest C downwards the windows are first chosen by a model that fits the labels; upwards they are
first chosen by one that is mostly regularised, and later ones stay near them.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from lapsvm.arrays import Float64
from lapsvm.bags import Bags, BestWindows, as_bags
from lapsvm.errors import ShapeError
from lapsvm.latent.cccp.problem import LatentProblem, LatentSolution
from lapsvm.latent.scheduling.candidates import CANDIDATES, pool_for, started
from lapsvm.latent.scheduling.many import warn_unless_converged
from lapsvm.latent.scheduling.passes import PassCounts, side_by_side
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
    """Train every problem for one C after the other; each pass over the windows serves all problems.

    Parameters
    ----------
    problems : iterable of LatentProblem
        Classes and folds, in any mixture; their own C is not read.
    values : iterable of sequences of float
        For each problem its values of C, > 0, in the order of training. The first begins as `LatentProblem` says, each
        later one with the weights, windows and planes of the one before.
    bags : Bags or sequence of (n_i, d) arrays
        The images.
    progress : callable, optional
        Called with (place of the problem, its history record) after every outer step.
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
    paths = _paths(list(problems), [list(own) for own in values])
    pool = pool_for([path[0] for path in paths], data, candidates)
    walks = [_Walk(path, data, pool) for path in paths]
    solutions = side_by_side([(walk, walk.run()) for walk in walks], data, progress, pool, pass_counts, log)
    warn_unless_converged(
        [problem for path in paths for problem in path], [one for several in solutions for one in several]
    )
    return solutions


def _paths(problems: Sequence[LatentProblem], values: Sequence[Sequence[float]]) -> list[list[LatentProblem]]:
    """Return every problem at its values of C."""
    if len(problems) != len(values) or not all(values):
        raise ShapeError(
            f"values must hold one or more values of C for each problem, got {[len(own) for own in values]} values for "
            f"{len(problems)} problems."
        )
    return [[replace(problem, C=C) for C in own] for problem, own in zip(problems, values, strict=True)]


class _Walk:
    """The trainings of one path, one after the other."""

    def __init__(self, path: Sequence[LatentProblem], bags: Bags, pool: Pool | None):
        self._path, self._bags, self._pool = path, bags, pool
        self._now = started(path[0], bags, pool)
        self._past: list[dict[str, Any]] = []

    @property
    def history(self) -> list[dict[str, Any]]:
        """The records of all trainings so far."""
        return self._past + self._now.history

    def seen(self, w: Float64, answer: BestWindows) -> BestWindows:
        """Return what a pass says of the windows that the present training sees."""
        return self._now.seen(w, answer)

    def leave(self) -> None:
        """Give back what was taken."""
        self._now.leave()

    def run(self) -> Generator[Float64, BestWindows, list[LatentSolution]]:
        """Yield the points to be answered; return the solutions."""
        solutions = [(yield from self._now.run())]
        for problem in self._path[1:]:
            before, self._now = self._now, started(problem, self._bags, self._pool)
            self._past += before.history
            solutions.append((yield from self._now.run(before)))
        return solutions
