"""Training of many problems on shared passes, each for one or more values of C."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from lapsvm.bags import Bags, as_bags
from lapsvm.errors import ShapeError
from lapsvm.latent.cccp.problem import LatentProblem, LatentSolution
from lapsvm.latent.scheduling.candidates import CANDIDATES, make_pool
from lapsvm.latent.scheduling.passes import run_all
from lapsvm.latent.scheduling.paths import PathTraining
from lapsvm.latent.scheduling.pool import PassCounts
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
        another step within `tol`. On a GPU the number of weight vectors in a pass may break near ties (within the
        rounding of float32 scores) differently.

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
    found = _fit([[problem] for problem in problems], bags, progress, candidates, pass_counts, log)
    return [solution for (solution,) in found]


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
    paths = _paths(list(problems), [list(sequence) for sequence in values])
    return _fit(paths, bags, progress, candidates, pass_counts, log)


def _paths(problems: Sequence[LatentProblem], values: Sequence[Sequence[float]]) -> list[list[LatentProblem]]:
    """Return every problem at its values of C."""
    if len(problems) != len(values) or not all(values):
        raise ShapeError(
            f"values must hold one or more values of C for each problem, got "
            f"{[len(sequence) for sequence in values]} values for "
            f"{len(problems)} problems."
        )
    return [[replace(problem, C=C) for C in sequence] for problem, sequence in zip(problems, values, strict=True)]


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
    pool = make_pool([path[0] for path in paths], data, candidates)
    trainings = [PathTraining(number, path, data, pool) for number, path in enumerate(paths)]
    run_all(trainings, data, progress, pool, pass_counts, log)
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
