"""What `detect_windows` does with the scores of one picture, and in which order."""

from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.fitting.picture_scores import PIXEL_FRACTION, detect_windows, score_gains
from lapsvm.pipelines.run.settings import DetectSettings

from lapsvm.bags import Bags
from lapsvm.detection import box_support, box_voting, demote_scores, detect, smooth_scores


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


def test_support_is_added_to_what_suppression_kept_and_orders_it_anew(windows):
    boxes, scores = windows
    found, values = detect_windows(scores, boxes, DetectSettings(demotion=1.0, box_support=3.0))
    kept, before = detect(demote_scores(scores, 1.0), boxes)
    gained = before + box_support(kept, boxes, scores, 3.0)
    order = np.argsort(-gained, kind="stable")
    assert order.tolist() != list(range(len(order)))
    assert_detections_equal((found, values), (kept[order], gained[order]))


@pytest.mark.parametrize("limit", [1, 2])
def test_a_limit_takes_the_first_ones_after_support(limit):
    left = np.array([200.0, 0, 1, 2, 3, 400, 600])
    boxes = np.column_stack([left, np.zeros(7), left + 30, np.full(7, 30.0)])
    scores = np.array([1.05, 1.0, 0.99, 0.98, 0.97, 0.0, 0.1])
    settings = DetectSettings(box_support=2.0)
    every = detect_windows(scores, boxes, settings)
    assert every[0][:2, 0].tolist() == [0, 200]  # without support the lone window is the best one
    assert detect(scores, boxes)[0][:2, 0].tolist() == [200, 0]
    found = detect_windows(scores, boxes, replace(settings, max_detections=limit))
    assert_detections_equal(found, (every[0][:limit], every[1][:limit]))


def test_supported_boxes_vote_in_their_new_order(windows):
    boxes, scores = windows
    settings = DetectSettings(demotion=1.0, box_support=3.0)
    found, _ = detect_windows(scores, boxes, settings)
    voted, _ = detect_windows(scores, boxes, replace(settings, box_voting=0.7, box_voting_iou=0.45))
    np.testing.assert_allclose(voted, box_voting(found, boxes, scores, 0.7, 0.45), rtol=0, atol=PIXEL_FRACTION / 2)


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_the_gain_of_a_picture_is_that_of_its_best_detection(smoothing):
    rng = np.random.default_rng(1)
    features, corner = rng.normal(size=(60, 3)), rng.uniform(0, 30, (60, 2))
    bags, boxes = Bags(features, [0, 20, 35, 60]), np.hstack([corner, corner + 20])
    settings = DetectSettings(score_smoothing=smoothing, demotion=1.0, box_support=2.0, box_voting=0.7)
    weights, pictures = np.array([1.0, -2.0, 0.5]), np.array([True, False, True])
    parts = [(features[own] @ weights, boxes[own]) for own in (slice(0, 20), slice(35, 60))]
    expected = [detect_windows(scores, own, settings)[1].max() - scores.max() for scores, own in parts]
    found = score_gains(bags, boxes, weights, pictures, settings)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert (found > 0.1).all()
    assert score_gains(bags, boxes, weights, pictures, replace(settings, box_support=0.0)).tolist() == [0.0, 0.0]
