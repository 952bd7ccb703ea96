"""Refined models with less weight on windows' surroundings.

Refinement weighs windows' content and surroundings separately, and with its weights the best windows are often too
large. Weights of the surroundings that are lower than the trained ones choose windows that fit better
(docs/measurements/boxes.md).
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lapsvm.latent import Refinement


def with_less_surroundings(refinement: Refinement, inside: NDArray[np.bool_], share: float) -> Refinement:
    """Return a round whose models have `share` times the weights of windows' surroundings.

    Parameters
    ----------
    refinement : Refinement
        Windows and the certificate of the solution stay those of the models as they were trained.
    inside : (d,) bool
        Which features are a window's own, see `Halves`.
    share : float
        In [0, 1].
    """
    factors = np.where(inside, 1.0, share)
    return replace(
        refinement,
        solution=replace(refinement.solution, coef=refinement.solution.coef * factors),
        mean_coef=refinement.mean_coef * factors,
        fold_coef=refinement.fold_coef * factors[:, None],
    )
