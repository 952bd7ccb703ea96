"""The greedy search for rankings with windows: against all rankings and windows, and against exact inference."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapsvm.errors import OptionError
from lapsvm.latent.cccp.joint_inference import greedy_joint_ranking
from lapsvm.ranking import most_violated_ranking

LOSSES = ("ap", "ndcg", "auc", "mrr", "pos_at_top")
# the thesis's table A.1: scores of the two windows, and the labels
TABLE_A1 = np.array([(4.0, 8.0), (7.0, 6.0), (1.0, 9.0), (0.0, 7.0)])
LABELS_A1 = np.array([-1, 1, -1, 1])
PAIRS_A1 = 4  # the table's scores are not divided by the number of pairs


def ap_loss(positive_places):
    """Return 1 - AP of positives at these ascending 1-based places."""
    return 1 - np.mean(np.arange(1, len(positive_places) + 1) / positive_places)


def ranking_of(order, labels):
    """Return Delta, and the coefficients of the samples' scores in F from the definition, of samples in this order."""
    place = np.argsort(order)
    positives, negatives = np.flatnonzero(labels > 0), np.flatnonzero(labels < 0)
    signs = np.where(place[positives][:, None] < place[negatives], 1, -1) / (len(positives) * len(negatives))
    coefficients = np.empty(len(labels))
    coefficients[positives], coefficients[negatives] = signs.sum(axis=1), -signs.sum(axis=0)
    return ap_loss(np.sort(place[positives]) + 1), coefficients


def best_value(windows, labels):
    """Return the largest Delta + F over every order of the samples and every choice of windows."""
    choices = np.array(list(itertools.product(*windows)))
    rankings = [ranking_of(np.array(order), labels) for order in itertools.permutations(range(len(labels)))]
    return max(delta + (choices @ coefficients).max() for delta, coefficients in rankings)


def drawn(seed, n_pos, n_neg, spread):
    """Return the highest and lowest scores of positives, then negatives, and the labels."""
    rng = np.random.default_rng(seed)
    ends = rng.normal(size=(2, n_pos + n_neg)) * spread
    return ends.max(axis=0), ends.min(axis=0), np.repeat([1.0, -1.0], [n_pos, n_neg])


def greedy(windows, labels, **options):
    return greedy_joint_ranking(np.max(windows, axis=1), np.min(windows, axis=1), labels, **options)


def test_the_printed_counter_example_is_not_solved_by_the_greedy_search():
    found = greedy(PAIRS_A1 * TABLE_A1, LABELS_A1)
    assert found.value == pytest.approx((7 - 4) + (7 - 1) + (7 - 4) + (7 - 1))
    assert found.loss == 0
    np.testing.assert_array_equal(found.ranks, [3, 3])


def test_the_printed_counter_example_has_a_better_ranking():
    best = best_value(PAIRS_A1 * TABLE_A1, LABELS_A1)
    assert best == pytest.approx((8 - 0) + (8 - 6) + (9 - 0) + (9 - 6) + 1 - (1 / 3 + 2 / 4) / 2)
    assert round(best, 2) == 22.58


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("n_pos", "n_neg"), [(1, 3), (2, 2), (3, 1), (2, 3)])
def test_the_greedy_search_never_finds_more_than_the_best_and_never_less_than_the_true_ranking(seed, n_pos, n_neg):
    high, low, labels = drawn(seed, n_pos, n_neg, spread=0.3)
    found = greedy_joint_ranking(high, low, labels)
    assert found.value <= best_value(np.stack([low, high], axis=1), labels) + 1e-12
    assert found.value >= high[:n_pos].mean() - low[n_pos:].mean() - 1e-12


def test_the_greedy_search_often_finds_the_best():
    close = []
    for seed in range(40):
        high, low, labels = drawn(seed, 2, 2, spread=0.3)
        best = best_value(np.stack([low, high], axis=1), labels)
        close.append(greedy_joint_ranking(high, low, labels).value >= best - 1e-12)
    assert np.mean(close) > 0.5


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n_pos", "n_neg", "spread"), [(1, 1, 1.0), (4, 7, 0.05), (4, 7, 1.0), (9, 5, 0.2)])
def test_with_one_window_per_sample_it_is_the_most_violated_ranking(seed, loss, n_pos, n_neg, spread):
    scores, _, labels = drawn(seed, n_pos, n_neg, spread)
    found, exact = greedy_joint_ranking(scores, scores, labels, loss), most_violated_ranking(scores, labels, loss)
    truth = scores[labels > 0].mean() - scores[labels < 0].mean()
    assert found.value - truth == pytest.approx(exact.violation, abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("n_pos", "n_neg"), [(1, 1), (3, 5), (6, 4)])
def test_the_value_is_that_of_its_ranking_and_windows(seed, n_pos, n_neg):
    rng = np.random.default_rng(seed)
    high, low, labels = drawn(seed, n_pos, n_neg, spread=0.1)
    order = rng.permutation(n_pos + n_neg)
    high, low, labels = high[order], low[order], labels[order]
    found = greedy_joint_ranking(high, low, labels)
    scores = np.where(found.coefficients > 0, high, low)
    assert found.value == pytest.approx(found.loss + found.coefficients @ scores, abs=1e-12)
    # a positive's coefficient tells how many negatives are above it; sorting both classes by place gives the order
    above = np.empty(n_pos + n_neg)
    above[labels > 0] = n_neg * (1 - n_pos * found.coefficients[labels > 0]) / 2
    expected = [(found.ranks <= k).sum() for k in range(1, n_pos + 1)]
    np.testing.assert_allclose(np.sort(above[labels > 0]), expected, atol=1e-9)
    np.testing.assert_allclose(found.coefficients[labels < 0], (n_pos + 2 - 2 * found.ranks) / (n_pos * n_neg))
    np.testing.assert_allclose(found.loss, ap_loss(np.arange(1, n_pos + 1) + np.array(expected)), atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_for_its_ranking_no_other_assignment_or_window_is_better(seed):
    n_pos, n_neg = 3, 4
    high, low, labels = drawn(seed, n_pos, n_neg, spread=0.1)
    found = greedy_joint_ranking(high, low, labels)
    best = found.loss
    for side in (slice(0, n_pos), slice(n_pos, None)):
        best += max(
            np.maximum(high[side] * places, low[side] * places).sum()
            for places in itertools.permutations(found.coefficients[side])
        )
    assert found.value == pytest.approx(best, abs=1e-12)


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 3)), min_size=2, max_size=9),
    st.integers(1, 8),
    st.sampled_from([0.01, 0.3, 1.0]),
)
def test_ties_and_any_order_of_the_samples_leave_the_value(ends, n_pos, scale):
    low = scale * np.array([first for first, _ in ends], dtype=float)
    high = low + scale * np.array([width for _, width in ends])
    labels = np.where(np.arange(len(ends)) < min(n_pos, len(ends) - 1), 1, -1)
    found = greedy_joint_ranking(high, low, labels)
    order = np.random.default_rng(len(ends)).permutation(len(ends))
    assert greedy_joint_ranking(high[order], low[order], labels[order]).value == pytest.approx(found.value, abs=1e-12)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("zero_one", "loss must be one of rankings, got 'zero_one', which decomposes"),
        ("map", "loss must be one of ap, ndcg, auc, mrr, pos_at_top, partial_auc, zero_one, or a RankLoss"),
    ],
)
def test_a_loss_of_no_ranking_is_refused(loss, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        greedy_joint_ranking(np.ones(2), np.zeros(2), np.array([1, -1]), loss)
