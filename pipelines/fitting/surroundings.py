"""Refined models with less weight on windows' surroundings.

Refinement weighs windows' content and surroundings separately, and with its weights the best windows are often too
large. Weights of the surroundings that are lower than the trained ones choose windows that fit better
(docs/measurements/boxes.md).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64
from lapsvm.latent import Refinement


def less_surroundings(weights: Float64, inside: NDArray[np.bool_], share: float) -> Float64:
    """Return weights (d,) or (d, n), those of windows' surroundings times `share`; `inside` is as below."""
    return np.asarray((weights.T * np.where(inside, 1.0, share)).T)


def with_less_surroundings(
    refinement: Refinement, inside: NDArray[np.bool_], share: float, flipped: Sequence[int] = ()
) -> Refinement:
    """Return a round whose models have `share` times the weights of windows' surroundings.

    Parameters
    ----------
    refinement : Refinement
        Windows and the certificate of the solution stay those of the models as they were trained.
    inside : (d,) bool
        Which features are a window's own, see `Halves`.
    share : float
        In [0, 1].
    flipped : sequence of int, default ()
        Models that were replaced by the weights the round began with and keep these: 0 for that of all pictures, k for
        that without fold k.
    """
    models = refinement.models
    lowered, kept = less_surroundings(models, inside, share), list(flipped)
    lowered[:, kept] = models[:, kept]
    return refinement.with_models(lowered)
