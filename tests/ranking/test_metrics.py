"""Metrics of a ranking: scikit-learn's where it has them, formulas elsewhere."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from lapsvm.errors import InputError, NotFiniteError, OneClassError, ShapeError
from lapsvm.ranking import (
    APLoss,
    AUCLoss,
    MRRLoss,
    NDCGLoss,
    PartialAUCLoss,
    PosAtTopLoss,
    average_precision,
    ndcg,
    positives_at_top,
    reciprocal_rank,
    roc_auc,
)

METRICS = [average_precision, ndcg, positives_at_top, reciprocal_rank, roc_auc]


def example(seed, decimals):
    rng = np.random.default_rng(seed)
    labels = rng.random(200) < 0.2
    return np.round(rng.standard_normal(200) + 0.5 * labels - 5, decimals), labels


@pytest.mark.parametrize("decimals", [0, 1, 15])
@pytest.mark.parametrize("seed", range(3))
def test_metrics_equal_scikit_learn_with_and_without_ties(seed, decimals):
    scores, labels = example(seed, decimals)
    assert average_precision(scores, labels) == pytest.approx(average_precision_score(labels, scores), rel=1e-12)
    assert roc_auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores), rel=1e-12)
    assert ndcg(scores, labels) == pytest.approx(ndcg_score([labels.astype(int)], [scores]), rel=1e-12)


@pytest.mark.parametrize(
    ("metric", "loss"),
    [
        (average_precision, APLoss()),
        (ndcg, NDCGLoss()),
        (roc_auc, AUCLoss()),
        (reciprocal_rank, MRRLoss()),
        (positives_at_top, PosAtTopLoss()),
    ],
)
def test_a_loss_is_one_minus_its_metric(metric, loss):
    for seed in range(5):
        scores, labels = example(seed, 15)
        negatives = scores[~labels]
        above = np.sort([np.count_nonzero(negatives > score) for score in scores[labels]])
        assert metric(scores, labels) == pytest.approx(1 - loss.value(above, len(negatives)), rel=1e-12)


@pytest.mark.parametrize("max_fpr", [0.013, 0.1, 0.5, 0.777, 1.0])
def test_the_partial_area_is_that_of_scikit_learn(max_fpr):
    """Without ties; scikit-learn moves the area of chance to 1/2."""
    scores, labels = example(0, 15)
    above = np.sort([np.count_nonzero(scores[~labels] > score) for score in scores[labels]])
    found = 1 - PartialAUCLoss(max_fpr).value(above, np.count_nonzero(~labels))
    chance = max_fpr / 2
    moved = roc_auc_score(labels, scores, max_fpr=max_fpr) if max_fpr < 1 else roc_auc_score(labels, scores)
    assert found == pytest.approx((2 * moved - 1) * (1 - chance) + chance, rel=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_only_the_order_of_the_scores_matters(metric):
    scores, labels = example(0, 1)
    shuffled = np.random.default_rng(0).permutation(len(scores))
    assert metric(scores + 7, labels) == pytest.approx(metric(scores, labels))
    assert metric(np.exp(scores), labels) == pytest.approx(metric(scores, labels))
    assert metric(scores[shuffled], labels[shuffled]) == pytest.approx(metric(scores, labels))


def test_ties_are_pessimistic_where_scikit_learn_has_no_metric():
    assert reciprocal_rank([1.0, 1.0, 1.0, 0.0], [1, 0, 0, 1]) == 1 / 3
    assert positives_at_top([2.0, 1.0, 1.0], [1, 1, 0]) == 1 / 2


def test_without_negatives_everything_is_at_the_top():
    for metric in (average_precision, ndcg, positives_at_top, reciprocal_rank):
        assert metric([-1.0, -2.0], [1, 1]) == 1
    with pytest.raises(OneClassError, match="labels must hold at least one negative, got 2 positives"):
        roc_auc([1.0, 2.0], [1, 1])


def test_ndcg_takes_the_losses_discounts():
    scores, labels = [4.0, 3.0, 2.0, 1.0], [0, 1, 0, 1]
    assert ndcg(scores, labels, "reciprocal") == pytest.approx((1 / 2 + 1 / 4) / (1 + 1 / 2))
    assert ndcg(scores, labels, "reciprocal", k=2) == pytest.approx((1 / 2 - 1 / 3) / (1 - 1 / 3 + 1 / 2 - 1 / 3))


@pytest.mark.parametrize("metric", METRICS)
def test_metrics_refuse_labels_that_are_not_binary(metric):
    for labels, first in (([1, 0.5, 0], "0.5"), ([3, 1, 0], "3"), (np.array([0, 255, 0], np.uint8), "255")):
        with pytest.raises(InputError, match=f"labels must be binary, 0 or 1, or -1 and 1, got {first}"):
            metric([0.1, 0.2, 0.3], labels)
    assert metric([0.1, 0.2, 0.3], [-1, 1, 0]) == metric([0.1, 0.2, 0.3], [False, True, False])


@pytest.mark.parametrize("metric", METRICS)
def test_metrics_refuse_bad_input_with_one_sentence(metric):
    with pytest.raises(NotFiniteError, match="scores must be finite, got nan at index 0"):
        metric([np.nan, 1.0], [0, 1])
    with pytest.raises(OneClassError, match="at least one positive"):
        metric([0.0, 1.0], [0, 0])
    with pytest.raises(ShapeError, match=r"labels must have shape \(2,\)"):
        metric([0.0, 1.0], [0, 0, 1])
    with pytest.raises(InputError, match="labels must be numbers or booleans"):
        metric([0.0, 1.0], ["a", "b"])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float64, np.float16])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_missing_label_is_no_negative(metric, dtype, value):
    with pytest.raises(NotFiniteError, match=f"labels must be finite, got {value} at index 1"):
        metric([2.0, 1.0, 0.0], np.array([1, value, 0], dtype=dtype))
