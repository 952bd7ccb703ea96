"""One problem for several values of C, each begun where the one before ended."""

from dataclasses import replace

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.errors import InputError, ShapeError
from lapsvm.latent import HingeRisk, LatentProblem, RankRisk, StructuralProblem, fit_many, fit_paths

VALUES = (100.0, 10.0, 1.0, 0.1)


def planted(seed=0, n_bags=40, size=8, dim=6, shift=2.0):
    """Return bags of noise; in every third bag one window is shifted along the first axis."""
    rng = np.random.default_rng(seed)
    windows = rng.normal(size=(n_bags, size, dim))
    y = np.where(np.arange(n_bags) % 3 == 0, 1, -1)
    windows[np.flatnonzero(y > 0), rng.integers(1, size, (y > 0).sum()), 0] += shift
    return Bags.from_arrays(list(windows)), y


def problems(y):
    """Return problems of every kind."""
    known = np.full(len(y), -1)
    known[:6] = 2
    return [
        LatentProblem(y),
        LatentProblem(y, risk=HingeRisk(2.0), fit_intercept=True, top=3),
        LatentProblem(y, risk=HingeRisk(2.0), trim=0.25),
        LatentProblem(y, risk=RankRisk("ndcg"), fixed_windows=known),
        StructuralProblem(y),
    ]


def test_a_path_of_one_value_is_plain_training():
    bags, y = planted()
    for problem, (found,) in zip(problems(y), fit_paths(problems(y), [[1.0]] * 5, bags), strict=True):
        np.testing.assert_allclose(found.coef, fit_many([problem], bags)[0].coef, atol=1e-9)


def test_every_solution_of_a_path_has_a_certificate_and_its_own_history():
    bags, y = planted()
    for problem, path in zip(problems(y), fit_paths(problems(y), [VALUES] * 5, bags), strict=True):
        for found in path:
            assert found.gap <= problem.tol
            assert found.converged
            assert found.history[0]["step"] == 0
            assert found.history[-1]["objective"] == found.objective
            assert found.objective <= found.dual / (1 - problem.tol) + 1e-12


@pytest.mark.parametrize("place", range(4))
def test_the_objective_of_a_path_is_that_of_its_windows(place):
    bags, y = planted()
    problem = problems(y)[place]
    for C, found in zip(VALUES, fit_paths([problem], [VALUES], bags)[0], strict=True):
        scores = bags.score_rows(found.coef, np.arange(len(y)), found.windows) + found.intercept
        if problem.top != 1:
            tops = [np.sort(bags[i] @ found.coef)[::-1][:3].mean() + found.intercept for i in range(len(y))]
            scores = np.where(y > 0, tops, scores)
        signs = y.astype(float)
        plane = problem.risk.violation(scores, signs)
        norm = found.coef @ found.coef + found.intercept**2
        objective = norm / 2 + C * max(0.0, plane.offset - plane.coefficients @ scores)
        assert objective <= found.objective * (1 + 1e-9)


def test_a_convex_problem_ends_at_the_same_minimum_in_fewer_calls():
    bags, y = planted(n_bags=300, size=4, dim=60)
    problem = LatentProblem(y, fixed_windows=np.zeros(len(y), dtype=int))
    alone = fit_many([replace(problem, C=C) for C in VALUES], bags)
    path = fit_paths([problem], [VALUES], bags)[0]
    for found, expected in zip(path, alone, strict=True):
        assert found.objective == pytest.approx(expected.objective, rel=2e-3)
    assert sum(one.n_calls for one in path) < sum(one.n_calls for one in alone)


def test_paths_side_by_side_are_the_paths_alone_and_tell_their_steps():
    bags, y = planted()
    values = [VALUES, VALUES[:2], VALUES[::-1], VALUES[1:], VALUES[:1]]
    told = []
    found = fit_paths(problems(y), values, bags, lambda place, record: told.append((place, record)))
    for i, (problem, own) in enumerate(zip(problems(y), values, strict=True)):
        alone = fit_paths([problem], [own], bags)[0]
        for one, other in zip(found[i], alone, strict=True):
            np.testing.assert_allclose(one.coef, other.coef, atol=1e-9)
        assert [record for place, record in told if place == i] == [r for one in found[i] for r in one.history]


def test_bad_paths_are_refused():
    bags, y = planted()
    with pytest.raises(ShapeError, match=r"one or more values of C for each problem, got \[0\] values for 1 problems"):
        fit_paths([LatentProblem(y)], [[]], bags)
    with pytest.raises(ShapeError, match="for 1 problems"):
        fit_paths([LatentProblem(y)], [[1.0], [2.0]], bags)
    with pytest.raises(InputError, match="C must be"):
        fit_paths([LatentProblem(y)], [[1.0, 0.0]], bags)
