"""The cutting plane and its small problem, against closed forms and independent solvers."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from lapsvm.errors import InputError
from lapsvm.optim import Bundle, Plane, cutting_plane, minimise, solve_simplex_qp

from ..twins import optim as reference


def gram_of(rng, m, rank):
    points = rng.normal(size=(m, rank))
    return points @ points.T


def by_kernel(gram, linear, total):
    return solve_simplex_qp(gram, linear, total).weights


def by_reference(gram, linear, total):
    weights = np.zeros(len(linear))
    weights[0] = total
    reference.maximise(gram, linear, total, weights, 0.0, 2000)
    return weights


@pytest.mark.parametrize(("solve", "share"), [(by_kernel, 1e-9), (by_reference, 1e-5)])
@pytest.mark.parametrize("seed", range(12))
def test_the_small_problem_is_solved_to_rounding_even_with_dependent_planes(solve, share, seed):
    rng = np.random.default_rng(seed)
    m, rank = rng.integers(2, 40), rng.integers(1, 12)
    gram, linear, total = gram_of(rng, m, rank), rng.normal(size=m), 10.0 ** rng.integers(-2, 4)
    weights = solve(gram, linear, total)
    slope = linear - gram @ weights
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(total)
    gap = total * slope.max() - weights @ slope
    assert gap <= share * max(1.0, abs(weights @ (linear + slope) / 2))


def test_the_small_problems_gap_bounds_what_an_independent_solver_adds():
    rng = np.random.default_rng(0)
    gram, linear = gram_of(rng, 15, 6), rng.normal(size=15)
    rough = solve_simplex_qp(gram, linear, 3.0, tol=0.5)
    best = minimize(
        lambda a: a @ gram @ a / 2 - linear @ a,
        np.full(15, 0.2),
        jac=lambda a: gram @ a - linear,
        bounds=[(0, None)] * 15,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 3.0},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert rough.value <= -best.fun + 1e-9 <= rough.value + rough.gap + 2e-9
    assert rough.gap <= 0.5


def test_identical_planes_are_no_trouble():
    found = solve_simplex_qp(np.ones((30, 30)), np.zeros(30), 1.0)
    assert found.value == pytest.approx(-0.5)


def hinge_oracle(X, y):
    """Return the oracle of the mean hinge."""

    def oracle(w):
        inside = y * (X @ w) < 1
        return Plane(-(inside * y) @ X / len(y), inside.mean())

    return oracle


def hinge_problem(seed=0, n=60, d=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)


def smallest_hinge_objective(X, y, C):
    """Solve the SVM's quadratic program (w, one slack per sample) by another method."""
    n, d = X.shape
    start = np.append(np.zeros(d), np.ones(n))
    found = minimize(
        lambda z: z[:d] @ z[:d] / 2 + C * z[d:].mean(),
        start,
        jac=lambda z: np.append(z[:d], np.full(n, C / n)),
        bounds=[(None, None)] * d + [(0, None)] * n,
        constraints={
            "type": "ineq",
            "fun": lambda z: y * (X @ z[:d]) - 1 + z[d:],
            "jac": lambda z: np.hstack([y[:, None] * X, np.eye(n)]),
        },
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    return found.fun


@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
def test_the_minimum_is_that_of_an_independent_convex_solver(C):
    X, y = hinge_problem()
    found = minimise(hinge_oracle(X, y), 5, C, tol=1e-8)
    expected = smallest_hinge_objective(X, y, C)
    assert found.objective == pytest.approx(expected, rel=1e-6)
    assert found.dual <= expected * (1 + 1e-9)
    assert found.converged
    assert found.gap <= 1e-8


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_the_scale_of_features_costs_nothing_when_C_follows_it(size):
    X, y = hinge_problem()
    plain = minimise(hinge_oracle(X, y), 5, 2.0, tol=1e-6)
    scaled = minimise(hinge_oracle(X * size, y), 5, 2.0 / size**2, tol=1e-6)
    np.testing.assert_allclose(scaled.w * size, plain.w, rtol=1e-2, atol=1e-3)
    assert scaled.objective * size**2 == pytest.approx(plain.objective, rel=1e-5)


def test_the_returned_point_is_the_best_one_seen():
    X, y = hinge_problem()
    oracle, seen = hinge_oracle(X, y), []

    def watched(w):
        plane = oracle(w)
        seen.append(w @ w / 2 + 10 * plane.value(w))
        return plane

    found = minimise(watched, 5, 10.0, tol=1e-4)
    assert found.objective == min(seen)
    assert found.objective == pytest.approx(found.w @ found.w / 2 + 10 * oracle(found.w).value(found.w))
    assert found.n_calls == len(seen)


def test_the_answer_is_never_worse_than_the_start():
    X, y = hinge_problem()
    good = minimise(hinge_oracle(X, y), 5, 1.0, tol=1e-8)
    again = minimise(hinge_oracle(X, y), 5, 1.0, tol=0.5, start=good.w)
    assert again.objective <= good.objective


def test_known_planes_save_calls():
    X, y = hinge_problem(n=400, d=20)
    oracle = hinge_oracle(X, y)
    first = minimise(oracle, 20, 10.0, tol=1e-5)
    again = minimise(oracle, 20, 10.0, tol=1e-5, start=first.w, planes=first.planes)
    assert again.n_calls <= 3 < first.n_calls
    other = minimise(oracle, 20, 12.0, tol=1e-5, start=first.w, planes=first.planes)
    assert other.n_calls < minimise(oracle, 20, 12.0, tol=1e-5).n_calls


@pytest.mark.parametrize("constant", [0.0, 20.0, 100.0])
def test_a_constant_part_of_the_risk_costs_few_calls(constant):
    """The allowed gap, small beside the decrease from w = 0, falls below the tolerance of the small problems."""
    oracle = hinge_oracle(*hinge_problem())

    def raised(w):
        plane = oracle(w)
        return plane._replace(offset=plane.offset + constant)

    found = minimise(raised, 5, 10.0, 0.1)
    assert found.converged
    assert found.n_calls <= 3 * minimise(oracle, 5, 10.0, 0.001).n_calls


def test_a_risk_of_zero_ends_at_once():
    found = minimise(lambda w: Plane(np.zeros(3), 0.0), 3, 1.0)
    assert (found.n_calls, found.objective, found.gap) == (1, 0.0, 0.0)


def test_too_few_calls_are_told_with_the_remedy():
    X, y = hinge_problem()
    with pytest.warns(ConvergenceWarning, match="duality gap is .* after 2 calls, above tol=1e-06; raise max_calls"):
        found = minimise(hinge_oracle(X, y), 5, 1.0, tol=1e-6, max_calls=2)
    assert not found.converged
    assert found.gap == pytest.approx((found.objective - found.dual) / found.objective)


@pytest.mark.filterwarnings("ignore:the duality gap")
def test_a_tolerance_beyond_rounding_ends_all_the_same():
    X, y = hinge_problem()
    found = minimise(hinge_oracle(X, y), 5, 1.0, tol=1e-300, max_calls=5000)
    assert found.n_calls < 500
    assert 0 <= found.gap < 1e-10


@pytest.mark.parametrize(("C", "tol"), [(0, 1e-3), (-1, 1e-3), (np.nan, 1e-3), (1, 0)])
def test_numbers_that_must_be_positive_are_checked(C, tol):
    with pytest.raises(InputError, match="must be a finite number greater than 0, got"):
        minimise(lambda w: Plane(w, 0.0), 2, C, tol)


def test_a_bundle_keeps_its_gram_matrix_while_it_grows_and_forgets():
    rng = np.random.default_rng(0)
    planes = [Plane(rng.normal(size=4), float(i), i) for i in range(100)]
    bundle = Bundle(4, planes[:10])
    for plane in planes[10:]:
        bundle.add(plane)
    np.testing.assert_allclose(bundle.gram, bundle.gradients @ bundle.gradients.T, atol=1e-12)
    kept = np.arange(101) % 3 == 1
    bundle.keep(kept)
    assert [plane.tag for plane in bundle.planes()] == list(range(0, 100, 3))
    np.testing.assert_allclose(bundle.gram, bundle.gradients @ bundle.gradients.T, atol=1e-12)
    assert bundle.offsets[0] == 0


def test_the_solver_asks_by_yielding():
    steps = cutting_plane(3, 1.0, start=np.ones(3))
    np.testing.assert_array_equal(next(steps), np.ones(3))
