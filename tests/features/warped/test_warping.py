"""Warped windows: the slow twin, the context at the square's size, and what lies outside of the picture."""

import numpy as np
import pytest

from lapsvm.errors import OptionError
from lapsvm.features.extractors.picture import Colours
from lapsvm.features.extractors.warped.warping import Warping, placed_windows, warp

from ...twins.extractors import warped_window

torch = pytest.importorskip("torch", reason="torch is not installed")

MEAN, SCALE = (120.0, 110.0, 100.0), (0.5, 0.25, 2.0)
PICTURE = np.random.default_rng(0).integers(0, 256, (11, 14, 3), dtype=np.uint8)
BOXES = {
    "inside": [3, 4, 9, 8],
    "whole picture": [0, 0, 14, 11],
    "at a corner": [0, 0, 5, 3],
    "at the opposite corner": [10, 2, 14, 11],
    "one pixel": [6, 6, 7, 7],
    "narrow": [5, 0, 6, 11],
    "fractional": [2.25, 3.5, 8.1, 9.75],
    "less than a pixel": [13.5, 10.25, 13.75, 10.5],
}


def square(pixels, boxes, warping, order="rgb", mean=(0, 0, 0), scale=(1, 1, 1), device="cpu"):
    """Return warped windows, float32 (n, 3, size, size)."""
    samples = warping.windows(np.array(boxes, float), *pixels.shape[:2])
    colours = Colours(order, mean, scale)
    return warp(placed_windows(torch, pixels, *samples, colours, device), slice(None), colours).cpu().numpy()


@pytest.mark.parametrize("warping", [Warping(9, 0), Warping(12, 2), Warping(7, 3)], ids=str)
@pytest.mark.parametrize("name", BOXES)
def test_a_warped_window_is_its_twin(name, warping):
    found = square(PICTURE, [BOXES[name]], warping, mean=MEAN, scale=SCALE)
    expected = (warped_window(PICTURE, BOXES[name], *warping, np.array(MEAN)) - MEAN) * SCALE
    np.testing.assert_allclose(found[0].transpose(1, 2, 0), expected, atol=1e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
def test_a_gpu_warps_to_the_same_bits():
    for warping in (Warping(12, 2), Warping(227, 16)):
        here, there = (
            square(PICTURE, list(BOXES.values()), warping, mean=MEAN, scale=SCALE, device=device)
            for device in ("cpu", "cuda")
        )
        np.testing.assert_array_equal(there, here)


def test_bgr_has_the_means_in_its_own_order():
    rgb = square(PICTURE, [BOXES["inside"]], Warping(8, 2), mean=MEAN, scale=SCALE)
    bgr = square(PICTURE, [BOXES["inside"]], Warping(8, 2), "bgr", mean=MEAN[::-1], scale=SCALE[::-1])
    np.testing.assert_array_equal(bgr, rgb[:, ::-1])


def test_the_window_lies_between_so_many_pixels_of_context():
    pixels = np.zeros((100, 120, 3), np.uint8)
    pixels[30:62, 40:104] = 255
    (window,) = square(pixels, [[40, 30, 104, 62]], Warping(40, 4))
    assert (window[:, 4:-4, 4:-4] == 255).all()
    window[:, 4:-4, 4:-4] = 0
    assert not window.any()


def test_the_papers_square_has_sixteen_of_227_pixels_on_each_side():
    pixels = np.full((300, 300, 3), 10, np.uint8)
    pixels[50:245, 60:255] = 200
    (window,) = square(pixels, [[60, 50, 255, 245]], Warping(227, 16))
    np.testing.assert_array_equal(np.unique(np.nonzero(window[0] == 200)[0]), np.arange(16, 227 - 16))
    np.testing.assert_array_equal(window[0] == 200, window[0].T == 200)


def test_outside_of_the_picture_is_the_mean_which_the_network_sees_as_zero():
    pixels = np.full((32, 32, 3), 255, np.uint8)
    (window,) = square(pixels, [[0, 0, 32, 32]], Warping(24, 4), mean=MEAN, scale=SCALE)
    inner = np.zeros((24, 24), bool)
    inner[4:-4, 4:-4] = True
    expected = (255 - np.array(MEAN)) * SCALE
    for channel, value in zip(window, expected, strict=True):
        np.testing.assert_allclose(channel[inner], value, rtol=1e-6)
        assert not channel[~inner].any()


def test_a_window_of_one_pixel_at_a_corner_sees_its_neighbours():
    pixels = np.zeros((5, 5, 3), np.uint8)
    pixels[0, 0] = 90
    (window,) = square(pixels, [[0, 0, 1, 1]], Warping(6, 2), mean=(50, 50, 50))
    assert (window[:, :2] == 0).all()  # above the picture
    assert (window[:, :, :2] == 0).all()
    assert window[0, 2, 2] == 40
    assert window[0, -1, -1] == -50


@pytest.mark.parametrize("context", [4, 5])
def test_context_leaves_something_of_the_square(context):
    with pytest.raises(OptionError, match=f"context must be less than half of size 8, got {context}"):
        Warping(8, context).check()
