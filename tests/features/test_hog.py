"""HOG: the kernel against its twin, and what must hold for any picture."""

import numpy as np
import pytest

from lapsvm.errors import InputError, NotFiniteError, OptionError, ShapeError
from lapsvm.features import HOG, Block, open_extractor
from lapsvm.features.extractors.hog import CLIP
from lapsvm.features.extractors.picture import grey_levels

from ..twins.extractors import hog as slow_hog

PICTURE = np.random.default_rng(0).integers(0, 256, (60, 70, 3), dtype=np.uint8)
WINDOWS = {
    "whole": [0, 0, 70, 60],
    "between pixels": [10.5, 3.2, 30.7, 50.1],
    "tiny": [1, 1, 5, 4],
    "below one pixel": [20.2, 30.4, 20.5, 30.9],
    "a line": [0, 10, 70, 11],
    "last corner": [69, 59, 70, 60],
    "as large as the square": [8, 7, 56, 55],
    "twice the square": [0.0, 0.0, 70.0, 48.0],
}


def smooth_picture(h=90, w=110, seed=1):
    """A picture with structure at several scales."""
    y, x = np.mgrid[:h, :w]
    rng = np.random.default_rng(seed)
    waves = sum(np.sin(x * a + y * b + c) for a, b, c in rng.uniform(-0.3, 0.3, (6, 3)))
    return np.repeat(np.round(127 + 20 * waves).astype(np.uint8)[:, :, None], 3, axis=2)


def by_definition(extractor, pixels, window):
    settings = {"size": extractor.size, "cell": extractor.cell, "bins": extractor.bins}
    return slow_hog(grey_levels(pixels), np.array(window), floor=extractor.floor, clip=CLIP, **settings)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS.keys())
@pytest.mark.parametrize("pixels", [PICTURE, smooth_picture()[:60, :70]], ids=["noise", "waves"])
def test_the_kernel_equals_its_twin(pixels, window):
    extractor = HOG()
    np.testing.assert_allclose(extractor(pixels, [window])[0], by_definition(extractor, pixels, window), atol=2e-6)


@pytest.mark.parametrize(("size", "cell", "bins"), [(48, 8, 9), (16, 8, 4), (30, 5, 18), (8, 2, 2), (24, 12, 3)])
def test_the_kernel_equals_its_twin_for_other_geometries(size, cell, bins):
    extractor = HOG(size, cell, bins)
    window = [3.25, 5.5, 60.0, 41.75]
    assert extractor.dim == (size // cell - 1) ** 2 * 4 * bins
    np.testing.assert_allclose(extractor(PICTURE, [window])[0], by_definition(extractor, PICTURE, window), atol=2e-6)


def test_the_plain_setting_has_900_features():
    extractor = open_extractor("hog")
    assert (extractor.dim, extractor.blocks) == (5 * 5 * 4 * 9, (Block(900),))
    assert extractor(PICTURE, [[0, 0, 70, 60]]).dtype == np.float32


def test_a_window_does_not_depend_on_its_neighbours():
    boxes = np.array(list(WINDOWS.values()))
    extractor = HOG()
    together = extractor(PICTURE, boxes)
    for box, row in zip(boxes, together, strict=True):
        np.testing.assert_array_equal(extractor(PICTURE, [box])[0], row)
    np.testing.assert_array_equal(extractor(PICTURE, boxes[::-1])[::-1], together)


def test_moving_the_content_moves_the_window():
    """Away from the picture's border, where pixels beyond the window take part."""
    pixels, extractor = smooth_picture(), HOG()
    moved = np.full((200, 220, 3), 50, np.uint8)
    moved[70:160, 90:200] = pixels
    boxes, shift = np.array([[10, 12, 90, 80], [20.5, 30.25, 40, 50]]), np.array([90, 70, 90, 70])
    np.testing.assert_allclose(extractor(moved, boxes + shift), extractor(pixels, boxes), atol=1e-5)


def test_more_light_changes_nothing():
    pixels, extractor = smooth_picture(), HOG()
    boxes = [[10, 12, 90, 80], [0, 0, 110, 90]]
    np.testing.assert_allclose(extractor(pixels + np.uint8(9), boxes), extractor(pixels, boxes), atol=1e-5)


def test_a_mirrored_picture_mirrors_blocks_cells_and_orientations():
    pixels, extractor = smooth_picture(), HOG()
    blocks = extractor(pixels, [[0, 0, 110, 90]]).reshape(5, 5, 2, 2, 9)
    mirrored = extractor(pixels[:, ::-1], [[0, 0, 110, 90]]).reshape(5, 5, 2, 2, 9)
    np.testing.assert_allclose(mirrored, blocks[:, ::-1, :, ::-1, ::-1], atol=2e-5)


def test_an_upright_edge_falls_half_into_the_first_and_half_into_the_last_orientation():
    """A gradient along x has the angle 0, half way between the middles of bins 0 and 8 (half a turn apart)."""
    pixels = np.zeros((48, 48, 3), np.uint8)
    pixels[:, 24:] = 255
    found = HOG()(pixels, [[0, 0, 48, 48]]).reshape(-1, 9)
    np.testing.assert_allclose(found[:, 0], found[:, 8], rtol=1e-5)
    assert (found[:, 1:8] == 0).all()
    assert found[:, 0].max() > 0


def test_an_even_ramp_is_one_block_everywhere():
    """Every gradient is 8 levels and points down: an inner block has four equal entries in the middle orientation."""
    x = np.arange(48, dtype=np.uint8)
    pixels = np.broadcast_to(4 * x[:, None, None], (48, 48, 3)).copy()
    extractor = HOG()
    found = extractor(pixels, [[0, 0, 48, 48]]).reshape(5, 5, 4, 9)
    np.testing.assert_allclose(found[1:4, 1:4], np.broadcast_to(found[2, 2], (3, 3, 4, 9)), atol=1e-6)
    expected = np.zeros((4, 9))
    expected[:, 4] = 8 / np.sqrt(8**2 + 1**2) / np.sqrt(4)  # the floor is a mean gradient of 1 level
    np.testing.assert_allclose(found[2, 2], expected, atol=1e-5)


@pytest.mark.parametrize("level", [0, 7, 255])
def test_an_even_picture_gives_zeros(level):
    pixels = np.full((30, 40, 3), level, np.uint8)
    pixels[:, :, 0] //= 2
    np.testing.assert_allclose(HOG()(pixels, [[0, 0, 40, 30], [3.3, 4.4, 9.9, 7.7]]), 0.0, atol=1e-6)


def test_weak_gradients_stay_weak_and_strong_ones_do_not_grow():
    """One grey level of noise gives short blocks; where the edge is, four times its contrast changes little."""
    noise = (100 + np.random.default_rng(3).integers(0, 2, (48, 48, 1))).astype(np.uint8).repeat(3, axis=2)
    edge = np.zeros((48, 48, 3), np.uint8)
    edge[:, 20:] = 60
    box = [[0, 0, 48, 48]]
    lengths = np.linalg.norm(HOG()(noise, box).reshape(25, 36), axis=1)
    assert lengths.max() < 0.6
    weaker, stronger = (HOG()(p, box).reshape(5, 5, -1)[:, 1:3] for p in (edge, edge * np.uint8(4)))
    assert np.linalg.norm(weaker - stronger) < 0.05 * np.linalg.norm(stronger)


@pytest.mark.parametrize(
    "box", [[3, 3, 3, 9], [9, 3, 3, 9], [70, 0, 90, 60], [-9, -9, 0, 0], [5, 80, 9, 90], [np.float32(-1e30)] * 4]
)
def test_a_window_without_area_in_the_picture_gives_zeros(box):
    features = HOG()(PICTURE, [box, [0, 0, 70, 60]])
    assert not features[0].any()
    assert features[1].any()


def test_what_lies_outside_is_cut_off():
    extractor = HOG()
    np.testing.assert_array_equal(extractor(PICTURE, [[-50, 20, 200, 1e9]]), extractor(PICTURE, [[0, 20, 70, 60]]))


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1), (2, 3)])
def test_the_smallest_pictures_pass(shape):
    pixels = np.random.default_rng(2).integers(0, 256, (*shape, 3), dtype=np.uint8)
    box = [0, 0, shape[1], shape[0]]
    extractor = HOG()
    np.testing.assert_allclose(extractor(pixels, [box])[0], by_definition(extractor, pixels, box), atol=2e-6)


