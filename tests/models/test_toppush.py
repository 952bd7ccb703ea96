"""TopPush: scikit-learn's contract, the certificate, an independent convex solver, dense and sparse samples."""

import re
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from lapsvm.errors import InputError
from lapsvm.models import TopPush
from lapsvm.models.toppush import _Rows
from lapsvm.optim import top_push

VALUES = {
    "squared_hinge": lambda z: np.maximum(0, 1 + z) ** 2,
    "logistic": lambda z: np.log1p(np.exp(z)),
    "exponential": np.exp,
}
LOSSES = sorted(VALUES)


def samples(seed=0, n=80, d=5, shift=2.0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 4 == 0, 1, 0)
    X = rng.normal(size=(n, d))
    X[y > 0, 0] += shift
    return X, y


def objective(w, X, y, lam, loss):
    scores = X @ w
    return lam / 2 * w @ w + np.mean(VALUES[loss](scores[y == 0].max() - scores[y == 1]))


def minimum(X, y, lam, loss):
    """The minimum over (w, t) with t >= every negative's score, by sequential quadratic programming."""
    near, far, d = X[y == 1], X[y == 0], X.shape[1]
    found = minimize(
        lambda v: lam / 2 * v[:d] @ v[:d] + np.mean(VALUES[loss](v[d] - near @ v[:d])),
        np.zeros(d + 1),
        constraints={
            "type": "ineq",
            "fun": lambda v: v[d] - far @ v[:d],
            "jac": lambda _: np.c_[-far, np.ones(len(far))],
        },
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return objective(found.x[:d], X, y, lam, loss)


# random labels: no direction beats w = 0, and the fit says so
@pytest.mark.filterwarnings("ignore:w = 0 is the minimum:UserWarning")
@parametrize_with_checks([TopPush(), TopPush(loss="logistic"), TopPush(0.1, loss="exponential")])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("lam", [0.01, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_objective_is_that_of_an_independent_convex_solver(loss, lam, seed):
    X, y = samples(seed, shift=4.0)
    model = TopPush(lam, tol=1e-7, loss=loss).fit(X, y)
    assert model.objective_ == pytest.approx(minimum(X, y, lam, loss), rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n", [80, 3000])
def test_the_objective_is_the_primal_at_the_weights_and_certified(loss, n):
    X, y = samples(n=n, shift=4.0)
    model = TopPush(0.1, loss=loss).fit(X, y)
    assert model.objective_ == pytest.approx(objective(model.coef_, X, y, 0.1, loss), rel=1e-12)
    assert model.duality_gap_ <= 1e-4
    dual = model.history_[-1]["dual"]
    assert model.duality_gap_ == pytest.approx((model.objective_ - dual) / model.objective_, abs=1e-12)
    for step in np.random.default_rng(0).normal(size=(20, 5)) * 0.1:
        assert objective(model.coef_ + step, X, y, 0.1, loss) >= dual


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_and_sparse_samples_give_the_same_model(loss, dtype):
    X, y = samples(shift=4.0)
    X = np.where(np.abs(X) > 0.5, X, 0).astype(dtype)
    dense = TopPush(0.1, tol=1e-7, loss=loss).fit(X, y)
    thin = TopPush(0.1, tol=1e-7, loss=loss).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(dense.coef_, thin.coef_, atol=2e-3)
    assert thin.objective_ == pytest.approx(dense.objective_, rel=1e-6)
    np.testing.assert_allclose(thin.decision_function(X), thin.decision_function(sparse.csr_matrix(X)), atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("lam", [0.01, 0.1, 10.0])
@pytest.mark.parametrize("thin", [False, True])
def test_newton_steps_and_first_order_steps_find_the_same_minimum(loss, lam, thin):
    X, y = samples(n=1200, d=12, shift=4.0)
    X = np.where(np.abs(X) > 0.5, X, 0)
    rows, labels = _Rows(sparse.csr_matrix(X) if thin else X), np.where(y > 0, 1.0, -1.0)
    newton, slow = (top_push(rows, labels, lam, 1e-7, loss, newton_dim=dim) for dim in (1000, 0))
    assert newton.objective == pytest.approx(objective(newton.w, X, y, lam, loss), rel=1e-12)
    assert newton.gap <= 1e-7
    assert slow.gap <= 1e-7
    assert newton.objective == pytest.approx(slow.objective, rel=2e-7)
    # each bound holds for the other's objective
    assert newton.dual <= slow.objective * (1 + 1e-12)
    assert slow.dual <= newton.objective * (1 + 1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_features_of_any_scale_give_the_minimum_of_the_scaled_problem(loss, scale):
    X, y = samples(n=400, shift=4.0)
    plain = TopPush(0.1, tol=1e-7, loss=loss).fit(X, y)
    model = TopPush(0.1 * scale**2, tol=1e-7, loss=loss).fit(X * scale, y)
    assert model.objective_ == pytest.approx(plain.objective_, rel=2e-7)


def test_samples_in_another_order_give_the_same_objective():
    X, y = samples(shift=4.0)
    order = np.random.default_rng(1).permutation(len(y))
    first, second = (TopPush(0.1, tol=1e-8).fit(*data) for data in ((X, y), (X[order], y[order])))
    assert second.objective_ == pytest.approx(first.objective_, rel=1e-7)


def test_features_and_lam_scale_together():
    X, y = samples(shift=4.0)
    one, other = TopPush(0.1, tol=1e-9).fit(X, y), TopPush(0.1 * 64, tol=1e-9).fit(8 * X, y)
    np.testing.assert_allclose(8 * other.coef_, one.coef_, atol=1e-3)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_where_no_direction_lifts_the_positives_the_dual_says_so(loss):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)), np.arange(500) % 10 == 0
    with pytest.warns(UserWarning, match="w = 0 is the minimum, so the ranking is not informative"):
        model = TopPush(1.0, loss=loss).fit(X, y)
    assert model.history_[-1]["dual"] == pytest.approx(VALUES[loss](0.0), rel=1e-9)
    # not a ranking by rounding
    np.testing.assert_array_equal(model.coef_, 0)
    assert model.objective_ == VALUES[loss](0.0)
    assert model.duality_gap_ <= 1e-4


def test_alike_samples_end_at_zero_with_a_warning():
    with pytest.warns(UserWarning, match="w = 0 is the minimum"):
        model = TopPush().fit(np.ones((6, 2)), [0, 0, 0, 1, 1, 1])
    np.testing.assert_allclose(model.coef_, np.zeros(2), atol=1e-12)


def test_too_few_passes_are_reported():
    X, y = samples(n=5000, d=30, shift=8.0)
    with pytest.warns(
        ConvergenceWarning, match=r"the duality gap is .* after 1 passes, above tol=1e-08; raise max_iter"
    ):
        model = TopPush(0.01, tol=1e-8, max_iter=1).fit(X, y)
    assert model.duality_gap_ > 1e-8


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"lam": 0}, "lam must be a finite number greater than 0, got 0."),
        ({"lam": -1}, "lam must be a finite number greater than 0, got -1."),
        ({"tol": np.nan}, "tol must be a finite number greater than 0, got nan."),
        ({"loss": "hinge"}, "loss must be one of exponential, logistic, squared_hinge, got 'hinge'."),
        ({"lam": "1"}, "lam must be a finite number greater than 0, got '1'."),
        ({"lam": None}, "lam must be a finite number greater than 0, got None."),
        ({"lam": True}, "lam must be a finite number greater than 0, got True."),
        ({"tol": "small"}, "tol must be a finite number greater than 0, got 'small'."),
        ({"loss": None}, "loss must be one of exponential, logistic, squared_hinge, got None."),
        ({"max_iter": 1.5}, "max_iter must be a whole number of 1 or more, got 1.5."),
        ({"max_iter": "1"}, "max_iter must be a whole number of 1 or more, got '1'."),
        ({"max_iter": True}, "max_iter must be a whole number of 1 or more, got True."),
        ({"max_iter": 0}, "max_iter must be a whole number of 1 or more, got 0."),
    ],
)
def test_a_setting_that_breaks_its_rule_is_named(settings, sentence):
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        TopPush(**settings).fit(*samples())


