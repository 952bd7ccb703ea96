"""RankSVM: scikit-learn's contract, certificates, dense and sparse samples, queries."""

import re

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from lapsvm.errors import InputError
from lapsvm.models import RankSVM
from lapsvm.ranking import most_violated_ranking

LOSSES = ("ap", "ndcg", "auc", "mrr", "pos_at_top", "zero_one")


def samples(seed=0, n=120, d=7, shift=1.0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 4 == 0, 1, 0)
    X = rng.normal(size=(n, d))
    X[y > 0, 0] += shift
    return X, y


@parametrize_with_checks([RankSVM(), RankSVM("zero_one", fit_intercept=True)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("C", [0.1, 30.0])
def test_the_objective_is_the_primal_at_the_weights_and_certified(loss, C):
    X, y = samples()
    model = RankSVM(loss, C=C, tol=1e-5).fit(X, y)
    risk = most_violated_ranking(X @ model.coef_, y, loss=loss).violation
    assert model.objective_ == pytest.approx(model.coef_ @ model.coef_ / 2 + C * risk, rel=1e-9)
    assert model.duality_gap_ <= 1e-5
    assert model.duality_gap_ == pytest.approx(
        (model.objective_ - model.history_[0]["dual"]) / model.objective_, abs=1e-12
    )
    for step in np.random.default_rng(0).normal(size=(20, 7)) * 0.1:
        w = model.coef_ + step
        elsewhere = w @ w / 2 + C * most_violated_ranking(X @ w, y, loss=loss).violation
        assert elsewhere >= model.objective_ * (1 - 1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_and_sparse_samples_give_the_same_model(dtype):
    X, y = samples()
    X = np.where(np.abs(X) > 0.5, X, 0).astype(dtype)
    dense, thin = RankSVM(C=5.0).fit(X, y), RankSVM(C=5.0).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.coef_, dense.coef_, atol=1e-9)
    np.testing.assert_allclose(thin.decision_function(sparse.csr_matrix(X)), dense.decision_function(X), atol=1e-9)


def test_float32_is_summed_in_float64():
    X, y = samples()
    narrow = RankSVM(C=5.0, tol=1e-8).fit(X.astype(np.float32), y)
    wide = RankSVM(C=5.0, tol=1e-8).fit(X.astype(np.float32).astype(np.float64), y)
    assert narrow.objective_ == pytest.approx(wide.objective_, rel=1e-12)


def test_the_larger_class_is_positive_and_predict_is_decision_above_0():
    X, y = samples(shift=5.0)
    model = RankSVM(C=10.0).fit(X, np.where(y > 0, "with", "out"))
    assert list(model.classes_) == ["out", "with"]
    np.testing.assert_array_equal(model.predict(X) == "with", model.decision_function(X) > 0)
    assert model.score(X, np.where(y > 0, "with", "out")) > 0.95


def test_queries_are_ranked_each_for_itself():
    X, y = samples(shift=2.0)
    groups = np.arange(120) % 3
    X[:, 1] = 100.0 * groups  # says which query, not what is relevant
    model = RankSVM(C=10.0, tol=1e-5).fit(X, y, groups=groups)
    risk = np.mean([most_violated_ranking(X[groups == g] @ model.coef_, y[groups == g]).violation for g in range(3)])
    assert model.objective_ == pytest.approx(model.coef_ @ model.coef_ / 2 + 10.0 * risk, rel=1e-9)
    assert abs(model.coef_[1]) < 1e-9


def test_a_query_without_both_classes_counts_nothing():
    X, y = samples()
    groups = np.where(y > 0, 0, np.arange(120) % 2)  # query 1 has negatives only
    both = groups == 0
    alone = RankSVM(C=5.0, tol=1e-8).fit(X[both], y[both])
    model = RankSVM(C=10.0, tol=1e-8).fit(X, y, groups=groups)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-4)


def test_a_learned_intercept_is_for_the_zero_one_loss_alone():
    X, y = samples()
    model = RankSVM("zero_one", C=50.0, tol=1e-6, fit_intercept=True).fit(X, y)
    risk = most_violated_ranking(model.decision_function(X), y, loss="zero_one").violation
    norm = model.coef_ @ model.coef_ + model.intercept_**2
    assert model.objective_ == pytest.approx(norm / 2 + 50.0 * risk, rel=1e-9)
    with pytest.raises(InputError, match="fit_intercept must be False for the loss 'ap'"):
        RankSVM("ap", fit_intercept=True).fit(X, y)


@pytest.mark.parametrize("J", [0.5, 4.0])
def test_positives_weigh_J_times_as_in_linear_svc(J):
    X, y = samples()
    model = RankSVM("zero_one", C=60.0, J=J, tol=1e-8, fit_intercept=True).fit(X, y)
    peer = LinearSVC(loss="hinge", C=60.0 / 120, class_weight={1: J}, tol=1e-10, max_iter=10**6).fit(X, y)
    w, b = peer.coef_[0], peer.intercept_[0]
    hinges = np.maximum(0, 1 - np.where(y > 0, 1, -1) * (X @ w + b)) * np.where(y > 0, J, 1.0)
    assert model.objective_ == pytest.approx((w @ w + b**2) / 2 + 60.0 * hinges.mean(), rel=1e-6)
    np.testing.assert_allclose(model.coef_, w, atol=1e-3)


def test_a_J_of_one_is_the_loss_itself():
    X, y = samples()
    one, other = (RankSVM("zero_one", C=9.0, J=J, tol=1e-6).fit(X, y) for J in (1.0, 1.0 + 1e-12))
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-5)


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({}, np.zeros(120), "y must hold two classes, got one class"),
        ({}, np.arange(120) % 3, "Only binary classification is supported"),
        ({"C": 0}, None, "C must be a finite number greater than 0, got 0."),
        ({"tol": np.inf}, None, "tol must be a finite number greater than 0, got inf."),
        ({"C": "1"}, None, "C must be a finite number greater than 0, got '1'."),
        ({"C": None}, None, "C must be a finite number greater than 0, got None."),
        ({"max_calls": 1.5}, None, "max_calls must be a whole number of 1 or more, got 1.5."),
        ({"max_calls": 0}, None, "max_calls must be a whole number of 1 or more, got 0."),
        ({"max_calls": "9"}, None, "max_calls must be a whole number of 1 or more, got '9'."),
        ({"fit_intercept": "yes"}, None, "fit_intercept must be True or False, got 'yes'."),
        ({"J": 0, "loss": "zero_one"}, None, "J must be a finite number greater than 0, got 0."),
        ({"J": 2.0}, None, "J must be 1 for the loss 'ap', which has no class weights, got 2.0."),
        ({"loss": "mean"}, None, "loss must be one of ap, ndcg, auc, mrr, pos_at_top, partial_auc, zero_one"),
    ],
)
def test_bad_input_is_one_clear_sentence(options, y, message):
    X, good = samples()
    with pytest.raises(ValueError, match=re.escape(message)):
        RankSVM(**options).fit(X, good if y is None else y)