def test_no_windows_give_no_rows():
    assert HOG()(PICTURE, []).shape == (0, 900)


def test_a_picture_that_is_a_view_passes():
    np.testing.assert_array_equal(
        HOG()(PICTURE[::2, ::-1], [[0, 0, 60, 20]]), HOG()(PICTURE[::2, ::-1].copy(), [[0, 0, 60, 20]])
    )


@pytest.mark.parametrize(
    ("pixels", "error", "sentence"),
    [
        (np.zeros((5, 5), np.uint8), ShapeError, r"a picture must have shape \(h, w, 3\).*got \(5, 5\)"),
        (np.zeros((5, 5, 4), np.uint8), ShapeError, r"got \(5, 5, 4\)"),
        (np.zeros((0, 5, 3), np.uint8), ShapeError, "at least 1"),
        (np.zeros((5, 5, 3)), InputError, "a picture must be an array of uint8, got float64"),
    ],
)
def test_what_is_no_picture_is_refused(pixels, error, sentence):
    with pytest.raises(error, match=sentence):
        HOG()(pixels, [[0, 0, 1, 1]])


def test_a_box_that_is_not_finite_is_refused():
    with pytest.raises(NotFiniteError, match=r"boxes must be finite, got nan at index \(0, 2\)"):
        HOG()(PICTURE, [[0, 0, np.nan, 1]])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hog?size=50", "size of hog must be a multiple of its cell 8, two cells or more, got 50"),
        ("hog?size=8", "two cells or more, got 8"),
        ("hog?bins=0", "bins must be a whole number from 2 to 64, got '0'"),
        ("hog?size=48.0", "size must be a whole number from 4 to 512, got '48.0'"),
        ("hog?colour=yes", "option 'colour' is not known; choose from size, cell, bins"),
        ("hog:file.onnx", r"extractor 'hog:file\.onnx': hog takes no file, got 'file\.onnx'"),
    ],
)
def test_a_bad_option_is_one_sentence(text, sentence):
    with pytest.raises(OptionError, match=sentence):
        open_extractor(text)


def test_the_description_changes_with_every_option():
    texts = ["hog", "hog?size=64", "hog?cell=16", "hog?bins=8"]
    assert len({str(open_extractor(text).describe()) for text in texts}) == len(texts)
    assert open_extractor("hog?size=48&bins=9").describe() == open_extractor("hog").describe()
