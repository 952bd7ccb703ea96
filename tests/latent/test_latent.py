"""CCCP over latent windows: certificates by brute force, falling objectives, many problems side by side."""

import itertools
import re
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from lapsvm.bags import Bags
from lapsvm.errors import CertificateError, InputError, OneClassError, OptionError, ShapeError
from lapsvm.latent import HingeRisk, LatentProblem, RankRisk, fit_many
from lapsvm.latent.cccp.imputation import top_counts, top_windows
from lapsvm.latent.cccp.problem import Violation
from lapsvm.ranking import average_precision

from ..twins import planted as bags_with_a_window

LOSSES = ("ap", "ndcg", "auc", "mrr", "pos_at_top")
planted = partial(bags_with_a_window.planted, first=1)


def true_risk(loss, scores, labels):
    """Return max over all rankings of Delta + F(R) - F(R*), one ranking after the other."""
    positives, negatives = np.flatnonzero(labels > 0), np.flatnonzero(labels < 0)
    return max(value for value, _ in rankings(loss, scores, positives, negatives))


def rankings(loss, scores, positives, negatives):
    """Yield Delta + F(R) - F(R*), and Psi(R*) - Psi(R) as coefficients, for every ranking."""
    n = len(positives) * len(negatives)
    for order in itertools.permutations(range(len(scores))):
        place = np.argsort(order)
        coefficients = np.zeros(len(scores))
        for i in positives:
            for j in negatives:
                if place[i] > place[j]:
                    coefficients[i] += 2 / n
                    coefficients[j] -= 2 / n
        labels = np.isin(order, positives)
        yield loss_of(loss, labels) - coefficients @ scores, coefficients


def loss_of(loss, ranked):
    """Return Delta of labels in ranked order."""
    places = np.flatnonzero(ranked) + 1
    if loss == "ap":
        return 1 - np.mean(np.arange(1, len(places) + 1) / places)
    return np.mean([np.sum(~ranked[: place - 1]) / np.sum(~ranked) for place in places])


@pytest.mark.parametrize("loss", ["ap", "auc"])
@pytest.mark.parametrize("C", [0.5, 20.0])
def test_no_constraint_over_all_rankings_and_windows_is_violated_beyond_the_gap(loss, C):
    rng = np.random.default_rng(3)
    bags = [rng.normal(size=(2, 3)) for _ in range(5)]
    y = np.array([1, -1, 1, -1, -1])
    found = fit_many([LatentProblem(y, risk=RankRisk(loss), C=C, tol=1e-6)], bags)[0]
    phi_positive = np.array([bags[i][found.windows[i]] for i in (0, 2)])
    worst = 0.0
    for windows in itertools.product(range(2), repeat=3):
        phi = np.empty((5, 3))
        phi[[0, 2]] = phi_positive
        phi[[1, 3, 4]] = [bags[i][h] for i, h in zip((1, 3, 4), windows, strict=True)]
        worst = max(worst, true_risk(loss, phi @ found.coef, y))
    objective = found.coef @ found.coef / 2 + C * worst
    assert found.objective == pytest.approx(objective, rel=1e-9)
    assert found.dual <= found.objective
    assert found.gap <= 1e-6


@pytest.mark.parametrize("loss", ["ap", "auc"])
def test_the_convex_problem_is_that_of_the_full_constraint_set(loss):
    rng = np.random.default_rng(1)
    X, y, C = rng.normal(size=(5, 3)), np.array([1, -1, -1, 1, -1]), 3.0
    planes = {}
    for value, coefficients in rankings(loss, np.zeros(5), np.flatnonzero(y > 0), np.flatnonzero(y < 0)):
        planes[tuple(np.round(coefficients, 9)), round(value, 12)] = (coefficients @ X, value)
    gradients = np.array([gradient for gradient, _ in planes.values()])
    offsets = np.array([offset for _, offset in planes.values()])
    best = minimize(
        lambda z: z[:3] @ z[:3] / 2 + C * z[3],
        np.array([0, 0, 0, 1.0]),
        jac=lambda z: np.append(z[:3], C),
        constraints={
            "type": "ineq",
            "fun": lambda z: gradients @ z[:3] + z[3] - offsets,
            "jac": lambda z: np.hstack([gradients, np.ones((len(gradients), 1))]),
        },
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    # with one window per bag there is nothing latent
    found = fit_many([LatentProblem(y, risk=RankRisk(loss), C=C, tol=1e-8)], X[:, None, :])[0]
    assert found.objective == pytest.approx(best.fun, rel=1e-6)
    assert found.dual == pytest.approx(best.fun, rel=1e-6)


@pytest.mark.parametrize("J", [1.0, 4.0])
def test_the_hinge_problem_is_that_of_linear_svc(J):
    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5))
    y = np.where(X[:, 0] + rng.normal(size=80) > 0.4, 1, -1)
    found = fit_many([LatentProblem(y, risk=HingeRisk(J), C=0.3, tol=1e-8, fit_intercept=True)], X[:, None, :])[0]
    peer = LinearSVC(loss="hinge", C=0.3, class_weight={1: J, -1: 1.0}, tol=1e-10, max_iter=10**6).fit(X, y)
    margins = y * (X @ peer.coef_[0] + peer.intercept_[0])
    weights = np.where(y > 0, J, 1.0)
    peers = (peer.coef_[0] @ peer.coef_[0] + peer.intercept_[0] ** 2) / 2
    peers += 0.3 * np.sum(weights * np.maximum(0, 1 - margins))
    assert found.objective == pytest.approx(peers, rel=1e-6)
    np.testing.assert_allclose(found.coef, peer.coef_[0], atol=1e-3)
    assert found.intercept == pytest.approx(peer.intercept_[0], abs=1e-3)


