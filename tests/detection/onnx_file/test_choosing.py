"""Detections inside the file are those of `lapsvm.detection`, for every class by its own rules."""

import numpy as np
import pytest

from lapsvm.detection import Calibration, box_voting, demote_scores, detect, smooth_scores
from lapsvm.detection.onnx_file.choosing import Limits, choose, sized
from lapsvm.detection.sizes import SizePrior
from lapsvm.settings import DetectSettings

STEEP, FLAT, CONSTANT = Calibration(2.0, -0.5), Calibration(0.25, 1.0), Calibration(0.0, -1.0)
RULES = [
    (DetectSettings(score_smoothing=0.5, demotion=1.0, box_voting=0.7, box_voting_iou=0.45), STEEP),
    (DetectSettings(box_voting_iou=0.4), None),
    (DetectSettings(score_smoothing=1.0, box_voting=0.3, box_voting_iou=0.6), FLAT),
    (DetectSettings(demotion=2.0, box_voting_iou=0.4), CONSTANT),
]


def windows_of(count):
    rng = np.random.default_rng(count)
    corners = rng.uniform(0, 60, (count, 2)).astype(np.float32)
    boxes = np.hstack([corners, corners + rng.uniform(10, 40, (count, 2))]).astype(np.float32)
    return boxes.astype(np.float64), rng.normal(size=(len(RULES), count))


def expected_of(boxes, scores, rule, threshold, limit):
    smoothed = smooth_scores(boxes, scores, rule.score_smoothing)
    found, values = detect(demote_scores(smoothed, rule.demotion), boxes, threshold, max_after=limit)
    if rule.box_voting:
        found = np.round(box_voting(found, boxes, scores, rule.box_voting, rule.box_voting_iou) * 16) / 16
    return found, values


def run_choice(run_graph, boxes, scores, rules, threshold=0.3, limit=100, score=-1e30, probability=0.0):
    def build(graph, windows, values):
        one = np.float32
        limits = Limits(*(graph.constant([value], one) for value in (threshold, score, probability)),
                        graph.constant([limit], np.int64))  # fmt: skip
        chosen = choose(graph, windows, values, *zip(*rules, strict=True), limits)
        return chosen.boxes, chosen.classes, chosen.scores, chosen.probabilities

    return run_graph(build, boxes, scores)


@pytest.mark.parametrize("count", [1, 2, 30, 260])
@pytest.mark.parametrize("limit", [1, 100])
def test_detections_are_those_of_the_library(run_graph, count, limit):
    boxes, scores = windows_of(count)
    found, classes, values, probabilities = run_choice(run_graph, boxes, scores, RULES, limit=limit)
    for number, (rule, calibration) in enumerate(RULES):
        own = classes == number
        expected, expected_scores = expected_of(boxes, scores[number], rule, 0.3, limit)
        np.testing.assert_allclose(values[own], expected_scores, atol=1e-5)
        np.testing.assert_allclose(found[own], expected, atol=1 / 15)  # a sixteenth of a pixel may round to the next
        if calibration is None:
            assert np.isnan(probabilities[own]).all()
        else:
            np.testing.assert_allclose(probabilities[own], calibration.probability(expected_scores), atol=1e-5)


@pytest.mark.parametrize("count", [1, 30])
def test_sizes_rank_windows_as_in_the_library(run_graph, count):
    boxes, scores = windows_of(count)
    sizes = [None, SizePrior(3.2, 2.9, 0.1, 0.2, 0.7), SizePrior(2.0, 3.0, 0.3, 0.3, 1.0), None]
    (ranked,) = run_graph(lambda graph, windows, values: (sized(graph, windows, values, sizes),), boxes, scores)
    for row, prior in enumerate(sizes):
        expected = scores[row] if prior is None else prior.ranked(scores[row], boxes)
        np.testing.assert_allclose(ranked[row], expected, atol=1e-12)


def test_equal_scores_of_all_windows_stay_as_they_are(run_graph):
    boxes, _ = windows_of(5)
    scores = np.full((2, 5), 0.25)
    found, classes, values, _ = run_choice(run_graph, boxes, scores, [RULES[0], RULES[2]])
    assert np.isfinite(found).all()
    assert set(classes) == {0, 1}
    np.testing.assert_allclose(values, 0.25, atol=1e-6)


def test_thresholds_drop_boxes_and_spare_classes_without_probabilities(run_graph):
    boxes, scores = windows_of(30)
    _, classes, values, probabilities = run_choice(run_graph, boxes, scores, RULES, probability=0.5)
    every = run_choice(run_graph, boxes, scores, RULES)
    assert (classes == 1).sum() == (every[1] == 1).sum() > 0
    assert (probabilities[classes != 1] >= 0.5).all()
    assert (classes == 0).sum() == (every[3][every[1] == 0] >= 0.5).sum()
    _, _, values, _ = run_choice(run_graph, boxes, scores, RULES, score=0.5)
    assert len(values) == (every[2] > 0.5).sum() > 0
