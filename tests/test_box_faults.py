"""What is wrong with a box: one rule, against a slow reading of it, and what is counted of it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapsvm.box_faults import (
    EMPTY,
    NOT_NUMBERS,
    OTHER_SIZE,
    OUTSIDE,
    ROTATED,
    SHARES,
    box_faults,
    is_rotated,
    left_out_sentence,
)
from lapsvm.ground_truth import GroundTruth, TruthByClass, object_faults, truth_by_class

ODD = (math.nan, math.inf, -math.inf, 0.5, 39.5, 41.0, 41.01, -1.01, 1e300)
NUMBERS = st.one_of(st.integers(-3, 40).map(float), st.sampled_from(ODD))


def slow_fault(box, width, height):
    """The rule for one of several boxes, said number by number."""
    x1, y1, x2, y2 = box
    if not all(map(math.isfinite, box)):
        return NOT_NUMBERS
    if x2 <= x1 or y2 <= y1:
        return EMPTY
    sticks_out = max(-x1, -y1, x2 - width, y2 - height) > 1
    shares_no_pixel = x2 <= 0 or y2 <= 0 or x1 >= width or y1 >= height
    return OUTSIDE if sticks_out or shares_no_pixel else ""


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), max_size=4))
def test_each_box_is_judged_as_the_rule_says(boxes):
    whole = (0.0, 0.0, 40.0, 40.0)  # so that the boxes are no shares
    assert box_faults([*boxes, whole], (40, 40)) == [*(slow_fault(box, 40, 40) for box in boxes), ""]


@pytest.mark.parametrize(
    ("boxes", "size", "faults"),
    [
        ([[0.1, 0.2, 0.5, 0.9], [0, 0, 1, 1]], (640, 480), [SHARES, SHARES]),
        ([[0.1, 0.2, 0.5, 0.9]], None, [SHARES]),
        ([[-0.9, -0.8, 0.5, 0.9]], (640, 480), [SHARES]),  # such numbers in a VOC file, which counts from 1
        ([[0, 0, 1, 1]], (640, 480), [""]),  # a pixel in the corner
        ([[0.1, 0.2, 0.5, 0.9], [10, 10, 20, 20]], (640, 480), ["", ""]),
        ([[0.1, 0.2, 0.5, 0.9]], (2, 2), [""]),
        ([[5, 5, 9e6, 9e6]], None, [""]),
        ([], (640, 480), []),
    ],
)
def test_shares_of_the_sides_are_seen_in_all_boxes_of_a_picture(boxes, size, faults):
    assert box_faults(boxes, size) == faults


@pytest.mark.parametrize("angle", [0, 0.0, "0", "0.0", -0.0, 360, "-720.0", None, "", 1e-9])
def test_whole_turns_are_none(angle):
    assert not is_rotated(angle)


@pytest.mark.parametrize("angle", [90, "45.5", -30, 180, "left", math.nan, math.inf, [0], {}, 10**400])
def test_other_angles_and_what_is_no_angle_turn_a_box(angle):
    assert is_rotated(angle)


def test_a_fault_stays_and_a_picture_of_another_size_has_no_box():
    rows = [ROTATED, (1.0, 1.0, 9.0, 9.0)]
    assert object_faults(rows, (20, 20), (20, 20)) == [ROTATED, ""]
    assert object_faults(rows, (20, 20), (40, 40)) == [ROTATED, OTHER_SIZE]
    assert object_faults(rows, (20, 20)) == [ROTATED, ""]
    assert object_faults(rows, None, (8, 5)) == [ROTATED, OUTSIDE]


def test_what_is_left_out_of_a_truth_is_counted_and_the_rest_stays():
    rows = {
        "a": [
            ("cat", (1, 1, 9, 9), False),
            ("cat", (9, 1, 3, 9), False),
            ("dog", ROTATED, True),
            ("cow", ROTATED, False),
        ],
        "b": [("cat", (50, 50, 60, 60), False)],
        "c": [],
    }
    truth = truth_by_class(rows, ["cat", "dog"], sizes={"b": (20, 20)})
    assert {name: {key: one.boxes.tolist() for key, one in of.items()} for name, of in truth.items()} == {
        "cat": {"a": [[1, 1, 9, 9]], "b": [], "c": []},
        "dog": {"a": [], "b": [], "c": []},
    }
    assert truth.sentence == (
        "4 of 5 annotations are left out of evaluation (1 with an empty box, 2 with a rotated box, "
        "1 with a box outside of the picture)"
    )
    assert (truth.unknown, truth.is_empty) == ({"b"}, False)
    later = truth.checked({"a": (7, 7), "b": (40, 40)})
    assert later.sentence.startswith("5 of 5 annotations are left out")
    assert (later.unknown, later.is_empty, later["cat"]["a"].boxes.tolist()) == ({"a", "b"}, True, [])
    assert truth.checked({"a": (10, 10)})["cat"]["a"].boxes.tolist() == [[1, 1, 9, 9]]


def test_a_truth_of_any_reader_is_checked():
    own = {"cat": {"a": GroundTruth(np.array([[1.0, 1, 9, 9], [2, 2, 5000, 9]]), np.array([True, False]))}}
    checked = TruthByClass(own).checked({"a": (10, 10)})
    assert checked["cat"]["a"].boxes.tolist() == [[1, 1, 9, 9]]
    assert checked["cat"]["a"].difficult.tolist() == [True]
    assert checked.sentence == "1 of 2 annotations are left out of evaluation (1 with a box outside of the picture)"
    assert own["cat"]["a"].boxes.shape == (2, 4)


def test_nothing_left_out_is_no_sentence():
    assert left_out_sentence({}, 3) == left_out_sentence({EMPTY: 0}, 3) == ""
