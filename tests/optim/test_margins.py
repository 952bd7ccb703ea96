"""The losses of TopPush: derivatives by differences, conjugates by their definition."""

import numpy as np
import pytest

from lapsvm.optim.margins import margin

M = 5
Z = np.linspace(-4, 4, 801) + 1e-4  # no point within a step of a kink
STEP = 1e-6
LOSSES = pytest.mark.parametrize("loss", ["exponential", "logistic", "squared_hinge"])


@LOSSES
def test_derivatives_agree_with_finite_differences(loss):
    value, derivative, second, *_ = margin(loss, M)
    np.testing.assert_allclose((value(Z + STEP) - value(Z - STEP)) / (2 * STEP), derivative(Z), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        (derivative(Z + STEP) - derivative(Z - STEP)) / (2 * STEP), second(Z), rtol=1e-6, atol=1e-8
    )


@LOSSES
def test_the_conjugate_is_the_maximum_over_a_grid(loss):
    loss_functions = margin(loss, M)
    alpha = np.linspace(0.001, 0.999, 50) * min(loss_functions.max_derivative, 8.0)
    z = np.linspace(-60, 60, 1_200_001)
    values = loss_functions.value(z)
    for a in alpha:
        assert loss_functions.conjugate(np.array([a]))[0] == pytest.approx(np.max(a * z - values), abs=1e-6)


@LOSSES
def test_fenchels_inequality_is_tight_at_the_derivative(loss):
    loss_functions = margin(loss, M)
    slopes = loss_functions.derivative(Z)
    np.testing.assert_allclose(slopes * Z - loss_functions.value(Z), loss_functions.conjugate(slopes), atol=1e-9)


def test_the_exponential_continues_along_its_tangent():
    loss_functions, top = margin("exponential", M), np.log(M) + 1
    np.testing.assert_allclose(loss_functions.value(np.array([top + 2])), np.exp(top) * 3)
    np.testing.assert_array_equal(loss_functions.derivative(np.array([top + 2, 1e300])), np.exp(top))
    np.testing.assert_array_equal(loss_functions.second_derivative(np.array([top + 2])), 0)


@LOSSES
def test_the_mean_uses_the_exact_loss_and_never_overflows(loss):
    loss_functions = margin(loss, M)
    exact = {"exponential": np.exp, "logistic": lambda z: np.log1p(np.exp(z)), "squared_hinge": loss_functions.value}[
        loss
    ]
    assert loss_functions.mean(Z) == pytest.approx(np.mean(exact(Z)))
    assert np.isfinite(loss_functions.mean(np.array([0.0, 5000.0])))
