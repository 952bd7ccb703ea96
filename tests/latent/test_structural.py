"""CCCP for the latent structural SVM: bounds by brute force, what is known exactly, and what must be refused."""

import itertools
import re
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize

from lapsvm.errors import InputError, OptionError
from lapsvm.latent import HingeRisk, LatentProblem, RankRisk, StructuralProblem, fit_many
from lapsvm.latent.cccp.structural import TRUTHS
from lapsvm.ranking import average_precision

from ..twins import planted as bags_with_a_window

planted = partial(bags_with_a_window.planted, n_bags=24, size=5, dim=4, shift=4.0)


def rankings(labels):
    """Yield Delta of the AP loss and the coefficients of F, from the definition, for every order of the samples."""
    positives, negatives = np.flatnonzero(labels > 0), np.flatnonzero(labels < 0)
    for order in itertools.permutations(range(len(labels))):
        place = np.argsort(order)
        signs = np.where(place[positives][:, None] < place[negatives], 1, -1) / (len(positives) * len(negatives))
        coefficients = np.empty(len(labels))
        coefficients[positives], coefficients[negatives] = signs.sum(axis=1), -signs.sum(axis=0)
        places = np.sort(place[positives]) + 1
        yield 1 - np.mean(np.arange(1, len(places) + 1) / places), coefficients


