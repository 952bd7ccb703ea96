"""Bounds of NDCG's Delta for graded relevance: a ranking is an assignment of samples to places.

With gains g, Delta(R) = 1 - sum_i g_i D(place of i) / C, C being the largest such sum, and F(R) is the mean over the
pairs of different gains of the upper one's score less the lower one's. Pairs of equal gains may be added to F: their
best order is that of their scores in every ranking, so they cancel in every bound. Then F is the sum of
s_i (n + 1 - 2 place of i) over the number of pairs, each sample's part of Delta + F depends on its place alone, and the
maximum over rankings is a linear assignment, exact for any discount. With two gains, one of them 0, the bounds are
those of binary labels.
"""

from collections.abc import Callable

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.ranking.losses import NDCGLoss


class GradedRankings:
    """The rankings of n samples, as their places 1 .. n.

    Parameters
    ----------
    loss : NDCGLoss
    scores : (n,) float64
        Those of F.
    gains : (n,) float64
        At least 0, not all equal.
    """

    def __init__(self, loss: NDCGLoss, scores: Float64, gains: Float64) -> None:
        n, (_, counts) = len(scores), np.unique(gains, return_counts=True)
        places = np.arange(1, n + 1)
        self._slopes: Float64 = (n + 1.0 - 2.0 * places) / ((n**2 - (counts**2).sum()) / 2)
        discounts = np.asarray(loss.discount(places), dtype=np.float64)
        self._discounts: Float64 = discounts / float(np.sort(gains)[::-1] @ discounts)
        self._scores, self._gains = scores, gains

    def predicted(self) -> Index:
        """Return the ranking by scores, the first of equal ones higher: the largest F."""
        return _places(np.argsort(-self._scores, kind="stable"))

    def perfect(self) -> Index:
        """Return the ranking by gains, and by scores among equal ones: Delta is 0."""
        return _places(np.lexsort((-self._scores, -self._gains)))

    def augmented(self, sign: float) -> Index:
        """Return the ranking of the largest F + sign Delta, in O(n^3) time at worst and n^2 numbers."""
        from scipy.optimize import linear_sum_assignment

        worth = np.outer(self._scores, self._slopes) - sign * np.outer(self._gains, self._discounts)
        return np.asarray(linear_sum_assignment(worth, maximize=True)[1])

    def delta(self, ranking: Index) -> float:
        """Return the share of the gain that a ranking loses."""
        return 1.0 - float(self._gains @ self._discounts[ranking])

    def coefficients(self, upper: Index, lower: Index) -> Float64:
        """Return c of F(upper) - F(lower) = -c @ scores; it sums to 0."""
        return np.asarray(self._slopes[lower] - self._slopes[upper])


def _places(order: Index) -> Index:
    """Return the place, from 0, of each sample of an order from the top."""
    places = np.empty(len(order), dtype=np.intp)
    places[order] = np.arange(len(order))
    return places


def hinge(rankings: GradedRankings, scores: Float64) -> tuple[float, Float64]:
    """Return max_R (Delta + F) - F(R*) and its coefficients."""
    high = rankings.augmented(1.0)
    coefficients = rankings.coefficients(high, rankings.perfect())
    return max(rankings.delta(high) - _product(coefficients, scores), 0.0), coefficients


def up(rankings: GradedRankings, scores: Float64) -> tuple[float, Float64]:
    """Return max_R (Delta + F) - max_R F, at least Delta of the predicted ranking, and its coefficients."""
    high, predicted = rankings.augmented(1.0), rankings.predicted()
    coefficients = rankings.coefficients(high, predicted)
    return max(rankings.delta(high) - _product(coefficients, scores), rankings.delta(predicted)), coefficients


def down(rankings: GradedRankings, scores: Float64) -> tuple[float, Float64]:
    """Return max_R F - max_R (F - Delta), at most Delta of the predicted ranking, and its coefficients."""
    low, predicted = rankings.augmented(-1.0), rankings.predicted()
    coefficients = rankings.coefficients(predicted, low)
    return min(rankings.delta(low) - _product(coefficients, scores), rankings.delta(predicted)), coefficients


def delta(rankings: GradedRankings, scores: Float64) -> tuple[float, Float64]:
    """Return Delta of the predicted ranking, which does not change with small changes of the scores."""
    return rankings.delta(rankings.predicted()), np.zeros(len(scores))


def _product(coefficients: Float64, scores: Float64) -> float:
    """Return coefficients @ scores; they sum to 0, so that a shift of the scores reduces rounding."""
    return float(coefficients @ (scores - scores.min()))


GRADED_BOUNDS: dict[str, Callable[[GradedRankings, Float64], tuple[float, Float64]]] = {
    "hinge": hinge,
    "up": up,
    "down": down,
    "delta": delta,
}
