"""The intercept of a ranker: a rank loss does not see it, so it is set after training."""

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64


def balanced_intercept(scores: Float64, positive: NDArray[np.bool_]) -> float:
    """Return the intercept b for which ``scores + b > 0`` has the highest balanced accuracy on these samples.

    Parameters
    ----------
    scores : (n,) float64
    positive : (n,) bool
        Both kinds must occur.

    Returns
    -------
    float
        Minus the midpoint between the two neighbouring scores; of equally good places the middle one is taken.
    """
    order = np.argsort(scores, kind="stable")
    ranked, is_positive = scores[order], positive[order]
    # cut c puts the c lowest scores below the threshold; a cut between equal scores is none
    lost = np.append(0, np.cumsum(is_positive)) / is_positive.sum()
    won = np.append(0, np.cumsum(~is_positive)) / (~is_positive).sum()
    gaps = np.concatenate([[np.inf], np.diff(ranked), [np.inf]])
    quality = np.where(gaps > 0, won - lost, -np.inf)
    best = np.flatnonzero(quality >= quality.max() - 1e-12)
    cut = int(best[len(best) // 2])
    if cut == 0:
        return -float(np.nextafter(ranked[0], -np.inf))
    if cut == len(ranked):
        return -float(ranked[-1])
    return -float(ranked[cut - 1] + gaps[cut] / 2)
