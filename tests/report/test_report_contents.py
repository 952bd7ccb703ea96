"""What may fill a page: numbers that are finite or None, curves whose halves fit."""

import math

import pytest

from lapsvm.errors import NotFiniteError, ShapeError
from lapsvm.report import CccpStep, ClassSummary, Curve, Example


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_named_with_its_owner(value):
    with pytest.raises(NotFiniteError, match=r"gap of class 'bus' must be finite \(None where undefined\), got"):
        ClassSummary("bus", duality_gap=value)
    with pytest.raises(NotFiniteError, match=r"objective of a CCCP step must be finite"):
        CccpStep(value)
    with pytest.raises(NotFiniteError, match=r"score of example '000012' must be finite"):
        Example("000012", lambda: None, [0, 0, 1, 1], value)


def test_a_curve_with_halves_of_different_length_is_refused():
    with pytest.raises(ShapeError, match=r"recall and precision must have the same length, got 2 and 3"):
        Curve([0.1, 0.2], [1.0, 1.0, 0.5])


def test_a_curve_with_nan_is_refused():
    with pytest.raises(NotFiniteError, match=r"precision must be finite, got nan at index 0"):
        Curve([0.0], [math.nan])


def test_steps_that_are_not_known_are_counted_as_undefined():
    assert ClassSummary("bus").cccp_steps is None
    assert ClassSummary("bus", steps=(CccpStep(1.0), CccpStep(0.5))).cccp_steps == 2
