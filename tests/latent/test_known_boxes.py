"""What a person has said of a picture decides its windows in refinement."""

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.latent import KnownBoxes, LatentProblem, RankRisk, refine
from lapsvm.latent.refinement import OverlapLimits

NONE = np.zeros((0, 4))
# the chosen box; one like it; a part; the object around both; one beside
WINDOWS = np.array([[0.0, 0, 40, 40], [0, 0, 42, 42], [5, 5, 20, 20], [0, 0, 80, 80], [60, 60, 90, 90]])
NEAR, FAR = np.array([True, True, False, False, False]), np.array([False, False, True, False, False])
LIMITS = OverlapLimits(pos_iou=0.7, neg_iou=0.4, neg_min_iou=0.1, neg_part_iou=1.0)


def settled(true=NONE, wrong=NONE):
    near, far = KnownBoxes(np.array(true), np.array(wrong)).classify(WINDOWS, NEAR, FAR, LIMITS)
    return near.tolist(), far.tolist()


def test_known_objects_decide_alone():
    assert settled(true=[WINDOWS[3]]) == ([False, False, False, True, False], [True, True, False, False, False])


def test_every_object_of_several_counts():
    near, far = settled(true=[WINDOWS[0], WINDOWS[4]])
    assert near == [True, True, False, False, True]
    assert far == [False, False, True, True, False]


def test_rejected_boxes_are_negatives_with_what_nearly_coincides():
    near, far = settled(wrong=[WINDOWS[0]])
    assert near == [False] * 5
    assert far == [True, True, True, False, False]


def test_the_nearest_window_and_the_right_ones():
    known = KnownBoxes(np.array([[0.0, 0, 75, 75]]), NONE)
    assert known.nearest(WINDOWS) == 3
    assert known.right(WINDOWS, 0.5).tolist() == [False, False, False, True, False]
    rejected = KnownBoxes(NONE, WINDOWS[:1])
    assert rejected.right(WINDOWS, 0.5).tolist() == [False, False, True, True, True]


@pytest.fixture
def pictures():
    """Positive pictures show a part (feature 0) in an object (feature 1), negatives neither; window 4 is noise."""
    rng = np.random.default_rng(0)
    part, whole = np.array([1.0, 0, 0]), np.array([0.5, 1, 0])
    positives = [np.array([part, part, part, whole, [0, 0, 1]]) + rng.normal(0, 0.05, (5, 3)) for _ in range(12)]
    negatives = [rng.normal(0, 0.05, (5, 3)) for _ in range(12)]
    y = np.repeat([1, -1], 12)
    return Bags.from_arrays([*positives, *negatives]), y, np.tile(WINDOWS, (24, 1))


def test_a_few_known_objects_move_the_boxes_of_their_pictures(pictures):
    bags, y, boxes = pictures
    problem = LatentProblem(y, RankRisk("ap"), C=10.0)
    known = {row: KnownBoxes(WINDOWS[3:4], NONE) for row in range(12)}
    windows = np.where(np.arange(24) < 12, 3, 0)
    plain = refine(problem, bags, boxes, np.zeros(24, int), limits=LIMITS)
    told = refine(problem, bags, boxes, windows, limits=LIMITS, known=known)
    assert (bags.best(plain.coef).index[:12] != 3).mean() > 0.5
    assert (bags.best(told.coef).index[:12] == 3).all()


def test_nothing_known_changes_nothing(pictures):
    bags, y, boxes = pictures
    problem = LatentProblem(y, RankRisk("ap"))
    plain = refine(problem, bags, boxes, np.zeros(24, int))
    none = refine(problem, bags, boxes, np.zeros(24, int), known={})
    np.testing.assert_array_equal(plain.coef, none.coef)
