"""A class learns from the reviewed pictures alone where its boxes are mostly wrong in random ones."""

from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.fitting.refinement import Chain, StoredPictures
from lapsvm.pipelines.fitting.tasks import FitTask
from lapsvm.pipelines.fitting.verdicts.choice import judged_pictures, learning_alone, right_boxes
from lapsvm.pipelines.fitting.verdicts.reviewed import Reviews
from lapsvm.pipelines.run.settings import Settings

from lapsvm.bags import Bags
from lapsvm.latent import KnownBoxes

COUNT = 48
PART, WHOLE = np.array([[0.0, 0, 10, 10]]), np.array([[0.0, 0, 40, 40]])
NONE = np.empty((0, 4))
FOLD = np.arange(COUNT) % 3 + 1
Y = np.where(np.arange(COUNT) < 36, 1, -1).astype(np.int8)


def chains(weights=(1.0, 0.0)):
    """Return the model that sees all folds, and those without fold 1, 2 and 3; they find the part."""
    labels = [np.where(number == FOLD, 0, Y).astype(np.int8) for number in range(4)]
    return [Chain(y, np.array(weights), 0.0, np.zeros(COUNT, dtype=np.intp)) for y in labels]


def task(boxes, random=True):
    known = {row: one if isinstance(one, KnownBoxes) else KnownBoxes(one, NONE) for row, one in enumerate(boxes)}
    return FitTask("cat", Y, {}, Path("cat"), Reviews(known, random=tuple(known) if random else ()))


class Rounds:
    """Keeps what it is asked to train."""

    def __init__(self):
        self.trained = []

    def refined(self, chains, title, reporter):
        self.trained += [np.flatnonzero(chain.y).tolist() for chain in chains]
        return [chain._replace(intercept=1.0) for chain in chains]


class Listener:
    """Keeps what is said."""

    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


def decided(boxes, right):
    """Return which chains learn alone, the record, the pictures that they train with, and what is said."""
    rounds, listener, reviewed = Rounds(), Listener(), task(boxes)
    judged = judged_pictures(reviewed, FOLD)
    alone, record = learning_alone(rounds, chains(), np.array(right), judged, FOLD, reviewed, listener)
    assert all(chain.intercept == 1.0 for chain in alone.values())
    return sorted(alone), record["judged_by_verdicts"], rounds.trained, listener.lines


@pytest.fixture
def pictures():
    """Pictures with two windows each, a part and the whole; a model sees one of them."""
    bags = Bags(np.tile(np.eye(2), (COUNT, 1)), np.arange(0, 2 * COUNT + 1, 2))
    boxes = np.tile(np.vstack([PART, WHOLE]), (COUNT, 1)).astype(np.float32)
    return StoredPictures(bags, boxes, np.ones(2), tuple(map(str, range(COUNT))), np.ones(2, dtype=bool))


def test_a_box_is_judged_by_the_model_without_its_fold(pictures):
    reviewed = task([PART, WHOLE] * 6)
    judged, found = judged_pictures(reviewed, FOLD), chains()
    found[0] = found[0]._replace(weights=np.array([0.0, 1.0]))  # it sees all verdicts, and judges none
    found[2] = found[2]._replace(weights=np.array([0.0, 1.0]))
    right = right_boxes(found, FOLD, judged, reviewed, pictures, Settings())
    finds_whole = FOLD[judged] == 2
    assert right.tolist() == [bool(whole) == row % 2 for row, whole in enumerate(finds_whole)]


@pytest.mark.parametrize(("right", "alone"), [(0, True), (6, True), (7, False), (12, False)])
def test_at_most_half_of_the_boxes_are_right_where_a_class_learns_alone(right, alone):
    found, record, _, said = decided([PART] * 12, np.arange(12) < right)
    assert (0 in found) == record["alone"] == alone
    assert record == {"right": right, "of": 12, "alone": alone}
    source = "the reviewed pictures alone" if alone else "all pictures"
    assert said == [
        f"refine: cat: held-out boxes are right in {right} of 12 reviewed pictures, so it learns from {source}."
    ]


@pytest.mark.parametrize(("count", "learning"), [(10, [0]), (14, [0, 3]), (15, [0, 1, 2, 3])])
def test_reviewed_positives_and_all_negatives_are_trained_on(count, learning):
    """A chain without a fold sees two thirds of the reviewed pictures, and needs ten of them."""
    found, _, trained, _ = decided([PART] * count, [False] * count)
    assert found == learning
    for number, rows in zip(learning, trained, strict=True):
        assert rows == [row for row in range(COUNT) if (row < count or Y[row] < 0) and FOLD[row] != number]


def test_the_model_without_a_fold_goes_by_the_verdicts_of_the_others():
    """The boxes of fold 1 are wrong, those of the others right."""
    found, record, _, _ = decided([PART] * 24, FOLD[:24] != 1)
    assert (found, record["alone"]) == ([2, 3], False)


def test_few_verdicts_or_those_that_are_not_random_or_without_objects_judge_nothing():
    for reviewed in (task([PART] * 9), task([PART] * 12, random=False), task([KnownBoxes(NONE, PART)] * 12)):
        assert not len(judged_pictures(reviewed, FOLD))
    assert not len(judged_pictures(task([PART] * 12), np.zeros(COUNT, dtype=np.intp)))
