"""When the boxes of a class take the extent of what stands out: by labels, and by the boxes that a person knows."""

from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.fitting.refining.chains import Chain
from lapsvm.pipelines.fitting.refining.extent import BY_LABELS, with_extent

from lapsvm.detection.extent import extent
from lapsvm.detection.groups import WindowPrior
from lapsvm.latent import KnownBoxes
from lapsvm.settings import DetectSettings

AROUND, FLAT = [28, 18, 80, 62], [2, 70, 30, 98]
FOLD, Y = np.array([1, 2, 3] * 4), np.array([1] * 6 + [-1] * 6, dtype=np.int8)
NONE = np.empty((0, 4))


@pytest.fixture(scope="module")
def picture():
    pixels = np.full((100, 120, 3), 150, np.uint8)
    pixels[30:54, 40:70] = 80
    return pixels


@pytest.fixture
def decided(stored, picture):
    """Return the decisions of four chains, and the share, where the first pictures have a box around a thing."""

    def decided(count, known=(), prior=None, **changes):
        boxes = [AROUND] * count + [FLAT] * (12 - count)
        changes = {"read": lambda _: picture, **changes}
        pictures = replace(stored([[1, 0]] * 12, boxes, range(13)), known=dict(known), **changes)
        chains = [Chain(Y, np.array([1.0, 0]), np.zeros(12, np.intp))] * 4
        priors, share = with_extent(pictures, FOLD, chains, [prior] * 4, DetectSettings())
        return [one is not None and one.takes_extent for one in priors], share

    return decided


@pytest.fixture
def part(picture):
    """A known box that the part is, and the window is not."""
    return KnownBoxes(extent(picture, np.array(AROUND, float))[None], NONE)


WINDOW = KnownBoxes(np.array([AROUND], float), NONE)


@pytest.mark.parametrize(("count", "share"), [(6, 1.0), (5, 5 / 6), (2, None), (0, None)])
def test_boxes_take_the_extent_where_most_find_a_part(decided, count, share):
    assert decided(count) == ([share is not None] * 4, share)


def test_a_chain_does_not_ask_the_pictures_of_its_fold(decided):
    """Of the four pictures that each chain sees 3, 2, 3 and 3 find a part, of all six 4."""
    assert decided(4) == ([True, False, True, True], 4 / 6)


def test_pictures_of_several_things_keep_windows(decided):
    assert decided(6, prior=WindowPrior(None, True)) == ([False] * 4, None)


@pytest.mark.parametrize("read", [None, lambda _: None], ids=["uneven ground", "lost pictures"])
def test_without_pictures_windows_stay(decided, read):
    assert decided(6, read=read) == ([False] * 4, None)


def test_known_boxes_overrule_labels_where_more_than_one_says_so(decided, part):
    assert 1 < BY_LABELS < 2
    assert decided(2, {0: part}) == ([False] * 4, None)
    assert decided(2, {0: part, 1: part})[0] == [True, False, False, True]  # one each is in the folds 1 and 2
    assert decided(6, {0: WINDOW}) == ([True] * 4, 1.0)
    assert decided(6, {0: WINDOW, 3: WINDOW}) == ([False, True, False, False], None)  # both are in fold 1


def test_known_boxes_of_which_both_or_none_are_right_say_nothing(decided, part):
    far = KnownBoxes(np.array([[0.0, 0, 9, 9]]), NONE)
    assert decided(6, dict.fromkeys(range(6), far)) == ([True] * 4, 1.0)
    assert decided(6, dict.fromkeys(range(6), KnownBoxes(NONE, NONE))) == ([True] * 4, 1.0)
    both = KnownBoxes(np.concatenate([part.true, WINDOW.true]), NONE)
    assert decided(6, dict.fromkeys(range(6), both)) == ([True] * 4, 1.0)


def test_from_enough_known_boxes_on_parts_must_be_better(decided, part, monkeypatch):
    monkeypatch.setattr("lapsvm.pipelines.fitting.refining.extent.ENOUGH", 6)
    both = KnownBoxes(np.concatenate([part.true, WINDOW.true]), NONE)
    assert decided(6, dict.fromkeys(range(6), both))[0] == [False, True, True, True]  # each fold has two of the six
    assert decided(6, dict.fromkeys(range(6), both) | {0: part})[0][0]
