"""Training many problems side by side."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from lapsvm.bags import Bags, as_bags
from lapsvm.latent.cccp.problem import LatentProblem, LatentSolution
from lapsvm.latent.scheduling.candidates import CANDIDATES, pool_for, started
from lapsvm.latent.scheduling.passes import PassCounts, side_by_side
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
    """Train every problem on the same bags; each pass over the windows serves all that are not yet done.

    Parameters
    ----------
    problems : iterable of LatentProblem
        Classes, values of C, folds (labels 0 leave images out), in any mixture.
    bags : Bags or sequence of (n_i, d) arrays
        The images.
    progress : callable, optional
        Called with (place of the problem, its history record) after every outer step.
    candidates : int, default 20
        In how many parts a pass cuts every image: their best windows are its candidates, on which training goes on
        until the next pass (see `lapsvm.latent.scheduling.candidates`). 0 is the plain solver, which passes over all
        windows for
        every plane; it also takes over where images have fewer than 4 windows for each candidate, for structural
        problems and for those with `trim`.
    pass_counts : PassCounts, optional
        Where passes and bytes are counted.
    log : ReplayLog, optional
        What passes answered an earlier call with the same arguments, which did not come to its end; the rest is added.

    Returns
    -------
    list of LatentSolution
        In the order of `problems`; each is what training it alone returns. On a GPU another number of weight vectors in
        a pass may decide near ties (within the rounding of float32 scores) differently.

    Raises
    ------
    InputError
        If labels or initial windows do not fit the bags, or `candidates` is no whole number of 0 or more.
    CertificateError
        If a lower bound is above an objective: a risk of the user's whose planes do not lie below it.

    Warns
    -----
    ConvergenceWarning
        For each problem that stopped at max_calls or max_iter.
    """
    data, several = as_bags(bags), list(problems)
    pool = pool_for(several, data, candidates)
    trainings = [started(problem, data, pool) for problem in several]
    solutions = side_by_side(
        [(training, training.run()) for training in trainings], data, progress, pool, pass_counts, log
    )
    warn_unless_converged(several, solutions)
    return solutions


def warn_unless_converged(problems: Iterable[LatentProblem], solutions: Iterable[LatentSolution]) -> None:
    """Warn of each solution that stopped early, saying what to do; the warning is that of the caller's caller."""
    for problem, found in zip(problems, solutions, strict=True):
        if found.converged:
            continue
        last = found.history[-1]
        if last["calls"] >= problem.max_calls:
            remedy = f"max_calls={problem.max_calls} calls were not enough; raise it, lower C or raise tol"
        elif last["gap"] > last["tol"] and len(found.history) < problem.max_iter:
            remedy = "rounding allows no more; raise tol, lower C or scale the features to a mean norm near 1"
        else:
            remedy = f"max_iter={problem.max_iter} outer steps were not enough; raise it or raise tol"
        warnings.warn(
            f"training stopped at a duality gap of {found.gap:.2g} with {last['changed']} windows still changing: "
            f"{remedy}.",
            ConvergenceWarning,
            stacklevel=3,
        )
