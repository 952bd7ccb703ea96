"""The order of windows: the kernels against their twins, and what the order does."""

import numpy as np
import pytest

from lapsvm._ext import coverage, segmentation
from lapsvm.boxes import iou
from lapsvm.errors import InputError
from lapsvm.windows import Mode, ordering, propose
from lapsvm.windows.ordering import Evidence, by_area, by_coverage, largest, objectness, whole_weights

from ..twins import windows as reference

CROWDS = pytest.mark.parametrize("seed", range(6))


def full(boxes):
    """The sizes of regions that fill their boxes."""
    return (boxes[:, 2:] - boxes[:, :2]).prod(axis=1).astype(np.int32)


def sorted_boxes(boxes):
    return by_area(boxes, full(boxes))[0]


def boxes_at(rng, n, side):
    """Distinct boxes, sorted by area, inside a square picture."""
    corners = np.sort(rng.integers(0, side + 1, (n, 2, 2)), axis=1).reshape(n, 4)
    corners[:, 2:] = np.minimum(np.maximum(corners[:, 2:], corners[:, :2] + 1), side)
    corners[:, :2] = np.minimum(corners[:, :2], corners[:, 2:] - 1)
    return sorted_boxes(corners.astype(np.int32))


@CROWDS
def test_cover_equals_its_twin(seed):
    rng = np.random.default_rng(seed)
    boxes = boxes_at(rng, 50, (6, 9, 14, 30, 200, 20_000)[seed])
    weights = rng.integers(1, (3, 32768)[seed % 2], len(boxes)).astype(np.int32)
    order = coverage.cover(boxes, weights, 10_000)
    np.testing.assert_array_equal(order, reference.cover(boxes, weights, 10_000))
    assert sorted(order) == list(range(len(boxes)))


def test_cover_gives_up_above_its_limit_of_pairs():
    boxes = sorted_boxes(np.array([[0, 0, 100, 100 + i] for i in range(9)], np.int32))
    weights = np.ones(9, np.int32)
    assert coverage.cover(boxes, weights, 36) is not None
    for room in (coverage, reference):
        assert room.cover(boxes, weights, 30) is None


