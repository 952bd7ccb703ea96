"""The kinds of misses: each rule, their order, and what no rule may depend on."""

import numpy as np
import pytest

from lapsvm.boxes import iou
from lapsvm.errors import ShapeError
from lapsvm.report import MissKind, miss_kind

OBJECT = [100, 100, 200, 200]
FAR = [900, 900, 950, 950]


@pytest.mark.parametrize(
    ("box", "kind"),
    [
        ([50, 50, 250, 250], MissKind.TOO_LARGE),  # holds it all
        ([110, 110, 150, 150], MissKind.TOO_SMALL),  # lies in it
        ([0, 0, 167, 200], MissKind.TOO_LARGE),  # holds 67 %
        ([0, 0, 166, 200], MissKind.POOR_OVERLAP),  # holds 66 %
        ([80, 120, 140, 160], MissKind.TOO_SMALL),  # two thirds of it lie on the object, exactly
        ([79, 120, 140, 160], MissKind.POOR_OVERLAP),  # 40 of 61 columns lie on it
        ([200, 100, 300, 200], MissKind.POOR_OVERLAP),  # touches it
        ([150, 100, 250, 200], MissKind.POOR_OVERLAP),  # the object's size, shifted by half
        ([600, 600, 700, 700], MissKind.POOR_OVERLAP),  # far away
        ([0, 0, 160, 160], MissKind.POOR_OVERLAP),  # large, but holds only 36 %
    ],
)
def test_one_object(box, kind):
    assert miss_kind(box, [OBJECT]) is kind


def test_an_object_of_another_class_that_fits_better_is_the_wrong_object():
    assert miss_kind([600, 600, 700, 700], [OBJECT], [[605, 605, 700, 700]]) is MissKind.WRONG_OBJECT


def test_a_window_that_lies_on_another_object_without_fitting_it_is_on_the_wrong_object():
    window, other = [600, 600, 620, 620], [500, 500, 800, 800]
    assert iou([window], [other])[0, 0] < 0.5
    assert miss_kind(window, [OBJECT], [other]) is MissKind.WRONG_OBJECT


def test_fitting_another_object_is_told_before_holding_the_right_one():
    window, rider, horse = [0, 0, 200, 200], [80, 0, 120, 90], [0, 10, 200, 200]
    assert miss_kind(window, [rider]) is MissKind.TOO_LARGE
    assert miss_kind(window, [rider], [horse]) is MissKind.WRONG_OBJECT


def test_a_part_of_the_right_object_is_told_before_the_other_object_below_it():
    face, cat, sofa = [120, 120, 150, 150], [100, 100, 200, 200], [0, 50, 400, 300]
    assert miss_kind(face, [cat], [sofa]) is MissKind.TOO_SMALL


def test_another_object_that_only_touches_the_window_changes_nothing():
    assert miss_kind([600, 600, 700, 700], [OBJECT], [[690, 690, 800, 800]]) is MissKind.POOR_OVERLAP


def test_the_nearest_object_of_the_class_decides():
    assert miss_kind([110, 110, 150, 150], [FAR, OBJECT]) is MissKind.TOO_SMALL
    assert miss_kind([50, 50, 250, 250], [FAR, OBJECT]) is MissKind.TOO_LARGE


def test_a_window_over_a_crowd_is_too_large():
    crowd = [[x, 0, x + 40, 100] for x in (0, 50, 100, 150)]
    assert miss_kind([0, 0, 190, 100], crowd) is MissKind.TOO_LARGE


def test_without_an_object_the_window_is_beside():
    assert miss_kind(OBJECT, []) is MissKind.POOR_OVERLAP


@pytest.mark.parametrize("box", [[5, 5, 5, 9], [9, 9, 5, 5]], ids=["flat", "inverted"])
def test_an_empty_window_is_beside(box):
    assert miss_kind(box, [[0, 0, 10, 10]], [[0, 0, 20, 20]]) is MissKind.POOR_OVERLAP


def test_the_sizes_decide_for_a_window_that_another_threshold_called_a_miss():
    assert miss_kind([90, 90, 210, 210], [OBJECT]) is MissKind.TOO_LARGE
    assert miss_kind([105, 105, 195, 195], [OBJECT]) is MissKind.TOO_SMALL


@pytest.mark.parametrize("box", [[[0, 0, 1, 1]], [0, 0, 1], 3.0])
def test_a_window_of_another_shape_is_named(box):
    with pytest.raises(ShapeError, match=r"box must be one box of shape \(4,\), got shape"):
        miss_kind(box, [OBJECT])


def test_truth_of_another_shape_is_named():
    with pytest.raises(ShapeError, match=r"other_truth_boxes must have shape \(n, 4\), got \(2, 3\)"):
        miss_kind(OBJECT, [OBJECT], np.zeros((2, 3)))
