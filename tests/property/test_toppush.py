"""The projection onto alpha, beta >= 0 of equal sums: kernel, twin, and a root found by sorting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq, minimize

from lapsvm._ext import toppush as kernel

from ..twins import optim as reference

BOTH = pytest.mark.parametrize("project", [kernel.project, reference.project])
NUMBERS = st.floats(-100, 100, allow_subnormal=False) | st.integers(-3, 3).map(float)
VECTORS = st.integers(1, 12).flatmap(lambda n: arrays(np.float64, n, elements=NUMBERS))


def projected(project, a, b):
    alpha, beta = a.copy(), b.copy()
    return alpha, beta, project(alpha, beta)


@BOTH
@given(VECTORS, VECTORS)
def test_the_result_is_feasible_and_of_the_optimal_form(project, a, b):
    alpha, beta, gamma = projected(project, a, b)
    assert alpha.min() >= 0
    assert beta.min() >= 0
    assert alpha.sum() == pytest.approx(beta.sum(), abs=1e-10)
    np.testing.assert_array_equal(alpha, np.maximum(a - gamma, 0))
    np.testing.assert_array_equal(beta, np.maximum(b + gamma, 0))


@given(VECTORS, VECTORS)
def test_the_kernel_agrees_with_its_twin_and_with_the_root_by_bisection(a, b):
    def surplus(gamma):
        return np.maximum(a - gamma, 0).sum() - np.maximum(b + gamma, 0).sum()

    root = brentq(surplus, -201, 201, xtol=1e-13)
    alpha, beta, _ = projected(kernel.project, a, b)
    twin_alpha, twin_beta, _ = projected(reference.project, a, b)
    np.testing.assert_allclose(alpha, twin_alpha, atol=1e-10)
    np.testing.assert_allclose(beta, twin_beta, atol=1e-10)
    np.testing.assert_allclose(alpha, np.maximum(a - root, 0), atol=1e-8)
    np.testing.assert_allclose(beta, np.maximum(b + root, 0), atol=1e-8)


@BOTH
@given(VECTORS, VECTORS)
def test_a_projection_of_a_projection_changes_nothing(project, a, b):
    once = projected(project, a, b)[:2]
    twice = projected(project, *once)[:2]
    for first, second in zip(once, twice, strict=True):
        np.testing.assert_allclose(second, first, atol=1e-10)


@BOTH
@pytest.mark.parametrize("seed", range(5))
def test_the_projection_is_that_of_a_quadratic_program(project, seed):
    a, b = np.random.default_rng(seed).normal(size=(2, 6))
    point = np.concatenate([a, b])
    signs = np.repeat([1.0, -1.0], 6)
    found = minimize(
        lambda z: ((z - point) ** 2).sum() / 2,
        np.zeros(12),
        jac=lambda z: z - point,
        bounds=[(0, None)] * 12,
        constraints={"type": "eq", "fun": lambda z: signs @ z, "jac": lambda _: signs},
        method="SLSQP",
        options={"ftol": 1e-15},
    )
    np.testing.assert_allclose(np.concatenate(projected(project, a, b)[:2]), found.x, atol=1e-7)


@BOTH
def test_an_empty_side_leaves_nothing(project):
    alpha, beta, _ = projected(project, np.array([3.0, -1.0]), np.zeros(0))
    np.testing.assert_array_equal(alpha, np.zeros(2))
    assert len(beta) == 0


def test_large_vectors_agree_with_the_root_by_bisection():
    a, b = np.random.default_rng(0).normal(size=(2, 200_000))
    alpha, beta, gamma = projected(kernel.project, a, b)
    breakpoints = np.sort(np.concatenate([a, -b]))
    # above a breakpoint, alpha's part counts every larger breakpoint of alpha, beta's every smaller one of -beta
    low, high = breakpoints[0], breakpoints[-1]
    for _ in range(200):
        middle = (low + high) / 2
        rising = np.maximum(a - middle, 0).sum() >= np.maximum(b + middle, 0).sum()
        low, high = (middle, high) if rising else (low, middle)
    assert gamma == pytest.approx(low, abs=1e-12)
    assert alpha.sum() == pytest.approx(beta.sum(), rel=1e-12)
