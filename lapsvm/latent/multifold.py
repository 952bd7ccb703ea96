"""Multi-fold relocalisation: a model that was not trained on a positive image chooses its window.

A model of many features scores the windows of its training higher than all others, so imputation tends to keep its
first windows. (Cinbis, Verbeek and Schmid, "Weakly supervised object localization with multi-fold multiple instance
learning", TPAMI 2017.)
"""

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from lapsvm.arrays import Float64, Index, check_count
from lapsvm.bags import Bags
from lapsvm.errors import InputError
from lapsvm.latent.cccp.problem import LatentProblem, LatentSolution
from lapsvm.latent.scheduling.candidates import CANDIDATES
from lapsvm.latent.scheduling.many import fit_many
from lapsvm.latent.scheduling.passes import PassCounts
from lapsvm.latent.scheduling.replay_log import ReplayLog


def fit_multifold(
    problem: LatentProblem,
    bags: Bags,
    folds: int,
    rounds: int = 10,
    *,
    candidates: int = CANDIDATES,
    pass_counts: PassCounts | None = None,
    log: ReplayLog | None = None,
) -> LatentSolution:
    """Train a problem; models of the other folds choose each positive's window.

    Parameters
    ----------
    problem : LatentProblem
        `init` is the start of the folds' models; `seed` also assigns the images to the folds.
    bags : Bags
        The images.
    folds : int
        Number of folds of the positives without a fixed window, from 2 to their number. Every model is trained on all
        negatives and on the positives of all folds but one, whose windows it then chooses.
    rounds : int, default 10
        Most rounds of choosing all windows: the first after latent training, later ones after training with the
        windows of the previous round. The rounds end when the windows stay the same, which is not guaranteed.
    candidates, pass_counts, log
        As for `fit_many`.

    Returns
    -------
    LatentSolution
        Of the convex problem with the last chosen windows, one per positive image whatever `top` is; `n_calls` and
        `n_passes` count all models.

    Raises
    ------
    InputError
        If there are fewer positives than folds, or the problem does not fit the bags.

    Warns
    -----
    ConvergenceWarning
        For each model that stopped early.
    """
    check_count("rounds", rounds)
    labels, fixed = problem.labels(bags), problem.fixed(bags)
    bags.narrowed(fixed, "fixed_windows")
    held_out = assign_folds(np.flatnonzero((labels > 0) & (fixed < 0)), folds, problem.seed)
    windows, calls, passes = fixed.astype(np.intp), 0, 0
    options: dict[str, Any] = {"candidates": candidates, "pass_counts": pass_counts, "log": log}
    for _ in range(rounds):
        solutions = fit_many([_without(problem, labels, windows, fold) for fold in held_out], bags, **options)
        calls += sum(solution.n_calls for solution in solutions)
        passes += sum(solution.n_passes for solution in solutions)
        previous, windows = windows, windows.copy()
        best = bags.best(np.stack([solution.coef for solution in solutions], axis=1)).index
        for k, fold in enumerate(held_out):
            windows[fold] = best[fold, k]
        if np.array_equal(windows, previous):
            break
    last = fit_many([replace(problem, fixed_windows=windows)], bags, **options)[0]
    return replace(last, n_calls=calls + last.n_calls, n_passes=passes + last.n_passes)


def assign_folds(positives: Index, folds: int, seed: int) -> list[Index]:
    """Return the positives of each fold, at random."""
    if not (isinstance(folds, Integral) and 2 <= folds <= len(positives)):
        raise InputError(
            f"folds must be from 2 to the number of positive images to divide, {len(positives)}, got {folds!r}."
        )
    return np.array_split(np.random.default_rng(seed).permutation(positives), folds)


def _without(problem: LatentProblem, labels: Float64, windows: Index, fold: Index) -> LatentProblem:
    """Return the problem with these windows and without the images of `fold`."""
    y, fixed = labels.copy(), windows.copy()
    y[fold], fixed[fold] = 0, -1
    return replace(problem, y=y, fixed_windows=fixed)