def test_labels_of_one_class_are_refused():
    with pytest.raises(InputError, match=r"^y must hold two classes, got one class: \[1\].$"):
        TopPush().fit(np.eye(3), [1, 1, 1])


def test_missing_values_are_refused():
    X, y = samples()
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        TopPush().fit(X, y)


@pytest.mark.parametrize("thin", [False, True])
def test_numbers_too_large_to_be_squared_are_refused(thin):
    X, y = samples()
    X[3, 1] = -1e160
    sentence = "the numbers of X must be within 1e+50 of 0, got 1e+160; scale the features."
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        TopPush().fit(sparse.csr_matrix(X) if thin else X, y)


@pytest.mark.parametrize("loss", LOSSES)
def test_one_positive_is_enough(loss):
    X = np.random.default_rng(0).normal(size=(50, 3))
    X[7] = [5, 5, 5]
    y = np.arange(50) == 7
    model = TopPush(0.01, loss=loss).fit(X, y)
    assert model.duality_gap_ <= 1e-4
    assert np.argmax(model.decision_function(X)) == 7


@pytest.mark.parametrize("loss", LOSSES)
def test_samples_that_occur_twice_change_nothing(loss):
    X, y = samples(shift=4.0)
    once, twice = (TopPush(0.1, tol=1e-7, loss=loss).fit(*data) for data in ((X, y), (np.r_[X, X], np.r_[y, y])))
    assert twice.objective_ == pytest.approx(once.objective_, rel=2e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_constant_feature_gets_no_weight(loss):
    X, y = samples(shift=4.0)
    plain = TopPush(0.1, tol=1e-8, loss=loss).fit(X, y)
    model = TopPush(0.1, tol=1e-8, loss=loss).fit(np.c_[X, np.full(len(X), 7.0)], y)
    assert model.objective_ == pytest.approx(plain.objective_, rel=2e-8)
    assert model.coef_[-1] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_odd_scales_at_the_default_lam_are_solved_or_said_to_be_empty(loss, scale):
    X, y = samples(shift=4.0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = TopPush(loss=loss).fit(X * scale, y)
    assert model.objective_ == pytest.approx(objective(model.coef_, X * scale, y, 1.0, loss), rel=1e-12)
    assert model.duality_gap_ <= 1e-4
    assert [str(warning.message)[:19] for warning in said] == (["w = 0 is the minimum"[:19]] if scale < 1 else [])