def true_risk(w, bags, labels, truth):
    """Return max over R, H of Delta + F(R, H) - F(R*, H*) with the positives, and what is imputed, chosen for w."""
    high, low = (np.array([f(bag @ w) for bag in bags]) for f in (np.max, np.min))
    worst = max(d + np.maximum(c * high, c * low).sum() for d, c in rankings(labels))
    below = high if truth == "any" else low
    return worst - high[labels > 0].mean() + below[labels < 0].mean()


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("C", [0.5, 20.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_dual_is_below_and_the_objective_not_above_the_true_objective(truth, C, seed):
    rng = np.random.default_rng(seed)
    bags, y = [rng.normal(size=(2, 3)) for _ in range(5)], np.array([1, -1, 1, -1, -1])
    found = fit_many([StructuralProblem(y, C=C, truth=truth, tol=1e-6)], bags)[0]
    objective = found.coef @ found.coef / 2 + C * true_risk(found.coef, bags, y, truth)
    assert found.gap <= 1e-6
    assert found.history[-1]["changed"] == 0  # so the imputed windows are those that the true risk chooses
    assert found.dual <= found.objective * (1 + 1e-9)
    assert found.objective <= objective * (1 + 1e-9)


def test_with_the_windows_of_the_truth_fixed_the_dual_is_a_lower_bound_of_the_minimum():
    # one window in each positive bag, so that A.1 has nothing to impute and is convex: all its constraints are listed
    rng = np.random.default_rng(4)
    bags = [rng.normal(size=(1 if i < 2 else 2, 2)) + (i < 2) for i in range(4)]
    y, C = np.array([1, 1, -1, -1]), 2.0
    planes = []
    for delta, coefficients in rankings(y):
        for windows in itertools.product(*(range(len(bag)) for bag in bags)):
            for below in itertools.product(range(2), range(2)):
                phi = np.array([bag[h] for bag, h in zip(bags, windows, strict=True)])
                truth = (bags[0][0] + bags[1][0]) / 2 - (bags[2][below[0]] + bags[3][below[1]]) / 2
                planes.append((*(coefficients @ phi - truth), delta))
    planes = np.unique(np.round(planes, 12), axis=0)
    best = minimize(
        lambda z: z[:2] @ z[:2] / 2 + C * z[2],
        np.array([0, 0, 1.0]),
        jac=lambda z: np.append(z[:2], C),
        constraints={
            "type": "ineq",
            "fun": lambda z: z[2] - planes[:, :2] @ z[:2] - planes[:, 2],
            "jac": lambda z: np.hstack([-planes[:, :2], np.ones((len(planes), 1))]),
        },
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    found = fit_many([StructuralProblem(y, C=C, truth="any", tol=1e-8)], bags)[0]
    assert found.dual <= best.fun * (1 + 1e-7)
    true_objective = found.coef @ found.coef / 2 + C * true_risk(found.coef, bags, y, "any")
    assert best.fun <= true_objective * (1 + 1e-7)


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("loss", ["ap", "ndcg", "auc"])
def test_with_one_window_per_image_it_is_the_rank_svm(truth, loss):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(16, 3)), np.where(np.arange(16) < 5, 1, -1)
    X[y > 0, 0] += 1
    options = {"risk": RankRisk(loss), "C": 3.0, "tol": 1e-7}
    found, exact = fit_many([StructuralProblem(y, truth=truth, **options), LatentProblem(y, **options)], X[:, None, :])
    assert found.objective == pytest.approx(exact.objective, rel=1e-6)
    np.testing.assert_allclose(found.coef, exact.coef, atol=1e-3)


def test_constraints_for_all_windows_of_the_truth_cost_at_least_as_much_as_those_of_latent_ap_svm():
    # the thesis's proposition 1 holds for A.1: with the same weights its risk is never lower
    rng = np.random.default_rng(5)
    bags, y = [rng.normal(size=(3, 2)) for _ in range(5)], np.array([1, 1, -1, -1, -1])
    lower = []
    for w in rng.normal(size=(20, 2)):
        high = np.array([(bag @ w).max() for bag in bags])
        violation = RankRisk("ap").violation(high, y)
        latent_ap = violation.offset - violation.coefficients @ high
        assert true_risk(w, bags, y, "any") >= latent_ap - 1e-12
        lower.append(true_risk(w, bags, y, "imputed") < latent_ap - 0.01)
    assert any(lower)  # for problem 2.9 it does not hold


def test_the_spread_of_negatives_windows_makes_zero_the_best_where_it_exceeds_the_signal():
    bags, y, _ = planted(shift=1.0, size=8)
    anyone, imputed = fit_many([StructuralProblem(y, C=10.0, truth=truth) for truth in ("any", "imputed")], bags)
    assert not anyone.coef.any()
    assert anyone.objective == pytest.approx(10.0 * (1 - np.mean(np.arange(1, 9) / np.arange(17, 25))))
    assert imputed.coef.any()


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("init", ["mean", "whole_image", "random"])
def test_training_ends_with_every_known_constraint_kept(truth, init):
    bags, y, _ = planted()
    found = fit_many([StructuralProblem(y, C=5.0, truth=truth, init=init)], bags)[0]
    assert found.converged
    assert found.gap == pytest.approx(max(0.0, found.objective - found.dual) / found.objective)
    assert found.history[-1]["gap"] == found.gap <= 1e-3
    assert found.n_calls >= sum(record["calls"] for record in found.history)


def test_planted_windows_are_found():
    bags, y, places = planted(shift=8.0)
    found = fit_many([StructuralProblem(y, C=10.0)], bags)[0]
    np.testing.assert_array_equal(found.windows[y > 0], places[y > 0])
    assert average_precision([(bag @ found.coef).max() for bag in bags], y) == 1.0


def test_given_windows_and_weights_begin():
    bags, y, places = planted(shift=8.0)
    for init in (places, np.array([1.0, 0, 0, 0])):
        found = fit_many([StructuralProblem(y, C=10.0, init=init)], bags)[0]
        np.testing.assert_array_equal(found.windows[y > 0], places[y > 0])


def test_side_by_side_with_other_problems_it_is_the_same():
    bags, y, _ = planted()
    fold = np.where(np.arange(24) < 6, 0, y)
    problems = [StructuralProblem(labels, C=C) for labels in (y, fold) for C in (0.3, 3.0)]
    together = fit_many([*problems, LatentProblem(y)], bags)
    for problem, found in zip(problems, together, strict=False):
        alone = fit_many([problem], bags)[0]
        np.testing.assert_allclose(found.coef, alone.coef, atol=1e-9)
        assert found.history == alone.history


def test_an_image_with_label_0_is_left_out():
    bags, y, _ = planted()
    fold = np.where(np.arange(24) % 4 == 0, 0, y)
    kept = np.flatnonzero(fold)
    found = fit_many([StructuralProblem(fold, C=3.0)], bags)[0]
    alone = fit_many([StructuralProblem(y[kept], C=3.0)], [bags[i] for i in kept])[0]
    np.testing.assert_allclose(found.coef, alone.coef, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"truth": "all"}, OptionError, "truth must be one of any, imputed, got 'all'."),
        ({"risk": HingeRisk()}, OptionError, "risk must be that of a rank loss, got HingeRisk(J=1.0)."),
        ({"risk": RankRisk("zero_one")}, OptionError, "loss must be one of rankings, got 'zero_one'"),
        (
            {"fit_intercept": True},
            OptionError,
            "fit_intercept must be False, since a ranking does not depend on an intercept",
        ),
        ({"top": 3}, OptionError, "top must be 1, since every ranking chooses one window per image, got 3."),
        ({"C": 0}, InputError, "C must be a finite number greater than 0, got 0."),
    ],
)
def test_problems_that_are_none_are_refused(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        StructuralProblem(np.array([1, -1]), **options)
