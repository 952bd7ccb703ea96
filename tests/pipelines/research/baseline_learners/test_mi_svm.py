"""MI-SVM: a fixed point that no negative window breaks, the objective of all windows, sentences for bad input."""

import re

import numpy as np
import pytest
from baseline_learners.mi_svm import MISVM
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from lapsvm.bags import Bags
from lapsvm.errors import InputError

rng = np.random.default_rng(0)
Y = np.where(np.arange(30) % 3 == 0, 1, -1)
BAGS = rng.normal(size=(30, 60, 4))
BAGS[Y > 0, 7] += [3, 0, 0, 0]


def objective(weights, intercept, windows, C, J):
    """Return MI-SVM's objective by its formula, the positives at the windows that are given."""
    chosen = BAGS[Y > 0, windows] @ weights + intercept
    others = BAGS[Y < 0] @ weights + intercept
    losses = J * np.sum(np.maximum(0, 1 - chosen) ** 2) + np.sum(np.maximum(0, 1 + others) ** 2)
    return (weights @ weights + intercept**2) / 2 + C * losses


@pytest.mark.parametrize(("C", "J"), [(0.01, 1.0), (0.3, 4.0), (10.0, 1.0)])
def test_the_fixed_point_is_the_minimum_over_all_negative_windows(C, J):
    model = MISVM(C, J, scale=None).fit(BAGS, Y)
    windows = model.best_windows(BAGS)[Y > 0]
    whole = minimize(lambda w: objective(w[:-1], w[-1], windows, C, J), np.zeros(5), method="BFGS", tol=1e-8)
    assert objective(model.coef_, model.intercept_, windows, C, J) == pytest.approx(whole.fun, rel=1e-4)
    assert model.history_[-1]["changed"] == model.history_[-1]["added"] == 0
    assert model.n_iter_ == len(model.history_)


def test_the_working_set_is_a_part_of_the_negative_windows():
    model = MISVM(1.0, scale=None).fit(BAGS, Y)
    breaking = int((model.score_windows(Bags.from_arrays(list(BAGS[Y < 0]))) > -1 + 1e-3).sum())
    assert breaking <= model.history_[-1]["working_set"] < 20 * 60


def test_the_planted_window_is_found():
    planted = np.random.default_rng(1).normal(size=(30, 10, 4))
    planted[Y > 0, 7] += [5, 0, 0, 0]
    model = MISVM(1.0, 3.0).fit(planted, Y)
    assert (model.best_windows(planted)[Y > 0] == 7).all()
    assert model.score(planted, Y) == pytest.approx(1.0)


def test_another_unit_of_measurement_changes_nothing():
    one, other = MISVM().fit(BAGS, Y), MISVM().fit(BAGS * 1024, Y)
    np.testing.assert_allclose(other.coef_ * 1024, one.coef_, rtol=1e-6)
    assert other.intercept_ == pytest.approx(one.intercept_, rel=1e-6)


def test_label_0_leaves_an_image_out():
    out = np.arange(30) < 12
    left, cut = MISVM(scale=1.0).fit(BAGS, np.where(out, 0, Y)), MISVM(scale=1.0).fit(BAGS[~out], Y[~out])
    np.testing.assert_array_equal(left.coef_, cut.coef_)
    assert left.intercept_ == cut.intercept_


def test_an_excluded_window_is_never_chosen():
    excluded = np.zeros(30 * 60, dtype=bool)
    excluded[7::60] = True
    bags = Bags.from_arrays(list(BAGS)).excluding(excluded)
    assert 7 not in MISVM().fit(bags, Y).best_windows(bags)


def test_windows_that_are_not_at_rest_are_told():
    with pytest.warns(ConvergenceWarning, match="the windows still change after 1 rounds; raise max_iter"):
        model = MISVM(max_iter=1).fit(BAGS, Y)
    assert model.n_iter_ == 1


@pytest.mark.parametrize("max_iter", [2, 30])
def test_windows_that_alternate_end_the_rounds(monkeypatch, max_iter):
    """A solver that stops early can prefer one of two tied windows after training with the other, for ever."""
    monkeypatch.setattr(MISVM, "_solve", lambda _, positives, negatives: (-np.sign(positives[0]), 0.0))
    with pytest.warns(ConvergenceWarning, match="the windows repeat after 2 rounds; lower C"):
        model = MISVM(scale=None, max_iter=max_iter).fit([np.array([[1.0], [-1.0]]), np.array([[0.0]])], [1, -1])
    assert model.n_iter_ == 2
    assert [entry["changed"] for entry in model.history_] == [1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0}, "C must be a finite number greater than 0, got 0."),
        ({"J": "x"}, "J must be a finite number greater than 0, got 'x'."),
        ({"max_iter": 0}, "max_iter must be a whole number of 1 or more, got 0."),
        ({"scale": "x"}, "scale must be 'mean_norm', None or a number, got 'x'."),
    ],
)
def test_a_parameter_that_breaks_its_rule_is_named(options, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        MISVM(**options).fit(BAGS, Y)


@pytest.mark.parametrize(
    ("y", "message"),
    [(Y[:4], "y and bags must have the same length, got 4 and 30."), (np.ones(30), "y must hold two classes, got 1.")],
)
def test_labels_that_do_not_fit_are_refused(y, message):
    with pytest.raises(InputError, match=re.escape(message)):
        MISVM().fit(BAGS, y)
