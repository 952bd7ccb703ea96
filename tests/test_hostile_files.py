"""Named pipes, pictures that are too large or damaged, links that lead to nothing: one sentence, no wait, no memory."""

import io
import os
import struct
import tracemalloc
import warnings
import zlib
from contextlib import suppress

import numpy as np
import pytest
from lapsvm.datasets.folder import open_folder
from lapsvm.datasets.labels_csv import open_csv
from lapsvm.datasets.voc import open_voc
from PIL import ExifTags, Image

from lapsvm.annotations.voc import read_objects
from lapsvm.catalog import MAX_PIXELS, MAX_SIDE, check_image, read_image
from lapsvm.detection import Detector
from lapsvm.errors import (
    AnnotationError,
    DataError,
    ImageError,
    LabelsError,
    LapsvmError,
    MissingError,
    ResultsError,
    WriteError,
)
from lapsvm.evaluation import read_results
from lapsvm.features import open_external, open_extractor, read_header
from lapsvm.files import LARGEST, check_regular, is_named, open_regular, read_regular, write_atomically
from lapsvm.model_files import stored_format
from lapsvm.objectness import open_objectness
from lapsvm.pictures import reading


@pytest.fixture
def pipe(tmp_path):
    """Return a maker of named pipes, to which nobody ever writes."""

    def made(name):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
        return path

    return made


def test_a_file_and_a_link_to_one_are_opened(tmp_path):
    (tmp_path / "a").write_bytes(b"text")
    (tmp_path / "link").symlink_to("a")
    assert read_regular(tmp_path / "link", "file") == b"text"
    with open_regular(tmp_path / "a", "file") as file:
        assert file.read() == b"text"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: None, "file .*a is not there"),
        (lambda path: path.symlink_to("nowhere"), "is not there: the link leads to nothing"),
        (lambda path: path.mkdir(), "must be a regular file, got a folder"),
        (os.mkfifo, "must be a regular file, got a pipe, a socket or a device"),
        (lambda path: path.symlink_to("/dev/zero"), "must be a regular file, got a pipe, a socket or a device"),
    ],
)
def test_what_is_no_file_is_refused_at_once(tmp_path, make, sentence):
    make(tmp_path / "a")
    with pytest.raises(MissingError, match=sentence):
        read_regular(tmp_path / "a", "file")
    assert is_named(tmp_path / "a") == (sentence != "file .*a is not there")


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path):
    (tmp_path / "a").touch()
    os.truncate(tmp_path / "a", LARGEST + 1)
    for read in (read_regular, open_regular, check_regular):
        with pytest.raises(DataError, match=rf"file .*a must have at most {LARGEST:,} bytes, got {LARGEST + 1:,}"):
            read(tmp_path / "a", "file")
    (tmp_path / "b").write_bytes(b"12345")
    assert read_regular(tmp_path / "b", "file", 5) == b"12345"
    with pytest.raises(DataError, match="must have at most 4 bytes, got 5"):
        read_regular(tmp_path / "b", "file", 4)


@pytest.mark.parametrize("name", ["a\0b", "a" * 5000, "\ud800"])
def test_a_name_that_no_file_can_have_is_a_sentence(tmp_path, name):
    with pytest.raises(MissingError, match="cannot be opened"):
        read_image(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "read", "kind"),
    [
        ("a.xml", read_objects, AnnotationError),
        ("a.jpg", read_image, MissingError),
        ("labels.csv", lambda path: open_csv(path.parent), MissingError),
        ("ImageSets/Main/cat_trainval.txt", lambda path: open_voc(path.parents[2]).records("trainval"), LabelsError),
        ("comp3_det_test_cat.txt", lambda path: read_results(path.parent, "test"), MissingError),
        ("a.safetensors", Detector.load, MissingError),
        ("a.safetensors", read_header, MissingError),
        ("a.json", lambda path: open_external(path, "json"), MissingError),
        ("windows/a.npz", lambda path: open_external(path.parent), MissingError),
        ("windows/a.mat", lambda path: open_external(path.parent), MissingError),
        ("windows/boxes.npy", lambda path: open_external(path.parent, "npy"), MissingError),
        ("a.onnx", lambda path: open_extractor(f"onnx:{path}"), MissingError),
        ("a.onnx", lambda path: open_objectness(f"onnx:{path}"), MissingError),
    ],
)
def test_no_reader_waits_for_a_pipe(pipe, name, read, kind):
    with pytest.raises(kind, match=r"a regular file, got a pipe|is not there"):
        read(pipe(name))


def test_a_pipe_is_no_model_of_any_format(pipe):
    assert stored_format(pipe("models/a.safetensors")) is None


