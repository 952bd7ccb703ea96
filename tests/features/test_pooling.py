"""Pooling: sums over rectangles against pixel-by-pixel definitions."""

import numpy as np
import pytest

from lapsvm.features.extractors.maps.pooling import (
    enlarge,
    pool_rings,
    pool_windows,
    pool_windows_and_rings,
    window_and_ring_lengths,
    window_lengths,
)
from lapsvm.features.extractors.picture import l2_normalise

from ..twins import extractors as reference

MAP = np.random.default_rng(0).normal(size=(5, 6, 7)).astype(np.float32)
FINE = 16


def grid_windows(n=40, seed=1):
    """Windows whose edges are sixteenths of a cell, so that counting fine pixels is exact."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, [7 * FINE, 6 * FINE], (2, n, 2))
    return np.hstack([np.minimum(first, second), np.maximum(first, second) + 1]) / FINE


def test_pooling_counts_pixels():
    fine = np.kron(MAP.astype(np.float64), np.ones((1, FINE, FINE)))
    windows = grid_windows()
    pooled = pool_windows(MAP, windows)
    for window, found in zip((windows * FINE).astype(int), pooled, strict=True):
        x1, y1, x2, y2 = window
        np.testing.assert_allclose(found, fine[:, y1:y2, x1:x2].mean(axis=(1, 2)), atol=1e-6)


@pytest.mark.parametrize("window", [[0, 0, 7, 6], [1.3, 2.2, 1.4, 2.21], [0.1, 5.9, 6.9, 6], [6.99, 0, 7, 0.01]])
def test_pooling_equals_its_twin(window):
    np.testing.assert_allclose(pool_windows(MAP, np.array([window]))[0], reference.pool(MAP, window), atol=1e-6)


def test_the_whole_map_gives_its_mean():
    np.testing.assert_allclose(pool_windows(MAP, np.array([[0, 0, 7.0, 6]]))[0], MAP.mean(axis=(1, 2)), atol=1e-6)


def test_a_window_inside_a_cell_gives_that_cell():
    found = pool_windows(MAP, np.array([[3.2, 4.1, 3.9, 4.3]]))[0]
    np.testing.assert_allclose(found, MAP[:, 4, 3], rtol=1e-6)


def test_two_halves_make_the_whole():
    windows = np.array([[0.5, 1.1, 5.3, 4.6], [0.5, 1.1, 2.25, 4.6], [2.25, 1.1, 5.3, 4.6]])
    whole, left, right = pool_windows(MAP, windows)
    np.testing.assert_allclose(whole * 4.8, left * 1.75 + right * 3.05, atol=1e-5)


def test_no_area_gives_zeros_and_no_windows_no_rows():
    windows = np.array([[0, 0, 0, 0], [2, 2, 2, 3], [3.0, 3, 2, 4]])
    assert not pool_windows(MAP, windows[:2]).any()
    assert pool_windows(MAP, np.empty((0, 4))).shape == (0, 5)


def test_where_a_map_is_zero_means_and_lengths_are_exactly_zero():
    corner = np.zeros((64, 20, 30), np.float32)
    corner[:, :10, :15] = np.random.default_rng(3).random((64, 10, 15)).astype(np.float32) * 1e3
    windows = np.array([[16.3, 11.7, 21.2, 15.1], [20, 3, 29.5, 19.9], [3.2, 12, 4.9, 18.5]])
    assert not pool_windows(corner, windows).any()
    assert not window_lengths(corner, windows).any()
    assert pool_windows(corner, np.array([[14.0, 9.0, 15.5, 10.5]])).all()


def test_the_smallest_window_there_is_gives_its_cell():
    found = pool_windows(MAP, np.array([[0, 0, 5e-324, 5e-324], [0, 5e-324, 7, 5e-324]]))
    np.testing.assert_allclose(found, [MAP[:, 0, 0], np.zeros(5)], rtol=1e-6)


def test_windows_are_clipped_to_the_map():
    found = pool_windows(MAP, np.array([[-3, -2.5, 2.5, 1e9], [5, 5.5, np.inf, np.inf], [8, 8, 9, 9]]))
    expected = pool_windows(MAP, np.array([[0, 0, 2.5, 6], [5, 5.5, 7, 6]]))
    np.testing.assert_array_equal(found, [*expected, np.zeros(5)])


def test_a_window_in_the_far_corner_of_a_large_map_is_exact():
    large = np.random.default_rng(2).random((3, 200, 300)).astype(np.float32)
    found = pool_windows(large, np.array([[299.4, 199.4, 299.5, 199.6], [298.99999, 198, 299.00001, 200]]))
    np.testing.assert_array_equal(found[0], large[:, 199, 299])
    np.testing.assert_allclose(found[1], large[:, 198:, 298:].mean(axis=(1, 2)), rtol=1e-6)


@pytest.mark.parametrize("channels", [1, 31, 32, 33, 70])
def test_channels_are_pooled_in_blocks(channels):
    wide = np.random.default_rng(3).normal(size=(channels, 6, 7)).astype(np.float32)
    windows = grid_windows(9)
    pooled, (around, _) = pool_windows(wide, windows), pool_rings(wide, windows)
    np.testing.assert_allclose(pooled, [reference.pool(wide, window) for window in windows], atol=1e-6)
    np.testing.assert_array_equal(pooled[:, -1:], pool_windows(wide[-1:], windows))
    np.testing.assert_allclose(window_lengths(wide, windows), np.linalg.norm(pooled.astype(float), axis=1), rtol=1e-6)
    inner, outer = window_and_ring_lengths(wide, windows)
    np.testing.assert_allclose(inner, np.linalg.norm(pooled.astype(float), axis=1), rtol=1e-6)
    np.testing.assert_allclose(outer, np.linalg.norm(around.astype(float), axis=1), rtol=1e-6)


@pytest.mark.parametrize("channels", [1, 32, 70])
def test_windows_and_surroundings_at_once_equal_their_twins(channels):
    wide = np.random.default_rng(4).normal(size=(channels, 6, 7)).astype(np.float32)
    windows = np.vstack([grid_windows(9), [[0, 0, 7, 6], [2, 2, 2, 2]]])
    inside, around = np.random.default_rng(5).uniform(0.1, 2, (2, len(windows)))
    found = pool_windows_and_rings(wide, windows, inside, around)
    rings_and_weights = [reference.ring(wide, window) for window in windows]
    expected = [reference.pool(wide, window) for window in windows] * inside[:, None]
    np.testing.assert_allclose(found[:, :channels], expected, atol=1e-6)
    expected = [ring * weight for ring, weight in rings_and_weights] * around[:, None]
    np.testing.assert_allclose(found[:, channels:], expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(0, 6, 7), (3, 0, 7), (3, 6, 0)])
def test_a_map_without_cells_gives_zeros(shape):
    windows = np.array([[0, 0, 1, 1.0]])
    np.testing.assert_array_equal(pool_windows(np.empty(shape, np.float32), windows), np.zeros((1, shape[0])))
    assert window_lengths(np.empty(shape, np.float32), windows) == 0


def test_a_row_of_zeros_is_not_divided():
    rows = np.array([[0, 0, 0], [3, 0, 4], [1e-30, 0, 0]], dtype=np.float32)
    np.testing.assert_allclose(l2_normalise(rows), [[0, 0, 0], [0.6, 0, 0.8], [1, 0, 0]], rtol=1e-6)
    assert l2_normalise(rows).dtype == np.float32


def rings(windows):
    windows = np.asarray(windows, dtype=float)
    return pool_rings(MAP, windows)


@pytest.mark.parametrize("window", [[2, 2, 4, 4], [0, 0, 1.5, 6], [1.3, 2.2, 1.4, 2.21], [0.1, 0.2, 6.8, 5.9]])
def test_surroundings_equal_their_twin(window):
    means, weights = rings([window])
    expected, weight = reference.ring(MAP, window)
    np.testing.assert_allclose(means[0], expected, atol=1e-4)
    np.testing.assert_allclose(weights[0], weight, rtol=1e-5)


def test_surroundings_are_the_enlarged_window_without_the_window():
    means, weights = rings([[3, 2.5, 4, 3.5]])  # enlarged: 2.6 to 4.4 and 2.1 to 3.9, inside the cells 2-4 and 2-3
    shares = np.zeros((6, 7))
    shares[2:4, 2:5] = np.outer([0.9, 0.9], [0.4, 1, 0.4])
    shares[2:4, 3] -= 0.5
    np.testing.assert_allclose(means[0], (MAP * shares).sum(axis=(1, 2)) / shares.sum(), atol=1e-5)
    assert weights[0] == 1  # the ring is 69 % of the enlarged window


def test_the_whole_map_has_no_surroundings():
    means, weights = rings([[0, 0, 7, 6], [0, 0, 7, 3]])
    assert not means[0].any()
    assert weights[0] == 0
    np.testing.assert_allclose(
        means[1], (MAP[:, 3:4].sum(axis=(1, 2)) + 0.2 * MAP[:, 4].sum(axis=1)) / (1.2 * 7), atol=1e-5
    )
    np.testing.assert_allclose(weights[1], (4.2 - 3) / 4.2 / 0.5, rtol=1e-6)


def test_a_window_without_area_has_no_surroundings():
    means, weights = rings([[2, 2, 2, 3]])
    assert not means.any()
    assert weights[0] == 0


def test_a_window_is_enlarged_about_its_centre_and_cut_to_the_map():
    np.testing.assert_allclose(
        enlarge(np.array([[3.0, 2, 4, 4], [0, 0, 2, 1]]), 6, 7)[:, :],
        [
            [2.6, 1.2, 4.4, 4.8],
            [0, 0, 2.8, 1.4],
        ],
    )
