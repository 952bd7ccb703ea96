"""`propose`: what it gives for any picture, what it refuses, and what it finds."""

import subprocess
import sys

import numpy as np
import pytest

from lapsvm.boxes import areas, iou
from lapsvm.errors import InputError, OptionError, ShapeError
from lapsvm.windows import METHODS, Mode, propose, with_whole_image
from lapsvm.windows.selective_search import MODES, REFERENCE_PIXELS, searched_spaces

from ..twins import windows as reference

SHAPES = [(1, 1), (1, 2), (2, 1), (3, 3), (1, 300), (500, 30), (100, 1200), (64, 64)]
each_own_method = pytest.mark.parametrize("method", ["selective_search", "contrast", "mixed", "grid"])


def noise(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (*shape, 3), dtype=np.uint8)


def scene():
    """Three plain objects on a soft ground."""
    rng = np.random.default_rng(1)
    image = np.full((150, 200, 3), 110) + rng.integers(-6, 7, (150, 200, 3))
    objects = [(20, 30, 70, 100), (110, 20, 180, 60), (90, 90, 150, 140)]
    for (x1, y1, x2, y2), colour in zip(objects, [(210, 60, 50), (40, 70, 190), (60, 240, 90)], strict=True):
        image[y1:y2, x1:x2] = np.array(colour) + rng.integers(-6, 7, (y2 - y1, x2 - x1, 3))
    return np.clip(image, 0, 255).astype(np.uint8), np.array(objects, float)


def assert_valid(boxes, height, width):
    assert boxes.dtype == np.float32
    assert boxes.ndim == 2
    assert boxes.shape[1] == 4
    assert len(boxes) >= 1
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2:] <= [width, height]).all()
    assert (boxes[:, :2] < boxes[:, 2:]).all()
    assert len(np.unique(boxes, axis=0)) == len(boxes)


@each_own_method
@pytest.mark.parametrize("mode", ["fast", "quality"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("ground", ["noise", "flat"])
def test_any_picture_gives_valid_boxes(method, mode, shape, ground):
    image = noise(shape) if ground == "noise" else np.full((*shape, 3), 31, np.uint8)
    boxes = propose(image, method, mode=mode, max_windows=300)
    assert_valid(boxes, *shape)
    assert len(boxes) <= 300


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_flat_picture_gives_the_whole_picture(shape):
    boxes = propose(np.full((*shape, 3), 255, np.uint8))
    assert boxes.tolist() == [[0, 0, shape[1], shape[0]]]


def test_a_picture_smaller_than_the_least_side_gives_the_whole_picture():
    assert propose(noise((10, 12)), min_side=11).tolist() == [[0, 0, 12, 10]]


def test_a_large_picture():
    y, x = np.mgrid[:1333, :2000]
    waves = np.stack([127 + 120 * np.sin(x / 190), 127 + 120 * np.sin(y / 150), (x + y) / 14], axis=-1)
    assert_valid(propose(waves.astype(np.uint8), mode="single"), 1333, 2000)


def test_plain_objects_are_found():
    image, objects = scene()
    assert iou(objects, propose(image)).max(axis=1).min() > 0.9


def test_plain_objects_are_found_in_a_small_picture():
    image, objects = scene()
    assert iou(objects / 3, propose(image[1::3, 1::3].copy())).max(axis=1).min() > 0.8


def test_a_grey_picture_is_as_good():
    image, objects = scene()
    grey = image.mean(axis=2).astype(np.uint8)[..., None].repeat(3, axis=2)
    assert iou(objects, propose(grey)).max(axis=1).min() > 0.8


@pytest.mark.parametrize("mode", MODES)
def test_the_same_seed_gives_the_same_boxes_for_any_number_of_threads(mode):
    image, _ = scene()
    one = propose(image, mode=mode, seed=3, max_windows=None)
    for threads in (2, 8):
        np.testing.assert_array_equal(propose(image, mode=mode, seed=3, max_windows=None, threads=threads), one)


def test_the_same_seed_gives_the_same_boxes_in_another_process():
    code = (
        "import numpy as np; from lapsvm.windows import propose;"
        "image = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8);"
        "print(propose(image, seed=7).tolist())"
    )
    runs = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)}
    assert runs == {f"{propose(noise((60, 80)), seed=7).tolist()}\n".encode()}


def test_max_windows_takes_the_first():
    image, _ = scene()
    every = propose(image, max_windows=None)
    np.testing.assert_array_equal(propose(image, max_windows=17), every[:17])