@pytest.mark.parametrize("risk", [*(RankRisk(loss) for loss in LOSSES), RankRisk("zero_one"), HingeRisk(2.0)])
@pytest.mark.parametrize("init", ["mean", "whole_image", "random"])
def test_the_objective_falls_and_ends_certified(risk, init):
    bags, y, _ = planted()
    found = fit_many([LatentProblem(y, risk=risk, C=5.0, init=init)], bags)[0]
    objectives = [record["objective"] for record in found.history]
    assert (np.diff(objectives) <= 1e-9 * np.abs(objectives[:-1])).all()
    assert found.converged
    assert found.gap == pytest.approx((found.objective - found.dual) / found.objective)
    assert found.gap <= 1e-3
    assert found.history[-1]["gap"] == found.gap


@pytest.mark.parametrize("risk", [RankRisk("ap"), HingeRisk(2.0)])
def test_the_reported_objective_is_that_of_the_weights(risk):
    bags, y, _ = planted()
    found = fit_many([LatentProblem(y, risk=risk, C=5.0)], bags)[0]
    scores = np.array([bag[window] @ found.coef for bag, window in zip(bags, found.windows, strict=True)])
    np.testing.assert_allclose(scores, [(bag @ found.coef).max() for bag in bags])
    violation = risk.violation(scores, np.sign(y).astype(float))
    risk_now = violation.offset - violation.coefficients @ scores
    # the positives' windows may have moved once more after the last step, which can only lower the risk
    assert found.coef @ found.coef / 2 + 5.0 * risk_now <= found.objective * (1 + 1e-9)
    assert found.history[-1]["changed"] > 0 or found.coef @ found.coef / 2 + 5.0 * risk_now == pytest.approx(
        found.objective
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_planted_windows_are_found(dtype):
    bags, y, places = planted(shift=6.0, dtype=dtype)
    found = fit_many([LatentProblem(y, C=10.0)], bags)[0]
    np.testing.assert_array_equal(found.windows[y > 0], places[y > 0])
    scores = [(bag @ found.coef).max() for bag in bags]
    assert average_precision(scores, y) == 1.0


def test_problems_side_by_side_are_those_alone():
    bags, y, _ = planted(dtype=np.float32)
    fold = np.where(np.arange(40) < 10, 0, y)
    problems = [
        LatentProblem(labels, risk=risk, C=C, init=init)
        for labels in (y, fold)
        for risk in (RankRisk("ap"), HingeRisk())
        for C in (0.1, 10.0)
        for init in ("mean", "random")
    ]
    together = fit_many(problems, bags)
    for problem, found in zip(problems, together, strict=True):
        alone = fit_many([problem], bags)[0]
        np.testing.assert_allclose(found.coef, alone.coef, atol=1e-6)
        assert found.objective == pytest.approx(alone.objective, rel=1e-6)
        np.testing.assert_array_equal(found.windows, alone.windows)


def test_neither_threads_nor_blocks_change_the_solution(monkeypatch):
    monkeypatch.setattr("lapsvm.bags.passes.WORTH_THREADS", 0)
    monkeypatch.setattr("lapsvm.bags.passes.CHUNK_ROWS", 40)
    arrays, y, _ = planted(dtype=np.float16)
    problem = LatentProblem(y, C=3.0)
    one, four = (fit_many([problem], Bags.from_arrays(arrays, threads=threads))[0] for threads in (1, 4))
    np.testing.assert_array_equal(one.coef, four.coef)
    monkeypatch.setattr("lapsvm.bags.passes.CHUNK_ROWS", 7)
    np.testing.assert_array_equal(fit_many([problem], arrays)[0].coef, one.coef)


def test_an_image_with_label_0_is_left_out():
    bags, y, _ = planted()
    fold = np.where(np.arange(40) % 4 == 0, 0, y)
    kept = np.flatnonzero(fold)
    found = fit_many([LatentProblem(fold, C=3.0)], bags)[0]
    alone = fit_many([LatentProblem(y[kept], C=3.0)], [bags[i] for i in kept])[0]
    np.testing.assert_allclose(found.coef, alone.coef, rtol=1e-9)


def test_the_order_of_images_does_not_matter():
    bags, y, _ = planted()
    order = np.random.default_rng(0).permutation(40)
    first = fit_many([LatentProblem(y, C=3.0, tol=1e-6)], bags)[0]
    second = fit_many([LatentProblem(y[order], C=3.0, tol=1e-6)], [bags[i] for i in order])[0]
    assert second.objective == pytest.approx(first.objective, rel=1e-4)
    np.testing.assert_array_equal(second.windows, first.windows[order])


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_a_scale_of_the_bags_makes_C_transferable(size):
    bags, y, _ = planted()
    plain = fit_many([LatentProblem(y, C=3.0, tol=1e-6)], bags)[0]
    scaled = Bags.from_arrays([bag * size for bag in bags], scale=1 / size)
    found = fit_many([LatentProblem(y, C=3.0, tol=1e-6)], scaled)[0]
    assert found.objective == pytest.approx(plain.objective, rel=1e-6)
    np.testing.assert_array_equal(found.windows, plain.windows)


def test_given_windows_begin_and_given_weights_choose_them():
    bags, y, places = planted(shift=8.0)
    windows = fit_many([LatentProblem(y, C=10.0, init=places)], bags)[0]
    np.testing.assert_array_equal(windows.windows[y > 0], places[y > 0])
    again = fit_many([LatentProblem(y, C=10.0, init=windows.coef)], bags)[0]
    assert again.objective <= windows.objective * (1 + 1e-9)
    assert again.n_calls < windows.n_calls


def test_a_seed_fixes_the_random_windows():
    bags, y, _ = planted(shift=0.5)
    first, same, other = (fit_many([LatentProblem(y, init="random", seed=seed)], bags)[0].coef for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_progress_tells_every_outer_step_of_every_problem():
    bags, y, _ = planted()
    told = []
    found = fit_many([LatentProblem(y, C=C) for C in (1.0, 10.0)], bags, lambda i, record: told.append((i, record)))
    for place in (0, 1):
        assert [record for i, record in told if i == place] == found[place].history


def test_n_calls_and_passes_are_counted():
    bags, y, _ = planted()
    seen = []

    class Counted(Bags):
        def best(self, weights, **options):
            seen.append(np.shape(weights)[1])
            return super().best(weights, **options)

    found = fit_many([LatentProblem(y, C=C) for C in (1.0, 10.0)], Counted.from_arrays(bags))
    assert sum(seen) == sum(one.n_passes for one in found)
    assert len(seen) == max(one.n_passes for one in found)
    assert all(one.n_passes < one.n_calls for one in found)


class WrongRisk:
    """A risk whose planes do not lie below it: what it says depends on how often it was asked."""

    def __init__(self):
        self.calls = 0

    def violation(self, scores, labels):
        self.calls += 1
        return Violation(1.0 + self.calls, labels / len(labels))


def test_an_objective_that_rises_is_told():
    bags, y, _ = planted()
    with pytest.warns(ConvergenceWarning) as warned:
        fit_many([LatentProblem(y, risk=WrongRisk(), C=1.0, max_calls=1, max_iter=5)], bags)
    assert any("CCCP's objective must not rise, got" in str(warning.message) for warning in warned)


def test_a_lower_bound_above_the_objective_is_an_error():
    bags, y, _ = planted()
    with pytest.raises(CertificateError, match="the lower bound of the minimum must not exceed the objective, got"):
        fit_many([LatentProblem(y, risk=WrongRisk(), C=1.0, max_calls=3, max_iter=5)], bags)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_calls": 2}, "max_calls=2 calls were not enough; raise it, lower C or raise tol"),
        ({"max_iter": 1}, "max_iter=1 outer steps were not enough; raise it or raise tol"),
    ],
)
def test_stopping_early_is_told_with_the_remedy(options, message):
    bags, y, _ = planted()
    with pytest.warns(ConvergenceWarning, match=message):
        found = fit_many([LatentProblem(y, C=100.0, **options)], bags)[0]
    assert not found.converged


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"C": 0}, InputError, "C must be a finite number greater than 0, got 0."),
        ({"C": np.inf}, InputError, "C must be a finite number greater than 0, got inf."),
        ({"tol": -1.0}, InputError, "tol must be a finite number greater than 0, got -1.0."),
        ({"max_iter": 0}, InputError, "max_iter must be a whole number of 1 or more, got 0."),
        ({"init": "centre"}, OptionError, "init must be one of mean, whole_image, random, windows or weights"),
        ({"init": np.array(["a"])}, OptionError, "init must be one of mean, whole_image, random, windows or weights"),
        ({"init": np.zeros(3, int)}, ShapeError, "init must have one window per bag, got shape (3,) for 40 bags."),
        ({"init": np.full(40, 8)}, InputError, "init must choose windows inside their bags, got 8 for bag 0"),
        ({"init": np.zeros(5)}, ShapeError, "init must have one weight per feature, got shape (5,) for 6."),
        ({"y": np.ones(40)}, OneClassError, "y must have a positive and a negative image, got no negative."),
        ({"y": -np.ones(40)}, OneClassError, "y must have a positive and a negative image, got no positive."),
        ({"y": np.ones(39)}, ShapeError, "y must have one label per bag, got 39 for 40 bags."),
        ({"y": np.full(40, 2)}, InputError, "y must hold +1, -1 or 0, got 2."),
        ({"y": np.full(40, np.nan)}, InputError, "y must be finite, got nan at index 0."),
    ],
)
def test_problems_that_are_none_are_refused(options, error, message):
    bags, y, _ = planted()
    with pytest.raises(error, match=re.escape(message)):
        fit_many([LatentProblem(**({"y": y} | options))], bags)


