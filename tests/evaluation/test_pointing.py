"""Pointing: centres on edges, several objects and inverted boxes; what it shares with CorLoc is tested there."""

import numpy as np
import pytest

from lapsvm.catalog import GroundTruth
from lapsvm.evaluation import Detections, corloc, pointing

BOX, FAR = (10, 20, 30, 40), (110, 20, 130, 40)


def objects(*boxes, difficult=()):
    flags = np.array([i in difficult for i in range(len(boxes))], dtype=bool)
    return GroundTruth(np.array(boxes, dtype=float).reshape(-1, 4), flags)


def measure(lines, truth):
    pictures, scores, boxes = zip(*lines, strict=True) if lines else ((), (), ())
    return pointing({"cat": Detections(pictures, scores, boxes)}, {"cat": truth}).classes["cat"]


def around(x, y, half=4):
    """Return a box with this centre."""
    return (x - half, y - half, x + half, y + half)


@pytest.mark.parametrize(
    ("x", "y", "hit"),
    [
        (10, 30, True), (np.nextafter(10, 0), 30, False), (30, 30, False), (np.nextafter(30, 0), 30, True),
        (20, 20, True), (20, np.nextafter(20, 0), False), (20, 40, False), (20, np.nextafter(40, 0), True),
        (10, 20, True), (30, 40, False), (10, 40, False), (30, 20, False),
    ],
)  # fmt: skip
def test_a_centre_on_the_left_or_upper_edge_is_inside_and_on_the_others_not(x, y, hit):
    assert measure([("a", 1, (x, y, x, y))], {"a": objects(BOX)}).hits.tolist() == [hit]
    if float(x).is_integer() and float(y).is_integer():
        assert measure([("a", 1, around(x, y))], {"a": objects(BOX)}).hits.tolist() == [hit]


def test_a_centre_between_two_pixels_is_not_rounded():
    assert measure([("a", 1, (9, 20, 10, 40))], {"a": objects(BOX)}).share == 0
    assert measure([("a", 1, (29, 20, 30, 40))], {"a": objects(BOX)}).share == 1


def test_an_edge_that_loses_digits_in_voc_coordinates_is_compared_as_it_is():
    edge = 1e-17
    assert edge + 1 - 1 == 0
    assert measure([("a", 1, (0, 0, 0, 0))], {"a": objects((edge, 0, 1, 1))}).share == 0
    assert measure([("a", 1, (0.1, 0.1, 0.1, 0.1))], {"a": objects((0.1, 0.1, 1, 1))}).share == 1


def test_any_of_several_objects_is_a_hit_but_not_the_gap_between_them():
    truth = {"a": objects(BOX, FAR)}
    assert measure([("a", 1, around(20, 30))], truth).hits.tolist() == [True]
    assert measure([("a", 1, around(120, 30))], truth).hits.tolist() == [True]
    assert measure([("a", 1, (10, 20, 130, 40))], truth).hits.tolist() == [False]


def test_an_object_is_pointed_at_only_in_its_own_picture():
    truth = {"a": objects(BOX), "none": objects(), "b": objects(FAR, BOX)}
    assert measure([("b", 2, around(120, 30)), ("a", 1, around(120, 30))], truth).hits.tolist() == [False, True]


def test_pictures_and_windows_are_those_of_corloc():
    truth = {"a": objects(BOX), "b": objects(), "c": objects(FAR, difficult={0}), "d": objects(BOX)}
    lines = [("c", 1, FAR), ("b", 9, BOX), ("a", 1, FAR), ("a", 2, BOX), ("c", 1, BOX)]
    result = measure(lines, truth)
    located = corloc({"cat": Detections(*zip(*lines, strict=True))}, {"cat": truth}).classes["cat"]
    assert result.image_ids == located.image_ids == ("a", "c", "d")
    assert result.windows.tolist() == located.windows.tolist() == [3, 0, -1]
    assert result.hits.tolist() == [True, True, False]


@pytest.mark.parametrize("box", [(30, 20, 10, 40), (10, 40, 30, 20), (30, 40, 10, 20)])
def test_an_inverted_box_is_pointed_at_by_none_and_points_at_nothing(box):
    assert measure([("a", 1, box)], {"a": objects(BOX)}).share == 0
    assert measure([("a", 1, BOX)], {"a": objects(box)}).share == 0


def test_large_coordinates_do_not_overflow():
    large = 1.5e308
    assert measure([("a", 1, (large, 0, large, 1))], {"a": objects((1e308, 0, 1.7e308, 1))}).share == 1
