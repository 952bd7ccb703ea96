"""The losses of TopPush: derivatives by differences, conjugates by their definition."""

import numpy as np
import pytest

from lapsvm.optim.margins import margin

M = 5
Z = np.linspace(-4, 4, 801) + 1e-4  # no point within a step of a kink
STEP = 1e-6
LOSSES = pytest.mark.parametrize("loss", ["exponential", "logistic", "squared_hinge"])


@LOSSES
def test_slope_and_bend_are_the_differences_of_value_and_slope(loss):
    value, slope, bend, *_ = margin(loss, M)
    np.testing.assert_allclose((value(Z + STEP) - value(Z - STEP)) / (2 * STEP), slope(Z), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose((slope(Z + STEP) - slope(Z - STEP)) / (2 * STEP), bend(Z), rtol=1e-6, atol=1e-8)


@LOSSES
def test_the_conjugate_is_the_highest_difference_of_a_line_and_the_loss(loss):
    found = margin(loss, M)
    alpha = np.linspace(0.001, 0.999, 50) * min(found.steepest, 8.0)
    z = np.linspace(-60, 60, 1_200_001)
    values = found.value(z)
    for a in alpha:
        assert found.conjugate(np.array([a]))[0] == pytest.approx(np.max(a * z - values), abs=1e-6)


@LOSSES
def test_a_line_that_touches_the_loss_meets_its_conjugate(loss):
    found = margin(loss, M)
    slopes = found.slope(Z)
    np.testing.assert_allclose(slopes * Z - found.value(Z), found.conjugate(slopes), atol=1e-9)


def test_the_exponential_goes_on_along_its_tangent():
    found, top = margin("exponential", M), np.log(M) + 1
    np.testing.assert_allclose(found.value(np.array([top + 2])), np.exp(top) * 3)
    np.testing.assert_array_equal(found.slope(np.array([top + 2, 1e300])), np.exp(top))
    np.testing.assert_array_equal(found.bend(np.array([top + 2])), 0)


@LOSSES
def test_the_mean_is_that_of_the_loss_itself_and_never_overflows(loss):
    found = margin(loss, M)
    exact = {"exponential": np.exp, "logistic": lambda z: np.log1p(np.exp(z)), "squared_hinge": found.value}[loss]
    assert found.mean(Z) == pytest.approx(np.mean(exact(Z)))
    assert np.isfinite(found.mean(np.array([0.0, 5000.0])))