def test_min_side_drops_the_small_and_no_other():
    image = noise((120, 160))
    every, kept = (propose(image, max_windows=None, min_side=side) for side in (0, 9))
    large = ((every[:, 2:] - every[:, :2]) >= 9).all(axis=1)
    np.testing.assert_array_equal(kept, every[large])


def test_the_default_least_side_shrinks_with_the_picture():
    sides = propose(noise((64, 64)), max_windows=None)
    assert (sides[:, 2:] - sides[:, :2]).min() >= 64 / 16
    large = propose(noise((400, 420)), max_windows=None)
    assert (large[:, 2:] - large[:, :2]).min() >= 12


def test_the_callers_picture_is_left_alone_and_need_not_be_contiguous():
    image, _ = scene()
    before = image.copy()
    turned = propose(image[:, ::-1])
    np.testing.assert_array_equal(image, before)
    np.testing.assert_array_equal(turned, propose(np.ascontiguousarray(image[:, ::-1])))


def test_a_read_only_picture_is_accepted():
    image, _ = scene()
    image.flags.writeable = False
    assert_valid(propose(image), 150, 200)


def test_a_picture_turned_by_hand_gives_the_same_regions():
    """Without smoothing to break it, the set of boxes of a symmetric picture is symmetric in x and y."""
    image = np.zeros((40, 40, 3), np.uint8)
    image[8:20, 8:20], image[24:36, 24:36] = (200, 30, 30), (30, 30, 200)
    boxes = propose(image, max_windows=None)
    assert {(0, 0, 40, 40), (8, 8, 20, 20), (24, 24, 36, 36)} <= set(map(tuple, boxes.astype(int).tolist()))


@pytest.mark.parametrize("cues", ["C", "CTSF"])
@pytest.mark.parametrize("space", ["hsv", "lab", "rgi", "h", "i"])
def test_the_whole_chain_equals_the_twins(space, cues):
    image = scene()[0][60:105:2, 40:104:2].copy()
    mode = Mode((space,), (30, 90), (cues,))
    planes = getattr(reference, {"h": "hsv", "i": "rgi"}.get(space, space))(image)
    planes = {"h": planes[:1], "i": planes[2:]}.get(space, planes)
    smoothed = reference.smooth(planes)
    weights = reference.edge_weights(smoothed)
    for k, boxes in zip(mode.ks, searched_spaces(image, mode, 1)[0].hierarchies, strict=True):
        min_size = round(k * (image.shape[0] * image.shape[1] / REFERENCE_PIXELS) ** 0.5)
        labels = reference.segment(weights, 16 * k, min_size)
        count = int(labels.max()) + 1
        counts = reference.describe(labels, count, planes, smoothed, 6)
        sizes, around = reference.extents(labels, count)
        pairs = reference.neighbours(labels, count)
        start = counts.shape[1] - 64 * len(planes)
        flags = 1 if cues == "C" else 15
        expected = reference.group(counts, sizes, around, pairs, len(planes), 4, start, labels.size, flags)[1]
        np.testing.assert_array_equal(boxes, expected)


@pytest.mark.parametrize("boxes", [[], [[0, 0, 9, 5]], [[1, 2, 3, 4], [0, 0, 9, 5], [0, 0, 8, 5]]], ids=len)
def test_the_whole_picture_stands_first_and_once(boxes):
    found = with_whole_image(boxes, 5, 9)
    assert found.dtype == np.float32
    assert found[0].tolist() == [0, 0, 9, 5]
    assert found[1:].tolist() == [box for box in boxes if box != [0, 0, 9, 5]]


def test_with_whole_image_refuses_other_shapes():
    with pytest.raises(ShapeError, match=r"boxes must have shape \(n, 4\), got \(2, 3\)"):
        with_whole_image(np.zeros((2, 3)), 5, 9)


