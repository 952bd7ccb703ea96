"""Windows around what differs from its surroundings, made inside an ONNX graph, against those of the library."""

import numpy as np
import pytest

from lapsvm._ext import components as kernel
from lapsvm.detection.onnx_file.contrast import box_sums, contrast_windows, mirrored
from lapsvm.detection.onnx_file.parts import parts
from lapsvm.windows import propose
from lapsvm.windows.proposals import enlarged_boxes, reduced

SIDE = 128


def textured(height, width, seed=0):
    """Return noise with spots of 6 to 12 pixels, bright and dark."""
    rng = np.random.default_rng(seed)
    pixels = rng.normal(120, 8, (height, width, 3))
    for _ in range(12):
        y, x, side = rng.integers(0, height), rng.integers(0, width), rng.integers(6, 13)
        pixels[y : y + side, x : x + side] += rng.choice([-60, 60])
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def windows_of(run_graph, pixels, count=1000, max_area=0.9):
    def build(graph, picture):
        return contrast_windows(graph, picture.transposed(2, 0, 1).cast(np.float32), SIDE, count, max_area)

    height, width = pixels.shape[:2]
    return run_graph(build, pixels) * [width, height, width, height]


@pytest.mark.parametrize("shape", [(96, 128), (100, 75), (200, 300), (257, 190), (20, 128), (9, 31), (8, 9)])
def test_windows_are_those_of_the_library_in_their_order(run_graph, shape):
    pixels = textured(*shape)
    seen = reduced(pixels, SIDE)
    boxes = propose(seen, "contrast", max_area=0.9)
    expected = boxes if seen is pixels else enlarged_boxes(boxes, pixels, seen)
    found = windows_of(run_graph, pixels)
    if len(found) == 0:  # the library puts the middle of the picture in place of none
        assert len(expected) == 1
    else:
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_fewer_windows_are_the_first_ones(run_graph):
    pixels = textured(40, 60)
    np.testing.assert_array_equal(windows_of(run_graph, pixels, count=3), windows_of(run_graph, pixels)[:3])


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (7, 300)])
def test_pictures_without_a_level_have_no_windows(run_graph, shape):
    assert windows_of(run_graph, textured(*shape)).shape == (0, 4)


def test_a_picture_of_one_colour_has_no_windows(run_graph):
    assert windows_of(run_graph, np.full((60, 80, 3), 9, np.uint8)).shape == (0, 4)


def spiral(side):
    """Return a line that winds to the middle, whose ends only its whole length connects."""
    drawn, y, x, step = np.zeros((side, side), bool), 0, 0, (0, 1)
    drawn[0, 0] = True
    length, turns = side - 1, 0
    while length > 0:
        for _ in range(length):
            y, x = y + step[0], x + step[1]
            drawn[y, x] = True
        step, turns = (step[1], -step[0]), turns + 1
        length -= 2 * (turns % 2 == 0)
    return drawn


def maps_of(kind):
    rng = np.random.default_rng(3)
    if kind == "noise":
        return rng.integers(-900, 900, (2, 23, 31)).astype(np.int32)
    if kind == "smooth":
        return (rng.integers(-900, 900, (2, 6, 8)).repeat(5, axis=1).repeat(4, axis=2)).astype(np.int32)
    if kind == "spiral":
        return np.where(spiral(21), 800, -5)[None].astype(np.int32)
    return np.full((1, 4, 6), {"nothing": -1, "everything": 1000}[kind], np.int32)


@pytest.mark.parametrize("least", [1, 3])
@pytest.mark.parametrize("kind", ["noise", "smooth", "spiral", "nothing", "everything"])
def test_parts_are_those_of_the_union_find(run_graph, kind, least):
    maps, thresholds = maps_of(kind), (700, 400, 100)
    found = run_graph(lambda graph, planes: list(parts(graph, planes, thresholds, least)), maps)
    expected = [
        kernel.components(plane.astype(np.int16), np.array([level], np.int32), least)
        for plane in maps for level in thresholds
    ]  # fmt: skip
    rows = [
        sorted(np.column_stack([boxes, pixels, totals]).tolist())
        for boxes, pixels, totals in (found, [np.concatenate(column) for column in zip(*expected, strict=True)])
    ]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (4, 3), (30, 41)])
def test_borders_are_mirrored_as_by_numpy(run_graph, shape):
    planes = np.random.default_rng(0).integers(0, 1000, (2, *shape)).astype(np.int32)
    around = np.pad(planes, [(0, 0), (9, 8), (9, 8)], mode="reflect")
    np.testing.assert_array_equal(run_graph(lambda graph, values: mirrored(graph, values, 9, 8), planes), around)
    around = np.pad(planes, [(0, 0), (8, 8), (8, 8)], mode="reflect")
    sums = np.lib.stride_tricks.sliding_window_view(around, (17, 17), axis=(1, 2)).sum(axis=(3, 4))
    np.testing.assert_array_equal(run_graph(lambda graph, values: box_sums(graph, values, 17), planes), sums)
