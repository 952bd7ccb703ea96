"""The catalogue: data sets by name, and pictures of every kind as RGB."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from lapsvm import catalog
from lapsvm.catalog import ImageRecord, check_image, open_dataset, pixel_hash, read_image
from lapsvm.errors import ImageError, MissingError, OptionError
from lapsvm.pictures import reading
from lapsvm.pictures.reading import longer_side, seen_header

GRADIENT = np.arange(256, dtype=np.uint8).reshape(16, 16)


@pytest.fixture
def colours():
    return np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)


def saved(tmp_path, picture, name, **options):
    picture.save(tmp_path / name, **options)
    return tmp_path / name


def test_a_picture_of_a_telephone_is_read_upright_with_the_extra(tmp_path):
    pillow_heif = pytest.importorskip("pillow_heif", reason="the extra heic is not installed")
    pillow_heif.register_heif_opener()
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    wide = Image.fromarray(np.repeat(np.uint8([[[250, 0, 0], [0, 0, 250]]]), [30], axis=1).repeat(40, axis=0))
    path = saved(tmp_path, wide, "a.HEIC", exif=exif.tobytes(), quality=90)
    pixels = read_image(path)
    assert pixels.shape == (60, 40, 3)
    assert np.abs(pixels[5, 20].astype(int) - [250, 0, 0]).max() < 30
    assert check_image(path)
    assert (longer_side(path), seen_header(path)[1]) == (60, False)
    assert ".heic" in catalog.PICTURE_SUFFIXES


@pytest.mark.parametrize(
    ("name", "content"), [("a.HEIC", b"no picture"), ("a.jpg", b"ftypheic"), ("a.png", b"ftypmif1")]
)
def test_without_the_extra_a_picture_of_a_telephone_is_refused_with_its_name(tmp_path, monkeypatch, name, content):
    monkeypatch.setattr(reading, "READS_HEIC", False)
    path = tmp_path / name
    path.write_bytes(b"\0\0\0\x18" + content)
    advice = re.escape('no image file that can be read; pip install ".[heic]" in the folder of the source reads HEIC.')
    with pytest.raises(ImageError, match=advice):
        read_image(path)


def test_a_png_is_read_as_it_was_written(tmp_path, colours):
    path = saved(tmp_path, Image.fromarray(colours), "a.png")
    pixels = read_image(path)
    assert pixels.dtype == np.uint8
    np.testing.assert_array_equal(pixels, colours)
    np.testing.assert_array_equal(ImageRecord("a", path).pixels(), colours)


def test_the_pixels_may_be_written_to(tmp_path, colours):
    pixels = read_image(saved(tmp_path, Image.fromarray(colours), "a.png"))
    pixels[0, 0] = 7
    assert pixels[0, 0].tolist() == [7, 7, 7]


@pytest.mark.parametrize("mode", ["L", "1", "P", "CMYK", "YCbCr"])
def test_every_mode_becomes_rgb(tmp_path, mode):
    grey = np.where(GRADIENT < 128, 0, 255).astype(np.uint8)
    picture = Image.fromarray(np.dstack([grey] * 3)).convert(mode)
    path = saved(tmp_path, picture, "a.tif" if mode in ("CMYK", "YCbCr") else "a.png")
    with Image.open(path) as written:
        if mode == "YCbCr" and written.mode != mode:
            pytest.skip("this Pillow reads no TIFF of YCbCr that it writes")
        assert written.mode == mode
    np.testing.assert_array_equal(read_image(path), np.dstack([grey] * 3))


def test_a_cmyk_jpeg_is_not_inverted(tmp_path):
    white = Image.new("RGB", (16, 16), "white").convert("CMYK")
    assert read_image(saved(tmp_path, white, "a.jpg")).min() > 250


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_sixteen_bits_become_eight_by_their_upper_byte(tmp_path, name):
    deep = GRADIENT.astype(np.uint16) * 256 + 255
    path = saved(tmp_path, Image.fromarray(deep), name)
    np.testing.assert_array_equal(read_image(path), np.dstack([GRADIENT] * 3))


def test_sixteen_bits_in_a_picture_of_32_bits_become_eight(tmp_path):
    path = saved(tmp_path, Image.fromarray(GRADIENT.astype(np.int32) * 256), "a.tif")
    np.testing.assert_array_equal(read_image(path), np.dstack([GRADIENT] * 3))


@pytest.mark.parametrize(
    "samples", [GRADIENT.astype(np.float32), GRADIENT.astype(np.int32) * 1000, -GRADIENT.astype(np.int32)]
)
def test_samples_of_unknown_range_are_refused(tmp_path, samples):
    path = saved(tmp_path, Image.fromarray(samples), "a.tif")
    with pytest.raises(ImageError, match=r"a\.tif cannot be read whole: it has samples of 32 bits"):
        read_image(path)


def test_what_is_transparent_lies_on_white(tmp_path, colours):
    alpha = np.zeros((40, 60), np.uint8)
    alpha[:, :30] = 255
    pixels = read_image(saved(tmp_path, Image.fromarray(np.dstack([colours, alpha])), "a.png"))
    np.testing.assert_array_equal(pixels[:, :30], colours[:, :30])
    assert (pixels[:, 30:] == 255).all()


def test_a_palette_with_transparency_lies_on_white(tmp_path):
    indices = np.tile(np.array([0, 1, 2, 3], np.uint8), (4, 1))
    picture = Image.fromarray(indices).convert("P")
    picture.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120])
    path = saved(tmp_path, picture, "a.png", transparency=bytes([255, 0, 255, 0]))
    expected = [[10, 20, 30], [255, 255, 255], [70, 80, 90], [255, 255, 255]]
    np.testing.assert_array_equal(read_image(path)[0], expected)


def test_the_exif_orientation_is_applied(tmp_path, colours):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter, clockwise
    for name in ("a.png", "a.tif"):
        path = saved(tmp_path, Image.fromarray(colours), name, exif=exif)
        np.testing.assert_array_equal(read_image(path), np.rot90(colours, -1))


def test_the_first_of_several_frames_is_taken(tmp_path):
    frames = [Image.new("L", (5, 4), value) for value in (10, 200)]
    path = saved(tmp_path, frames[0], "a.tif", save_all=True, append_images=frames[1:])
    assert (read_image(path) == 10).all()


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.bmp", "a.webp", "a.gif"])
def test_a_truncated_picture_is_named(tmp_path, colours, name):
    path = saved(tmp_path, Image.fromarray(colours), name)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ImageError, match=rf"picture .*{name} "):
        read_image(path)


@pytest.mark.parametrize("content", [b"", b"these are words", b"\xff\xd8\xff"], ids=["empty", "text", "only a header"])
def test_what_is_no_picture_is_named(tmp_path, content):
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    rule = "does not open|cannot be read whole|must be an image file, got an empty file"
    with pytest.raises(ImageError, match=rf"a\.jpg ({rule})"):
        read_image(path)


def test_a_missing_picture_and_a_folder_are_named(tmp_path):
    with pytest.raises(MissingError, match=r"picture .*none\.jpg is not there\."):
        read_image(tmp_path / "none.jpg")
    with pytest.raises(MissingError, match="must be a regular file, got a folder"):
        read_image(tmp_path)


def test_a_picture_too_large_to_be_honest_is_refused(tmp_path, colours, monkeypatch):
    path = saved(tmp_path, Image.fromarray(colours), "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(ImageError, match=r"a\.png must have at most 67,108,864 pixels"):
        read_image(path)


def test_the_hash_is_of_shape_and_pixels(colours):
    assert pixel_hash(colours) == pixel_hash(colours[:, ::-1][:, ::-1])
    assert len(pixel_hash(colours)) == 32
    assert pixel_hash(colours) != pixel_hash(colours.reshape(60, 40, 3))
    changed = colours.copy()
    changed[-1, -1, -1] ^= 1
    assert pixel_hash(colours) != pixel_hash(changed)


def test_an_unknown_data_set_is_refused_with_those_there_are(tmp_path):
    with pytest.raises(OptionError, match=r"data set 'imagenet' is not known; choose from .*digits.*voc"):
        open_dataset("imagenet", tmp_path)


@pytest.mark.parametrize("name", ["voc", "folder", "csv", "digits"])
def test_an_option_that_a_reader_does_not_take_is_refused(tmp_path, name):
    with pytest.raises(
        OptionError, match=rf"data set '{name}': got an unexpected keyword argument 'colour'; its options are classes"
    ):
        open_dataset(name, tmp_path, colour="red")


def test_a_reader_of_ones_own_is_found_and_gets_its_options(tmp_path, monkeypatch):
    class Mine:
        name, classes, sets = "mine", (), ()

        def __init__(self, root, **options):
            self.given = root, options

        def records(self, set_name):
            return []

        def ground_truth(self, set_name):
            return None

    point = SimpleNamespace(name="mine", load=lambda: Mine)
    monkeypatch.setattr(catalog, "entry_points", lambda group: [point] if group == "lapsvm.datasets" else [])
    assert open_dataset("mine", str(tmp_path), anything=1).given == (tmp_path, {"anything": 1})


def outcome(read, path):
    """Return the error with which a function refuses a picture, or None."""
    try:
        read(path)
    except (ImageError, MissingError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0, "quality": 95}])
def test_a_check_refuses_what_reading_refuses(tmp_path, options):
    rng = np.random.default_rng(5)
    smooth = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((203, 155), Image.BICUBIC)
    whole, path = saved(tmp_path, smooth, "a.jpg", **options).read_bytes(), tmp_path / "b.jpg"
    refused = 0
    for cut in [0, 1, 30, *rng.integers(200, len(whole), 25).tolist(), len(whole) - 3, len(whole)]:
        path.write_bytes(whole[:cut])
        expected = outcome(read_image, path)
        found = outcome(check_image, path)
        assert (found is None) == (expected is None), (cut, found, expected)
        refused += expected is not None
    assert 20 < refused < 32


def test_a_check_of_other_formats_reads_them_whole(tmp_path, colours):
    path = saved(tmp_path, Image.fromarray(colours), "a.png")
    check_image(path)
    path.write_bytes(path.read_bytes()[:-400])
    assert outcome(check_image, path) == outcome(read_image, path)
    assert "cannot be read whole" in outcome(check_image, path)
    assert outcome(check_image, tmp_path / "none.jpg") == outcome(read_image, tmp_path / "none.jpg")
    (tmp_path / "text.jpg").write_text("no picture")
    assert "does not open" in outcome(check_image, tmp_path / "text.jpg")
