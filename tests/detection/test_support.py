"""Box support, and its reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapsvm.detection import box_support, reference
from lapsvm.errors import InputError, NotFiniteError, ShapeError

from .windows import boxes_at, drawn_windows


@pytest.fixture(params=[box_support, reference.box_support], ids=["fast", "reference"])
def support(request):
    return lambda *arguments: np.array(request.param(*arguments), dtype=float)


def test_the_gain_is_the_share_of_the_weight_around_a_box(support):
    scores = [1.0, 3.0, 2.0, 0.0]
    weights = np.exp((np.array(scores) - 3.0) / (0.5 * np.std(scores)))
    share = (weights[0] + weights[1]) / weights.sum()
    found = support(boxes_at(0, 50), boxes_at(0, 3, 50, 90), scores, 1.5)
    np.testing.assert_allclose(found, 1.5 * np.std(scores) * np.array([share, weights[2] / weights.sum()]))


def test_a_picture_whose_scores_agree_gains_more_than_one_whose_scores_are_scattered(support):
    scores = [2.0, 1.9, 1.8, 0.0, 0.0]
    together = support(boxes_at(0), boxes_at(0, 1, 2, 50, 90), scores)
    scattered = support(boxes_at(0), boxes_at(0, 20, 40, 60, 90), scores)
    assert together[0] > 2 * scattered[0] > 0


def test_a_box_that_no_window_overlaps_gains_nothing(support):
    assert support(boxes_at(200), boxes_at(0, 50), [1.0, 2.0]).tolist() == [0.0]


def test_windows_of_exactly_the_least_overlap_take_part(support):
    boxes, scores = [[0, 0, 10, 10], [0, 0, 5, 10]], [0.0, 1.0]
    assert support(boxes[:1], boxes, scores, 1.0, 0.5)[0] == pytest.approx(0.5)
    assert support(boxes[:1], boxes, scores, 1.0, 0.51)[0] < 0.1


@pytest.mark.parametrize("count", [1, 30, 350])  # more than take part, and fewer
def test_reference_and_fast_support_agree(count):
    boxes, scores = drawn_windows(count)
    found = box_support(boxes[:20], boxes, scores, 1.3, 0.4)
    expected = reference.box_support(boxes[:20].tolist(), boxes.tolist(), scores.tolist(), 1.3, 0.4)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.floats(-4, 4)), max_size=15))
def test_reference_and_fast_support_agree_on_equal_and_empty_boxes(windows):
    boxes, scores = [[left, 0, right, 5] for left, right, _ in windows], [score for *_, score in windows]
    if scores and np.ptp(scores) < 1e-6:
        scores = [0.0] * len(scores)
    np.testing.assert_allclose(
        box_support(boxes, boxes, scores), reference.box_support(boxes, boxes, scores), atol=1e-9
    )


def test_the_gain_stays_when_scores_are_shifted_and_grows_as_they_are_stretched():
    boxes, scores = drawn_windows(50)
    np.testing.assert_allclose(box_support(boxes, boxes, 3 * scores + 5), 3 * box_support(boxes, boxes, scores))


def test_the_gain_lies_between_zero_and_the_amount_of_deviations():
    boxes, scores = drawn_windows(300)
    found = box_support(boxes, boxes, scores, 2.0)
    assert found.min() >= 0
    assert found.max() <= 2 * scores.std()


def test_equal_scores_and_no_windows_give_no_gain(support):
    np.testing.assert_array_equal(support(boxes_at(0), boxes_at(0, 1), [2.0, 2.0]), [0.0])
    assert support([], [], []).shape == (0,)
    assert support(boxes_at(0), [], []).tolist() == [0.0]


def test_an_amount_of_zero_gives_no_gain():
    boxes, scores = drawn_windows(20)
    np.testing.assert_array_equal(box_support(boxes, boxes, scores, 0.0), np.zeros(20))


def test_the_largest_scores_give_a_finite_gain():
    assert np.isfinite(box_support(boxes_at(0), boxes_at(0, 1, 50), [1e150, 9e149, -1e150])).all()


@pytest.mark.parametrize("amount", [-0.1, np.nan, np.inf])
def test_an_amount_below_zero_is_refused(amount):
    with pytest.raises(InputError, match="the amount of box support must be a finite number of at least 0, got"):
        box_support(boxes_at(0), boxes_at(0), [1.0], amount)


@pytest.mark.parametrize("min_iou", [0.0, -0.1, 1.1, np.nan])
def test_an_overlap_outside_of_zero_to_one_is_refused(min_iou):
    with pytest.raises(InputError, match="min_iou of box support must be above 0 and at most 1, got"):
        box_support(boxes_at(0), boxes_at(0), [1.0], 1.0, min_iou)


def test_invalid_input_is_refused():
    with pytest.raises(ShapeError, match="boxes"):
        box_support(boxes_at(0), boxes_at(0), [1.0, 2.0])
    with pytest.raises(NotFiniteError, match="scores"):
        box_support(boxes_at(0), boxes_at(0), [np.nan])
    with pytest.raises(NotFiniteError, match="detections"):
        box_support([[0, 0, np.inf, 1]], boxes_at(0), [1.0])
    with pytest.raises(InputError, match="scores must lie between"):
        box_support(boxes_at(0), boxes_at(0, 1), [2e150, 0.0])
