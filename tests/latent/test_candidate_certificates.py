"""The certificates of training on candidates, against quadratic programs over all windows; and how objectives move."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from lapsvm.bags import Bags
from lapsvm.latent import HingeRisk, LatentProblem, RankRisk, fit_many

COUNT, SIZE = 3, 16  # parts of a bag, and its windows: enough of these for training on candidates
C = 4.0


def planted(seed, n_bags, dim=3, shift=1.5):
    rng = np.random.default_rng(seed)
    windows = rng.normal(size=(n_bags, SIZE, dim))
    y = np.where(np.arange(n_bags) % 2 == 0, 1, -1)
    windows[y > 0, rng.integers(SIZE, size=n_bags)[y > 0], 0] += shift
    return windows, y


def bags_of(windows):
    return Bags(windows.reshape(-1, windows.shape[2]), np.arange(len(windows) + 1) * SIZE)


def chosen(windows, y, found, top):
    """Return the features that represent each positive at the solution, the mean of its best windows."""
    best = [np.argsort(-(own @ found.coef), kind="stable")[:top] for own in windows[y > 0]]
    return np.array([own[index].mean(axis=0) for own, index in zip(windows[y > 0], best, strict=True)])


def minimum(rows, owners, costs):
    """Return min |w|^2 / 2 + sum_k costs[k] max(0, 1 - rows @ w over the rows that k owns)."""
    d, n = rows.shape[1], len(costs)
    matrix = np.hstack([rows, np.eye(n)[owners]])
    found = minimize(
        lambda z: z[:d] @ z[:d] / 2 + costs @ z[d:],
        np.append(np.zeros(d), np.ones(n)),
        jac=lambda z: np.append(z[:d], costs),
        bounds=[(None, None)] * d + [(0, None)] * n,
        constraints={"type": "ineq", "fun": lambda z: matrix @ z - 1, "jac": lambda _: matrix},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    w = found.x[:d]
    lacking = np.maximum(0.0, 1 - rows @ w)
    return w @ w / 2 + sum(cost * lacking[owners == k].max() for k, cost in enumerate(costs))


def hinges(above, below):
    """Return the rows of the sum of hinges: one of each positive, all windows of each negative; positives twice."""
    rows = np.vstack([above, -below.reshape(-1, below.shape[2])])
    owners = np.append(np.arange(len(above)), len(above) + np.repeat(np.arange(len(below)), SIZE))
    return rows, owners, C * np.repeat([2.0, 1.0], [len(above), len(below)])


def pairs(above, below):
    """Return the rows of the AUC's hinge, the mean over pairs of max(0, 1 - 2 (s_p - s_n)), s_n over all windows."""
    rows = 2 * (above[:, None, None] - below[None]).reshape(-1, below.shape[2])
    n = len(above) * len(below)
    return rows, np.repeat(np.arange(n), SIZE), np.full(n, C / n)


@pytest.mark.parametrize("top", [1, 3])
@pytest.mark.parametrize(("risk", "program", "n_bags"), [(HingeRisk(2.0), hinges, 14), (RankRisk("auc"), pairs, 8)])
@pytest.mark.parametrize("seed", range(1, 5))  # of which none ends at w = 0, where windows say nothing
def test_dual_and_objective_on_candidates_enclose_the_minimum_over_all_windows(risk, program, n_bags, top, seed):
    windows, y = planted(seed, n_bags, shift=4.0)
    problem = LatentProblem(y, risk=risk, C=C, top=top, tol=1e-7, init="random", seed=seed, max_iter=200)
    found = fit_many([problem], bags_of(windows), candidates=COUNT)[0]
    assert found.n_candidate_calls > 0
    assert found.history[-1]["changed"] == 0  # so the windows are those of the last convex problem
    least = minimum(*program(chosen(windows, y, found, top), windows[y < 0]))
    assert found.dual <= least * (1 + 1e-9)
    assert found.objective >= least * (1 - 1e-7)
    assert found.objective - found.dual <= 1e-7 * found.objective * (1 + 1e-6)


@pytest.mark.parametrize("risk", [RankRisk("ap"), RankRisk("auc"), HingeRisk(2.0)], ids=["ap", "auc", "hinge"])
@pytest.mark.parametrize("seed", range(4))
def test_on_candidates_the_objective_never_rises_until_a_pass_adds_windows(risk, seed):
    windows, y = planted(seed, 40, dim=6)
    problem = LatentProblem(y, risk=risk, C=C, init="random", seed=seed)
    found = fit_many([problem], bags_of(windows), candidates=COUNT)[0]
    steps = 0
    for before, after in pairwise(found.history):
        if not after["certified"]:  # it begins at the point before, whose objective no missing window raises
            assert after["objective"] <= before["objective"] * (1 + 1e-9)
            steps += 1
    proved = [record["objective"] for record in found.history if record["certified"]]
    assert steps > 0
    assert proved[-1] == found.objective
    assert found.objective <= min(proved) * (1 + problem.tol)


def test_a_proved_objective_is_never_below_that_on_candidates():
    """Over all windows the risk is the same or higher: what a pass tells is compared at the same point."""
    windows, y = planted(1, 40, dim=6)
    bags = bags_of(windows)
    found = fit_many([LatentProblem(y, risk=HingeRisk(), C=C)], bags, candidates=COUNT)[0]
    assert any(record["certified"] for record in found.history)
    for record in found.history:
        if record["certified"]:
            assert record["dual"] <= record["objective"]
    scores = [own @ found.coef for own in windows]
    best = np.array(
        [own[place] if sign > 0 else own.max() for own, place, sign in zip(scores, found.windows, y, strict=True)]
    )
    exact = 0.5 * found.coef @ found.coef + C * np.maximum(0, 1 - y * best).sum()
    assert found.dual <= exact
    assert found.objective == pytest.approx(exact, rel=1e-3)
