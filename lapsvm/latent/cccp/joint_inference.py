"""The greedy joint search for a ranking and its windows: the latent structural SVM's inference.

When windows and positions in the ranking are chosen together, a sample above most of the other class takes its best
window, one below most of it its worst; assigning samples to positions is an assignment problem. No exact maximisation
over the rankings is known, so the search is the thesis's: starting from the true ranking, it raises the negatives one
after the other (A. Behl, "Optimizing Average Precision using Weakly Supervised Data", appendix A).
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from lapsvm.arrays import Array, Float64, Index
from lapsvm.errors import OptionError
from lapsvm.ranking import RankLoss
from lapsvm.ranking.losses import as_loss


@dataclass(frozen=True, slots=True)
class JointRanking:
    """A ranking R with a window for every sample.

    Attributes
    ----------
    ranks : (n_neg,) intp
        Interleaving ranks 1 .. P + 1 of the negatives, in their input order: one plus the number of positives above.
    loss : float
        Delta of the ranking.
    value : float
        Delta + F(R, H).
    coefficients : (n,) float64
        Psi(R, H) = sum_k coefficients[k] phi_k(h_k), in input order; so value = loss + coefficients @ scores. A sample
        has its best window where its coefficient is positive, its worst where it is negative; where it is 0 the window
        does not matter.
    """

    ranks: Index
    loss: float
    value: float
    coefficients: Float64


def greedy_joint_ranking(
    highest: Float64, lowest: Float64, labels: Array, loss: "str | RankLoss" = "ap"
) -> JointRanking:
    """Return a ranking and windows with a large Delta(R) + F(R, H), found greedily; a better one may exist.

    Parameters
    ----------
    highest, lowest : (n,) float64
        Score of each sample's best and worst window. Others are never chosen: the value is linear in each score.
    labels : (n,) number
        Binary: 1 is positive, 0 and -1 are negative; at least one of each.
    loss : str or RankLoss, default "ap"
        Any rank loss; "zero_one" is none.

    Returns
    -------
    JointRanking
        At least as good as the true ranking with its best windows. With one window per sample it is the exact one.

    Raises
    ------
    OptionError
        If the loss is no rank loss.

    Notes
    -----
    From every positive on top, the negatives' places, the highest first, are raised to where the value is largest, at
    most to just below the place before. Once a place stays at the bottom, so do all that follow. For every ranking on
    the way, the samples are assigned to the places of their class in the best way (equations A.6 to A.9). The sum of
    signs that makes a place's coefficient is printed there as a maximum.
    """
    return _Search(highest, lowest, labels > 0, as_rank_loss(loss)).run()


def as_rank_loss(loss: object) -> RankLoss:
    """Return the rank loss of a name, or the loss itself.

    Raises
    ------
    OptionError
        If it is not the loss of a ranking.
    """
    known = as_loss(loss)
    if not isinstance(known, RankLoss):
        raise OptionError(f"loss must be one of rankings, got {loss!r}, which decomposes over the samples.")
    return known


class _Side:
    """The samples of one class, and their assignment to positions with descending coefficients."""

    def __init__(self, highest: Float64, lowest: Float64):
        # in an order of their own, so that rounding breaks ties alike whatever the order they come in
        self._order = np.lexsort((lowest, highest))
        self._highest, self._lowest = highest[self._order], lowest[self._order]
        self._sorted_highest, self._sorted_lowest = np.sort(highest)[::-1], np.sort(lowest)[::-1]

    def bound(self, places: Float64) -> float:
        """Return an upper bound of all assignments: each position gets its best sample, which may serve two.

        Where no two places want different windows of a sample, this is the value itself.
        """
        k = int(np.count_nonzero(places > 0))
        return float(places[:k] @ self._sorted_highest[:k] + places[k:] @ self._sorted_lowest[k:])

    def value(self, places: Float64) -> float:
        """Return the largest sum of coefficients times scores."""
        if places[-1] >= 0 or places[0] <= 0:
            return self.bound(places)
        gains = self._gains(places)
        return float(gains[linear_sum_assignment(gains, maximize=True)].sum())

    def assigned(self, places: Float64) -> Index:
        """Return each sample's position."""
        windows = np.empty(len(self._order), dtype=np.intp)
        windows[self._order] = linear_sum_assignment(self._gains(places), maximize=True)[1]
        return windows

    def _gains(self, places: Float64) -> Float64:
        return np.maximum(np.outer(self._highest, places), np.outer(self._lowest, places))


class _Search:
    """The positions of both classes, and their objective."""

    def __init__(self, highest: Float64, lowest: Float64, positive: Array, loss: RankLoss):
        self._positives, self._negatives = np.flatnonzero(positive), np.flatnonzero(~positive)
        self._above = np.zeros(len(self._positives), dtype=np.intp)  # negatives above the k-th place of a positive
        self._ranks = np.full(len(self._negatives), len(self._positives) + 1)  # of the negatives' places, ascending
        self._loss = loss
        self._sides = [_Side(highest[places], lowest[places]) for places in (self._positives, self._negatives)]

    def run(self) -> JointRanking:
        """Raise the positions one after the other, until one stays."""
        best, first = self._value(-np.inf), 1
        for j in range(len(self._ranks)):
            best = self._raise(j, first, best)
            first = int(self._ranks[j])
            if first > len(self._positives):
                break
        return self._found()

    def _raise(self, j: int, first: int, best: float) -> float:
        """Move position `j` to the best rank from the bottom up to `first`, the lowest of equal ones."""
        bottom = len(self._positives) + 1
        rank = bottom
        for i in range(bottom - 1, first - 1, -1):
            self._ranks[j] = i
            self._above[i - 1] += 1
            if (value := self._value(best)) > best:
                best, rank = value, i
        self._ranks[j] = rank
        self._above[first - 1 : rank - 1] -= 1
        return best

    def _value(self, enough: float) -> float:
        """Return Delta + F at the best assignment, or a bound of it that is not above `enough`."""
        delta, places = self._loss.value(self._above, len(self._ranks)), self._coefficients()
        # an assignment costs a thousand times as much as its bound
        bound = delta + sum(side.bound(of_side) for side, of_side in zip(self._sides, places, strict=True))
        if bound <= enough:
            return bound
        return delta + sum(side.value(of_side) for side, of_side in zip(self._sides, places, strict=True))

    def _coefficients(self) -> tuple[Float64, Float64]:
        """Return the coefficients of the positives' and of the negatives' positions, both descending."""
        n_pos, n_neg = len(self._positives), len(self._negatives)
        pairs = n_pos * n_neg
        return (n_neg - 2.0 * self._above) / pairs, (n_pos + 2.0 - 2.0 * self._ranks) / pairs

    def _found(self) -> JointRanking:
        places = self._coefficients()
        coefficients = np.empty(len(self._positives) + len(self._negatives))
        first, second = (side.assigned(of_side) for side, of_side in zip(self._sides, places, strict=True))
        coefficients[self._positives], coefficients[self._negatives] = places[0][first], places[1][second]
        delta = self._loss.value(self._above, len(self._ranks))
        return JointRanking(self._ranks[second], delta, self._value(-np.inf), coefficients)
