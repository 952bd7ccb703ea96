"""The fall of an outer step at which training may end."""

import pytest

from lapsvm.optim.certificate import allowed_fall


@pytest.mark.parametrize(
    ("objective", "at_zero", "expected"),
    [
        (0.5, 1.0, 0.005),  # much was learned: a share of the objective
        (0.9, 1.0, 0.005),  # little was learned: a share of that
        (0.99, 1.0, 0.0005),
        (1.0, 1.0, 1e-8),  # w = 0 is optimal, up to rounding
        (1.1, 1.0, 1.1e-8),
        (0.0, 1.0, 0.0),
    ],
)
def test_a_fall_is_small_beside_the_objective_and_beside_what_was_learned(objective, at_zero, expected):
    assert allowed_fall(objective, at_zero, tol=0.01) == pytest.approx(expected, rel=1e-9)
