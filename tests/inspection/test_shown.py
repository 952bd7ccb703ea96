"""The one rule by which boxes are shown: with a threshold, with an alarm, in improbable pictures, and otherwise."""

import numpy as np
import pytest

from lapsvm.detection import AlarmThreshold, Shown
from lapsvm.inspection.whole_pictures import PictureModel


def shown(rule, probabilities, **of_picture):
    """Return the probabilities of the shown boxes of each class; its number of boxes where it has none."""
    arrays = {name: None if row is None else np.array(row) for name, row in probabilities.items()}
    bests = {name: row[0] for name, row in probabilities.items() if row}
    rows = rule.rows(arrays, bests | of_picture)
    return {name: "all" if row is None else row[rows[name]].tolist() for name, row in arrays.items()}


def alarm(probability, **pictures):
    return Shown(alarm=AlarmThreshold(probability, 0.05, {}, pictures=pictures))


@pytest.mark.parametrize(
    ("probabilities", "least", "kept"),
    [([0.9, 0.6, 0.4], 0.1, [0.9, 0.6]), ([0.4, 0.3], 0.1, [0.4]), ([0.9, 0.6, 0.4], 0.7, [0.9]), ([0.4], 0.5, []),
     ([], 0.5, [])],
)  # fmt: skip
def test_a_class_that_alarms_shows_its_best_box_and_other_probable_ones(probabilities, least, kept):
    assert shown(alarm(least), {"cat": probabilities, "dog": None}) == {"cat": kept, "dog": "all"}


@pytest.mark.parametrize(
    ("probabilities", "of_picture", "kept"),
    [([0.2, 0.1], 0.3, [0.2]), ([0.9, 0.6, 0.4], 0.3, [0.9, 0.6]), ([0.9, 0.6], 0.29, []), ([], 0.9, [])],
)  # fmt: skip
def test_where_the_whole_picture_counts_it_decides_whether_a_class_alarms(probabilities, of_picture, kept):
    assert shown(alarm(0.3), {"cat": probabilities}, cat=of_picture) == {"cat": kept}


@pytest.mark.parametrize(("threshold", "kept"), [(0, [0.9, 0.3, 0.0]), (0.3, [0.9, 0.3]), (0.31, [0.9]), (1, [])])
def test_a_threshold_counts_before_an_alarm(threshold, kept):
    rule = Shown(threshold, alarm(0.95).alarm)
    assert shown(rule, {"cat": [0.9, 0.3, 0.0], "dog": None}) == {"cat": kept, "dog": "all"}


def test_without_both_an_improbable_picture_shows_the_best_box_of_each_class():
    assert shown(Shown(), {"cat": [0.4, 0.3], "dog": [0.1, 0.0]}) == {"cat": [0.4], "dog": [0.1]}
    assert shown(Shown(), {"cat": [0.4, 0.3], "dog": [0.5, 0.0]}) == {"cat": [0.4, 0.3], "dog": [0.5, 0.0]}
    assert shown(Shown(), {"cat": [0.4, 0.3], "dog": None}) == {"cat": [0.4, 0.3], "dog": "all"}


@pytest.mark.parametrize(
    ("rule", "least", "sentence"),
    [
        (Shown(), 0.5, "a probability of at least 0.5"),
        (Shown(0.0, alarm(0.25).alarm), 0, "a probability of at least 0"),
        (alarm(0.25), 0.25, "a probability of at least 0.25"),
        (alarm(0.25, cat=PictureModel(1, 0, [1.0])), 0, "an alarm of their class"),
    ],
)
def test_drawings_say_which_boxes_they_show(rule, least, sentence):
    assert (rule.least, rule.sentence) == (least, sentence)
