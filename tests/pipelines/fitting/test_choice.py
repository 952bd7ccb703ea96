"""A class learns from the reviewed pictures alone where they are many, or where labels choose mostly wrong boxes."""

from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.fitting.refinement import Chain, StoredPictures
from lapsvm.pipelines.fitting.tasks import FitTask
from lapsvm.pipelines.fitting.verdicts import choice
from lapsvm.pipelines.fitting.verdicts.reviewed import Reviews
from lapsvm.pipelines.run.settings import Settings

from lapsvm.bags import Bags
from lapsvm.latent import KnownBoxes

COUNT = 48
PART, WHOLE = np.array([[0.0, 0, 10, 10]]), np.array([[0.0, 0, 40, 40]])
REJECTED = KnownBoxes(np.empty((0, 4)), PART)
FOLD = np.arange(COUNT) % 3 + 1
Y = np.where(np.arange(COUNT) < 36, 1, -1).astype(np.int8)


def chains(weights=(1.0, 0.0)):
    """Return the model that sees all folds, and those without fold 1, 2 and 3; they find the part."""
    labels = [np.where(number == FOLD, 0, Y).astype(np.int8) for number in range(4)]
    return [Chain(y, np.array(weights), 0.0, np.zeros(COUNT, dtype=np.intp)) for y in labels]


def task(boxes, random=True):
    known = {row: one if isinstance(one, KnownBoxes) else KnownBoxes(one, one[:0]) for row, one in enumerate(boxes)}
    return FitTask("cat", Y, {}, Path("cat"), Reviews(known, random=tuple(known) if random else ()))


@pytest.fixture
def pictures():
    """Pictures with two windows each, a part and the whole; a model sees one of them."""
    bags = Bags(np.tile(np.eye(2), (COUNT, 1)), np.arange(0, 2 * COUNT + 1, 2))
    boxes = np.tile(np.vstack([PART, WHOLE]), (COUNT, 1)).astype(np.float32)
    return StoredPictures(bags, boxes, np.ones(2), tuple(map(str, range(COUNT))), np.ones(2, dtype=bool))


def test_reviewed_positives_and_all_negatives_are_trained_on():
    alone = choice.reviewed_alone(chains(), task([PART] * 8 + [REJECTED] * 4))
    for number, chain in enumerate(alone):
        rows = [row for row in range(COUNT) if (row < 8 or Y[row] < 0) and FOLD[row] != number]
        assert np.flatnonzero(chain.y).tolist() == rows


@pytest.mark.parametrize(("boxes", "enough"), [([PART] * 14, False), ([PART] * 15, True), ([REJECTED] * 20, False)])
def test_enough_known_objects_are_learned_from_alone(boxes, enough):
    assert choice.are_enough(choice.reviewed_alone(chains(), task(boxes))) == enough


def test_they_are_not_enough_where_a_model_without_a_fold_sees_too_few():
    alone = choice.reviewed_alone(chains(), task([PART] * 15))
    alone[2] = alone[2]._replace(y=np.where(np.arange(COUNT) < 12, 0, alone[2].y).astype(np.int8))
    assert not choice.are_enough(alone)
    assert choice.are_enough(alone[:1])  # a class without folds


def test_a_box_is_judged_by_the_model_without_its_fold(pictures):
    reviewed = task([PART, WHOLE] * 6)
    judged, found = choice.judged_pictures(reviewed, FOLD), chains()
    found[0] = found[0]._replace(weights=np.array([0.0, 1.0]))  # it sees all verdicts, and judges none
    found[2] = found[2]._replace(weights=np.array([0.0, 1.0]))
    right = choice.right_boxes(found, FOLD, judged, reviewed, pictures, Settings())
    finds_whole = FOLD[judged] == 2
    assert right.tolist() == [bool(whole) == row % 2 for row, whole in enumerate(finds_whole)]


def decided(boxes, right):
    """Return the chains that learn alone, where so many boxes are right."""
    reviewed = task(boxes)
    alone, judged = choice.reviewed_alone(chains(), reviewed), choice.judged_pictures(reviewed, FOLD)
    return choice.mostly_wrong(np.asarray(right), judged, FOLD, alone)


@pytest.mark.parametrize(("right", "alone"), [(0, True), (6, True), (7, False), (12, False)])
def test_a_class_learns_alone_where_at_most_half_of_the_boxes_are_right(right, alone):
    assert (0 in decided([PART] * 12, np.arange(12) < right)) == alone


def test_the_model_without_a_fold_goes_by_the_verdicts_of_the_others():
    """The boxes of fold 1 are wrong, those of the others right."""
    assert decided([PART] * 24, FOLD[:24] != 1) == [2, 3]


def test_few_verdicts_or_those_that_are_not_random_or_without_objects_judge_nothing():
    assert decided([PART] * 9, []) == []
    for reviewed in (task([PART] * 9), task([PART] * 12, random=False), task([REJECTED] * 12)):
        assert not len(choice.judged_pictures(reviewed, FOLD))
    assert not len(choice.judged_pictures(task([PART] * 12), np.zeros(COUNT, dtype=np.intp)))
