"""Score maps of windows, and their reference."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapsvm.boxes import iou
from lapsvm.detection import Calibration, Detector, ScoredPicture, demote_scores, score_map, smooth_scores
from lapsvm.errors import InputError, NotFiniteError, OptionError, ShapeError
from lapsvm.settings import DetectSettings

from ..twins import detection as reference
from .windows import drawn_windows

SHAPE = (40, 60)
PLAIN = DetectSettings()


def fast_map(boxes, scores, shape):
    found = score_map(boxes, scores, shape)
    assert found.values.dtype == np.float32
    assert not found.is_probability
    return found.values


@pytest.fixture(params=[fast_map, reference.score_map], ids=["fast", "reference"])
def values_of(request):
    return lambda *arguments: np.array(request.param(*arguments), dtype=float)


def test_a_pixel_follows_the_density_of_the_windows_that_contain_it(values_of):
    found = values_of([[0, 0, 4, 2], [1, 0, 3, 1]], [0.0, 1.0], (3, 5))  # temperature .25
    both, one = np.exp(-4) / 8 + 1 / 2, np.exp(-4) / 8
    below = max(0.0, 1 + 0.25 * np.log(one / both))
    np.testing.assert_allclose(found, [[below, 1, 1, below, 0], [below] * 4 + [0], [0] * 5], atol=1e-6)


def test_equal_scores_are_higher_in_the_smaller_window_and_where_windows_overlap(values_of):
    found = values_of(
        [[0, 0, 8, 8], [20, 0, 24, 4], [40, 0, 48, 8], [42, 2, 50, 10], [0, 30, 60, 40]], [2, 2, 2, 2, 1], SHAPE
    )
    assert found[0, 20] > found[5, 45] > found[0, 0] > found[35, 30]
    assert found[0, 20] == 2.0


def test_one_window_has_its_score_everywhere(values_of):
    np.testing.assert_array_equal(values_of([[3, 4, 9, 9]], [-0.75], (12, 10)), np.full((12, 10), -0.75))


@pytest.mark.parametrize("count", [2, 50])
def test_equal_scores_give_that_score_everywhere(values_of, count):
    boxes, _ = drawn_windows(count)
    np.testing.assert_array_equal(values_of(boxes.tolist(), [0.5] * count, SHAPE), np.full(SHAPE, 0.5))


def test_a_window_takes_the_pixels_whose_centres_it_contains(values_of):
    found = values_of([[0.5, 1.51, 2.5, 3.5], [0, 0, 6, 6]], [1, 0], (6, 6))
    hot = np.zeros((6, 6), bool)
    hot[2:3, 0:2] = True
    np.testing.assert_array_equal(found == 1, hot)


def test_windows_outside_take_no_part_and_others_are_clipped(values_of):
    boxes = [[2, 2, 9, 9], [4, 0, 12, 5], [0, 0, 10, 8]]
    outside = [[10, 0, 20, 8], [-5, -5, 0, 3], [0, 8, 10, 1e6], [3, 3, 3, 6], [6, 6, 4, 4], [1.6, 1.6, 1.9, 5]]
    expected = values_of([[2, 2, 9, 8], [4, 0, 10, 5], [0, 0, 10, 8]], [1, 2, 0.5], (8, 10))
    found = values_of([*boxes, *outside], [1, 2, 0.5, 90, -90, 7, 8, 9, 10], (8, 10))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (70, 1), (33, 57), (300, 20)])
@pytest.mark.parametrize("count", [1, 2, 40])
def test_reference_and_fast_map_agree_on_pictures_of_any_shape(shape, count):
    rng = np.random.default_rng(count)
    corners = rng.uniform(-5, 50, (count, 2))
    boxes = np.vstack([np.hstack([corners, corners + rng.uniform(0, 40, (count, 2))]), [[0, 0, shape[1], shape[0]]]])
    scores = rng.normal(size=count + 1)
    found = fast_map(boxes, scores, shape)
    assert found.shape == shape
    np.testing.assert_allclose(found, reference.score_map(boxes.tolist(), scores.tolist(), shape), atol=1e-6)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(*[st.integers(-3, 12)] * 4, st.integers(-8, 8)), min_size=1, max_size=12))
def test_reference_and_fast_map_agree_on_any_windows(windows):
    boxes, scores = [[*corners] for *corners, _ in windows], [score / 4 for *_, score in windows]
    if all(reference.contains(box, y, x) is False for box in boxes for y in range(9) for x in range(7)):
        with pytest.raises(InputError, match="a window that contains a pixel"):
            fast_map(boxes, scores, (9, 7))
        return
    np.testing.assert_allclose(fast_map(boxes, scores, (9, 7)), reference.score_map(boxes, scores, (9, 7)), atol=1e-6)


@pytest.mark.parametrize("outlier", [1e3, 1e9])
def test_a_window_far_above_the_others_leaves_no_rounding_in_their_pixels(outlier):
    """Beside its mass the others vanish; sums of differences of floats would leave noise there, and negative sums."""
    boxes, scores = drawn_windows(400)
    boxes[0], scores[0] = [5, 5, 9, 9], outlier
    found = fast_map(boxes, scores, (80, 80))
    expected = np.full((80, 80), np.float32(scores.min()))
    expected[5:9, 5:9] = outlier
    np.testing.assert_array_equal(found, expected)


def test_masses_that_differ_by_millions_of_millions_agree_with_the_reference():
    boxes, scores = drawn_windows(100)
    boxes[0], scores[0] = [5, 5, 9, 9], 50.0
    found, expected = (
        fast_map(boxes, scores, SHAPE),
        np.array(reference.score_map(boxes.tolist(), scores.tolist(), SHAPE)),
    )
    np.testing.assert_allclose(found, expected, atol=0.02)  # of a range of 50
    assert np.unique(found).size > 50


def test_values_lie_between_the_lowest_and_the_best_score_and_reach_both():
    boxes, scores = drawn_windows(100)
    found = fast_map(boxes, scores, (100, 200))
    assert (found.min(), found.max()) == (np.float32(scores.min()), np.float32(scores.max()))


def test_the_map_follows_the_scale_of_the_scores_and_ignores_the_order_of_windows():
    boxes, scores = drawn_windows(100)
    found = fast_map(boxes, scores, SHAPE)
    np.testing.assert_allclose(fast_map(boxes, 3 * scores - 5, SHAPE), 3 * found - 5, atol=1e-5)
    np.testing.assert_allclose(fast_map(boxes[::-1], scores[::-1], SHAPE), found, atol=1e-6)


def test_a_larger_picture_with_larger_windows_has_the_same_map():
    boxes, scores = np.rint(drawn_windows(60)[0]), drawn_windows(60)[1]
    large = fast_map(boxes * 20, scores, (SHAPE[0] * 20, SHAPE[1] * 20))
    np.testing.assert_allclose(large[::20, ::20], fast_map(boxes, scores, SHAPE), atol=1e-6)
    np.testing.assert_array_equal(large, np.kron(large[::20, ::20], np.ones((20, 20))))


def test_the_largest_value_lies_in_the_object_more_often_than_in_the_best_window_where_scores_are_noisy():
    object_, rng = np.array([[20.0, 10.0, 45.0, 30.0]]), np.random.default_rng(0)
    inside = np.zeros((80, 100), bool)
    inside[10:30, 20:45] = True
    of_map, of_best = [], []
    for _ in range(40):
        corners = rng.uniform(0, [80, 60], (300, 2))
        boxes = np.hstack([corners, np.minimum(corners + rng.uniform(8, 40, (300, 2)), [100, 80])])
        scores = iou(boxes, object_)[:, 0] + 0.15 * rng.normal(size=300)
        found = fast_map(boxes, scores, inside.shape)
        of_map.append(inside[found == found.max()].mean())
        x1, y1, x2, y2 = np.rint(boxes[scores.argmax()]).astype(int)
        of_best.append(inside[y1:y2, x1:x2].mean())
    assert np.mean(of_map) > 0.95
    assert np.mean(of_map) > np.mean(of_best) + 0.1


def test_a_calibration_makes_probabilities_of_the_scores():
    boxes, scores = drawn_windows(50)
    calibration = Calibration(3.0, -1.0)
    found = score_map(boxes, scores, SHAPE, calibration)
    assert found.is_probability
    expected = calibration.probability(fast_map(boxes, scores, SHAPE).ravel()).reshape(SHAPE)
    np.testing.assert_allclose(found.values, expected, atol=1e-6)
    assert found.values.max() == np.float32(calibration.probability([scores.max()])[0])


def test_threads_give_the_bits_of_one():
    boxes, scores = drawn_windows(300)
    alone = fast_map(boxes, scores, (200, 300))
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: fast_map(boxes, scores, (200, 300)), range(32)):
            np.testing.assert_array_equal(found, alone)


@pytest.mark.parametrize(
    ("boxes", "scores", "shape", "error", "message"),
    [
        ([], [], SHAPE, InputError, "must have a window that contains a pixel, got none of 0"),
        ([[70, 0, 80, 9]], [1], SHAPE, InputError, "got none of 1"),
        ([[0, 0, 9, 9]], [1, 2], SHAPE, ShapeError, "must have the same length, got 1 and 2"),
        ([[0, 0, 9]], [1], SHAPE, ShapeError, "boxes must have shape"),
        ([[0, 0, 9, np.inf]], [1], SHAPE, NotFiniteError, "boxes must be finite"),
        ([[0, 0, 9, 9]], [np.nan], SHAPE, NotFiniteError, "scores must be finite"),
        ([[0, 0, 9, 9]], [-2e38], SHAPE, InputError, "between -1e38 and 1e38, got -2e"),
        (
            [[0, 0, 9, 9]],
            [1],
            (0, 9),
            InputError,
            "the height of a score map must be a whole number of 1 or more, got 0",
        ),
        ([[0, 0, 9, 9]], [1], (9, -1), InputError, "the width of a score map"),
        ([[0, 0, 9, 9]], [1], (9, 9, 3), ShapeError, "height and width, got 3 numbers"),
        ([[0, 0, 9, 9]], [1], (9.5, 9), InputError, "shape must be whole numbers"),
        ([[0, 0, 9, 9]], [1], 9, ShapeError, "shape must have 1 dimension"),
    ],
)
def test_arguments_that_break_a_rule_are_named(boxes, scores, shape, error, message):
    with pytest.raises(error, match=message):
        score_map(boxes, scores, shape)


# a scored picture


def scored_picture(*calibrations, detection=PLAIN):
    """A picture of 30 windows with one class, "0", "1" ..., for each calibration."""
    boxes, own = drawn_windows(30)
    scores = np.stack([own + number for number in range(len(calibrations))], axis=1)
    detectors = [Detector(str(number), [1.0], calibration=one) for number, one in enumerate(calibrations)]
    return ScoredPicture(SHAPE, boxes, scores, detectors, [detection] * len(detectors))


def test_the_map_is_of_the_scores_that_detection_ranks_by():
    picture = scored_picture(Calibration(2.0, 0.0), None, detection=DetectSettings(demotion=1.0, score_smoothing=0.5))
    for name, calibration in (("0", Calibration(2.0, 0.0)), ("1", None)):
        scores = demote_scores(smooth_scores(picture.boxes, picture.scores[:, int(name)], 0.5), 1.0)
        expected = score_map(picture.boxes, scores, SHAPE, calibration)
        np.testing.assert_array_equal(picture.score_map(name).values, expected.values)
        assert picture.score_map(name).is_probability is (calibration is not None)


def test_the_largest_probability_of_a_map_is_that_of_the_best_box():
    picture = scored_picture(Calibration(2.0, 0.3), detection=DetectSettings(demotion=1.0, score_smoothing=0.5))
    best = picture.detections()["0"].probabilities[0]
    assert picture.score_map("0").values.max() == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize(
    ("calibrations", "best"),
    [
        ([None, None, None], "2"),
        ([Calibration(1.0, 0.0)] * 3, "2"),
        ([Calibration(1.0, 5.0), Calibration(1.0, 0.0)], "0"),
        ([Calibration(1.0, -9.0), None], "0"),  # a score says nothing beside a probability
        ([Calibration(0.0, 1.0)] * 2, "0"),
        ([None], "0"),
    ],
)
def test_the_best_class_is_the_most_probable_one(calibrations, best):
    assert scored_picture(*calibrations).best_class() == best


def test_a_class_that_is_not_there_is_named():
    with pytest.raises(OptionError, match="class 'dog' is not known; choose from 0, 1"):
        scored_picture(None, None).score_map("dog")
