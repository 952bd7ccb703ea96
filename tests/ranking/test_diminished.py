"""The predicted ranking and loss-diminished inference: kernel and twin against all interleavings, ties, user losses."""

import re

import numpy as np
import pytest

from lapsvm.errors import InputError, NotFiniteError, OneClassError, OptionError, ShapeError
from lapsvm.ranking import (
    NDCGLoss,
    PartialAUCLoss,
    RankBiased,
    RankLoss,
    average_precision,
    loss_diminished_ranking,
    most_violated_ranking,
    predicted_ranking,
    reference,
)
from lapsvm.ranking.losses import as_loss
from lapsvm.ranking.predicted import subtract_predicted

NAMES = ["ap", "ndcg", "auc", "mrr", "pos_at_top"]
METHODS = ["auto", "reference"]


class Users(RankLoss):
    """A user's own loss, that of average precision."""

    def derivative(self, j, i, n_pos, n_neg):
        return -i / (n_pos * (i + j - 1.0) * (i + j))


class Rewarding(RankLoss):
    """A loss that falls when some pairs are swapped."""

    def derivative(self, j, i, n_pos, n_neg):
        return np.where(i <= 2, 0.1, -0.2) + 0 * j


class Drawn(RankLoss):
    """Any derivatives at all (N, P): Delta may fall below 0, and condition C2 need not hold."""

    def __init__(self, rng, n_neg, n_pos):
        self.matrix = rng.integers(-3, 2, (n_neg, n_pos)) / 4

    def derivative(self, j, i, n_pos, n_neg):
        return self.matrix[j - 1, i - 1]


# a share that makes ties rare: rounding may break them differently in kernel and twin
LOSSES = [*NAMES, NDCGLoss(RankBiased(0.7)), NDCGLoss("reciprocal", k=3), PartialAUCLoss(0.37), Users(), Rewarding()]


def drawn(rng, most=5):
    """Small problems with ties in many of them, near the scale at which the loss matters."""
    n_pos, n_neg = rng.integers(1, most, 2)
    labels = rng.permutation(np.r_[np.ones(n_pos), np.zeros(n_neg)])
    scores = rng.standard_normal(n_pos + n_neg) * rng.choice([0.1, 0.5, 2.0, 8.0])
    return (np.round(scores * 2) / 2 if rng.random() < 0.4 else scores), labels


