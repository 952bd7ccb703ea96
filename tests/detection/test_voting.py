"""Box voting, compiled and reference."""

import numpy as np
import pytest

from lapsvm.detection import box_voting
from lapsvm.errors import InputError, NotFiniteError, ShapeError

from ..twins import detection as reference
from .windows import boxes_at


@pytest.fixture(params=[box_voting, reference.box_voting], ids=["compiled", "reference"])
def vote(request):
    return lambda *arguments, **options: np.array(request.param(*arguments, **options), dtype=float).reshape(-1, 4)


def test_a_box_moves_to_the_weighted_mean_of_overlapping_windows(vote):
    weight = np.exp(-1 / 0.7)  # scores 1 and -1 spread by 1, and 2 lie between them
    weight *= weight
    moved = vote(boxes_at(0), boxes_at(0, 2), [1, -1])
    np.testing.assert_allclose(moved, boxes_at(2 * weight / (1 + weight)))


def test_a_window_with_iou_equal_to_min_iou_takes_part(vote):
    np.testing.assert_array_equal(vote(boxes_at(0), boxes_at(0, 5), [1, 1], min_iou=5 / 15), boxes_at(2.5))
    np.testing.assert_array_equal(
        vote(boxes_at(0), boxes_at(0, 5), [1, 1], min_iou=np.nextafter(5 / 15, 1)), boxes_at(0)
    )


def test_equal_scores_have_equal_weights(vote):
    np.testing.assert_allclose(vote(boxes_at(1), boxes_at(0, 1, 5), [0.1] * 3, min_iou=0.4), boxes_at(2))


def test_a_small_temperature_leaves_the_best_window(vote):
    np.testing.assert_array_equal(vote(boxes_at(3), boxes_at(2, 3, 4), [1, 3, 2], temperature=1e-4), boxes_at(3))


def test_every_box_has_its_own_neighbours(vote):
    np.testing.assert_allclose(vote(boxes_at(0, 50), boxes_at(0, 2, 50, 53), [1, 1, 1, 1]), boxes_at(1, 51.5))


@pytest.mark.parametrize("box", [[3, 3, 3, 8], [8, 3, 3, 8]])
def test_a_box_without_area_stays(vote, box):
    np.testing.assert_array_equal(vote([box], [box, [0, 0, 10, 10]], [1, 1]), [box])


def test_a_box_whose_overlapping_windows_have_no_weight_stays(vote):
    scores = [0.0] * 20 + [1e3]
    np.testing.assert_array_equal(
        vote(boxes_at(0), boxes_at(*range(20), 500), scores, temperature=1e-3, min_iou=0.1), boxes_at(0)
    )


def test_nothing_in_nothing_out(vote):
    assert vote([], [], []).shape == (0, 4)
    assert vote([], boxes_at(1), [1]).shape == (0, 4)


def test_scaling_and_shifting_scores_changes_nothing():
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, 50, (200, 2))
    boxes, scores = np.hstack([corners, corners + rng.uniform(5, 50, (200, 2))]), rng.normal(size=200)
    moved = box_voting(boxes[:20], boxes, scores)
    np.testing.assert_allclose(box_voting(boxes[:20], boxes, 3 * scores + 5), moved)
    assert not np.allclose(moved, boxes[:20])


@pytest.mark.parametrize("temperature", [0, -1, np.nan, np.inf])
def test_a_temperature_not_above_zero_is_refused(temperature):
    with pytest.raises(InputError, match="the temperature of box voting must be a finite number above 0, got"):
        box_voting(boxes_at(0), boxes_at(0), [1], temperature)


@pytest.mark.parametrize("min_iou", [0, -0.1, 1.1, np.nan])
def test_an_overlap_outside_its_range_is_refused(min_iou):
    with pytest.raises(InputError, match="min_iou of box voting must be above 0 and at most 1, got"):
        box_voting(boxes_at(0), boxes_at(0), [1], min_iou=min_iou)


def test_wrong_shapes_and_numbers_are_refused():
    with pytest.raises(ShapeError, match="detections must have shape"):
        box_voting([[1, 2]], boxes_at(0), [1])
    with pytest.raises(ShapeError, match="boxes and scores"):
        box_voting(boxes_at(0), boxes_at(0), [1, 2])
    with pytest.raises(NotFiniteError, match="scores"):
        box_voting(boxes_at(0), boxes_at(0), [np.nan])
    with pytest.raises(NotFiniteError, match="detections"):
        box_voting([[0, 0, np.inf, 1]], boxes_at(0), [1])
