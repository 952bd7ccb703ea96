"""Scores of windows inside the file are those of their pooled features."""

import numpy as np
import pytest

from lapsvm.detection.onnx_file.pooling import Levels, MapWeights, as_cells, clipped, map_scores
from lapsvm.features.extractors.maps.prepared import PoolingRules, PreparedMaps

HEIGHT, WIDTH, CLASSES = 90, 130, 3


def drawn(rng):
    """A map with negative numbers and a channel of zeros, and windows of all kinds, some outside or without area."""
    feature_map = rng.normal(size=(5, 6, 9)).astype(np.float32)
    feature_map[2] = 0
    corners = rng.uniform(-20, [WIDTH, HEIGHT], (60, 2))
    windows = np.hstack([corners, corners + rng.uniform(-5, 90, (60, 2))])
    whole, thin = [0, 0, WIDTH, HEIGHT], [0.001, 0.001, WIDTH - 0.001, HEIGHT - 0.001]
    one_cell, outside = [1, 1, 2, 2.5], [500, 500, 600, 600]
    return feature_map, np.vstack([windows, [whole, thin, one_cell, outside]])


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("around", ["none", "beside", "contrast"])
def test_scores_are_those_of_pooled_features(run_graph, normalise, around):
    rng = np.random.default_rng(0)
    feature_map, windows = drawn(rng)
    contrast = 0.3 if around == "contrast" else 0.0
    rules = PoolingRules(contrast, around == "beside", normalise)
    features = PreparedMaps([feature_map], HEIGHT, WIDTH, rules)(windows)
    coef = rng.normal(size=(features.shape[1], CLASSES))
    inside = coef[:5]
    weights = {
        "none": MapWeights(inside, None, normalise),
        "beside": MapWeights(inside, coef[5:], normalise),
        "contrast": MapWeights(inside, -contrast * inside, normalise),
    }[around]

    def build(graph, cells, boxes):
        height, width = graph.constant(float(HEIGHT)), graph.constant(float(WIDTH))
        return map_scores(as_cells(cells, clipped(boxes, height, width), height, width), weights)

    found = run_graph(build, feature_map[None], windows)
    expected = features @ coef
    np.testing.assert_allclose(found[np.arange(len(found)) != 61], expected[np.arange(len(found)) != 61], atol=2e-5)
    np.testing.assert_allclose(found[61], expected[61], atol=2e-2)  # a ring of a few thousandths of a pixel
    assert not found[-1].any()


@pytest.mark.parametrize("around", [False, True])
def test_scores_of_a_map_in_8_bits_are_nearly_those_of_the_numbers_that_it_stands_for(run_graph, around):
    rng, zero, scale = np.random.default_rng(1), 100, 0.25
    levels = rng.integers(0, 256, (5, 6, 9), dtype=np.uint8)
    feature_map = (scale * (levels.astype(np.float32) - zero)).astype(np.float32)
    windows = drawn(rng)[1][:61]  # without those that lie in a cell, or have a ring of rounding alone
    sides = np.clip(windows[:, 2:], 0, [WIDTH, HEIGHT]) - np.clip(windows[:, :2], 0, [WIDTH, HEIGHT])
    rules = PoolingRules(0.0, around, True)
    features = PreparedMaps([feature_map], HEIGHT, WIDTH, rules)(windows)
    coef = rng.normal(size=(features.shape[1], CLASSES))
    weights = MapWeights(coef[:5], coef[5:] if around else None, True)

    def scores(graph, cells, boxes, step=None):
        height, width = graph.constant(float(HEIGHT)), graph.constant(float(WIDTH))
        return map_scores(as_cells(cells, clipped(boxes, height, width), height, width, step), weights)

    def build(graph, cells, boxes):
        return scores(graph, cells, boxes, Levels(graph.constant(scale, np.float32), graph.constant(zero, np.uint8)))

    found = run_graph(build, levels[None], windows)
    large = (sides > 20).all(axis=1)
    assert large.sum() > 15
    np.testing.assert_allclose(found[large], (features @ coef)[large], atol=0.03)
    exact = run_graph(scores, feature_map[None], windows)
    assert np.abs(found - exact).max() > 0


@pytest.mark.parametrize("side", [181, 256])
def test_sums_in_8_bits_hold_large_maps(run_graph, side):
    levels = np.full((1, 1, side, side), 255, np.uint8)

    def build(graph, cells, boxes):
        length, step = graph.constant(float(side)), Levels(graph.constant(1.0, np.float32), graph.constant(0, np.uint8))
        return as_cells(cells, boxes, length, length, step).sums(graph.constant(np.ones((1, side**2), np.float32)))

    np.testing.assert_allclose(run_graph(build, levels, np.array([[0.0, 0, side, side]])), [[255 * side**2]], rtol=1e-6)
