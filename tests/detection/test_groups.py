"""Boxes around several things: a twin that compares pair by pair, and what models keep."""

import numpy as np
import pytest

from lapsvm.boxes import areas, iou, shared_areas
from lapsvm.detection import Detector, detect_windows, nms
from lapsvm.detection.groups import APART, BEST, INSIDE, NEAR, PEAK, SMALLER, WindowPrior, lower_groups
from lapsvm.settings import DetectSettings

PAIR = np.array([[0.0, 0, 20, 10], [0, 0, 10, 10], [10, 0, 20, 10], [100, 100, 110, 110]])  # two that touch, and both


def twin(boxes, scores):
    """The rule, window by window and pair by pair."""
    best = np.argsort(-scores, kind="stable")[:BEST].tolist()
    peaks = [best[place] for place in nms(boxes[best], scores[best], PEAK)]
    lowered = scores.copy()
    for window in best:
        parts = [
            peak
            for peak in peaks
            if 0 < areas(boxes[[peak]])[0] <= SMALLER * areas(boxes[[window]])[0]
            and shared(boxes[peak], boxes[window]) >= INSIDE * areas(boxes[[peak]])[0]
        ]
        pairs = [
            min(scores[one], scores[other])
            for one in parts
            for other in parts
            if one != other and iou(boxes[[one]], boxes[[other]])[0, 0] <= APART
        ]
        if pairs and scores[window] - max(pairs) < NEAR * scores.std():
            lowered[window] -= NEAR * scores.std()
    return lowered + (scores.max() - lowered.max())


def shared(one, other):
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0) * max(height, 0)


@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_rule_pair_by_pair(seed):
    rng = np.random.default_rng(seed)
    corners = rng.integers(0, 60, (rng.integers(1, 320), 2))
    boxes = np.concatenate([corners, corners + rng.integers(0, 40, corners.shape)], axis=1).astype(float)
    scores = rng.choice([rng.normal(size=len(boxes)), rng.integers(0, 4, len(boxes)).astype(float)])
    np.testing.assert_allclose(lower_groups(boxes, scores), twin(boxes, scores), atol=1e-12)


def test_shared_areas_are_those_of_each_pair():
    expected = [[shared(one, other) for other in PAIR] for one in PAIR]
    np.testing.assert_array_equal(shared_areas(PAIR, PAIR), expected)


@pytest.mark.parametrize(
    ("scores", "best"),
    [([1.1, 1.0, 0.9, 0.0], 1), ([1.1, 1.0, 0.0, 0.0], 0), ([3.0, 1.0, 0.9, 0.0], 0), ([1.0, 1.0, 1.0, 1.0], 0)],
    ids=["two parts near it", "one part", "far above its parts", "no difference"],
)
def test_a_box_around_two_good_ones_loses_to_them(scores, best):
    found = lower_groups(PAIR, np.array(scores))
    assert (int(found.argmax()), found.max()) == (best, max(scores))


def test_no_windows_have_no_scores():
    assert lower_groups(np.empty((0, 4)), np.empty(0)).size == 0


@pytest.mark.parametrize(("result", "are_many"), [({"things": 2.5}, True), ({"things": None}, None), ({}, None)])
def test_detection_lowers_groups_where_a_model_says_that_pictures_show_several(tmp_path, result, are_many):
    """Models of versions that did not count things detect as before."""
    Detector("ball", np.ones(2), provenance={"result": result}).save(tmp_path / "ball")
    prior = Detector.load(tmp_path / "ball").prior
    assert prior == (None if are_many is None else WindowPrior(None, are_many))
    scores, settings = np.array([1.1, 1.0, 0.9, 0.0]), DetectSettings(score_smoothing=0.0, box_voting=0.0)
    boxes, _ = detect_windows(scores, PAIR, settings, prior)
    assert boxes[0].tolist() == PAIR[1 if are_many else 0].tolist()


def test_sizes_and_groups_count_together():
    sizes = Detector("ball", np.ones(2), provenance={"result": {"sizes": [2.3, 2.3, 0.1, 0.1, 1.0]}}).sizes
    assert WindowPrior.of(None, False) is None
    scores = np.array([1.1, 1.0, 0.9, 0.0])
    both = WindowPrior.of(sizes, True).ranked(scores, PAIR)
    np.testing.assert_array_equal(both, sizes.ranked(lower_groups(PAIR, scores), PAIR))
    np.testing.assert_array_equal(WindowPrior.of(sizes, False).ranked(scores, PAIR), sizes.ranked(scores, PAIR))
