"""Pictures that show nothing have a reason: they are transparent, of one colour, or of a small part of 16 bits."""

import numpy as np
import pytest
from PIL import Image

from lapsvm.catalog import Nothing, check_image, is_plain, read_picture

NOISE = np.random.default_rng(0).integers(0, 256, (36, 48, 3), dtype=np.uint8)
HIDDEN = np.zeros((36, 48, 1), np.uint8)


def transparent(pixels, alpha=HIDDEN):
    return Image.fromarray(np.concatenate([pixels, alpha], axis=2))


def palette():
    picture = Image.fromarray(NOISE).convert("P")
    picture.info["transparency"] = bytes(256)
    return picture


KINDS = {
    "transparent": (transparent(NOISE), Nothing.TRANSPARENT),
    "transparent grey": (transparent(NOISE).convert("LA"), Nothing.TRANSPARENT),
    "transparent palette": (palette(), Nothing.TRANSPARENT),
    "white on transparent": (transparent(np.full_like(NOISE, 255), NOISE[..., :1]), Nothing.TRANSPARENT),
    "opaque": (transparent(NOISE, HIDDEN + 255), None),
    "partly transparent": (transparent(NOISE, NOISE[..., :1]), None),
    "plain and opaque": (transparent(np.full_like(NOISE, 7), HIDDEN + 255), Nothing.PLAIN),
    "plain": (Image.new("RGB", (48, 36), (9, 90, 200)), Nothing.PLAIN),
    "plain grey": (Image.new("L", (48, 36), 100), Nothing.PLAIN),
    "black of 16 bits": (Image.fromarray(np.zeros((36, 48), np.uint16)), Nothing.PLAIN),
    "8 bits in 16": (Image.fromarray(NOISE[..., 0].astype(np.uint16)), Nothing.NARROW),
    "noise": (Image.fromarray(NOISE), None),
}


FILES = [(kind, suffix) for kind in KINDS for suffix in ("png", "tif", "webp")]
NOT_HELD = {("transparent palette", "tif"), ("black of 16 bits", "webp"), ("8 bits in 16", "webp")}


@pytest.mark.parametrize(("kind", "suffix"), [one for one in FILES if one not in NOT_HELD])
def test_each_kind_has_its_reason(tmp_path, kind, suffix):
    picture, expected = KINDS[kind]
    path = tmp_path / f"a.{suffix}"
    picture.save(path, **({"lossless": True, "exact": True} if suffix == "webp" else {}))
    assert read_picture(path).nothing is expected
    assert check_image(path).nothing is expected
    assert check_image(path).is_plain is is_plain(read_picture(path).pixels)


def test_a_jpeg_file_is_plain_as_a_whole_and_not_in_its_cells(tmp_path):
    Image.new("RGB", (48, 36), (20, 60, 200)).save(tmp_path / "plain.jpg")
    stripes = np.tile(np.uint8([0, 255]), (64, 32))
    Image.fromarray(stripes).save(tmp_path / "fine.jpg", quality=100)  # cells of one grey
    assert check_image(tmp_path / "plain.jpg").nothing is Nothing.PLAIN
    assert check_image(tmp_path / "fine.jpg").nothing is None


def test_two_levels_are_of_one_colour_and_three_are_not():
    pixels = np.full((50, 70, 3), 100, np.uint8)
    pixels[7, 9, 1] = 102
    assert is_plain(pixels)
    pixels[7, 9, 1] = 103
    assert not is_plain(pixels)
    assert is_plain(pixels[:1, :1])


def test_every_reason_names_the_thing():
    words = {Nothing.TRANSPARENT: "transparent", Nothing.NARROW: "16-bit", Nothing.PLAIN: "one colour"}
    for why, word in words.items():
        assert word in why.reason
        assert why.remedy
