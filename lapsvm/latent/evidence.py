"""Whether chosen windows hold the object or lie beside it, judged without boxes.

A window's features less `beta` times those of its surroundings are nearly antisymmetric for `beta` near 1: a window on
the object, and a window beside it with all weights negated, rank pictures alike. Training stays near its start, so a
start on the wrong side gives a detector of windows beside objects. The two sides differ in what the windows themselves
score: on the object the score of the content alone lies several standard deviations above that of all windows, beside
it does not.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import as_floats, check_same_length
from lapsvm.errors import InputError

NEAR = 0.9  # share of the evidence of the weakest contrast that a stronger one must keep
FLIPPED = 0.6  # share of the evidence of its start below which a training has flipped


def content_evidence(chosen: ArrayLike, every: ArrayLike) -> float:
    """Return how far the chosen windows' content scores lie above those of all windows.

    Parameters
    ----------
    chosen : array-like of shape (m,)
        Score of the content of the window that each positive picture chose.
    every : array-like of shape (n,)
        The same score of all windows of all pictures, or of a sample.

    Returns
    -------
    float
        The difference of the means in standard deviations of `every`; 0 where all windows score alike.

    Raises
    ------
    InputError
        If there are no windows.
    ShapeError, NotFiniteError
        If the scores are no finite numbers in one dimension.
    """
    own, others = as_floats("chosen", chosen, ndim=1), as_floats("every", every, ndim=1)
    if not len(own) or not len(others):
        raise InputError(f"chosen and every must hold a window, got {len(own)} and {len(others)}.")
    spread = float(others.std())
    return float(own.mean() - others.mean()) / spread if spread > 0 else 0.0


def strongest_unflipped(contrasts: Sequence[float], evidence: Sequence[float], share: float = NEAR) -> int:
    """Return the index of the strongest contrast before the flip.

    Parameters
    ----------
    contrasts : sequence of float
        Ascending; the first is the one that cannot flip, 0.
    evidence : sequence of float
        Of the training that each starts (see `content_evidence`).
    share : float, default 0.9
        A contrast qualifies if it and all weaker ones have at least this share of the first's evidence.

    Returns
    -------
    int
        0 where the first one's evidence is not above 0.

    Raises
    ------
    ShapeError
        If there is not one evidence per contrast.
    InputError
        If the contrasts do not ascend.
    """
    strengths, values = as_floats("contrasts", contrasts, ndim=1), as_floats("evidence", evidence, ndim=1)
    check_same_length("contrasts", strengths, "evidence", values)
    if not len(strengths) or (np.diff(strengths) <= 0).any():
        raise InputError(f"contrasts must be one or more and ascend, got {list(contrasts)}.")
    flipped = (values < share * values[0]) | (values[0] <= 0)
    flipped[0] = False
    return int(np.argmax(flipped)) - 1 if flipped.any() else len(values) - 1


def is_flipped(evidence: float, start: float, share: float = FLIPPED) -> bool:
    """Return whether a training with this evidence has flipped since its start, which had `start`."""
    return start > 0 and evidence < share * start
