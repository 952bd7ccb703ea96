"""Names mean files whatever the form of their accents, the case of letters, separators and quoting; never two."""

import json
from itertools import product
from unicodedata import normalize

import numpy as np
import pytest
from PIL import Image

from lapsvm.catalog import open_dataset
from lapsvm.errors import LabelsError
from lapsvm.names.matching import FilesOnDisk, NameIndex, common_folders, name_in_address, path_parts

FORMS = ("NFC", "NFD")


def save(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.zeros((8, 9, 3), np.uint8)).save(path)


def test_the_same_name_comes_before_other_forms_of_it():
    index = NameIndex([("É", 1), (normalize("NFD", "É"), 2), ("é", 3), ("ß", 4)])
    assert index.meant("É") == [1]
    assert index.meant(normalize("NFD", "É")) == [2]
    assert index.meant(normalize("NFD", "é")) == [3]
    assert index.meant("SS") == [4]
    assert index.meant("e") == []
    assert NameIndex([("a", 1), ("A", 2)]).meant("a") == [1]


def test_folders_in_common_are_counted_from_the_file_upwards():
    assert common_folders(("x", "A", "b", "1"), ("y", "a", "b", "2")) == (2, 1)
    assert common_folders(("1",), ("a", "1")) == (0, 0)


@pytest.mark.parametrize(("on_disk", "written"), list(product(FORMS, FORMS)))
def test_a_file_is_found_by_any_form_of_its_name(tmp_path, on_disk, written):
    path = tmp_path / normalize(on_disk, "pièces") / normalize(on_disk, "é 1.JPG")
    save(path.with_suffix(".png"))
    path.with_suffix(".png").rename(path)
    for name in ("pièces/é 1.JPG", "PIÈCES/É 1.jpg", "pièces/é%201.JPG"):
        assert FilesOnDisk().find(tmp_path / normalize(written, name)) == path
    for name in ("pièces/é 2.JPG", "pieces/é 1.JPG", "pièces/é 1.JPG/x", "none/none/x"):
        assert FilesOnDisk().find(tmp_path / name) == tmp_path / name


def test_a_name_that_may_be_two_files_is_none(tmp_path):
    for name in ("Ab.png", "aB.png"):
        save(tmp_path / name)
    assert FilesOnDisk().find(tmp_path / "ab.png") == tmp_path / "ab.png"
    assert FilesOnDisk().find(tmp_path / "aB.png") == tmp_path / "aB.png"


@pytest.mark.parametrize(("on_disk", "written"), list(product(FORMS, FORMS)))
def test_tables_files_and_lists_find_pictures_of_other_systems(tmp_path, on_disk, written):
    names = [normalize(on_disk, name) for name in ("hôtel/é1.png", "hôtel/É2.PNG")]
    for name in names:
        save(tmp_path / "images" / name)
    rows = [normalize(written, name).replace("/", "\\") for name in ("hôtel/é1.png", "hôtel/é2.png")]
    table = "".join(f"images\\{row},{'cat' if i else ''}\n" for i, row in enumerate(rows))
    (tmp_path / "labels.csv").write_text(f"image,label\n{table}")
    (tmp_path / "metadata.csv").write_text(f"file_name,label\n{table}")
    content = {
        "images": [{"id": i, "file_name": row, "width": 9, "height": 8} for i, row in enumerate(rows)],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 4, 4]}],
    }
    (tmp_path / "annotations.json").write_text(json.dumps(content))
    for reader in ("csv", "imagefolder", "coco"):
        records = open_dataset(reader, tmp_path).records("trainval")
        assert [record.path for record in records] == [tmp_path / "images" / name for name in names]
        assert [record.labels["cat"] for record in records] == [-1, 1]
        assert not any("\\" in record.id for record in records)
    stems = [normalize(on_disk, "é1"), normalize(on_disk, "é2")]
    for stem in stems:
        save(tmp_path / "JPEGImages" / f"{stem}.png")
    lists = tmp_path / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    (lists / "trainval.txt").write_text("".join(f"{stem}\n" for stem in stems))
    flagged = (f"{normalize(written, stem)} {flag}\n" for stem, flag in zip(stems, (1, -1), strict=True))
    (lists / "cat_trainval.txt").write_text("".join(flagged))
    records = open_dataset("voc", tmp_path).records("trainval")
    assert [(record.id, record.path.stem, record.labels["cat"]) for record in records] == [
        (stems[0], stems[0], 1), (stems[1], stems[1], -1),
    ]  # fmt: skip


def test_one_file_under_two_names_is_refused(tmp_path):
    save(tmp_path / "é.png")
    (tmp_path / "labels.csv").write_text(f"image,label\né.png,cat\n{normalize('NFD', 'é.png')},dog\n")
    with pytest.raises(LabelsError, match="must be listed once, got it twice"):
        open_dataset("csv", tmp_path)


def test_paths_of_any_system_have_the_same_parts():
    assert path_parts("C:\\data\\.\\a.jpg") == path_parts("C:/data//a.jpg") == ("C:", "data", "a.jpg")


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("/data/local-files/?d=dog/a%20b.jpg", "dog/a b.jpg"),
        ("/data/local-files/?x=1&d=dog/a+b.jpg", "dog/a+b.jpg"),
        ("http://host/data/upload/1/0a1b2c3d-%C3%A9.jpg", "/data/upload/1/0a1b2c3d-é.jpg"),
        ("dog/a.jpg?d=", ""),
    ],
)
def test_the_name_in_an_address(address, name):
    assert name_in_address(address) == name