@CROWDS
@pytest.mark.parametrize("step", [1, 2, 3, 7, 40])
def test_cut_and_edge_sums_equal_their_twins(seed, step):
    rng = np.random.default_rng(seed)
    height, width = rng.integers(1, 33, 2)
    labels = np.repeat(rng.integers(0, 5, (height, -(-width // 4))), 4, axis=1)[:, :width].astype(np.int32).copy()
    weights = rng.choice(np.array([0, 5, 7000, 65535], np.uint16), (2, height, width))
    corners = boxes_at(rng, 30, 32)
    boxes = corners[(corners[:, 2] <= width) & (corners[:, 3] <= height)]
    boxes = np.concatenate([boxes, np.array([[0, 0, width, height]], np.int32)])
    for count in (1, 3, 5):
        np.testing.assert_array_equal(
            coverage.cut(labels, count, step, boxes), reference.cut(labels, count, step, boxes)
        )
    np.testing.assert_array_equal(coverage.edge_sums(weights, step, boxes), reference.edge_sums(weights, step, boxes))


def evidence(image):
    """The evidence of a grey picture with a segmentation by its grey values."""
    values = np.unique(image, return_inverse=True)[1].reshape(image.shape).astype(np.int32)
    smoothed = segmentation.smooth(np.ascontiguousarray(image[None].astype(np.uint8)))
    return Evidence(values, segmentation.edge_weights(smoothed))


def square():
    image = np.full((64, 64), 40)
    image[16:40, 16:40] = 200
    return image


def test_a_box_that_cuts_nothing_is_the_more_likely_object():
    boxes = np.array([[16, 16, 40, 40], [4, 4, 28, 28], [28, 28, 52, 52]], np.int32)
    likely = objectness(boxes, full(boxes), [evidence(square())])
    assert likely[0] > 5 * likely[1:].max()


def test_a_flat_picture_has_finite_weights():
    boxes = np.array([[0, 0, 9, 9], [0, 0, 3, 3]], np.int32)
    weights = objectness(boxes, full(boxes), [evidence(np.full((9, 9), 7))])
    assert np.isfinite(weights).all()
    assert whole_weights(weights).max() == 32767
    assert whole_weights(weights).min() >= 1


def test_near_duplicates_wait():
    crowd = sorted_boxes(np.array([[10, 10, 40, 40], [10, 10, 41, 40], [10, 11, 40, 40], [50, 50, 64, 64]], np.int32))
    order = coverage.cover(crowd, np.full(4, 9, np.int32), 100)
    assert crowd[order[1]].tolist() == [50, 50, 64, 64]


def test_without_room_for_all_pairs_the_likely_ones_still_come_first(monkeypatch):
    boxes = boxes_at(np.random.default_rng(2), 80, 64)
    every = by_coverage(boxes, full(boxes), [evidence(square())])
    monkeypatch.setattr(ordering, "MAX_PAIRS", 3)
    few = by_coverage(boxes, full(boxes), [evidence(square())])
    assert set(map(tuple, few.tolist())) == set(map(tuple, every.tolist()))
    weights = whole_weights(objectness(boxes, full(boxes), [evidence(square())]))
    tail = [boxes.tolist().index(box) for box in few[-40:].tolist()]
    assert (np.diff(weights[tail]) <= 0).all()


@pytest.mark.parametrize("far", [0, 2**20])
def test_boxes_are_sorted_by_area_without_duplicates(far):
    boxes = np.array([[0, 0, 4, 4], [1, 0, 2, 3], [0, 0, 4, 4], [0, 0, 3, 1], [0, 0, 1, 3]], np.int32) + far
    distinct, sizes = by_area(boxes, np.array([9, 3, 11, 2, 1], np.int32))
    assert (distinct - far).tolist() == [[0, 0, 1, 3], [0, 0, 3, 1], [1, 0, 2, 3], [0, 0, 4, 4]]
    assert sizes.tolist() == [1, 2, 3, 11]


def test_a_box_that_its_region_fills_is_the_more_likely_object():
    boxes = np.array([[4, 4, 28, 28], [4, 4, 28, 28]], np.int32)
    whole, diagonal = objectness(boxes, np.array([576, 96], np.int32), [evidence(square())])
    assert whole == pytest.approx(6 * diagonal)


def test_of_boxes_that_look_alike_the_larger_one_is_the_more_likely_object():
    boxes = np.array([[0, 0, 8, 8], [0, 0, 32, 32]], np.int32)
    small, large = objectness(boxes, full(boxes), [evidence(np.full((64, 64), 7))])
    assert small == pytest.approx(large / 2 ** (4 / 8))


def test_small_boxes_come_last_and_move_no_other():
    boxes = boxes_at(np.random.default_rng(4), 60, 64)
    seen, enough = [evidence(square())], (boxes[:, 2:] - boxes[:, :2] >= 20).all(axis=1)
    assert 10 < enough.sum() < 50
    ordered = by_coverage(boxes, full(boxes), seen, 20)
    alone = by_coverage(boxes[enough], full(boxes[enough]), seen)
    assert ordered[: enough.sum()].tolist() == alone.tolist()
    assert (np.diff(full(ordered[enough.sum() :])) <= 0).all()


def test_where_all_boxes_are_small_the_large_ones_come_first():
    boxes = boxes_at(np.random.default_rng(5), 20, 64)
    assert (np.diff(full(by_coverage(boxes, full(boxes), [evidence(square())], 65))) <= 0).all()


def test_only_the_largest_regions_count(monkeypatch):
    monkeypatch.setattr(ordering, "MAX_PARTS", 2)
    labels, count = largest(np.array([[0, 1, 1], [2, 2, 2]], np.int32))
    assert count == 2
    assert labels.tolist() == [[2, 1, 1], [0, 0, 0]]


def picture(seed=0, shape=(90, 130)):
    rng = np.random.default_rng(seed)
    image = np.full((*shape, 3), 110) + rng.integers(-6, 7, (*shape, 3))
    for x, y, size in ((15, 20, 30), (70, 10, 45), (60, 60, 20)):
        image[y : y + size, x : x + size] = rng.integers(0, 256, 3) + rng.integers(-6, 7, (size, size, 3))
    return np.clip(image, 0, 255).astype(np.uint8)


def test_a_large_picture_is_segmented_reduced():
    image = np.repeat(np.repeat(picture(), 5, axis=0), 5, axis=1)
    whole, reduced = (propose(image, mode=Mode(("lab",), (100,), ("CTSF",), scale=scale)) for scale in (1.0, 0.5))
    objects = 5 * np.array([[15, 20, 45, 50], [70, 10, 115, 55], [60, 60, 80, 80]])
    for boxes in (whole, reduced):
        assert iou(objects, boxes).max(axis=1).min() > 0.8
        assert (boxes == np.rint(boxes)).all()
        assert boxes.max(axis=0)[2:].tolist() == [650, 450]


@pytest.mark.parametrize("scale", [0, -0.5, 1.01, float("nan"), "half"])
def test_a_wrong_scale_is_named(scale):
    with pytest.raises(InputError, match="scale must be greater than 0 and at most 1, got"):
        propose(picture(), mode=Mode(("lab",), (100,), ("S",), scale=scale))
