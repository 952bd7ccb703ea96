"""Score smoothing, and its reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapsvm.detection import smooth_scores
from lapsvm.errors import InputError, NotFiniteError, ShapeError

from ..twins import detection as reference
from .windows import boxes_at, drawn_windows


@pytest.fixture(params=[smooth_scores, reference.smooth_scores], ids=["fast", "reference"])
def smooth(request):
    return lambda *arguments: np.array(request.param(*arguments), dtype=float)


def test_a_window_among_others_with_high_scores_overtakes_a_lone_one(smooth):
    boxes, scores = boxes_at(0, 1, 2, 50), [2.0, 2.1, 2.0, 2.2]
    assert np.argmax(smooth([*boxes, *boxes_at(100, 150)], [*scores, 0.0, 0.0])) == 1


def test_the_score_is_a_mean_of_the_own_one_and_the_mass_around(smooth):
    unit = 0.5 * np.std([1.0, 3.0, 0.0])
    masses = np.exp(1 / unit) + np.exp(3 / unit), np.exp(1 / unit) + np.exp(3 / unit), 1.0
    expected = 0.75 * np.array([1.0, 3.0, 0.0]) + 0.25 * unit * np.log(masses)
    found = smooth(boxes_at(0, 1, 50), [1.0, 3.0, 0.0], 0.25)
    np.testing.assert_allclose(found, expected - expected.max() + 3.0)


def test_windows_that_overlap_less_do_not_count(smooth):
    np.testing.assert_allclose(smooth(boxes_at(0, 2, 50), [1.0, 3.0, 0.0]), [1.0, 3.0, 0.0])


@pytest.mark.parametrize("count", [1, 30, 350])
def test_the_best_score_of_a_picture_stays(smooth, count):
    boxes, scores = drawn_windows(count)
    assert smooth(boxes.tolist(), scores.tolist()).max() == pytest.approx(scores.max(), abs=1e-12)


@pytest.mark.parametrize("count", [30, 350])  # more than take part, and fewer
def test_reference_and_fast_smoothing_agree(count):
    boxes, scores = drawn_windows(count)
    found = smooth_scores(boxes, scores, 0.7)
    np.testing.assert_allclose(found, reference.smooth_scores(boxes.tolist(), scores.tolist(), 0.7))
    assert not np.allclose(found, scores)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.floats(-4, 4)), max_size=15), st.floats(0, 1))
def test_reference_and_fast_smoothing_agree_on_equal_and_empty_boxes(windows, amount):
    boxes, scores = [[left, 0, right, 5] for left, right, _ in windows], [score for *_, score in windows]
    if scores and np.ptp(scores) < 1e-6:
        scores = [0.0] * len(scores)
    expected = reference.smooth_scores(boxes, scores, amount)
    np.testing.assert_allclose(smooth_scores(boxes, scores, amount), expected, atol=1e-9)


def test_equal_scores_and_no_windows_stay(smooth):
    np.testing.assert_array_equal(smooth(boxes_at(0, 1), [2.0, 2.0]), [2.0, 2.0])
    assert smooth([], []).shape == (0,)


def test_an_amount_of_zero_changes_nothing():
    boxes, scores = drawn_windows(20)
    np.testing.assert_array_equal(smooth_scores(boxes, scores, 0.0), scores)


def test_scaling_and_shifting_scores_keeps_the_order():
    boxes, scores = drawn_windows(50)
    np.testing.assert_allclose(smooth_scores(boxes, 3 * scores + 5), 3 * smooth_scores(boxes, scores) + 5)


@pytest.mark.parametrize("amount", [-0.1, 1.1, np.nan])
def test_an_amount_outside_of_zero_to_one_is_refused(amount):
    with pytest.raises(InputError, match="the amount of score smoothing must be between 0 and 1, got"):
        smooth_scores(boxes_at(0), [1.0], amount)


@pytest.mark.parametrize("scores", [[1e308, -1e308], [1e308, 1e308], [2e150, 0.0], [0.0, -2e150]])
def test_scores_too_large_to_square_are_refused(smooth, scores):
    with pytest.raises(InputError, match="scores must lie between -1e150 and 1e150, got"):
        smooth(boxes_at(0, 1), scores)


def test_the_largest_scores_give_finite_ones_with_the_best_kept(smooth):
    found = smooth(boxes_at(0, 1, 50), [1e150, 9e149, -1e150])
    assert np.isfinite(found).all()
    assert found.max() == 1e150


def test_wrong_shapes_and_numbers_are_refused():
    with pytest.raises(ShapeError):
        smooth_scores(boxes_at(0), [1.0, 2.0])
    with pytest.raises(NotFiniteError):
        smooth_scores(boxes_at(0), [np.nan])