def test_unknown_losses_and_wrong_weights_of_positives_are_refused():
    with pytest.raises(OptionError, match="loss must be one of"):
        RankRisk("map")
    with pytest.raises(InputError, match="J must be a finite number greater than 0, got 0"):
        HingeRisk(0)


@pytest.mark.parametrize(("top", "expected"), [(1, [1, 1, 1]), (3, [3, 3, 1]), (0.25, [2, 1, 1]), (0.03, [1, 1, 1])])
def test_the_number_of_top_windows_is_a_number_or_a_share(top, expected):
    bags = Bags.from_arrays([np.ones((8, 2)), np.ones((3, 2)), np.ones((1, 2))])
    np.testing.assert_array_equal(top_counts(bags, np.arange(3), top), expected)


def test_top_windows_are_the_best_ones_and_score_as_their_mean():
    bags, _, _ = planted()
    w = np.arange(6.0) - 2
    found = top_windows(Bags.from_arrays(bags), np.array([4, 7]), w, np.array([3, 2]))
    first, second = bags[4] @ w, bags[7] @ w
    np.testing.assert_array_equal(found.index, [*np.argsort(-first)[:3], *np.argsort(-second)[:2]])
    np.testing.assert_allclose(found.scores(w), [np.sort(first)[-3:].mean(), np.sort(second)[-2:].mean()])
    total = 2 * bags[4][found.index[:3]].mean(axis=0) - bags[7][found.index[3:]].mean(axis=0)
    np.testing.assert_allclose(found.weighted_sum(np.array([2.0, -1.0])), total)


