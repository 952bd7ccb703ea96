"""One module knows the suffixes of pictures, and what names of folders mean; every reader asks it."""

from pathlib import Path

import numpy as np
import pytest
from lapsvm.datasets.folder import open_folder
from lapsvm.datasets.voc import open_voc
from lapsvm.pipelines.commands.drawing.files import picture_files
from PIL import Image

from lapsvm.catalog import open_dataset
from lapsvm.names.kinds import PICTURE_SUFFIXES, is_picture_name, without_picture_suffix

ROOT = Path(__file__).parents[2]
FORMATS = {".png": "PNG", ".bmp": "BMP", ".dib": "DIB", ".tif": "TIFF", ".tiff": "TIFF", ".webp": "WEBP"}
READABLE = [suffix for suffix in PICTURE_SUFFIXES if suffix not in (".heic", ".heif")]
SYSTEM = ["._a.jpg", ".DS_Store", "Thumbs.db", "desktop.ini", "__MACOSX/._b.jpg", ".hidden/c.jpg"]


def save(path, suffix, grey=90):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((8, 9, 3), grey, np.uint8)
    Image.fromarray(pixels).save(path, format=FORMATS.get(suffix.lower(), "JPEG"))


@pytest.mark.parametrize("change", [str, str.upper, str.title])
def test_every_reader_takes_the_same_files_for_pictures(tmp_path, change):
    for number, suffix in enumerate(READABLE):
        for kind in ("cat", "GOOD"):
            save(tmp_path / "data" / kind / f"{kind}{number}{change(suffix)}", suffix)
    for name in SYSTEM:
        save(tmp_path / "data" / "cat" / name if "/" not in name else tmp_path / "data" / name, ".jpg")
    found = open_folder(tmp_path / "data")
    records = found.records("trainval")
    assert found.classes == ("cat",)
    assert len(records) == 2 * len(READABLE)
    assert all(record.pixels().shape == (8, 9, 3) for record in records)
    assert "hidden" in found.ignored_files()
    said = []
    assert len(picture_files([tmp_path / "data"], said.append)) == len(records)
    rows = "".join(f"{record.path.relative_to(tmp_path / 'data').as_posix()},cat\n" for record in records)
    (tmp_path / "data" / "labels.csv").write_text(f"image,label\n{rows}")
    table = open_dataset("csv", tmp_path / "data")
    assert {record.path for record in table.records("trainval")} == {record.path for record in records}
    assert table.ignored_files() == {}


def test_lists_of_voc_find_pictures_of_every_suffix_in_their_order(tmp_path):
    lists = tmp_path / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    for number, suffix in enumerate(READABLE):
        save(tmp_path / "JPEGImages" / f"p{number}{suffix.upper()}", suffix)
    save(tmp_path / "JPEGImages" / "p0.png", ".png")  # beside p0.JPG, which comes first
    (lists / "cat_trainval.txt").write_text("".join(f"p{number} 1\n" for number in range(len(READABLE))))
    records = open_voc(tmp_path).records("trainval")
    assert [record.path.name for record in records] == [f"p{i}{suffix.upper()}" for i, suffix in enumerate(READABLE)]


def test_a_name_loses_the_suffix_of_a_picture_alone():
    names = ["a/b.c.JPG", "part.v2", "part.v2.jfif", "x", ".jpg", "a.gif"]
    assert [without_picture_suffix(name) for name in names] == ["a/b.c", "part.v2", "part.v2", "x", ".jpg", "a"]
    assert [is_picture_name(name) for name in names] == [True, False, True, False, False, False]


def test_no_other_module_lists_suffixes_of_pictures():
    paths = [path for room in ("lapsvm", "datasets", "pipelines") for path in (ROOT / room).rglob("*.py")]
    listing = [path.name for path in paths if '".jpeg"' in path.read_text(encoding="utf-8")]
    assert listing == ["kinds.py"]
