"""Regions of a map, and the objectness of windows beside them, against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from lapsvm.errors import InputError, NotFiniteError, ShapeError
from lapsvm.objectness import object_regions, window_objectness
from lapsvm.objectness.regions import LEAST_SHARE, THRESHOLDS

from ..twins import objectness as reference

LEVELS = [0.0, 0.29999998211860657, 0.3, 0.5, 0.5000001, 0.699999988079071, 0.7, 1.0]
maps = st.tuples(st.integers(1, 7), st.integers(1, 7), st.integers(0, 10**6)).map(
    lambda drawn: np.random.default_rng(drawn[2]).choice(LEVELS, drawn[:2])
)


def smooth_map(seed, shape):
    """Blobs of several sizes, from 0 to 1."""
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=shape), 0.03 * max(shape))
    return (noise - noise.min()) / (noise.max() - noise.min())


@given(maps)
def test_regions_of_small_maps_are_the_twins(cells):
    found = object_regions(cells)
    assert found.dtype == np.float64
    assert [tuple(box) for box in found] == reference.object_regions(list(cells.astype(np.float32)))


@pytest.mark.parametrize("shape", [(320, 320), (40, 170), (1, 300), (300, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_regions_of_large_maps_are_the_twins(seed, shape):
    cells = smooth_map(seed, shape)
    expected = reference.object_regions(list(cells.astype(np.float32)))
    assert len(expected) > 1
    assert [tuple(box) for box in object_regions(cells)] == expected


def test_components_are_those_of_scipy():
    cells = smooth_map(7, (200, 260)).astype(np.float32)
    expected = set()
    for threshold in THRESHOLDS:
        labels, _ = ndimage.label(cells >= np.float32(threshold), np.ones((3, 3)))
        for number, (ys, xs) in enumerate(ndimage.find_objects(labels), 1):
            if (labels == number).sum() >= LEAST_SHARE * cells.size:
                expected.add((xs.start, ys.start, xs.stop, ys.stop))
        ys, xs = np.nonzero(labels)
        expected.add((xs.min(), ys.min(), xs.max() + 1, ys.max() + 1))
    assert {tuple(box) for box in object_regions(cells).astype(int).tolist()} == expected


@given(maps)
def test_regions_lie_inside_the_map_and_are_none_twice(cells):
    boxes = object_regions(cells)
    assert (boxes[:, 2:] > boxes[:, :2]).all()
    assert boxes[:, :2].min(initial=0) >= 0
    assert (boxes[:, 2:] <= cells.shape[::-1]).all()
    assert len(np.unique(boxes, axis=0)) == len(boxes)


@given(maps)
def test_a_map_upside_down_has_its_regions_upside_down(cells):
    height, width = cells.shape
    flipped = object_regions(cells[::-1, ::-1])
    turned = np.array([width, height, width, height]) - flipped[:, [2, 3, 0, 1]]
    np.testing.assert_array_equal(np.unique(turned, axis=0), object_regions(cells))
    np.testing.assert_array_equal(
        object_regions(cells.T)[:, [1, 0, 3, 2]], np.array(sorted_by_y(object_regions(cells)))
    )


def sorted_by_y(boxes):
    """Return boxes in the order of y1, x1, y2, x2."""
    return boxes[np.lexsort(boxes[:, [2, 3, 0, 1]].T)].reshape(-1, 4)


def test_cells_that_touch_at_a_corner_are_one_component():
    cells = np.eye(4)
    assert object_regions(cells).tolist() == [[0, 0, 4, 4]]
    cells[2, 2] = 0
    assert object_regions(cells).tolist() == [[0, 0, 2, 2], [3, 3, 4, 4]]


@pytest.mark.parametrize(("count", "boxes"), [(60, [[0, 0, 60, 1]]), (59, [])])
def test_a_component_needs_60_cells_of_320_x_320(count, boxes):
    cells = np.zeros((320, 320))
    cells[0, :count] = cells[-1, -1] = 1
    assert object_regions(cells).tolist() == boxes


def test_each_threshold_gives_regions():
    cells = np.zeros((10, 10))
    cells[1:9, 1:9], cells[2:8, 2:8], cells[3:7, 3:7] = THRESHOLDS
    assert object_regions(cells).tolist() == [[1, 1, 9, 9], [2, 2, 8, 8], [3, 3, 7, 7]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_cell_at_a_threshold_belongs_to_it_in_either_precision(dtype):
    for threshold in THRESHOLDS:
        assert len(object_regions(np.full((2, 2), threshold, dtype))) == 1
        assert len(object_regions(np.array([[0, np.nextafter(np.float32(threshold), 0)]], dtype))) == (threshold > 0.3)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5000), (320, 320)])
def test_maps_of_one_number(shape):
    assert object_regions(np.zeros(shape)).shape == (0, 4)
    assert object_regions(np.ones(shape, bool)).tolist() == [[0, 0, shape[1], shape[0]]]


@pytest.mark.parametrize(
    ("cells", "error", "sentence"),
    [
        (np.zeros(5), ShapeError, r"a map of objectness must have 2 dimension\(s\), got shape \(5,\)"),
        (np.zeros((1, 5, 5)), ShapeError, "must have 2 dimension"),
        (np.zeros((0, 5)), ShapeError, r"must have at least one cell, got shape \(0, 5\)"),
        (np.array([[0, np.nan]]), NotFiniteError, r"must be finite, got nan at index \(0, 1\)"),
        (np.array([[0, -np.inf]]), NotFiniteError, "must be finite"),
        (np.array([[0, 1.001]]), InputError, "must be within 0..1, got 0 to 1.001"),
        (np.array([[-0.5, 1]]), InputError, "must be within 0..1, got -0.5 to 1"),
        ([["a", "b"]], InputError, "must be numbers"),
        (None, InputError, "must be numbers"),
    ],
)
def test_what_is_no_map_is_one_sentence(cells, error, sentence):
    with pytest.raises(error, match=sentence):
        object_regions(cells)


boxes = st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(0, 10**6)).map(
    lambda drawn: tuple(np.random.default_rng([drawn[2], k]).integers(0, 9, (drawn[k], 4)) for k in (0, 1))
)


@given(boxes)
def test_objectness_is_the_largest_overlap_with_a_region(drawn):
    windows, regions = drawn
    found = window_objectness(windows, regions)
    assert (found.dtype, found.shape) == (np.float32, (len(windows),))
    expected = reference.window_objectness(windows.tolist(), regions.tolist())
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=0)


@given(boxes, st.randoms(use_true_random=False))
def test_the_order_of_windows_and_regions_does_not_matter(drawn, random):
    windows, regions = drawn
    order, other = (np.array(random.sample(range(len(rows)), len(rows)), dtype=int) for rows in drawn)
    expected = window_objectness(windows, regions)[order]
    np.testing.assert_array_equal(window_objectness(windows[order], regions[other]), expected)


@given(boxes)
def test_more_regions_never_make_a_window_less_of_an_object(drawn):
    windows, regions = drawn
    assert (window_objectness(windows, regions) >= window_objectness(windows, regions[1:])).all()


@pytest.mark.parametrize("none", [[], np.empty((0, 4), np.float32)])
def test_without_regions_or_windows(none):
    assert window_objectness([[0, 0, 5, 5], [1, 1, 2, 2]], none).tolist() == [0, 0]
    assert window_objectness(none, [[0, 0, 5, 5]]).shape == (0,)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ([[0, 0, np.nan, 5]], NotFiniteError),
        ([[0, 0, np.inf, 5]], NotFiniteError),
        ([[0, 0, 5]], ShapeError),
        ([0, 0, 5, 5], ShapeError),
        ("text", InputError),
    ],
)
def test_what_are_no_boxes_is_refused(place, bad, error):
    arguments = [[[0, 0, 1, 1]], [[0, 0, 1, 1]]]
    arguments[place] = bad
    with pytest.raises(error, match="regions" if place else "boxes"):
        window_objectness(*arguments)
