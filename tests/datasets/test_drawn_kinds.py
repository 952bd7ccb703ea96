"""The drawn set of kinds: every picture has one kind, its boxes are tight, and equal seeds give equal pictures."""

import sys
from pathlib import Path

import numpy as np
import pytest

RECIPES = Path(__file__).parents[2] / "benchmarks" / "recipes"


@pytest.fixture(scope="module")
def modules():
    sys.path.insert(0, str(RECIPES))
    try:
        for name in ("drawn_kinds", "drawn_defects"):  # of other tests
            sys.modules.pop(name, None)
        kinds = __import__("drawn_kinds")
        yield kinds, sys.modules["drawn_defects"]
    finally:
        sys.path.remove(str(RECIPES))
        for name in ("drawn_kinds", "drawn_defects"):
            sys.modules.pop(name, None)


@pytest.fixture
def drawn(modules):
    return modules[0]


@pytest.fixture
def made(modules):
    kinds, defects = modules
    return lambda seed: list(defects.pictures(kinds.draw_tokens, "train", 12, (320, 240), (30, 60), (seed,)))


def test_a_picture_has_one_kind_and_its_boxes_lie_inside(drawn, made):
    for number, picture in enumerate(made(0)):
        assert {item.name for item in picture.objects} == {drawn.KINDS[number % 6]}
        corners = np.array([item.corners for item in picture.objects])
        assert (corners >= 1).all()
        assert (corners <= [320, 240, 320, 240]).all()
        sides = corners[:, 2:] - corners[:, :2] + 1
        assert (sides >= 25).all()
        assert (sides <= 60 * 2**0.5 + 2).all()


def test_equal_seeds_give_equal_pictures_and_others_do_not(made):
    first, again, other = (made(seed) for seed in (0, 0, 1))
    assert all(np.array_equal(one.pixels, two.pixels) for one, two in zip(first, again, strict=True))
    assert not any(np.array_equal(one.pixels, two.pixels) for one, two in zip(first, other, strict=True))


@pytest.mark.parametrize(("kind", "count"), [("one", 1), ("three", 3), ("six", 6)])
def test_a_token_has_as_many_dots_as_its_kind_says(drawn, kind, count):
    import cv2

    colour, cover = drawn.token(np.random.default_rng(3), kind, 90.0)
    ground = np.median(colour[cover > 0.9], axis=0)
    dots = ((np.abs(colour - ground).max(axis=2) > 60) & (cover > 0.9)).astype(np.uint8)
    assert cv2.connectedComponents(dots)[0] - 1 == count
