"""Windows of contrast: the kernel against its twin, what is found, and how it is mixed with selective search."""

import numpy as np
import pytest

from lapsvm._ext import components as kernel
from lapsvm.boxes import iou
from lapsvm.errors import OptionError
from lapsvm.windows import Mode, propose
from lapsvm.windows.contrast import EVERY, contrast, interleaved, lattice

from ..twins import windows as reference

SHAPES = [(1, 1), (1, 9), (7, 1), (2, 2), (13, 17), (24, 31)]


def surface(seed, defects=6, shape=(240, 320)):
    """A grainy surface with small rectangles, half of them dark, and their boxes."""
    rng = np.random.default_rng(seed)
    plane = 120 + rng.normal(0, 8, shape)
    boxes = []
    for number in range(defects):
        width, height = rng.integers(8, 26, 2)
        x, y = 20 + 50 * number, int(rng.integers(20, shape[0] - 50))
        plane[y : y + height, x : x + width] += 35 if number % 2 else -35
        boxes.append((x, y, x + width, y + height))
    return np.repeat(np.clip(plane, 0, 255).astype(np.uint8)[:, :, None], 3, axis=2), np.array(boxes, float)


def best_overlaps(boxes, windows):
    return iou(boxes, windows).max(axis=1)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("least", [1, 3])
@pytest.mark.parametrize("levels", [2, 6, 400])
def test_the_kernel_equals_its_twin(shape, least, levels):
    for seed in range(3):
        values = np.random.default_rng(seed).integers(-levels, levels + 1, shape).astype(np.int16)
        thresholds = np.array([levels, levels * 3 // 4, levels // 2, 0], np.int32)
        for first, second in zip(
            kernel.components(values, thresholds, least), reference.components(values, thresholds, least), strict=True
        ):
            assert first.dtype == second.dtype
            np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("room", [kernel, reference], ids=["kernel", "twin"])
def test_parts_grow_and_are_listed_once(room):
    values = np.zeros((5, 9), np.int16)
    values[1, 1:3], values[3, 7], values[1, 3:7] = 9, 9, 4
    boxes, pixels, sums = room.components(values, np.array([8, 3], np.int32), 1)
    # the two bright parts; then one that the faint row makes of the first: it ends diagonally before the other
    assert boxes.tolist() == [[1, 1, 3, 2], [7, 3, 8, 4], [1, 1, 7, 2]]
    assert pixels.tolist() == [2, 1, 6]
    assert sums.tolist() == [18, 9, 34]


@pytest.mark.parametrize("room", [kernel, reference], ids=["kernel", "twin"])
def test_a_diagonal_joins(room):
    boxes, pixels, _ = room.components(np.eye(4, dtype=np.int16), np.array([1], np.int32), 1)
    assert boxes.tolist() == [[0, 0, 4, 4]]
    assert pixels.tolist() == [4]


def test_small_things_on_grain_are_among_the_first_windows():
    for seed in range(5):
        image, boxes = surface(seed)
        assert best_overlaps(boxes, propose(image, "contrast", max_windows=100)).min() > 0.5


def test_mixed_finds_what_selective_search_merges_away():
    missed = {"selective_search": 0, "mixed": 0}
    for seed in range(8):
        image, boxes = surface(seed)
        for method in missed:
            missed[method] += (best_overlaps(boxes, propose(image, method, max_windows=1000)) <= 0.5).sum()
    assert missed["mixed"] == 0
    assert missed["selective_search"] >= 5


def test_windows_below_twelve_pixels_stay():
    image, _ = surface(0)
    image[100:107, 300:306] = 255
    for method in ("contrast", "mixed"):
        assert best_overlaps(np.array([[300.0, 100, 306, 107]]), propose(image, method))[0] > 0.5
    sides = propose(image, "contrast", min_side=12)
    assert (sides[:, 2:] - sides[:, :2]).min() >= 12


def test_every_so_many_windows_are_those_of_contrast():
    first, second = np.arange(400, dtype=np.int32).reshape(-1, 4), -1 - np.arange(40, dtype=np.int32).reshape(-1, 4)
    both = interleaved(first, second, 10)
    assert (both[:, 0] < 0).nonzero()[0].tolist() == list(range(9, 109, 10))
    np.testing.assert_array_equal(both[both[:, 0] >= 0], first)
    np.testing.assert_array_equal(both[both[:, 0] < 0], second)
    np.testing.assert_array_equal(interleaved(first[:5], second, 10)[5:], second)


def test_most_of_mixed_is_selective_search():
    image, _ = surface(1)
    whole = propose(image, max_windows=None, min_side=0)
    some = propose(image, "mixed", max_windows=10 * EVERY)
    known = {tuple(box) for box in whole.tolist()}
    assert sum(tuple(box) in known for box in some.tolist()) >= 10 * (EVERY - 1)


def test_quality_sees_fainter_things_too():
    image, _ = surface(2)
    parts = {
        mode: len(propose(image, "contrast", mode=mode, max_windows=None, max_area=0.001))
        for mode in ("fast", "quality")
    }
    assert parts["quality"] > parts["fast"]


def test_contrast_does_not_depend_on_brightness():
    image, _ = surface(3)
    dim = np.clip(image, 60, 190)
    np.testing.assert_array_equal(contrast(dim, "fast"), contrast(dim + 20, "fast"))


def test_an_unknown_mode_is_refused():
    with pytest.raises(OptionError, match="mode 'single' of contrast is not known; choose from fast, quality"):
        propose(surface(0)[0], "contrast", mode="single")
    with pytest.raises(OptionError, match="mode 'best' of selective_search is not known"):
        propose(surface(0)[0], "mixed", mode="best")


@pytest.mark.parametrize("mode", ["single", Mode(("i",), (100,), ("C",))], ids=["single", "spelled out"])
def test_mixed_takes_every_mode_of_selective_search(mode):
    image, boxes = surface(4)
    assert best_overlaps(boxes, propose(image, "mixed", mode=mode)).min() > 0.5


def test_the_lattice_holds_a_window_near_any_large_box():
    rng = np.random.default_rng(0)
    sides = rng.uniform(0.25, 1, (300, 2)) * [320, 240]
    corners = rng.uniform(0, 1, (300, 2)) * ([320, 240] - sides)
    overlaps = best_overlaps(np.hstack([corners, corners + sides]), lattice(240, 320))
    assert (overlaps > 0.5).mean() > 0.97
    assert lattice(240, 320)[0].tolist() == [0, 0, 320, 240]
