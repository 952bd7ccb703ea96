"""Drawn boxes that no window covers: who gets them as windows, and who does not."""

from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.fitting.refining.chains import Chain
from lapsvm.pipelines.fitting.refining.choice import choose_windows
from lapsvm.pipelines.fitting.refining.drawn_boxes import boxes_without_window, wanted_windows, with_reviewed_boxes
from lapsvm.pipelines.fitting.refining.pictures import AddedWindows, StoredPictures
from lapsvm.pipelines.settings.settings import RefineSettings

from lapsvm.bags import Bags
from lapsvm.features import PictureWindows
from lapsvm.latent import KnownBoxes

NONE = np.empty((0, 4))
LEFT, RIGHT, WHOLE = [0.0, 0, 20, 40], [20.0, 0, 40, 40], [0.0, 0, 40, 40]
SMALL = [3.0, 4, 9, 11]
WINDOWS = np.array([WHOLE, LEFT, RIGHT], dtype=np.float32)
Y = np.array([1, -1, 1, -1], dtype=np.int8)


def known(*boxes):
    return KnownBoxes(np.array(boxes, dtype=np.float64).reshape(-1, 4), NONE)


def stored():
    """Four pictures with the same windows."""
    bags = Bags(np.tile(np.eye(3, dtype=np.float32), (4, 1)), np.arange(0, 13, 3))
    return StoredPictures(bags, np.tile(WINDOWS, (4, 1)), np.ones(3), tuple("abcd"), np.ones(3, dtype=bool))


def lacking(*boxes):
    return boxes_without_window(known(*boxes), WINDOWS, (40, 40), 0.7).tolist()


def test_a_box_that_a_window_covers_is_not_wanted():
    assert lacking(LEFT) == lacking([1.0, 1, 20, 39]) == lacking() == []
    assert lacking(SMALL, LEFT) == [SMALL]
    assert lacking(SMALL, SMALL) == [SMALL]


def test_rejected_boxes_become_no_windows():
    assert boxes_without_window(KnownBoxes(NONE, np.array([SMALL])), WINDOWS, (40, 40), 0.7).tolist() == []


def test_classes_share_a_picture_and_each_gets_its_own_boxes():
    other = [30.0, 30, 36, 36]
    classes = [{0: known(SMALL), 2: known(LEFT)}, {0: known(other)}]
    wanted = wanted_windows(stored(), classes, np.full((4, 2), 40), 0.7)
    assert {name: found.tolist() for name, found in wanted.items()} == {"a": [SMALL, other]}
    drawn = {"a": PictureWindows("a", wanted["a"], np.eye(2, dtype=np.float16), "", (40, 40))}
    first, second = (with_reviewed_boxes(stored(), of_class, drawn, 0.7).added for of_class in classes)
    assert (first[0].boxes.tolist(), first[0].features.tolist()) == ([SMALL], [[1, 0]])
    assert (second[0].boxes.tolist(), second[0].features.tolist()) == ([other], [[0, 1]])
    assert first.keys() == second.keys() == {0}


def test_a_picture_without_features_gains_nothing():
    assert with_reviewed_boxes(stored(), {0: known(SMALL)}, {}, 0.7).added == {}


@pytest.fixture
def drawn():
    """The pictures, the first of which has a drawn window that scores best."""
    added = {0: AddedWindows(np.array([SMALL], dtype=np.float32), np.full((1, 3), 9, dtype=np.float32))}
    return replace(stored(), known={0: known(SMALL)}, added=added)


@pytest.fixture(params=[300, 0], ids=["candidates", "all windows"])
def count(request):
    """How many windows of a negative picture take part."""
    return request.param


def chain(y):
    return Chain(y, np.array([0.0, 1.0, 2.0]), np.zeros(4, dtype=np.intp))


def test_chains_that_may_see_the_picture_train_with_the_drawn_window(drawn, count):
    ((whole,),) = drawn.active([chain(Y)], count)
    assert np.diff(whole.bags.offsets).tolist() == [4, 3, 4 - 1, 3]
    np.testing.assert_array_equal(whole.boxes[3], SMALL)
    assert whole.bags.best([0.0, 1.0, 2.0]).index.tolist() == [3, 2, 2, 2]


def test_a_chain_without_the_picture_has_no_part_in_its_drawn_window(drawn, count):
    seen = np.where(np.arange(4) == 0, 0, Y).astype(np.int8)
    ((_, without),) = drawn.active([chain(Y), chain(seen)], count)
    assert without.bags.best([0.0, 1.0, 2.0]).index.tolist() == [2, 2, 2, 2]


def test_the_drawn_window_is_the_pictures_choice_and_detection_does_not_know_it(drawn):
    chosen = [
        choose_windows(pictures, RefineSettings(box_voting=False), Y, np.array([0.0, 1.0, 2.0])).tolist()
        for pictures in (drawn, stored())
    ]
    assert chosen == [[3, 2, 2, 2], [2, 2, 2, 2]]