@pytest.mark.parametrize("top", [3, 0.25])
def test_the_objective_falls_with_several_windows_per_positive(top):
    bags, y, _ = planted(shift=8.0)
    found = fit_many([LatentProblem(y, C=20.0, top=top)], bags)[0]
    objectives = [record["objective"] for record in found.history]
    assert (np.diff(objectives) <= 1e-9 * np.abs(objectives[:-1])).all()
    assert found.converged
    scores = [(bag @ found.coef).max() for bag in bags]
    np.testing.assert_allclose([bag[i] @ found.coef for bag, i in zip(bags, found.windows, strict=True)], scores)


def test_a_small_C_still_says_which_way():
    bags, y, _ = planted(shift=8.0)
    for C in (1e-6, 1e-4):
        found = fit_many([LatentProblem(y, C=C)], bags)[0]
        assert average_precision([(bag @ found.coef).max() for bag in bags], y) == 1.0


def worst_ap_loss(y):
    """Return 1 - AP of the ranking with all negatives first, the risk at w = 0."""
    n_pos = (y > 0).sum()
    ranks = np.arange(1, n_pos + 1)
    return 1 - np.mean(ranks / (ranks + (y < 0).sum()))


@pytest.mark.parametrize("candidates", [0, 4])
@pytest.mark.parametrize("seed", range(4))
def test_training_goes_on_while_falls_are_large_beside_what_was_learned(seed, candidates):
    bags, y, _ = planted(seed=seed, n_bags=60, size=30, dim=20, shift=4.0)
    C, tol = 0.1, 0.05
    found = fit_many([LatentProblem(y, C=C, tol=tol, init="random")], bags, candidates=candidates)[0]
    before, last = [record for record in found.history if record["certified"]][-2:]
    allowed = 0.05 * (C * worst_ap_loss(y) - last["objective"])
    assert allowed < tol * last["objective"]  # otherwise this would test nothing
    assert last["changed"] == 0 or before["objective"] - last["objective"] <= allowed
