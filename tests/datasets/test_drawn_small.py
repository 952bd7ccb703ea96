"""The drawn sets of small, thin and many things: boxes are of what was drawn, and the windows of `small` hold them."""

import sys
from pathlib import Path

import numpy as np
import pytest

from lapsvm.boxes import from_voc, iou
from lapsvm.windows import propose

RECIPES = Path(__file__).parents[2] / "benchmarks" / "recipes"
FLOORS = {"boards": (0.9, 0.6), "cracks": (0.85, 0.7), "many": (0.95, 0.85)}
"""Set -> recall at IoU .5 and .7 of 2,000 windows."""


@pytest.fixture(scope="module")
def sets():
    """Return eight pictures of each set by its name."""
    sys.path.insert(0, str(RECIPES))
    try:
        sys.modules.pop("drawn_defects", None)
        module, defects = __import__("drawn_small"), sys.modules["drawn_defects"]

        def made(name, seed=0, count=8):
            write = module.SETS[name]
            return list(defects.pictures(write.args[0], "test", count, (640, 480), write.keywords["sides"], (seed,)))

        yield made
    finally:
        sys.path.remove(str(RECIPES))
        for name in ("drawn_small", "drawn_defects"):
            sys.modules.pop(name, None)


def boxes_of(picture):
    return from_voc(np.array([item.corners for item in picture.objects]).reshape(-1, 4))


@pytest.mark.parametrize("name", FLOORS)
def test_a_quarter_is_free_and_boxes_lie_inside(sets, name):
    made = sets(name)
    assert [number for number, picture in enumerate(made) if not picture.objects] == [3, 7]
    boxes = np.concatenate([boxes_of(picture) for picture in made])
    assert (boxes >= 0).all()
    assert (boxes <= [640, 480, 640, 480]).all()
    assert (boxes[:, 2:] - boxes[:, :2] >= 4).all()


def test_lines_are_thin_and_faint(sets):
    made = sets("cracks")
    boxes = np.concatenate([boxes_of(picture) for picture in made])
    sides = boxes[:, 2:] - boxes[:, :2]
    assert sides.min() >= 6
    assert (sides.max(axis=1) / sides.min(axis=1)).max() > 4


def test_many_things_of_two_sizes_touch(sets):
    made = sets("many")
    counts = [len(picture.objects) for picture in made if picture.objects]
    assert min(counts) >= 2
    assert max(counts) > 6
    boxes = [boxes_of(picture) for picture in made if picture.objects]
    touching = [(iou(one, one) - np.eye(len(one)) > 0).any() for one in boxes]
    assert np.mean(touching) > 0.5
    longer = np.concatenate([(one[:, 2:] - one[:, :2]).max(axis=1) for one in boxes])
    assert (longer < 40).sum() > 5
    assert (longer > 45).sum() > 5


def test_equal_seeds_give_equal_pictures_and_others_do_not(sets):
    for name in FLOORS:
        first, again, other = (sets(name, seed, 2) for seed in (0, 0, 1))
        assert all(np.array_equal(one.pixels, two.pixels) for one, two in zip(first, again, strict=True))
        assert not any(np.array_equal(one.pixels, two.pixels) for one, two in zip(first, other, strict=True))


@pytest.mark.parametrize("name", FLOORS)
def test_the_windows_of_small_hold_them(sets, name):
    found = [
        iou(boxes_of(picture), propose(picture.pixels, "small")).max(axis=1)
        for picture in sets(name)
        if picture.objects
    ]
    overlaps = np.concatenate(found)
    for threshold, floor in zip((0.5, 0.7), FLOORS[name], strict=True):
        assert (overlaps >= threshold).mean() >= floor
