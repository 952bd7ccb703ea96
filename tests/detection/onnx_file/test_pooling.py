"""Scores of windows inside the file are those of their pooled features."""

import numpy as np
import pytest

from lapsvm.detection.onnx_file.pooling import MapWeights, as_cells, clipped, map_scores
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
