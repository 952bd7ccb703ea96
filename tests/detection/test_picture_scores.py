"""What `detect_windows` does with the scores of one picture, and in which order."""

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.detection import box_voting, demote_scores, detect, smooth_scores
from lapsvm.detection.picture_scores import PIXEL_FRACTION, best_boxes, detect_windows
from lapsvm.settings import DetectSettings


@pytest.fixture
def windows():
    """Boxes (40, 4), many of which nearly coincide, and their scores (40,)."""
    rng = np.random.default_rng(0)
    corner = rng.integers(0, 3, (40, 2)) * 20 + rng.uniform(0, 5, (40, 2))
    return np.hstack([corner, corner + 30]), rng.normal(size=40)


def assert_detections_equal(found, expected):
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_smoothed_scores_are_detected(windows):
    boxes, scores = windows
    found = detect_windows(scores, boxes, DetectSettings(score_smoothing=0.5))
    assert_detections_equal(found, detect(smooth_scores(boxes, scores, 0.5), boxes))
    plain = detect_windows(scores, boxes, DetectSettings())
    assert_detections_equal(plain, detect(scores, boxes))
    assert not np.array_equal(found[1], plain[1])


def test_demotion_follows_smoothing(windows):
    boxes, scores = windows
    found = detect_windows(scores, boxes, DetectSettings(score_smoothing=0.5, demotion=1.0))
    assert_detections_equal(found, detect(demote_scores(smooth_scores(boxes, scores, 0.5), 1.0), boxes))
    for left_out in ({"demotion": 1.0}, {"score_smoothing": 0.5}):
        assert not np.array_equal(found[1], detect_windows(scores, boxes, DetectSettings(**left_out))[1])


def test_windows_vote_with_their_own_scores(windows):
    boxes, scores = windows
    smoothed = smooth_scores(boxes, scores, 0.5)
    settings = DetectSettings(score_smoothing=0.5, demotion=1.0, box_voting=0.7, box_voting_iou=0.45)
    found, values = detect_windows(scores, boxes, settings)
    detected, expected = detect(demote_scores(smoothed, 1.0), boxes)
    np.testing.assert_array_equal(values, expected)
    by_own, by_smoothed = (box_voting(detected, boxes, given, 0.7, 0.45) for given in (scores, smoothed))
    np.testing.assert_allclose(found, by_own, rtol=0, atol=PIXEL_FRACTION / 2)
    assert np.abs(found - by_smoothed).max() > PIXEL_FRACTION


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_the_best_box_of_a_picture_is_the_first_of_its_detections(smoothing):
    rng = np.random.default_rng(1)
    features, corner = rng.normal(size=(60, 3)), rng.uniform(0, 30, (60, 2))
    bags, boxes = Bags(features, [0, 20, 35, 60]), np.hstack([corner, corner + 20])
    settings = DetectSettings(score_smoothing=smoothing, demotion=1.0, box_voting=0.7)
    weights = np.array([1.0, -2.0, 0.5])
    expected = [detect_windows(features[own] @ weights, boxes[own], settings) for own in (slice(0, 20), slice(35, 60))]
    found, scores = best_boxes(bags, boxes, weights, np.array([0, 2]), settings)
    np.testing.assert_allclose(found, [own[0] for own, _ in expected])
    np.testing.assert_allclose(scores, [own[0] for _, own in expected], atol=1e-6)
    assert [len(part) for part in best_boxes(bags, boxes, weights, np.array([], dtype=int), settings)] == [0, 0]
