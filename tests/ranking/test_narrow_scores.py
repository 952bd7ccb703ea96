"""The violation of float32 scores: that of the same scores in float64, without arrays in float64."""

import numpy as np
import pytest

from lapsvm.errors import InputError, NotFiniteError
from lapsvm.ranking import NDCGLoss, RankBiased, RankLoss, most_violated_ranking
from lapsvm.ranking.inference import violation_and_gradient
from lapsvm.ranking.losses import as_loss


class Users(RankLoss):
    """A user's own loss, that of average precision."""

    def derivative(self, j, i, n_pos, n_neg):
        return -i / (n_pos * (i + j - 1.0) * (i + j))


class Lying(Users):
    """A loss that says it is a Python object, and has no function."""

    def kernel(self, n_pos, n_neg):
        return super().kernel(n_pos, n_neg)._replace(gains=None)


LOSSES = ["ap", "ndcg", "auc", "mrr", "pos_at_top", NDCGLoss(RankBiased(0.7)), Users()]
SIZES = [(1, 1), (3, 70), (40, 300), (30, 12_000), (300, 200)]


def drawn(rng, n_pos, n_neg):
    labels = rng.permutation(np.r_[np.ones(n_pos), np.zeros(n_neg)]) > 0
    scores = rng.choice([0.01, 1.0, 30.0]) * (rng.standard_normal(n_pos + n_neg) + rng.choice([0, 0.5, 9]) * labels)
    return (np.round(scores, 1) if rng.random() < 0.4 else scores).astype(np.float32), labels


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_bits_are_those_of_scores_in_float64(loss):
    rng = np.random.default_rng(0)
    for sizes in SIZES:
        for scale in (1.0, 0.3, 70.0):
            scores, labels = drawn(rng, *sizes)
            expected = most_violated_ranking(scale * scores.astype(np.float64), labels, loss)
            value, gradient = violation_and_gradient(scores, labels.nonzero()[0], as_loss(loss), scale)
            assert value == expected.violation
            assert gradient.dtype == np.float32
            np.testing.assert_array_equal(gradient, (-scale * expected.coefficients).astype(np.float32))


def test_scores_that_are_not_finite_are_refused():
    labels, loss = np.array([0]), as_loss("ap")
    for bad, said in ((np.nan, "finite, got nan at index 2"), (-np.inf, "finite, got -inf at index 2")):
        scores = np.array([0, 1, bad, 3], dtype=np.float32)
        with pytest.raises(NotFiniteError, match=f"scores must be {said}"):
            violation_and_gradient(scores, labels, loss, 1.0)
    with pytest.raises(NotFiniteError, match=r"scores must be at most 1e\+290 in magnitude"):
        violation_and_gradient(np.array([0, 1e30], dtype=np.float32), labels, loss, 1e270)


def test_a_kind_of_loss_without_its_function_is_refused():
    with pytest.raises(InputError, match="kind of a loss must be 0 to 6, got 7"):
        violation_and_gradient(np.array([0, 1], dtype=np.float32), np.array([0]), Lying(), 1.0)
