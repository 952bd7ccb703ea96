"""Multi-fold relocalisation: a positive image's window is chosen by a model that was not trained on the image.

A model of many features scores the windows it was trained on higher than all others, so that imputation tends to stay
where it began. (Cinbis, Verbeek and Schmid, "Weakly supervised object localization with multi-fold multiple instance
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
    """Train a problem, the positives' windows chosen by models of the other folds.

    Parameters
    ----------
    problem : LatentProblem
        `init` is where the folds' models begin, `seed` also deals the images to the folds.
    bags : Bags
        The images.
    folds : int
        In how many parts the positives are cut whose window is not known, from 2 to their number. Every model is
        trained on all negatives, and on the positives of all folds but one, whose windows it then chooses.
    rounds : int, default 10
        Most choices of all windows; the first follows on latent training, later ones on training with the windows
        last chosen. The choice ends early when it comes to rest; that it does is not guaranteed.
    candidates, pass_counts, log
        As for `fit_many`.

    Returns
    -------
    LatentSolution
        Of the convex problem with the windows last chosen, one per positive image whatever `top` says; `n_calls` and
        `n_passes` count all models.

    Raises
    ------
    InputError
        If there are not so many positives, or the problem does not fit the bags.

    Warns
    -----
    ConvergenceWarning
        For each model that stopped early.
    """
    check_count("rounds", rounds)
    labels, known = problem.labels(bags), problem.known(bags)
    bags.narrowed(known, "fixed_windows")
    parts = deal(np.flatnonzero((labels > 0) & (known < 0)), folds, problem.seed)
    windows, calls, passes = known.astype(np.intp), 0, 0
    options: dict[str, Any] = {"candidates": candidates, "pass_counts": pass_counts, "log": log}
    for _ in range(rounds):
        solutions = fit_many([_without(problem, labels, windows, part) for part in parts], bags, **options)
        calls += sum(one.n_calls for one in solutions)
        passes += sum(one.n_passes for one in solutions)
        before, windows = windows, windows.copy()
        best = bags.best(np.stack([one.coef for one in solutions], axis=1)).index
        for k, part in enumerate(parts):
            windows[part] = best[part, k]
        if np.array_equal(windows, before):
            break
    last = fit_many([replace(problem, fixed_windows=windows)], bags, **options)[0]
    return replace(last, n_calls=calls + last.n_calls, n_passes=passes + last.n_passes)


def deal(positives: Index, folds: int, seed: int) -> list[Index]:
    """Return the positives dealt to the folds."""
    if not (isinstance(folds, Integral) and 2 <= folds <= len(positives)):
        raise InputError(
            f"folds must be from 2 to the number of positive images to be dealt to them, {len(positives)}, "
            f"got {folds!r}."
        )
    return np.array_split(np.random.default_rng(seed).permutation(positives), folds)


def _without(problem: LatentProblem, labels: Float64, windows: Index, part: Index) -> LatentProblem:
    """Return the problem with these windows, an image left out if it is in `part`."""
    kept, known = labels.copy(), windows.copy()
    kept[part], known[part] = 0, -1
    return replace(problem, y=kept, fixed_windows=known)
