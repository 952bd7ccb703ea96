"""Upper and lower bounds of Delta for one ranking, without torch: value, and how it changes with the scores.

A bound returns its value and the coefficients c of value = constant - c @ scores. Scores are those of F, so that
scores / eps give the bounds of direct loss minimisation: (max_R F + eps Delta - max_R F) / eps and its mirror image.
"""

from collections.abc import Callable

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.blas import dot
from lapsvm.nn.rankings import Flags, Labels, one_ranking
from lapsvm.ranking import NDCGLoss, RankLoss, ZeroOneLoss, most_violated_ranking
from lapsvm.ranking.inference import as_scores, check_usable, violation_and_gradient
from lapsvm.ranking.predicted import loss_diminished_ranking, predicted_ranking, subtract_predicted

AnyLoss = RankLoss | ZeroOneLoss
Bound = Callable[[AnyLoss, Float64, Flags], tuple[float, Float64]]


def hinge(loss: AnyLoss, scores: Float64, positive: Flags) -> tuple[float, Float64]:
    """Return max_R (Delta + F) - F(R*) and its coefficients."""
    violated = most_violated_ranking(scores, positive, loss)
    return violated.violation, violated.coefficients


def up(loss: AnyLoss, scores: Float64, positive: Flags) -> tuple[float, Float64]:
    """Return max_R (Delta + F) - max_R F, at least Delta of the predicted ranking, and its coefficients."""
    high = most_violated_ranking(scores, positive, loss)
    delta_of_predicted, coefficients = _less_predicted(high.coefficients, scores, positive, loss)
    value = high.loss - _product(coefficients, scores, positive, loss)
    return max(value, delta_of_predicted), coefficients


def down(loss: AnyLoss, scores: Float64, positive: Flags) -> tuple[float, Float64]:
    """Return max_R F - max_R (F - Delta), at most Delta of the predicted ranking, and its coefficients."""
    low = loss_diminished_ranking(scores, positive, loss)
    delta_of_predicted, coefficients = _less_predicted(low.coefficients, scores, positive, loss)
    np.negative(coefficients, out=coefficients)
    value = low.loss - _product(coefficients, scores, positive, loss)
    return min(value, delta_of_predicted), coefficients


def delta(loss: AnyLoss, scores: Float64, positive: Flags) -> tuple[float, Float64]:
    """Return Delta of the predicted ranking, and that ranking's coefficients."""
    predicted = predicted_ranking(scores, positive, loss)
    return predicted.loss, predicted.coefficients


def _less_predicted(coefficients: Float64, scores: Float64, positive: Flags, loss: AnyLoss) -> tuple[float, Float64]:
    """Return Delta of the predicted ranking, and the coefficients less its own, in the same memory if possible."""
    if isinstance(loss, RankLoss):
        return subtract_predicted(as_scores(scores), positive.nonzero()[0], loss, coefficients), coefficients
    predicted = predicted_ranking(scores, positive, loss)
    return predicted.loss, coefficients - predicted.coefficients


def _product(coefficients: Float64, scores: Float64, positive: Flags, loss: AnyLoss) -> float:
    """Return coefficients @ scores, shifted to reduce rounding: coefficients of a ranking sum to 0."""
    centre = 0.0 if isinstance(loss, ZeroOneLoss) else scores[positive].min()
    return dot(coefficients, scores - centre)


BOUNDS: dict[str, Bound] = {"hinge": hinge, "up": up, "down": down, "delta": delta}


class GradedRankings:
    """NDCG of graded relevance: a ranking is an assignment of samples to their places 1 .. n.

    With gains g, Delta(R) = 1 - sum_i g_i D(place of i) / C, C being the largest such sum, and F(R) is the mean over
    the pairs of different gains of the upper one's score less the lower one's. Pairs of equal gains may be added to F:
    their best order is that of their scores in every ranking, so they cancel in every bound. Then F is the sum of s_i
    (n + 1 - 2 place of i) over the number of pairs, each sample's part of Delta + F depends on its place alone, and the
    maximum over rankings is a linear assignment, exact for any discount. With two gains, one of them 0, the bounds are
    those of binary labels.

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

    def bound(self, name: str) -> tuple[float, Float64]:
        """Return the value and the coefficients of a bound, as the functions for binary labels do."""
        predicted = self._predicted()
        if name == "delta":  # it does not change with small changes of the scores
            return self._delta(predicted), np.zeros(len(self._scores))
        if name == "down":
            low = self._augmented(-1.0)
            coefficients = self._coefficients(predicted, low)
            return min(self._delta(low) - self._product(coefficients), self._delta(predicted)), coefficients
        high, lower = self._augmented(1.0), self._perfect() if name == "hinge" else predicted
        coefficients, least = self._coefficients(high, lower), 0.0 if name == "hinge" else self._delta(predicted)
        return max(self._delta(high) - self._product(coefficients), least), coefficients

    def _predicted(self) -> Index:
        """Return the ranking by scores, the first of equal ones higher: the largest F."""
        return np.argsort(np.argsort(-self._scores, kind="stable"))

    def _perfect(self) -> Index:
        """Return the ranking by gains, and by scores among equal ones: Delta is 0."""
        return np.argsort(np.lexsort((-self._scores, -self._gains)))

    def _augmented(self, sign: float) -> Index:
        """Return the ranking of the largest F + sign Delta, in O(n^3) time at worst and n^2 numbers."""
        from scipy.optimize import linear_sum_assignment

        worth = np.outer(self._scores, self._slopes) - sign * np.outer(self._gains, self._discounts)
        return np.asarray(linear_sum_assignment(worth, maximize=True)[1])

    def _delta(self, ranking: Index) -> float:
        """Return the share of the gain that a ranking loses."""
        return 1.0 - float(self._gains @ self._discounts[ranking])

    def _coefficients(self, upper: Index, lower: Index) -> Float64:
        """Return c of F(upper) - F(lower) = -c @ scores; it sums to 0."""
        return np.asarray(self._slopes[lower] - self._slopes[upper])

    def _product(self, coefficients: Float64) -> float:
        """Return coefficients @ scores; they sum to 0, so that a shift of the scores reduces rounding."""
        return float(coefficients @ (self._scores - self._scores.min()))


def bounded(bound: str, loss: AnyLoss, scores: Float64, labels: Labels) -> tuple[float, Float64]:
    """Return the value and coefficients of a bound; gains of which one is not 0 are binary labels."""
    positive = labels > 0
    if not isinstance(loss, NDCGLoss) or (not positive.all() and np.ptp(labels[positive].astype(np.float64)) == 0):
        return BOUNDS[bound](loss, scores, positive)
    check_usable(scores)
    return GradedRankings(loss, scores, labels.astype(np.float64)).bound(bound)


def solve_one(bound: str, loss: AnyLoss, scores: Array, labels: Array, scale: float) -> tuple[float, Array] | None:
    """Return value and gradient of one ranking in the scores' type, or None where `solve_rankings` has to look closer.

    The result is that of `solve_rankings`. Small batches take a third of the time; the hinge reads float32 scores and
    writes their gradient in the kernel, without arrays in float64.
    """
    positive = one_ranking(scores, labels)
    if positive is None:
        return None
    if bound == "hinge" and scores.dtype == np.float32 and isinstance(loss, RankLoss):
        return violation_and_gradient(np.ascontiguousarray(scores), positive.nonzero()[0], loss, scale)
    value, coefficients = BOUNDS[bound](loss, np.multiply(scores, scale, dtype=np.float64), positive)
    return value, np.multiply(coefficients, -scale, out=np.empty_like(scores), casting="same_kind")