def test_a_result_file_that_cannot_be_read_is_not_passed_over(tmp_path):
    (tmp_path / "comp3_det_test_cat.txt").write_text("a 1 1 1 2 2\n")
    (tmp_path / "comp3_det_test_dog.txt").symlink_to("nowhere")
    with pytest.raises(MissingError, match=r"test_dog\.txt is not there: the link leads to nothing"):
        read_results(tmp_path, "test")
    (tmp_path / "comp3_det_test_dog.txt").unlink()
    (tmp_path / "comp3_det_test_dog.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ResultsError, match="must be text in UTF-8"):
        read_results(tmp_path, "test")


def chunk(kind, data):
    """Return a chunk of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(path, width, height, colour_type=3):
    """Write a PNG file with a palette and nothing but zeros, of a few kilobytes whatever its size."""
    packer, row = zlib.compressobj(9), b"\0" * (1 + -(-width // 8))
    data = b"".join([packer.compress(row) for _ in range(height)]) + packer.flush()
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, colour_type, 0, 0, 0))
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + head + chunk(b"PLTE", bytes(6)) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )
    return path


@pytest.mark.parametrize("side", [8193, 13000, 20000])
def test_a_picture_that_is_too_large_is_refused_by_its_header(tmp_path, side):
    path = png(tmp_path / "large.png", side, side)
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ImageError, match=rf"picture .*large\.png must have at most {MAX_PIXELS:,} pixels"):
            read_image(path)
    assert tracemalloc.get_traced_memory()[1] < 2**23
    tracemalloc.stop()


@pytest.mark.parametrize("size", [(1, 60_000_000), (60_000_000, 1), (65_536, 2)])
def test_a_picture_that_is_too_long_is_refused_by_its_header(tmp_path, size):
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 1, 0, 0, 0, 0))
    (tmp_path / "long.png").write_bytes(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", b"") + chunk(b"IEND", b""))
    for read in (read_image, check_image):
        with pytest.raises(ImageError, match=rf"sides of at most {MAX_SIDE:,} pixels, got {size[0]} x {size[1]}"):
            read(tmp_path / "long.png")


def test_a_picture_of_the_largest_size_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_PIXELS", 12)
    assert read_image(png(tmp_path / "a.png", 3, 4)).shape == (4, 3, 3)
    with pytest.raises(ImageError, match="at most 12 pixels, got 13 x 1"):
        read_image(png(tmp_path / "b.png", 13, 1))


def test_a_drawing_for_another_program_is_refused(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.eps")
    with pytest.raises(ImageError, match="must hold pixels, got a drawing of the format EPS"):
        read_image(tmp_path / "a.eps")


def encoded(kind):
    """Return a small picture in one of the formats that Pillow writes."""
    pixels = np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some formats are about to leave Pillow
        try:
            Image.fromarray(pixels).save(out, kind)
        except OSError:
            Image.fromarray(pixels[:, :, 0]).convert("1" if kind in ("XBM", "MSP") else "P").save(out, kind)
    return out.getvalue()


KINDS = ("AVIF", "BMP", "DDS", "DIB", "GIF", "ICNS", "ICO", "IM", "JPEG", "JPEG2000", "MSP", "PCX", "PNG", "PPM", "QOI",
         "SGI", "TGA", "TIFF", "WEBP", "XBM")  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_picture_of_any_format_is_read_or_refused(tmp_path, kind):
    """Seeded: bytes are changed, left out or doubled, mostly in the first hundred."""
    Image.init()
    if kind not in Image.SAVE:
        pytest.skip(f"this Pillow does not write {kind}")
    whole, rng, path = encoded(kind), np.random.default_rng(list(kind.encode())), tmp_path / "broken"
    path.write_bytes(whole)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert read_image(path).ndim == 3
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            end = min(len(content), 100 if rng.random() < 0.7 else len(content))
            place = int(rng.integers(0, max(1, end)))
            action = rng.integers(3)
            if action == 0:
                content[place : place + 1] = bytes([rng.integers(256)])
            elif action == 1:
                del content[place : place + int(rng.integers(1, 40))]
            else:
                content[place:place] = content[place : place + int(rng.integers(1, 40))]
        path.write_bytes(content)
        with warnings.catch_warnings(), suppress(ImageError):
            warnings.simplefilter("ignore")
            assert read_image(path).dtype == np.uint8


def test_whatever_a_decoder_raises_names_the_picture(tmp_path, monkeypatch):
    path, turned = tmp_path / "a.png", Image.Exif()
    turned[ExifTags.Base.Orientation] = 3
    Image.new("RGB", (3, 3)).save(path, exif=turned)

    def broken(*_):
        raise KeyError("DXT9")

    monkeypatch.setattr("PIL.Image.Image.transpose", broken)
    with pytest.raises(ImageError, match=r"picture .*a\.png cannot be read whole: 'DXT9'\.$"):
        read_image(path)


def test_links_to_nothing_are_told_in_folders(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (3, 3)).save(tmp_path / name / "a.png")
    (tmp_path / "cat" / "b.png").symlink_to("nowhere.png")
    os.mkfifo(tmp_path / "dog" / "c.png")
    records = {record.id: record for record in open_folder(tmp_path).records("trainval")}
    assert set(records) == {"cat/a", "cat/b", "dog/a", "dog/c"}
    with pytest.raises(MissingError, match="leads to nothing"):
        records["cat/b"].pixels()
    with pytest.raises(MissingError, match="a pipe"):
        records["dog/c"].pixels()
    (tmp_path / "cow").symlink_to("nowhere")
    with pytest.raises(LabelsError, match=r"link .*cow leads to nothing"):
        open_folder(tmp_path)


def test_a_broken_link_in_place_of_flags_of_truth_is_not_passed_over(tmp_path):
    np.save(tmp_path / "boxes.npy", np.array([[0.0, 0, 5, 5]]))
    np.save(tmp_path / "offsets.npy", np.array([0, 1]))
    (tmp_path / "ids.txt").write_text("a\n")
    assert open_external(tmp_path).keys == ("a",)
    (tmp_path / "gt.npy").symlink_to("nowhere")
    with pytest.raises(LapsvmError, match=r"gt\.npy is not there: the link leads to nothing"):
        open_external(tmp_path)


@pytest.mark.parametrize("name", ["a\0b", "a" * 256, "a" * 5000, "\ud800"])
def test_a_name_that_cannot_be_written_is_a_sentence(tmp_path, name):
    with pytest.raises(WriteError, match="could not be written"):
        write_atomically(tmp_path / name, b"")


def test_a_class_whose_name_is_too_long_for_files_is_refused_at_once(tmp_path):
    (tmp_path / ("é" * 51)).mkdir()
    with pytest.raises(LabelsError, match="class name must have at most 100 bytes"):
        open_folder(tmp_path)
