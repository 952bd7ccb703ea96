"""Layerwise training: one layer against independent solvers."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from lapsvm.models import RankSVM
from lapsvm.ranking import average_precision

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

from lapsvm.nn.layerwise.problem import split  # noqa: E402

from .networks import converged, drawn, seeded  # noqa: E402


@pytest.mark.parametrize(("loss", "scale"), [("ap", 1.0), ("ndcg", 1.0), ("auc", 1.0), ("ap", 3.0)])
def test_the_last_layer_reaches_the_rank_svm_of_the_scaled_scores(loss, scale):
    X, y = drawn()
    network = seeded(lambda: nn.Sequential(nn.Linear(4, 1, bias=False)))
    model = converged(network, loss, mu=0, batch_size=40, scale=scale).fit(X, y)
    expected = RankSVM(loss, C=10, tol=1e-6).fit(scale * X, y.ravel().astype(int))
    assert model.objective_ == pytest.approx(0.1 * expected.objective_, rel=1e-3)
    assert np.corrcoef(model.decision_function(X), X @ expected.coef_)[0, 1] > 0.998


def test_mini_batches_are_rankings_of_their_own():
    X, y = drawn()
    network = seeded(lambda: nn.Sequential(nn.Linear(4, 1, bias=False)))
    model = converged(network, "ap", mu=0, batch_size=10, seed=3).fit(X, y)
    groups = np.empty(40, dtype=int)
    for number, samples in enumerate(split(y, 10, np.random.default_rng(3)).samples):
        groups[samples] = number
    expected = RankSVM("ap", C=10, tol=1e-6).fit(X, y.ravel().astype(int), groups)
    assert model.objective_ == pytest.approx(0.1 * expected.objective_, rel=1e-3)


def test_zero_one_is_the_linear_svm_of_each_class():
    X, y = drawn(n=45, n_classes=3)
    model = converged(seeded(lambda: nn.Sequential(nn.Linear(4, 3))), "zero_one", mu=0, batch_size=20).fit(X, y)
    expected = 0.0
    for k in range(3):
        svm = LinearSVC(loss="hinge", C=1 / (0.1 * 45), tol=1e-8, max_iter=200_000, random_state=0).fit(X, y[:, k])
        margins = np.where(y[:, k], 1, -1) * svm.decision_function(X)
        w = np.append(svm.coef_, svm.intercept_)
        expected += 0.05 * w @ w + np.maximum(0, 1 - margins).mean()
    assert model.objective_ == pytest.approx(expected, rel=1e-3)


def perceptron(n_hidden=3):
    return seeded(lambda: nn.Sequential(nn.Linear(2, n_hidden), nn.ReLU(), nn.Linear(n_hidden, 1)), seed=1)


def orders(positive):
    """Every order of the samples: its Delta for AP, and the coefficients of F(R*) - F(R)."""
    n_pairs = positive.sum() * (~positive).sum()
    for order in itertools.permutations(range(len(positive))):
        height = -np.argsort(order)
        coefficients = np.zeros(len(positive))
        for i, j in itertools.product(np.flatnonzero(positive), np.flatnonzero(~positive)):
            if height[i] < height[j]:
                coefficients[[i, j]] += np.array([2, -2]) / n_pairs
        yield 1 - average_precision(height, positive), coefficients


def quadratic_program(network, X, y, lam, mu):
    """The minimum of a hidden layer's convex problem: every ReLU and the hinge as variables, one row per order."""
    start = np.column_stack([network[0].weight.numpy(), network[0].bias.numpy()])
    v = network[2].weight.numpy().ravel()
    rows = np.column_stack([X, np.ones(len(X))])
    at = np.maximum(rows @ start.T, 0)
    slopes = (at > 0).astype(float)
    n, h, size = len(X), len(v), start.size

    def parts(z):
        W, t, xi = z[:size].reshape(start.shape), z[size:-1].reshape(n, h), z[-1]
        fixed = slopes * (rows @ W.T)
        maxima = np.where(y[:, None] == (v < 0), t, fixed)  # a positive's score must be concave, a negative's convex
        return W, t, xi, maxima @ v + network[2].bias.numpy()

    planes = list(orders(y))
    deltas, coefficients = np.array([p[0] for p in planes]), np.array([p[1] for p in planes])

    def slack(z):
        W, t, xi, scores = parts(z)
        return np.concatenate([t.ravel(), (t - rows @ W.T).ravel(), xi - deltas + coefficients @ scores])

    def objective(z):
        W = z[:size].reshape(start.shape)
        return 0.5 * lam * np.sum(W**2) + 0.5 * mu * np.sum((W - start) ** 2) + z[-1]

    z0 = np.concatenate([start.ravel(), at.ravel(), [10.0]])
    jac = np.array([slack(row) - slack(0 * z0) for row in np.eye(len(z0))]).T
    constraint = {"type": "ineq", "fun": slack, "jac": lambda _z: jac}
    found = minimize(objective, z0, constraints=constraint, method="SLSQP", options={"maxiter": 500, "ftol": 1e-12})
    assert found.success, found.message
    return found.fun


@pytest.mark.parametrize("seed", range(3))
def test_a_hidden_layers_bounded_problem_is_a_quadratic_program(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((5, 2)), np.array([1, 0, 1, 0, 0], dtype=bool)
    network = perceptron().requires_grad_(False)
    model = converged(network, "ap", lam=0.02, mu=0.1, batch_size=5, layers=["0"], tol=1e-6).fit(X, y)
    expected = quadratic_program(network, X, y, lam=0.02, mu=0.1)
    assert model.history_[-1]["dual"] == pytest.approx(expected, rel=1e-3)
    assert min(record["primal"] for record in model.history_) == pytest.approx(expected, rel=1e-3)


def test_a_hidden_layers_fixed_problem_is_a_rank_svm():
    X, y = drawn(dim=2)
    network = perceptron().requires_grad_(False)
    rows = np.column_stack([X, np.ones(len(X))])
    slopes = rows @ np.column_stack([network[0].weight.numpy(), network[0].bias.numpy()]).T > 0
    features = ((slopes * network[2].weight.numpy())[:, :, None] * rows[:, None]).reshape(len(X), -1)
    options = {"mu": 0, "batch_size": 40, "layers": ["0"], "activations": "fixed"}
    model = converged(network, "ap", **options).fit(X, y)
    expected = RankSVM("ap", C=10, tol=1e-6).fit(features, y.ravel().astype(int))
    assert min(record["primal"] for record in model.history_) == pytest.approx(0.1 * expected.objective_, rel=1e-3)