def objectives(scores, labels, loss, sign):
    """F(R) - F(R*) + sign Delta(R) of every interleaving, by sums over pairs."""
    positives, negatives = -np.sort(-scores[labels > 0]), -np.sort(-scores[labels <= 0])
    n_pos, n_neg = len(positives), len(negatives)
    for ranks in reference.all_rankings(n_pos, n_neg):
        swapped = sum(negatives[j] - positives[i] for j, rank in enumerate(ranks) for i in range(rank - 1, n_pos))
        delta = loss.value(reference.negatives_above(ranks, n_pos), n_neg)
        yield 2.0 * swapped / (n_pos * n_neg) + sign * delta


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_no_interleaving_is_better(loss, method):
    rng = np.random.default_rng(0)
    for _ in range(60):
        scores, labels = drawn(rng)
        found = loss_diminished_ranking(scores, labels, loss, method)
        best = max(objectives(scores, labels, as_loss(loss), -1))
        assert found.advantage - found.loss == pytest.approx(best, abs=1e-12)
        predicted = predicted_ranking(scores, labels, loss, method)
        assert predicted.advantage == pytest.approx(max(objectives(scores, labels, as_loss(loss), 0)), abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_kernel_and_twin_agree(loss):
    rng = np.random.default_rng(1)
    for most in (4, 30):
        for _ in range(15):
            scores, labels = drawn(rng, most)
            for function in (predicted_ranking, loss_diminished_ranking):
                kernel, twin = (function(scores, labels, loss, method) for method in METHODS)
                np.testing.assert_array_equal(kernel.ranks, twin.ranks)
                np.testing.assert_allclose(kernel.coefficients, twin.coefficients, rtol=1e-12, atol=1e-15)
                assert kernel.loss == pytest.approx(twin.loss, rel=1e-12, abs=1e-15)


def test_a_loss_without_c2_is_solved_exactly_too():
    """The programme compares all interleavings, so it needs no condition on the derivatives."""
    rng = np.random.default_rng(6)
    for _ in range(300):
        scores, labels = drawn(rng)
        loss = Drawn(rng, np.count_nonzero(labels == 0), np.count_nonzero(labels))
        kernel, twin = (loss_diminished_ranking(scores, labels, loss, method) for method in METHODS)
        np.testing.assert_array_equal(kernel.ranks, twin.ranks)
        assert kernel.loss == twin.loss
        best = max(objectives(scores, labels, loss, -1))
        assert kernel.advantage - kernel.loss == pytest.approx(best, abs=1e-12)


SPREADS = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "narrow": lambda rng, n: 0.01 * rng.standard_normal(n),
    "wide": lambda rng, n: 50 * rng.standard_normal(n),
    "rounded": lambda rng, n: np.round(rng.standard_normal(n), 1),
    "clusters": lambda rng, n: rng.integers(0, 4, n) + 0.001 * rng.standard_normal(n),
    "steps": lambda rng, n: rng.choice([0.0, 0.5, 20.0], n),
    "heavy tails": lambda rng, n: rng.standard_cauchy(n) ** 3,
    "far from 0": lambda rng, n: 1e6 + rng.standard_normal(n),
    "one far positive": lambda rng, n: np.r_[-1e12, rng.standard_normal(n - 1)],
    "many magnitudes": lambda rng, n: rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-12, 12, n),
}


