"""Non-maximum suppression, compiled and reference."""

import numpy as np
import pytest

from lapsvm.detection import demote_scores, detect, nms
from lapsvm.errors import InputError, NotFiniteError, ShapeError

from ..twins import detection as reference


@pytest.fixture(params=[nms, reference.nms], ids=["compiled", "reference"])
def suppress(request):
    return lambda *arguments, **options: [int(i) for i in request.param(*arguments, **options)]


def boxes_at(*lefts, width=10):
    """Boxes of height 10 side by side: those of width 10 whose lefts differ by k overlap (10 - k) / (10 + k)."""
    return np.array([[left, 0, left + width, 10] for left in lefts], dtype=float)


def test_the_best_stays_and_what_overlaps_it_goes(suppress):
    assert suppress(boxes_at(0, 1, 50), [1, 2, 0]) == [1, 2]


def test_an_overlap_equal_to_the_threshold_stays(suppress):
    boxes = boxes_at(0, 5)
    assert suppress(boxes, [2, 1], 5 / 15) == [0, 1]
    assert suppress(boxes, [2, 1], np.nextafter(5 / 15, 0)) == [0]


def test_an_overlap_of_three_tenths_stays_at_the_threshold_of_0_3(suppress):
    assert suppress([[0, 0, 10, 1], [0, 0, 3, 1]], [2, 1], 0.3) == [0, 1]


def test_of_equal_scores_the_first_stays(suppress):
    assert suppress(boxes_at(0, 1, 2), [5, 5, 5]) == [0]


def test_what_was_dropped_drops_nothing(suppress):
    assert suppress(boxes_at(0, 4, 8), [3, 2, 1], 0.4) == [0, 2]


@pytest.mark.parametrize("box", [[3, 3, 3, 8], [3, 3, 8, 3], [8, 3, 3, 8], [8, 8, 3, 3]])
def test_boxes_without_area_do_not_suppress_each_other(suppress, box):
    assert suppress([box, box, [0, 0, 10, 10], box], [4, 3, 2, 1], 0.0) == [0, 1, 2, 3]


def test_boxes_whose_area_underflows_do_no_harm(suppress):
    assert suppress([[0, 0, 1e-200, 1e-200]] * 2, [2, 1]) == [0, 1]


def test_a_threshold_of_0_keeps_boxes_that_only_touch(suppress):
    assert suppress(boxes_at(0, 10, 19), [3, 2, 1], 0.0) == [0, 1]


def test_a_threshold_of_1_drops_nothing(suppress):
    assert suppress(boxes_at(0, 0, 0), [1, 2, 3], 1.0) == [2, 1, 0]


def test_nothing_in_nothing_out(suppress):
    assert suppress(np.empty((0, 4)), []) == []


def test_a_limit_gives_the_beginning(suppress):
    rng = np.random.default_rng(3)
    boxes = boxes_at(*rng.uniform(0, 300, 200))
    scores = rng.normal(size=200)
    assert suppress(boxes, scores, limit=7) == suppress(boxes, scores)[:7]


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 0.9])
def test_compiled_and_reference_agree_on_crowded_boxes(threshold):
    rng = np.random.default_rng(4)
    corners = rng.integers(0, 40, (300, 2))
    boxes = np.hstack([corners, corners + rng.integers(0, 30, (300, 2))]).astype(float)
    scores = rng.integers(0, 20, 300).astype(float)
    np.testing.assert_array_equal(nms(boxes, scores, threshold), reference.nms(boxes, scores, threshold))


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7])
def test_what_stays_is_what_opencv_keeps(threshold):
    import cv2

    rng = np.random.default_rng(5)
    corners, sides = rng.integers(0, 100, (500, 2)), rng.integers(1, 60, (500, 2))
    scores = rng.permutation(500) + 1.0
    theirs = cv2.dnn.NMSBoxes(np.hstack([corners, sides]).astype(float), scores, 0.0, threshold)
    np.testing.assert_array_equal(nms(np.hstack([corners, corners + sides]), scores, threshold), theirs)


def test_float32_boxes_and_python_lists_are_welcome():
    assert nms([[0, 0, 2, 2], [5, 5, 6, 6]], [0, 1]).tolist() == [1, 0]
    assert nms(boxes_at(0, 1).astype(np.float32), np.float32([0, 1])).dtype == np.intp


@pytest.mark.parametrize(
    ("boxes", "scores", "message"),
    [
        ([[0, 0, 1, np.nan]], [1], r"^boxes must be finite, got nan at index \(0, 3\)\.$"),
        ([[0, 0, 1, 1]], [np.nan], r"^scores must be finite, got nan at index 0\.$"),
        ([[0, 0, 1, 1]], [-np.inf], r"^scores must be finite, got -inf at index 0\.$"),
    ],
)
def test_nan_and_infinity_are_refused(boxes, scores, message):
    with pytest.raises(NotFiniteError, match=message):
        nms(boxes, scores)


def test_lengths_that_differ_are_refused():
    with pytest.raises(ShapeError, match=r"^boxes and scores must have the same length, got 1 and 2\.$"):
        nms([[0, 0, 1, 1]], [1, 2])


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_a_threshold_outside_0_to_1_is_refused(threshold):
    with pytest.raises(InputError, match="suppression must be between 0 and 1, got "):
        nms([], [], threshold)


def test_a_limit_below_1_is_refused():
    with pytest.raises(InputError, match=r"^limit must be a whole number of 1 or more, got 0\.$"):
        nms([], [], limit=0)


def test_detections_come_best_first_with_their_scores():
    boxes, scores = detect([1, 3, 2], boxes_at(0, 1, 50))
    assert scores.tolist() == [3, 2]
    np.testing.assert_array_equal(boxes, boxes_at(1, 50))


def test_only_so_many_detections_come_out():
    lefts, scores = np.arange(150) * 20, np.arange(150)
    assert len(detect(scores, boxes_at(*lefts))[1]) == 100
    assert len(detect(scores, boxes_at(*lefts), max_after=None)[1]) == 150


def test_no_windows_no_detections():
    boxes, scores = detect([], [])
    assert (boxes.shape, scores.shape) == ((0, 4), (0,))


def test_limits_below_1_are_refused():
    with pytest.raises(InputError, match=r"^limit must be a whole number of 1 or more, got 0\.$"):
        detect([], [], max_after=0)


def test_demotion_moves_all_but_the_best_down():
    np.testing.assert_array_equal(demote_scores([3.0, 5.0, 4.0], 2.0), [3 + 2 * (3 - 5), 5, 4 + 2 * (4 - 5)])


def test_no_demotion_changes_nothing():
    np.testing.assert_array_equal(demote_scores([3.0, -5.0], 0), [3, -5])
    assert demote_scores([], 1).shape == (0,)


@pytest.mark.parametrize("amount", [-1, np.nan, np.inf])
def test_an_amount_of_demotion_below_zero_is_refused(amount):
    with pytest.raises(InputError, match="the amount of demotion must be a finite number of at least 0, got"):
        demote_scores([1.0], amount)


def test_demotion_needs_finite_scores():
    with pytest.raises(NotFiniteError):
        demote_scores([1.0, np.nan])
