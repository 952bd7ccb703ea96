"""Detections of a picture as JSON."""

import json

import numpy as np
import pytest

from lapsvm.detection import to_json
from lapsvm.errors import NotFiniteError, ShapeError


def test_a_picture_is_one_object_with_the_best_of_all_classes_first():
    found = {"cat": ([[0, 1, 2, 3], [4, 5, 6, 7]], [2, 0.5]), "dog": (np.array([[8.5, 9, 10, 11]]), np.array([1.0]))}
    assert to_json("a.jpg", 500, np.int64(375), found) == {
        "image": "a.jpg",
        "width": 500,
        "height": 375,
        "detections": [
            {"class": "cat", "score": 2.0, "box": [0.0, 1.0, 2.0, 3.0]},
            {"class": "dog", "score": 1.0, "box": [8.5, 9.0, 10.0, 11.0]},
            {"class": "cat", "score": 0.5, "box": [4.0, 5.0, 6.0, 7.0]},
        ],
    }


def test_it_is_what_json_can_hold():
    found = to_json("a.jpg", 5, 4, {"cat": (np.float32([[0, 0, 1, 1]]), np.float32([0.1]))})
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_equal_scores_stay_in_the_order_given():
    found = to_json("a.jpg", 5, 4, {name: ([[0, 0, 1, 1]], [1]) for name in ("b", "a", "c")})
    assert [one["class"] for one in found["detections"]] == ["b", "a", "c"]


def test_nothing_found_is_an_empty_list():
    assert to_json("a.jpg", 5, 4, {"cat": ([], [])})["detections"] == []


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="boxes and scores must have the same length, got 1 and 2"):
        to_json("a.jpg", 5, 4, {"cat": ([[0, 0, 1, 1]], [1, 2])})
    with pytest.raises(NotFiniteError, match="scores must be finite, got nan at index 0"):
        to_json("a.jpg", 5, 4, {"cat": ([[0, 0, 1, 1]], [np.nan])})


def test_probabilities_stand_beside_the_scores_of_classes_that_have_some():
    boxes = [[0, 0, 1, 1], [0, 0, 2, 2]]
    found = to_json("a.jpg", 5, 4, {"cat": (boxes, [3, 1]), "dog": (boxes[:1], [2])}, {"cat": np.array([0.9, 0.2])})
    assert [(one["class"], one.get("probability")) for one in found["detections"]] == [
        ("cat", 0.9),
        ("dog", None),
        ("cat", 0.2),
    ]
    assert "probability" not in found["detections"][1]
    with pytest.raises(ShapeError, match="boxes and probabilities must have the same length, got 2 and 1"):
        to_json("a.jpg", 5, 4, {"cat": (boxes, [3, 1])}, {"cat": [0.9]})
