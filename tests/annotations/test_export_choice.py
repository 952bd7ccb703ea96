"""Which boxes are exported, and what an annotated picture must be."""

import numpy as np
import pytest

from lapsvm.annotations.exported import AnnotatedPicture, BoxChoice
from lapsvm.errors import InputError, NotFiniteError, OptionError, ShapeError


@pytest.mark.parametrize("box", [[-1, 0, 5, 5], [0, 0, 11, 5], [5, 0, 5, 5]])
def test_a_box_outside_its_picture_is_refused(tmp_path, box):
    with pytest.raises(InputError, match="area inside 10 x 10"):
        AnnotatedPicture("a", tmp_path, 10, 10, ("c",), np.array([box]), np.array([1.0]))


def test_arrays_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(ShapeError):
        AnnotatedPicture("a", tmp_path, 10, 10, (), np.array([[0.0, 0, 1, 1]]), np.array([1.0]))
    with pytest.raises(NotFiniteError):
        AnnotatedPicture("a", tmp_path, 10, 10, ("c",), np.array([[0.0, 0, np.nan, 1]]), np.array([1.0]))


SCORES, PROBABILITIES = np.array([0.5, 2.0, -1.0, 1.0]), np.array([0.4, 0.9, 0.1, 0.8])


@pytest.mark.parametrize(
    ("choice", "label", "kept"),
    [
        (BoxChoice(), 1, [1]),
        (BoxChoice(), -1, []),
        (BoxChoice(), 0, []),
        (BoxChoice(per_class=3), -1, [1, 3, 0]),
        (BoxChoice(per_class=9), 0, [1, 3, 0, 2]),
        (BoxChoice(per_class=2, labelled_only=True), -1, []),
        (BoxChoice(per_class=2, labelled_only=True), 1, [1, 3]),
        (BoxChoice(threshold=0.4), -1, [1, 3, 0]),
        (BoxChoice(threshold=0.85), 1, [1]),
        (BoxChoice(threshold=0.4, labelled_only=True), -1, []),
        (BoxChoice(threshold=0.95), 1, []),
    ],
)
def test_boxes_are_chosen_by_rank_probability_and_label(choice, label, kept):
    assert choice.indices(SCORES, PROBABILITIES, label).tolist() == kept


def test_choices_that_make_no_sense_are_refused():
    with pytest.raises(OptionError, match="exclude each other"):
        BoxChoice(0.5, 3)
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(OptionError, match="probability between 0 and 1"):
            BoxChoice(wrong)
    with pytest.raises(InputError, match="whole number of 1 or more"):
        BoxChoice(per_class=0)
    with pytest.raises(OptionError, match="no probabilities for the parameter threshold; use the parameter per_class"):
        BoxChoice(0.5).indices(SCORES, None, 1)