@pytest.mark.parametrize(
    ("image", "error", "sentence"),
    [
        ([[1]], InputError, "a picture must be an array of uint8, got list"),
        (np.zeros((4, 4, 3)), InputError, "a picture must be an array of uint8, got float64"),
        (np.zeros((4, 4), np.uint8), ShapeError, r"a picture must have shape \(h, w, 3\) .*, got \(4, 4\)"),
        (np.zeros((4, 4, 4), np.uint8), ShapeError, r"got \(4, 4, 4\)"),
        (np.zeros((0, 4, 3), np.uint8), ShapeError, r"h and w at least 1, got \(0, 4, 3\)"),
        (
            np.broadcast_to(np.zeros((1, 1, 3), np.uint8), (20000, 20000, 3)),
            InputError,
            "at most 67108864 pixels, got 20000 x 20000",
        ),
    ],
    ids=["list", "float", "grey", "rgba", "empty", "huge"],
)
def test_a_wrong_picture_is_named(image, error, sentence):
    with pytest.raises(error, match=sentence):
        propose(image)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        (
            {"method": "edges"},
            OptionError,
            "method 'edges' is not known; choose from contrast, grid, mixed, opencv, selective_search, selectivesearch",
        ),
        ({"mode": "slow"}, OptionError, "mode 'slow' of selective_search is not known; choose from single, fast, qual"),
        (
            {"mode": "slow", "method": "grid"},
            OptionError,
            "mode 'slow' of grid is not known; choose from fast, quality",
        ),
        ({"mode": 3}, InputError, "mode must be a name or a Mode with spaces, ks and cues, got 3"),
        ({"mode": Mode((), (50,), ("C",))}, InputError, "mode must be a name or a Mode with spaces"),
        ({"mode": Mode(("xyz",), (50,), ("C",))}, OptionError, "colour space 'xyz' is not known; choose from hsv, lab"),
        ({"mode": Mode(("hsv",), (50,), ("CX",))}, OptionError, "cues must be letters of CTSF, got 'CX'"),
        ({"mode": Mode(("hsv",), (0,), ("C",))}, InputError, "k must be a whole number from 1 to 100000, got 0"),
        ({"max_windows": 0}, InputError, "max_windows must be a whole number of 1 or more, got 0"),
        ({"max_windows": 2.5}, InputError, "max_windows must be a whole number of 1 or more, got 2.5"),
        ({"threads": 0}, InputError, "threads must be a whole number of 1 or more, got 0"),
        ({"threads": True}, InputError, "threads must be a whole number of 1 or more, got True"),
        ({"seed": -1}, InputError, "seed must be a whole number of 0 or more, got -1"),
        ({"min_side": -1}, InputError, "min_side must be a finite number of at least 0, got -1"),
        ({"min_side": float("nan")}, InputError, "min_side must be a finite number of at least 0, got nan"),
        ({"min_side": "5"}, InputError, "min_side must be a finite number of at least 0, got '5'"),
    ],
    ids=str,
)
def test_a_wrong_option_is_named(options, error, sentence):
    with pytest.raises(error, match=sentence):
        propose(noise((8, 8)), **options)


def test_too_many_regions_are_refused(monkeypatch):
    monkeypatch.setattr("lapsvm.windows.selective_search.MAX_REGIONS", 100)
    with pytest.raises(InputError, match="k must be so large that at most 100 regions are left, got "):
        propose(noise((20, 20)), mode=Mode(("hsv",), (1,), ("C",)))


def test_every_method_is_in_the_registry():
    assert set(METHODS) == {"selective_search", "contrast", "mixed", "small", "grid", "selectivesearch", "opencv"}


def test_the_grid_holds_a_window_near_any_square():
    boxes = propose(noise((100, 160)), "grid", mode="quality", max_windows=None)
    rng = np.random.default_rng(4)
    side = rng.uniform(15, 95, 200)
    x, y = rng.uniform(0, 1, 200) * (160 - side), rng.uniform(0, 1, 200) * (100 - side)
    assert iou(np.stack([x, y, x + side, y + side], 1), boxes).max(axis=1).min() > 0.5


def test_the_grid_goes_from_large_to_small():
    boxes = propose(noise((100, 160)), "grid", max_windows=None)
    assert boxes[0].tolist() == [0, 0, 160, 100]
    assert (np.diff(areas(boxes)) <= 0).all()


class TestAreaLimit:
    def test_no_box_is_larger_than_the_share(self):
        image = noise((60, 80))
        everything, limited = (propose(image, "grid", max_area=area, max_windows=None) for area in (1.0, 0.1))
        areas = (everything[:, 2] - everything[:, 0]) * (everything[:, 3] - everything[:, 1])
        np.testing.assert_array_equal(limited, everything[areas <= 0.1 * 60 * 80])
        assert 0 < len(limited) < len(everything)

    def test_the_limit_comes_before_the_number(self):
        image = noise((60, 80))
        limited = propose(image, "grid", max_area=0.1, max_windows=None)
        np.testing.assert_array_equal(propose(image, "grid", max_area=0.1, max_windows=5), limited[:5])

    def test_where_nothing_is_left_the_middle_stands_alone(self):
        found = propose(np.zeros((30, 40, 3), np.uint8), max_area=0.25)
        np.testing.assert_allclose(found, [[10, 7.5, 30, 22.5]])

    @pytest.mark.parametrize("area", [0, -1, 1.1, float("nan"), "all"])
    def test_a_share_that_is_none_is_refused(self, area):
        with pytest.raises(InputError, match="max_area must be greater than 0 and at most 1, got"):
            propose(noise((8, 8)), max_area=area)
