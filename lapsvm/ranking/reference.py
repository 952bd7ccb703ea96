"""Slow, readable twins of the compiled kernels of this package, in plain Python and the papers' notation.

They share only the definitions with the kernels; the same tests check both. Indices follow the papers: positions are
j = 1 .. N and ranks i = 1 .. P + 1, so that lists have an unused entry 0.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.ranking.losses import RankLoss


class Problem(NamedTuple):
    """One inference problem: sorted scores, best first, and the loss."""

    positives: list[float]
    negatives: list[float]
    loss: RankLoss

    def objective_step(self, j: int, i: int) -> float:
        """Return f_j(i + 1) - f_j(i) = 2 (s+_i - s*_j) / (P N) + d_j(i) (supplement, section 5)."""
        return self.margin(j, i) + self.derivative(j, i)

    def diminished_gain(self, j: int, i: int) -> float:
        """Return the gain of F - Delta from swapping the i-th positive and the j-th negative."""
        return self.derivative(j, i) - self.margin(j, i)

    def margin(self, j: int, i: int) -> float:
        """Return 2 (s+_i - s*_j) / (P N)."""
        return 2.0 * (self.positives[i - 1] - self.negatives[j - 1]) / (len(self.positives) * len(self.negatives))

    def derivative(self, j: int, i: int) -> float:
        """Return d_j(i)."""
        gains = self.loss.derivative(j, np.array([i]), len(self.positives), len(self.negatives))
        return float(np.broadcast_to(gains, (1,))[0])

    def best_rank(self, j: int, low: int, high: int) -> int:
        """Return the largest argmax of f_j over the ranks low .. high."""
        best, total, highest = low, 0.0, 0.0
        for i in range(low, high):
            total += self.objective_step(j, i)
            if total >= highest:
                best, highest = i + 1, total
        return best


def most_violated_ranks(problem: Problem) -> list[int]:
    """Return r_1 .. r_N by OptRanks (Mohapatra et al., CVPR 2018, Algorithm 1); negatives are sorted beforehand."""
    n_pos, n_neg = len(problem.positives), len(problem.negatives)
    ranks = [0] * (n_neg + 1)
    stack = [(1, n_neg, 1, n_pos + 1)]
    while stack:
        first, last, low, high = stack.pop()
        if first > last:
            continue
        if low == high:
            ranks[first : last + 1] = [low] * (last - first + 1)
            continue
        middle = (first + last) // 2
        ranks[middle] = problem.best_rank(middle, low, high)
        stack += [(first, middle - 1, low, ranks[middle]), (middle + 1, last, ranks[middle], high)]
    return ranks[1:]


def negatives_above(ranks: Sequence[int], n_pos: int) -> Index:
    """Return #{j : r_j <= i} for each positive i = 1 .. P, which is the supplement's r+_i - 1."""
    return np.array([sum(rank <= i for rank in ranks) for i in range(1, n_pos + 1)], dtype=np.intp)


def violation(problem: Problem, ranks: Sequence[int]) -> float:
    """Return Delta + F(R) - F(R*) by summing over all pairs: O(P N)."""
    n_pos, n_neg = len(problem.positives), len(problem.negatives)
    swapped = sum(
        problem.positives[i - 1] - problem.negatives[j - 1]
        for j, rank in enumerate(ranks, start=1)
        for i in range(rank, n_pos + 1)
    )
    return problem.loss.value(negatives_above(ranks, n_pos), n_neg) - 2.0 * swapped / (n_pos * n_neg)


def all_rankings(n_pos: int, n_neg: int) -> Iterator[tuple[int, ...]]:
    """Yield every non-decreasing r_1 .. r_N of ranks 1 .. P + 1: all interleavings."""
    return combinations_with_replacement(range(1, n_pos + 2), n_neg)


def largest_violation(problem: Problem) -> float:
    """Return the largest violation by trying all interleavings."""
    rankings = all_rankings(len(problem.positives), len(problem.negatives))
    return max(violation(problem, ranks) for ranks in rankings)


def most_violated(scores: Float64, positive: Index, loss: RankLoss) -> tuple[Index, Float64, Index]:
    """Return the negatives' ranks in input order, the coefficients and the negatives above each positive."""
    positives, negatives = _best_first(scores, positive)
    problem = Problem([float(scores[k]) for k in positives], [float(scores[k]) for k in negatives], loss)
    return _ranking(positives, negatives, most_violated_ranks(problem))


def diminished_ranks(problem: Problem) -> list[int]:
    """Return the r_1 .. r_N with the largest F - Delta, by dynamic programming over all pairs: O(P N).

    Among equally good rankings the highest ranks are returned. `best[i]` is what the negatives j, j + 1, ... add to
    F - Delta if none has a rank below i, and choices[j][i] the rank of the j-th negative then.
    """
    n_pos, n_neg = len(problem.positives), len(problem.negatives)
    best = [0.0] * (n_pos + 2)
    choices: list[list[int]] = [[]] * (n_neg + 1)
    for j in range(n_neg, 0, -1):
        swapped, choice = 0.0, [n_pos + 1] * (n_pos + 2)
        for i in range(n_pos, 0, -1):
            swapped += problem.diminished_gain(j, i)
            taken = swapped + best[i] > best[i + 1]
            best[i] = swapped + best[i] if taken else best[i + 1]
            choice[i] = i if taken else choice[i + 1]
        choices[j] = choice
    ranks = [1]
    for choice in choices[1:]:
        ranks.append(choice[ranks[-1]])
    return ranks[1:]


def predicted(scores: Float64, positive: Index, diminishing: RankLoss | None) -> tuple[Index, Float64, Index]:
    """Return ranks, coefficients and negatives above of the ranking with the largest F, or F - Delta of a loss."""
    positives, negatives = _best_first(scores, positive)
    if diminishing is None:
        ranks = [1 + sum((-scores[p], p) < (-scores[n], n) for p in positives) for n in negatives]
    else:
        problem = Problem([float(scores[k]) for k in positives], [float(scores[k]) for k in negatives], diminishing)
        ranks = diminished_ranks(problem)
    return _ranking(positives, negatives, ranks)


def _best_first(scores: Float64, positive: Index) -> tuple[list[int], list[int]]:
    """Return the indices of the positives and of the negatives, the first of equal scores higher."""
    order = sorted(range(len(scores)), key=lambda k: (-scores[k], k))
    members = set(positive.tolist())
    return [k for k in order if k in members], [k for k in order if k not in members]


def _ranking(positives: list[int], negatives: list[int], ranks: list[int]) -> tuple[Index, Float64, Index]:
    """Return the negatives' ranks in input order, Psi(R*) - Psi(R), and the negatives above each positive.

    The coefficients are 2 (r+_i - 1) / (P N) on positives, -2 (P + 1 - r_j) / (P N) on negatives.
    """
    n_pos, n_neg = len(positives), len(negatives)
    above = negatives_above(ranks, n_pos)
    coefficients = np.zeros(n_pos + n_neg)
    for k, count in zip(positives, above, strict=True):
        coefficients[k] = 2.0 * count / (n_pos * n_neg)
    for k, rank in zip(negatives, ranks, strict=True):
        coefficients[k] = -2.0 * (n_pos + 1 - rank) / (n_pos * n_neg)
    in_order = [rank for _, rank in sorted(zip(negatives, ranks, strict=True))]
    return np.array(in_order, dtype=np.intp), coefficients, above