@pytest.mark.parametrize("spread", SPREADS)
def test_the_bands_of_ap_hold_the_best_ranking(spread):
    """A user's loss is solved by dynamic programming over all pairs; sizes at which both bands and intervals divide."""
    rng = np.random.default_rng(4)
    for n_pos, n_neg in ((1, 400), (2, 3), (7, 60), (30, 30), (25, 700), (200, 40), (60, 1000)):
        for shift in (0.0, 4.0, None):
            labels = np.r_[1, rng.permutation(np.r_[np.ones(n_pos - 1), np.zeros(n_neg)])]
            scores = SPREADS[spread](rng, n_pos + n_neg) + (shift or 0) * labels
            if shift is None:  # equal positives want the more negatives above them, the higher they stand: wide bands
                scores[labels > 0] = np.quantile(scores, 0.3)
            found, all_pairs = (loss_diminished_ranking(scores, labels, loss) for loss in ("ap", Users()))
            best, other = (one.advantage - one.loss for one in (found, all_pairs))
            assert best == pytest.approx(other, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("loss", [*NAMES, NDCGLoss(RankBiased(0.99)), "zero_one"], ids=repr)
def test_the_bounds_stand_in_order(loss):
    """Diminished <= Delta of the prediction <= augmented, on sizes at which the kernel divides and conquers."""
    rng = np.random.default_rng(2)
    for n_pos, n_neg, spread in ((1, 1, 1), (3, 200, 1), (40, 300, 3), (200, 30, 0.2), (60, 2000, 30)):
        labels = rng.permutation(np.r_[np.ones(n_pos), np.zeros(n_neg)])
        scores = spread * (rng.standard_normal(n_pos + n_neg) + labels)
        predicted = predicted_ranking(scores, labels, loss)
        low = loss_diminished_ranking(scores, labels, loss)
        high = most_violated_ranking(scores, labels, loss)
        down = predicted.advantage - (low.advantage - low.loss)
        up = high.violation - predicted.advantage
        assert down <= predicted.loss + 1e-12
        assert predicted.loss <= up + 1e-12
        assert low.loss <= predicted.loss + 1e-12
        assert predicted.loss <= high.loss + 1e-12
        for found in (predicted, low):
            assert found.advantage == pytest.approx(-found.coefficients @ scores, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_predicted_coefficients_are_subtracted_in_place(loss):
    rng = np.random.default_rng(5)
    for most in (4, 60):
        for _ in range(10):
            scores, labels = drawn(rng, most)
            coefficients = rng.standard_normal(len(scores))
            expected = predicted_ranking(scores, labels, loss)
            difference = coefficients - expected.coefficients
            assert subtract_predicted(scores, labels.nonzero()[0], as_loss(loss), coefficients) == expected.loss
            np.testing.assert_array_equal(coefficients, difference)


def test_equal_scores_keep_their_input_order():
    scores, labels = np.zeros(4), np.array([0, 1, 0, 1])
    for method in METHODS:
        assert predicted_ranking(scores, labels, method=method).ranks.tolist() == [1, 2]
    assert predicted_ranking(scores, labels[::-1]).ranks.tolist() == [2, 3]


def test_the_loss_is_that_of_the_metric():
    rng = np.random.default_rng(3)
    scores, labels = rng.standard_normal(500), rng.random(500) < 0.2
    assert 1 - predicted_ranking(scores, labels).loss == pytest.approx(average_precision(scores, labels), rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_labellings_of_the_zero_one_loss(method):
    scores, labels = np.array([2.0, -0.5, 0.5, -3.0, 1.5]), np.array([1, 1, 0, 0, 0])
    predicted = predicted_ranking(scores, labels, "zero_one", method)
    assert predicted.loss == pytest.approx(3 / 5)
    assert predicted.ranks.tolist() == [1, 3, 1]
    assert predicted.advantage == pytest.approx(2.5 / 5)
    low = loss_diminished_ranking(scores, labels, "zero_one", method)
    assert low.loss == pytest.approx(1 / 5)
    assert low.coefficients.tolist() == [0, 0, 0, 0, -1 / 5]
    assert low.advantage == pytest.approx(1.5 / 5)


def test_bad_input_is_refused():
    for function in (predicted_ranking, loss_diminished_ranking):
        with pytest.raises(NotFiniteError, match="scores must be finite, got nan at index 1"):
            function([0.0, np.nan, 1.0], [1, 0, 0])
        with pytest.raises(NotFiniteError, match=re.escape("scores must be at most 1e+290 in magnitude")):
            function([0.0, 1e300, 1.0], [0, 0, 1])
        with pytest.raises(OneClassError, match="labels must hold at least one positive"):
            function([0.0, 1.0], [0, 0])
        with pytest.raises(OptionError, match="method must be one of auto, reference, got 'search'"):
            function([0.0, 1.0], [0, 1], method="search")


def test_subtraction_refuses_bad_input():
    with pytest.raises(NotFiniteError, match="scores must be finite, got nan at index 1"):
        subtract_predicted(np.array([0.0, np.nan, 1.0]), np.array([0]), as_loss("ap"), np.zeros(3))
    with pytest.raises(NotFiniteError, match="scores must be finite, got inf at index 0"):
        subtract_predicted(np.array([np.inf, 0.0, 1.0]), np.array([0]), as_loss("ap"), np.zeros(3))
    with pytest.raises(ShapeError, match="coefficients must be as many as scores, 3, got 2"):
        subtract_predicted(np.zeros(3), np.array([0]), as_loss("ap"), np.zeros(2))


def test_a_users_loss_that_is_not_finite_is_refused():
    class Wrong(RankLoss):
        def derivative(self, j, i, n_pos, n_neg):
            return np.nan

    for method in METHODS:
        with pytest.raises(InputError, match=r"derivative of Wrong\(\) must be finite, got another value at j = 1"):
            loss_diminished_ranking([0.0, 1.0], [1, 0], Wrong(), method)
