"""Training of many problems on shared passes."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from lapsvm.bags import Bags, as_bags
from lapsvm.latent.cccp.problem import LatentProblem, LatentSolution
from lapsvm.latent.scheduling.candidates import CANDIDATES, make_pool, make_training
from lapsvm.latent.scheduling.passes import PassCounts, run_all
from lapsvm.latent.scheduling.replay_log import ReplayLog


def fit_many(
    problems: Iterable[LatentProblem],
    bags: Bags | Sequence[ArrayLike],
    progress: Callable[[int, dict[str, Any]], None] | None = None,
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
    data, several = as_bags(bags), list(problems)
    pool = make_pool(several, data, candidates)
    trainings = [make_training(problem, data, pool) for problem in several]
    solutions = run_all([(training, training.run()) for training in trainings], data, progress, pool, pass_counts, log)
    warn_unless_converged(several, solutions)
    return solutions


def warn_unless_converged(problems: Iterable[LatentProblem], solutions: Iterable[LatentSolution]) -> None:
    """Warn of each solution that stopped early, with a remedy; the warning points at the caller's caller."""
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
            stacklevel=3,
        )
