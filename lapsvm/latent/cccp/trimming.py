"""Negative images whose most confusing windows are ignored: robustness against objects that the labels do not tell."""

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.bags import Bags, BestWindows


class Trimming:
    """The windows that negative images have left.

    Parameters
    ----------
    bags : Bags
        The negative images.
    share : float
        How much of each image's windows is ignored, rounded down; one is always kept. Nothing is, before `renew`.
    """

    def __init__(self, bags: Bags, share: float):
        sizes = np.diff(bags.offsets)
        self._bags, self._inner = bags, bags.offsets[1:-1]
        # the rounding forgives products such as 0.7 * 10, which lie just below the whole number
        self._counts = np.minimum(np.floor(share * sizes + 1e-9).astype(np.intp), sizes - 1)
        self._ignored = np.zeros(bags.n_windows, dtype=np.bool_)

    def best(self, w: Float64) -> BestWindows:
        """Return each image's best window of those left; the first of equal ones."""
        scores = self._bags.score_windows(w)
        scores[self._ignored] = -np.inf
        parts = np.split(scores, self._inner)
        return BestWindows(np.array([part.argmax() for part in parts]), np.array([part.max() for part in parts]))

    def renew(self, w: Float64) -> int:
        """Ignore each image's best windows at `w` where that lowers its score; return for how many images it does.

        For fixed weights no other choice lowers a score more, so the objective never rises.
        """
        parts, ignored = np.split(self._bags.score_windows(w), self._inner), np.split(self._ignored, self._inner)
        changed = 0
        for scores, own, count in zip(parts, ignored, self._counts, strict=True):
            order: Index = np.argsort(-scores, kind="stable")
            if scores[order[count]] < scores[~own].max():
                own[:] = False
                own[order[:count]] = True
                changed += 1
        return changed
