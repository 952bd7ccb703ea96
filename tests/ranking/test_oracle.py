"""Inference on thousands of negatives against a dynamic program that knows nothing of condition C2.

The program tries all non-decreasing ranks: g_j(r) = v_j(r) + max_{r' <= r} g_{j-1}(r'), in O(P N). Derivatives and
Deltas are written here a second time, from the definitions of the measures.
"""

from functools import cache

import numpy as np
import pytest

from lapsvm.ranking import NDCGLoss, PartialAUCLoss, RankBiased, RankLoss, most_violated_ranking

TABLE = 1 / np.arange(1, 60) ** 2 - 1 / 3600


class Halving(RankLoss):
    """A user's loss: positive i costs the more, the more negatives are above it, 1 - 2^-a, in the mean."""

    def derivative(self, j, i, n_pos, n_neg):
        return -(0.5**j) / n_pos


def no_discount_behind(discounts):
    return lambda places: np.where(places <= len(discounts), discounts[np.minimum(places, len(discounts)) - 1], 0.0)


def gain(discount):
    """Delta of NDCG from the places of the positives."""

    def delta(above):
        own = np.arange(1, above.shape[-1] + 1)
        return 1 - discount(own + above).sum(axis=-1) / discount(own).sum()

    return delta


def average_precision_lost(above):
    own = np.arange(1, above.shape[-1] + 1)
    return 1 - np.mean(own / (own + above), axis=-1)


def log(places):
    return 1 / np.log2(1.0 + places)


def cut(places):
    return np.maximum(log(places) - log(np.array(101)), 0)


# loss as users name it; Delta from the number of negatives above each positive, best first, along the last axis
LOSSES = {
    "ap": ("ap", average_precision_lost),
    "ndcg": ("ndcg", gain(log)),
    "ndcg reciprocal": (NDCGLoss("reciprocal"), gain(lambda places: 1.0 / places)),
    "ndcg rank-biased": (NDCGLoss(RankBiased(0.99)), gain(lambda places: 0.99**places)),
    "ndcg table": (NDCGLoss(TABLE), gain(no_discount_behind(TABLE))),
    "ndcg at 100": (NDCGLoss(k=100), gain(cut)),
    "ndcg callable": (NDCGLoss(lambda i: 1 / (3.0 + i)), gain(lambda places: 1 / (3.0 + places))),
    "mrr": ("mrr", lambda above: 1 - 1 / (1 + above[..., 0])),
    "pos_at_top": ("pos_at_top", lambda above: np.mean(above > 0, axis=-1)),
    "partial_auc": (PartialAUCLoss(0.0123), lambda above: np.mean(np.minimum(above, 110.7) / 110.7, axis=-1)),
    "user's": (Halving(), lambda above: np.mean(1 - 0.5**above, axis=-1)),
}


@cache
def drops(name, n_pos, n_neg):
    """Return delta_j(i + 1) - delta_j(i), (N, P): Delta with j negatives above positive i, against j - 1 there."""
    ranks = np.arange(1, n_pos + 2)[:, None]  # of the j-th negative; those before it are above all positives
    above = np.arange(n_neg)[:, None, None] + (ranks <= np.arange(1, n_pos + 1))
    return np.diff(LOSSES[name][1](above), axis=1)


def auc_drops(j, n_pos, n_neg):
    return np.full(n_pos, -1 / (n_pos * n_neg))


def largest_violation(positives, negatives, steps):
    """Return the largest violation of all rankings; `steps(j)` are the derivatives d_j(1 .. P)."""
    n_pos, n_neg = len(positives), len(negatives)
    best = np.full(n_pos + 1, -np.inf)
    best[0] = 0.0
    for j, score in enumerate(negatives, start=1):
        lost = -(steps(j) + 2 * (positives - score) / (n_pos * n_neg))
        value = np.append(np.cumsum(lost[::-1])[::-1], 0.0)
        best = value + np.maximum.accumulate(best)
    return best.max()


def check(scores, labels, loss, delta, steps):
    """Compare a ranking's Delta, violation and coefficients with the oracle's; return the share of ranks that move."""
    found = most_violated_ranking(scores, labels, loss)
    positives, negatives = np.sort(scores[labels])[::-1], np.sort(scores[~labels])[::-1]
    n_pos, n_neg = len(positives), len(negatives)
    expected = largest_violation(positives, negatives, steps)
    scale = max(1.0, abs(expected))
    assert found.violation == pytest.approx(expected, abs=1e-10 * scale)
    ranks = found.ranks[np.argsort(-scores[~labels], kind="stable")]
    assert (np.diff(ranks) >= 0).all()
    above = np.searchsorted(ranks, np.arange(1, n_pos + 1), side="right")
    assert found.loss == pytest.approx(delta(above), abs=1e-11)
    swapped = sum((positives[r - 1 :] - score).sum() for r, score in zip(ranks, negatives, strict=True) if r <= n_pos)
    assert delta(above) - 2 * swapped / (n_pos * n_neg) == pytest.approx(expected, abs=1e-9 * scale)
    assert found.loss - found.coefficients @ scores == pytest.approx(expected, abs=1e-9 * scale)
    return (ranks <= n_pos).mean()


def example(n_pos, n_neg, shift, decimals, seed):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(n_pos + n_neg) < n_pos
    return np.round(rng.standard_normal(n_pos + n_neg) + shift * labels, decimals), labels


@pytest.mark.parametrize("decimals", [12, 1])  # with 1, every score is shared by hundreds
@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_the_largest_violation_among_more_negatives_than_are_looked_at_whole(name, is_late, decimals):
    """Late in training few negatives reach the positives' scores; others are never looked at again once counted."""
    loss, delta = LOSSES[name]
    scores, labels = example(12, 9000, 5.0 if is_late else 0.5, decimals, seed=1 + is_late)
    violation = check(scores, labels, loss, delta, lambda j: drops(name, 12, 9000)[j - 1])
    assert violation < 1 / 16 if is_late else violation > 0


@pytest.mark.parametrize("shift", [0.5, 5.0])
@pytest.mark.parametrize("decimals", [12, 1])
def test_the_largest_violation_of_auc(shift, decimals):
    scores, labels = example(12, 9000, shift, decimals, seed=3)
    check(scores, labels, "auc", lambda above: np.mean(above / 9000), lambda j: auc_drops(j, 12, 9000))


@pytest.mark.parametrize("shift", [0.5, 5.0])
def test_many_positives(shift):
    loss, delta = LOSSES["ap"]
    scores, labels = example(300, 20_000, shift, 12, seed=4)
    i = np.arange(1, 301)
    check(scores, labels, loss, delta, lambda j: -i / (300.0 * (i + j - 1) * (i + j)))
