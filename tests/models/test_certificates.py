"""Fits against the full set of constraints, written out one by one and given to an independent convex solver."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from lapsvm.models import LatentRankSVM, LatentStructSVM, LatentSVM, RankSVM, TopPush

LOSSES = ("ap", "ndcg", "auc", "mrr", "pos_at_top", "zero_one")


def delta(loss, relevant):
    """Return the loss of labels in ranked order, by its definition."""
    places = np.flatnonzero(relevant) + 1
    above = np.array([np.sum(~relevant[: place - 1]) for place in places])
    if loss == "ap":
        return 1 - np.mean(np.arange(1, len(places) + 1) / places)
    if loss == "ndcg":
        return 1 - np.sum(1 / np.log2(1 + places)) / np.sum(1 / np.log2(1 + np.arange(1, len(places) + 1)))
    if loss == "auc":
        return np.mean(above / np.sum(~relevant))
    return 1 - 1 / places[0] if loss == "mrr" else np.mean(above > 0)


def constraints(loss, X, positive):
    """Return (gradients, offsets): the risk at w is max(offsets - gradients @ w), over all rankings or labellings."""
    planes = all_labellings(positive) if loss == "zero_one" else all_rankings(loss, positive)
    distinct = {(round(offset, 12), *np.round(coefficients, 12)): coefficients for offset, coefficients in planes}
    return np.array([coefficients @ X for coefficients in distinct.values()]), np.array([key[0] for key in distinct])


def all_labellings(positive):
    y, n = np.where(positive, 1, -1), len(positive)
    for other in itertools.product((-1, 1), repeat=n):
        yield np.mean(y != other), (y - other) / (2 * n)


def all_rankings(loss, positive):
    pairs = positive.sum() * np.sum(~positive)
    for order in itertools.permutations(range(len(positive))):
        place = np.argsort(order)
        below = place[positive][:, None] > place[~positive]
        coefficients = np.zeros(len(positive))
        coefficients[positive], coefficients[~positive] = 2 * below.sum(1) / pairs, -2 * below.sum(0) / pairs
        yield delta(loss, positive[list(order)]), coefficients


def minimum(parts, costs, d):
    """Return min |w|^2 / 2 + sum_k costs[k] max(0, max(offsets_k - gradients_k @ w)) by quadratic programming."""
    gradients = np.vstack([part[0] for part in parts])
    offsets = np.concatenate([part[1] for part in parts])
    owners = np.repeat(np.arange(len(parts)), [len(part[1]) for part in parts])
    matrix = np.hstack([gradients, np.eye(len(parts))[owners]])
    found = minimize(
        lambda z: z[:d] @ z[:d] / 2 + costs @ z[d:],
        np.append(np.zeros(d), [part[1].max() for part in parts]),
        jac=lambda z: np.append(z[:d], costs),
        bounds=[(None, None)] * d + [(0, None)] * len(parts),
        constraints={"type": "ineq", "fun": lambda z: matrix @ z - offsets, "jac": lambda _: matrix},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    w = found.x[:d]
    highest = [max(0.0, np.max(part[1] - part[0] @ w)) for part in parts]
    return w @ w / 2 + costs @ np.array(highest)


def samples(seed, n=6, d=3):
    """Return features, and which samples are positive: two or three of them."""
    rng = np.random.default_rng(seed)
    positive = rng.permutation(n) < 2 + seed % 2
    return rng.normal(size=(n, d)) + 0.7 * positive[:, None], positive


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("C", [0.2, 30.0])
@pytest.mark.parametrize("seed", range(3))
def test_rank_svm_is_the_minimum_over_all_rankings(loss, C, seed):
    X, positive = samples(seed)
    model = RankSVM(loss, C=C, tol=1e-8).fit(X, positive)
    expected = minimum([constraints(loss, X, positive)], np.array([C]), 3)
    assert model.objective_ == pytest.approx(expected, rel=1e-6)
    assert model.history_[0]["dual"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_rank_svm_with_queries_is_the_minimum_over_the_rankings_of_each(loss):
    (first, first_positive), (second, second_positive) = samples(0, 5), samples(1, 5)
    X, positive = np.vstack([first, second]), np.append(first_positive, second_positive)
    model = RankSVM(loss, C=8.0, tol=1e-8).fit(X, positive, groups=np.repeat(["a", "b"], 5))
    parts = [constraints(loss, first, first_positive), constraints(loss, second, second_positive)]
    assert model.objective_ == pytest.approx(minimum(parts, np.array([4.0, 4.0]), 3), rel=1e-6)


def drawn(seed, n_bags, size=2, d=3):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n_bags) % 2 == 0, 1, -1)
    return list(rng.normal(size=(n_bags, size, d)) + 0.7 * (y > 0)[:, None, None]), y


@pytest.mark.parametrize("J", [0.5, 4.0])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_latent_svms_last_convex_problem_is_that_of_a_quadratic_program(J, fit_intercept, seed):
    bags, y = drawn(seed, 10, 3)
    model = LatentSVM(C=2.0, J=J, fit_intercept=fit_intercept, tol=1e-8, scale=None).fit(bags, y)
    assert model.history_[-1]["changed"] == 0
    chosen = model.best_windows(bags)  # those of the positives are the imputed ones, for training has come to rest
    augmented = [np.hstack([bag, np.ones((len(bag), 1))]) if fit_intercept else bag for bag in bags]
    windows = [bag[[k]] if sign > 0 else -bag for bag, sign, k in zip(augmented, y, chosen, strict=True)]
    costs = 2.0 * np.where(y > 0, J, 1.0)
    expected = minimum([(own, np.ones(len(own))) for own in windows], costs, windows[0].shape[1])
    assert model.objective_ == pytest.approx(expected, rel=1e-6)
    assert model.objective_ * (1 - model.duality_gap_) <= expected * (1 + 1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_latent_rank_svms_last_convex_problem_is_the_minimum_over_all_rankings_and_windows(loss):
    bags, y = drawn(4, 5)
    model = LatentRankSVM(loss, C=4.0, top=1, tol=1e-8, scale=None).fit(bags, y)
    assert model.history_[-1]["changed"] == 0
    chosen, parts = model.best_windows(bags), []
    for windows in itertools.product(range(2), repeat=int(np.sum(y < 0))):
        places = chosen.copy()
        places[y < 0] = windows
        parts.append(constraints(loss, np.array([bag[k] for bag, k in zip(bags, places, strict=True)]), y > 0))
    together = tuple(np.concatenate(kind) for kind in zip(*parts, strict=True))
    assert model.objective_ == pytest.approx(minimum([together], np.array([4.0]), 3), rel=1e-6)


@pytest.mark.parametrize("J", [1.0, 3.0])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_latent_svm_with_one_window_per_image_is_linear_svc(J, fit_intercept):
    rng = np.random.default_rng(0)
    y = np.where(rng.random(60) < 0.4, 1, -1)
    X = rng.normal(size=(60, 4)) + 0.6 * (y > 0)[:, None]
    model = LatentSVM(C=0.5, J=J, fit_intercept=fit_intercept, tol=1e-9, scale=None).fit(X[:, None, :], y)
    peer = LinearSVC(
        loss="hinge", C=0.5, class_weight={1: J, -1: 1}, fit_intercept=fit_intercept, tol=1e-10, max_iter=10**6
    ).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_[0], atol=1e-3)
    np.testing.assert_allclose(model.decision_function(X[:, None, :]), peer.decision_function(X), atol=3e-3)
    w, b = peer.coef_[0], float(np.sum(peer.intercept_))
    hinges = np.maximum(0, 1 - y * (X @ w + b)) * np.where(y > 0, J, 1.0)
    assert model.objective_ == pytest.approx((w @ w + b**2) / 2 + 0.5 * hinges.sum(), rel=1e-6)


LATENT = [
    LatentRankSVM("ap", C=20.0, top=1),
    LatentRankSVM("ndcg", C=20.0, top=0.5),
    LatentRankSVM("auc", C=20.0, init="random"),
    LatentSVM(C=5.0, J=2.0, c=0.3, fit_intercept=True),
    LatentStructSVM(C=5.0),
]
OTHERS = [RankSVM(C=20.0), TopPush(0.01)]


def fit(model, seed=0, **options):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(24) % 3 == 0, 1, -1)
    X = rng.normal(size=(24, 6, 4)) + 0.8 * (y > 0)[:, None, None]
    return clone(model).set_params(**options).fit(X if model in LATENT else X[:, 0], y)


@pytest.mark.parametrize("model", [*LATENT, *OTHERS], ids=str)
def test_every_fit_reports_objective_dual_and_gap(model):
    found = fit(model)
    last = found.history_[-1]
    assert found.duality_gap_ == pytest.approx((found.objective_ - last["dual"]) / found.objective_, abs=1e-12)
    assert 0 <= found.duality_gap_ <= model.tol
    assert last["objective"] == pytest.approx(found.objective_, rel=1e-12)


# TopPush solves these few samples in one pass; test_toppush.py has more of them
@pytest.mark.parametrize("model", [*LATENT, *(one for one in OTHERS if not isinstance(one, TopPush))], ids=str)
def test_a_gap_above_tol_is_a_warning_that_says_what_to_do(model):
    with pytest.warns(ConvergenceWarning, match="gap .* raise") as caught:
        found = fit(model, tol=1e-6, max_calls=2)
    assert found.duality_gap_ > 1e-6
    assert "max_" in str(caught[0].message)


@pytest.mark.parametrize("model", LATENT[:-1], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_cccps_objective_never_rises(model, seed):
    objectives = [record["objective"] for record in fit(model, seed).history_]
    assert (np.diff(objectives) <= 1e-9 * np.maximum(1, np.abs(objectives[:-1]))).all()
