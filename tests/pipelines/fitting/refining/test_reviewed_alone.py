"""A class learns from the reviewed pictures alone where they are many, or where labels choose mostly wrong boxes."""

from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.fitting.refining import reviewed_alone
from lapsvm.pipelines.fitting.refining.chains import Chain
from lapsvm.pipelines.fitting.refining.pictures import StoredPictures
from lapsvm.pipelines.fitting.reviewed import Reviews

from lapsvm.bags import Bags
from lapsvm.latent import KnownBoxes
from lapsvm.settings import DetectSettings

COUNT = 48
PART, WHOLE = np.array([[0.0, 0, 10, 10]]), np.array([[0.0, 0, 40, 40]])
REJECTED = KnownBoxes(np.empty((0, 4)), PART)
FOLD = np.arange(COUNT) % 3 + 1
Y = np.where(np.arange(COUNT) < 36, 1, -1).astype(np.int8)


def chains(weights=(1.0, 0.0)):
    """Return the model that sees all folds, and those without fold 1, 2 and 3; they find the part."""
    labels = [np.where(number == FOLD, 0, Y).astype(np.int8) for number in range(4)]
    return [Chain(y, np.array(weights), np.zeros(COUNT, dtype=np.intp)) for y in labels]


def reviews(boxes, random=True):
    known = {row: one if isinstance(one, KnownBoxes) else KnownBoxes(one, one[:0]) for row, one in enumerate(boxes)}
    return Reviews(known, random=tuple(known) if random else ())


@pytest.fixture
def pictures():
    """Pictures with two windows each, a part and the whole; a model sees one of them."""
    bags = Bags(np.tile(np.eye(2), (COUNT, 1)), np.arange(0, 2 * COUNT + 1, 2))
    boxes = np.tile(np.vstack([PART, WHOLE]), (COUNT, 1)).astype(np.float32)
    return StoredPictures(bags, boxes, np.ones(2), tuple(map(str, range(COUNT))), np.ones(2, dtype=bool))


def test_reviewed_positives_and_all_negatives_are_trained_on():
    alone = reviewed_alone.reviewed_chains(chains(), reviews([PART] * 8 + [REJECTED] * 4).known)
    for number, chain in enumerate(alone):
        rows = [row for row in range(COUNT) if (row < 8 or Y[row] < 0) and FOLD[row] != number]
        assert np.flatnonzero(chain.y).tolist() == rows


@pytest.mark.parametrize(("boxes", "enough"), [([PART] * 14, False), ([PART] * 15, True), ([REJECTED] * 20, False)])
def test_enough_known_objects_are_learned_from_alone(boxes, enough):
    assert reviewed_alone.are_enough(reviewed_alone.reviewed_chains(chains(), reviews(boxes).known)) == enough


def test_they_are_not_enough_where_a_model_without_a_fold_sees_too_few():
    alone = reviewed_alone.reviewed_chains(chains(), reviews([PART] * 15).known)
    alone[2] = alone[2]._replace(y=np.where(np.arange(COUNT) < 12, 0, alone[2].y).astype(np.int8))
    assert not reviewed_alone.are_enough(alone)
    assert reviewed_alone.are_enough(alone[:1])  # a class without folds


def test_a_box_is_judged_by_the_model_without_its_fold(pictures):
    said = reviews([PART, WHOLE] * 6)
    judged, found = reviewed_alone.judged_pictures(said, FOLD), chains()
    found[0] = found[0]._replace(weights=np.array([0.0, 1.0]))  # it sees all verdicts, and judges none
    found[2] = found[2]._replace(weights=np.array([0.0, 1.0]))
    right = reviewed_alone.right_boxes(found, FOLD, judged, replace(pictures, known=said.known), DetectSettings())
    finds_whole = FOLD[judged] == 2
    assert right.tolist() == [bool(whole) == row % 2 for row, whole in enumerate(finds_whole)]


def decided(boxes, right):
    """Return the chains that learn alone, where so many boxes are right."""
    said = reviews(boxes)
    alone = reviewed_alone.reviewed_chains(chains(), said.known)
    judged = reviewed_alone.judged_pictures(said, FOLD)
    return reviewed_alone.mostly_wrong(np.asarray(right), judged, FOLD, alone)


@pytest.mark.parametrize(("right", "alone"), [(0, True), (6, True), (7, False), (12, False)])
def test_a_class_learns_alone_where_at_most_half_of_the_boxes_are_right(right, alone):
    assert (0 in decided([PART] * 12, np.arange(12) < right)) == alone


def test_the_model_without_a_fold_goes_by_the_verdicts_of_the_others():
    """The boxes of fold 1 are wrong, those of the others right."""
    assert decided([PART] * 24, FOLD[:24] != 1) == [2, 3]


def test_few_verdicts_or_those_that_are_not_random_or_without_objects_judge_nothing():
    assert decided([PART] * 9, []) == []
    for said in (reviews([PART] * 9), reviews([PART] * 12, random=False), reviews([REJECTED] * 12)):
        assert not len(reviewed_alone.judged_pictures(said, FOLD))
    assert not len(reviewed_alone.judged_pictures(reviews([PART] * 12), np.zeros(COUNT, dtype=np.intp)))
