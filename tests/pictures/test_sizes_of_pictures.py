"""The size of a picture is that of its pixels, whatever its file says of its orientation."""

import numpy as np
import pytest
from PIL import Image

from lapsvm.catalog import read_image
from lapsvm.errors import ImageError, MissingError
from lapsvm.pictures.reading import longer_side, seen_header, seen_size

STEPS = np.arange(30 * 20 * 3, dtype=np.uint16).reshape(20, 30, 3).astype(np.uint8)
UPRIGHT = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: np.rot90,
}
"""Orientation -> the picture as shown, by the definitions of the Exif standard."""


def saved(path, orientation, pixels=STEPS):
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if path.suffix == ".webp" else {}
    Image.fromarray(pixels).save(path, exif=exif, **options)
    return path


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("suffix", ["png", "tif", "webp"])
def test_every_orientation_is_shown_upright(tmp_path, orientation, suffix):
    path = saved(tmp_path / f"a.{suffix}", orientation)
    np.testing.assert_array_equal(read_image(path), UPRIGHT[orientation](STEPS))
    assert seen_header(path)[1] is (orientation != 1)
    assert longer_side(path) == 30
    assert seen_size(path) == read_image(path).shape[1::-1]


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("suffix", ["jpg", "tif"])
def test_the_longer_side_is_that_of_the_pixels(tmp_path, orientation, suffix):
    path = saved(tmp_path / f"a.{suffix}", orientation)
    assert longer_side(path) == max(read_image(path).shape)
    assert seen_size(path) == read_image(path).shape[1::-1]
    assert seen_header(path)[1] is (orientation != 1)


@pytest.mark.parametrize("orientation", UPRIGHT)
def test_16_bits_are_shown_upright(tmp_path, orientation):
    wide = STEPS[..., 0].astype(np.uint16) * 256
    for suffix in ("png", "tif"):
        path = saved(tmp_path / f"a.{suffix}", orientation, wide)
        np.testing.assert_array_equal(read_image(path), UPRIGHT[orientation](np.dstack([STEPS[..., 0]] * 3)))


def test_the_size_of_an_icon_is_that_of_its_pixels(tmp_path):
    Image.fromarray(STEPS).resize((64, 48)).save(tmp_path / "a.ico", sizes=[(16, 12), (64, 48)])
    assert seen_size(tmp_path / "a.ico") == read_image(tmp_path / "a.ico").shape[1::-1]


@pytest.mark.parametrize("measure", [longer_side, seen_header, seen_size])
def test_a_picture_without_a_header_is_named(tmp_path, measure):
    (tmp_path / "a.jpg").write_bytes(b"no picture")
    with pytest.raises(ImageError, match=r"a\.jpg does not open"):
        measure(tmp_path / "a.jpg")
    with pytest.raises(MissingError, match=r"b\.jpg is not there"):
        measure(tmp_path / "b.jpg")
