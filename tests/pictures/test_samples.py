"""Samples of more than 8 bits: scaled by the range that a file declares, by their upper byte without one."""

import numpy as np
import pytest
from PIL import Image

from lapsvm.catalog import Nothing, read_image, read_picture
from lapsvm.errors import ImageError
from lapsvm.pictures.reading import pillow_pixels

from .deep_files import ramp, write_png, write_tiff

LEVELS = np.arange(256)
MAX, MIN, WHITE_IS_ZERO = 281, 280, {262: [0]}
DEPTHS = [8, 10, 12, 14]


def levels(path):
    """Return the grey levels of the first row."""
    pixels = read_image(path)
    assert (pixels == pixels[:1, :, :1]).all()
    return pixels[0, :, 0]


@pytest.mark.parametrize("bits", DEPTHS)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_tiff_file_is_scaled_by_its_largest_sample_value(tmp_path, bits, channels, order):
    path = write_tiff(tmp_path / "a.tif", ramp(bits, channels), {MAX: [2**bits - 1] * channels}, order)
    np.testing.assert_array_equal(levels(path), LEVELS)
    assert read_picture(path).nothing is None


@pytest.mark.parametrize("bits", DEPTHS)
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_a_png_file_is_scaled_by_its_significant_bits(tmp_path, bits, channels):
    samples = ramp(bits, channels)
    if channels in (2, 4):
        samples[..., -1] = 2**16 - 1
    path = write_png(tmp_path / "a.png", samples, bits)
    np.testing.assert_array_equal(levels(path), LEVELS)
    assert read_picture(path).nothing is None


@pytest.mark.parametrize("bits", DEPTHS)
@pytest.mark.parametrize("fill", ["zeros", "repeated"])
@pytest.mark.parametrize("channels", [1, 3])
def test_significant_bits_that_stand_above_as_the_format_asks_are_not_scaled_again(tmp_path, bits, fill, channels):
    samples = ramp(bits, channels)
    upper = samples << (16 - bits)
    upper += (samples >> (2 * bits - 16)) if fill == "repeated" else np.uint16(0)
    np.testing.assert_array_equal(levels(write_png(tmp_path / "a.png", upper, bits)), LEVELS)
    dark = upper.copy()
    dark[:, 32:] = dark[:, :1]  # so dark that all samples are below the declared bits
    np.testing.assert_array_equal(
        levels(write_png(tmp_path / "b.png", dark, bits)), dark.reshape(4, 256, -1)[0, :, 0] >> 8
    )


@pytest.mark.parametrize("bits", DEPTHS)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("write", [write_png, write_tiff])
def test_without_a_declared_range_the_upper_byte_counts_and_a_small_range_is_named(tmp_path, bits, channels, write):
    path = write(tmp_path / "a", ramp(bits, channels))
    np.testing.assert_array_equal(levels(path), ramp(bits)[0] >> 8)
    assert read_picture(path).nothing is Nothing.NARROW
    assert "16-bit" in Nothing.NARROW.reason
    assert "range" in Nothing.NARROW.reason


@pytest.mark.parametrize("write", [write_png, write_tiff])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_whole_range_of_16_bits_is_not_named(tmp_path, channels, write):
    path = write(tmp_path / "a", ramp(16, channels))
    np.testing.assert_array_equal(levels(path), LEVELS)
    assert read_picture(path).nothing is None


def test_a_range_that_samples_leave_is_none(tmp_path):
    path = write_tiff(tmp_path / "a.tif", ramp(16), {MAX: [1000]})
    np.testing.assert_array_equal(levels(path), LEVELS)


def test_a_range_has_two_ends(tmp_path):
    samples = np.array([[100, 228, 355]], np.uint16)
    path = write_tiff(tmp_path / "a.tif", samples, {MIN: [100], MAX: [355]})
    assert levels(path).tolist() == [0, 128, 255]
    path = write_tiff(tmp_path / "a.tif", samples, {MIN: [355], MAX: [355]})
    assert levels(path).tolist() == [0, 0, 1]


@pytest.mark.parametrize(("bits", "tags"), [(16, {}), (12, {MAX: [4095]})])
@pytest.mark.parametrize("order", ["<", ">"])
def test_where_zero_is_white_16_bits_are_inverted(tmp_path, bits, tags, order):
    path = write_tiff(tmp_path / "a.tif", ramp(bits), {**WHITE_IS_ZERO, **tags}, order)
    np.testing.assert_array_equal(levels(path), LEVELS[::-1])


def test_where_zero_is_white_a_small_range_is_named_too(tmp_path):
    assert read_picture(write_tiff(tmp_path / "a.tif", ramp(10), WHITE_IS_ZERO)).nothing is Nothing.NARROW


def test_a_range_is_scaled_before_the_picture_is_turned(tmp_path):
    for tags in ({MAX: [4095] * 3, 274: [6]}, {274: [6]}):
        path = write_tiff(tmp_path / "a.tif", ramp(12, 3), tags)
        assert read_image(path).shape == (256, 4, 3)
        assert read_image(path)[-1, 0].tolist() == ([255] * 3 if MAX in tags else [15] * 3)


def test_the_transparent_value_of_16_bits_lies_on_white(tmp_path):
    assert levels(write_png(tmp_path / "a.png", ramp(16), transparent=255))[:3].tolist() == [255, 1, 2]


def test_32_bits_are_read_where_the_file_declares_a_range(tmp_path):
    samples = (LEVELS[None] * 1000).astype(np.int32)
    path = tmp_path / "a.tif"
    Image.fromarray(samples).save(path)
    with pytest.raises(ImageError, match=r"32 bits, whose range is unknown: the file declares none"):
        read_image(path)
    Image.fromarray(samples).save(path, tiffinfo={341: 256_000 - 1})
    with Image.open(path) as written:
        assert written.tag_v2.get(341)
    np.testing.assert_array_equal(levels(path), LEVELS)


@pytest.mark.parametrize("damage", [b"", b"\x89PNG\r\n\x1a\n", b"\x89PNG\r\n\x1a\n" + b"\xff" * 40])
def test_a_damaged_header_is_named(tmp_path, damage):
    path = tmp_path / "a.png"
    path.write_bytes(damage)
    with pytest.raises(ImageError, match=r"a\.png"):
        read_image(path)


def test_a_file_of_a_declared_range_that_is_cut_short_is_named(tmp_path):
    path = write_png(tmp_path / "a.png", ramp(12, 3), 12)
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(ImageError, match=r"a\.png cannot be read whole"):
        read_image(path)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_of_pillow_is_scaled_as_its_file_is(tmp_path, channels):
    for path in (
        write_tiff(tmp_path / "a.tif", ramp(12, channels), {MAX: [4095] * channels}),
        write_tiff(tmp_path / "dark.tif", ramp(12, channels)),
        write_png(tmp_path / "a.png", ramp(12, channels), 12),
    ):
        with Image.open(path) as picture:
            np.testing.assert_array_equal(pillow_pixels(picture), read_image(path))


def test_a_loaded_picture_of_pillow_has_the_upper_byte(tmp_path):
    for write in (write_png, write_tiff):
        path = write(tmp_path / "a", ramp(16))
        with Image.open(path) as picture:
            picture.load()
            np.testing.assert_array_equal(pillow_pixels(picture), read_image(path))
            np.testing.assert_array_equal(pillow_pixels(picture.copy()), read_image(path))
    with Image.open(write_png(tmp_path / "b.png", ramp(12, 3), 12)) as picture:
        picture.load()
        np.testing.assert_array_equal(pillow_pixels(picture), np.asarray(picture))