def test_groups_must_fit_the_samples():
    X, y = samples()
    with pytest.raises(ValueError, match=r"groups must have one entry per sample, got shape \(3,\) for 120"):
        RankSVM().fit(X, y, groups=[0, 1, 2])
    for groups in (np.where(y > 0, 0, np.nan), np.where(y > 0, 0, np.nan).astype(object)):
        with pytest.raises(ValueError, match="groups must name a query for every sample, got a missing value"):
            RankSVM().fit(X, y, groups=groups)


@pytest.mark.parametrize("missing", [np.nan, None])
def test_a_sample_of_no_group_is_refused(missing):
    X, y = samples()
    with pytest.raises(InputError, match=r"^groups must name a query for every sample, got a missing value\.$"):
        RankSVM().fit(X, y, groups=[missing, *[1] * 119])


def test_numbers_too_large_to_be_squared_are_refused():
    X, y = samples()
    X[3, 1] = 1e160
    with pytest.raises(InputError, match=r"^the numbers of X must be within 1e\+50 of 0, got 1e\+160; scale"):
        RankSVM().fit(X, y)


def test_one_positive_is_enough():
    X, y = samples()
    y = np.arange(len(y)) == 7
    X[7] = 5
    model = RankSVM("ap", C=1000).fit(X, y)
    assert model.duality_gap_ <= 1e-3
    assert np.argmax(model.decision_function(X)) == 7


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_features_and_c_scale_together(scale):
    X, y = samples()
    plain = RankSVM("ap", C=10, tol=1e-6).fit(X, y)
    model = RankSVM("ap", C=10 / scale**2, tol=1e-6).fit(X * scale, y)
    assert model.objective_ * scale**2 == pytest.approx(plain.objective_, rel=2e-6)


def test_alike_samples_end_at_zero_and_a_constant_feature_gets_no_weight():
    X, y = samples()
    np.testing.assert_allclose(RankSVM().fit(np.ones_like(X), y).coef_, 0, atol=1e-12)
    assert RankSVM().fit(np.c_[X, np.full(len(X), 7.0)], y).coef_[-1] == pytest.approx(0, abs=1e-9)
