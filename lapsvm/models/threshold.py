"""The intercept of a ranker, set after training because rank losses do not depend on it."""

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64


def balanced_intercept(scores: Float64, positive: NDArray[np.bool_]) -> float:
    """Return the intercept b for which ``scores + b > 0`` has the highest balanced accuracy on these samples.

    Parameters
    ----------
    scores : (n,) float64
    positive : (n,) bool
        Must hold both True and False.

    Returns
    -------
    float
        Minus the midpoint between two neighbouring scores; among equally good midpoints, the middle one.
    """
    order = np.argsort(scores, kind="stable")
    ranked, is_positive = scores[order], positive[order]
    # cut c puts the c lowest scores below the threshold; equal scores cannot be cut
    missed = np.append(0, np.cumsum(is_positive)) / is_positive.sum()
    rejected = np.append(0, np.cumsum(~is_positive)) / (~is_positive).sum()
    gaps = np.concatenate([[np.inf], np.diff(ranked), [np.inf]])
    quality = np.where(gaps > 0, rejected - missed, -np.inf)
    best = np.flatnonzero(quality >= quality.max() - 1e-12)
    cut = int(best[len(best) // 2])
    if cut == 0:
        return -float(np.nextafter(ranked[0], -np.inf))
    if cut == len(ranked):
        return -float(ranked[-1])
    return -float(ranked[cut - 1] + gaps[cut] / 2)
