"""Windows of a picture's regions, made inside an ONNX graph."""

import numpy as np
import pytest

from lapsvm.boxes import iou
from lapsvm.detection.onnx_file.grouping import LEAST_AREA, grouped_windows

MAX_AREA = 0.9


def windows_of(run_graph, pixels):
    return run_graph(
        lambda graph, picture: grouped_windows(graph, picture.transposed(2, 0, 1).cast(np.float32), MAX_AREA), pixels
    )


def test_regions_of_one_colour_and_pairs_of_them_get_windows(run_graph):
    pixels = np.random.default_rng(0).integers(90, 110, (120, 160, 3)).astype(np.uint8)
    pixels[20:70, 30:90], pixels[70:100, 30:90] = [200, 40, 40], [40, 40, 200]
    windows = windows_of(run_graph, pixels) * [160, 120, 160, 120]
    objects = np.array([[30, 20, 90, 70], [30, 70, 90, 100], [30, 20, 90, 100]], dtype=float)
    best = iou(objects, windows).max(axis=1)
    assert best[:2].min() > 0.9
    assert best[2] > 0.65  # the larger one alone has .625
    assert len(np.unique(windows, axis=0)) == len(windows)


@pytest.mark.parametrize(("shape", "least"), [((40, 90), 200), ((300, 200), 200), ((30, 400), 30)])
def test_windows_lie_inside_within_the_bounds_of_area(run_graph, shape, least):
    pixels = np.random.default_rng(1).integers(0, 256, (*shape, 3)).astype(np.uint8)
    windows = windows_of(run_graph, pixels)
    areas = np.prod(windows[:, 2:] - windows[:, :2], axis=1)
    assert len(windows) > least  # a strip of 400 pixels is seen with ten lines
    assert windows.min() >= 0
    assert windows.max() <= 1
    assert areas.min() > LEAST_AREA
    assert areas.max() <= MAX_AREA


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (64, 64)])
def test_a_picture_of_one_colour_gives_windows_or_none(run_graph, shape):
    assert windows_of(run_graph, np.full((*shape, 3), 60, np.uint8)).shape[1] == 4
