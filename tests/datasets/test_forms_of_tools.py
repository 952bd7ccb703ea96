"""Labels as other programs leave them: folders of systems, names of sets, numbers with gaps, accents."""

import json
from unicodedata import normalize

import pytest
from PIL import Image

from lapsvm.annotations.coco import read_coco
from lapsvm.annotations.voc import read_voc_file
from lapsvm.catalog import open_dataset
from lapsvm.errors import AnnotationError, LabelsError, OptionError

SYSTEM = ["__MACOSX", ".ipynb_checkpoints", "@eaDir", "$RECYCLE.BIN"]


def picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 3)).save(path)


def shown(dataset, set_name="trainval"):
    """Return picture id -> its classes."""
    return {one.id: {name for name in one.labels if one.labels[name] == 1} for one in dataset.records(set_name)}


# ---- folders of systems ----
@pytest.mark.parametrize("system", SYSTEM)
def test_folders_of_the_system_are_no_classes_and_no_sets(tmp_path, system):
    for place in (tmp_path / "classes", tmp_path / "sets" / "train"):
        for name in ("cat", "dog"):
            picture(place / name / "a.png")
            picture(place / name / system / "a-checkpoint.png")
            (place / name / "Thumbs.db").write_text("")
        picture(place / system / "._a.png")
    picture(tmp_path / "sets" / system / "cat" / "b.png")
    picture(tmp_path / "sets" / "test" / "cat" / "b.png")
    for root, set_name in ((tmp_path / "classes", "trainval"), (tmp_path / "sets", "train")):
        dataset = open_dataset("folder", root)
        assert dataset.classes == ("cat", "dog")
        assert shown(dataset, set_name) == {"cat/a": {"cat"}, "dog/a": {"dog"}}
        assert set(dataset.ignored_files()) == {"hidden"}


@pytest.mark.parametrize("system", SYSTEM)
def test_tables_in_folders_of_the_system_are_no_sets(tmp_path, system):
    for name in ("train", system):
        picture(tmp_path / name / "a.png")
        (tmp_path / name / "metadata.csv").write_text("file_name,label\na.png,cat\n")
    assert open_dataset("imagefolder", tmp_path).sets == ("train",)
    (tmp_path / "coco").mkdir()
    for name in ("train", system):
        (tmp_path / "coco" / name).mkdir()
        (tmp_path / "coco" / name / "_annotations.coco.json").write_text(json.dumps(coco()))
    assert open_dataset("coco", tmp_path / "coco").sets == ("train",)


def test_lists_of_the_system_are_no_lists(tmp_path):
    (tmp_path / "ImageSets" / "Main").mkdir(parents=True)
    picture(tmp_path / "JPEGImages" / "a.png")
    for name in ("cat_train.txt", "._cat_train.txt"):
        (tmp_path / "ImageSets" / "Main" / name).write_bytes(b"a 1.0\n" if name[0] == "c" else b"\0\5\x16\7")
    assert shown(open_dataset("voc", tmp_path), "train") == {"a": {"cat"}}


# ---- sets ----
def test_the_sets_of_an_export_are_read_by_their_names(tmp_path):
    for set_name in ("train", "valid", "test"):
        for name in ("cat", "dog"):
            picture(tmp_path / set_name / name / f"{set_name}.png")
    dataset = open_dataset("folder", tmp_path, train_set="train", test_set="valid")
    assert dataset.sets == ("train", "valid", "test")
    assert shown(dataset, "valid") == {"cat/valid": {"cat"}, "dog/valid": {"dog"}}
    with pytest.raises(
        OptionError, match="set 'trainval' does not exist; choose from train, valid, test by the parameter train_set"
    ):
        dataset.records("trainval")


# ---- numbers with gaps ----
def coco(number=int, **changes):
    content = {
        "images": [{"id": number(7), "file_name": "a.png"}, {"id": number(8), "file_name": "b.png"}],
        "categories": [{"id": number(1), "name": "cat"}, {"id": number(2), "name": "dog"}],
        "annotations": [{"id": number(3), "image_id": number(7), "category_id": number(2), "bbox": [0, 0, 2, 2]}],
    }
    return content | changes


@pytest.mark.parametrize("name", ["images", "categories", "annotations", "all"])
def test_ids_of_coco_may_be_written_as_numbers_with_a_fraction_of_zero(tmp_path, name):
    content = coco(float) if name == "all" else coco() | {name: coco(float)[name]}
    assert "7.0" in json.dumps(coco(float))
    (tmp_path / "annotations.json").write_text(json.dumps(content))
    picture(tmp_path / "a.png")
    assert shown(open_dataset("coco", tmp_path)) == {"a": {"dog"}, "b": set()}


def test_other_fractions_are_no_ids(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(coco(lambda number: number + 0.5)))
    with pytest.raises(AnnotationError, match=r"whole number or a text as id, got 7\.5"):
        read_coco(tmp_path / "a.json")


def test_two_ids_that_are_one_number_are_refused(tmp_path):
    images = [{"id": 7, "file_name": "a.png"}, {"id": 7.0, "file_name": "b.png"}]
    (tmp_path / "a.json").write_text(json.dumps(coco(images=images)))
    with pytest.raises(AnnotationError, match=r"ids of images must differ, got 7\.0 twice"):
        read_coco(tmp_path / "a.json")


def test_labels_of_tables_may_be_written_so_too(tmp_path):
    (tmp_path / "labels.csv").write_text("image,label\na.png,1.0\nb.png,\nc.png,2.0\n")
    assert shown(open_dataset("csv", tmp_path)) == {"a": {"1"}, "b": set(), "c": {"2"}}
    (tmp_path / "metadata.csv").write_text("file_name,label\na.png,1.0\nb.png,\nc.png,2.5\n")
    assert shown(open_dataset("imagefolder", tmp_path)) == {"a": {"1"}, "b": set(), "c": {"2.5"}}
    (tmp_path / "metadata.csv").unlink()
    (tmp_path / "metadata.jsonl").write_text('{"file_name": "a.png", "label": 1.0}\n{"file_name": "b", "label": NaN}\n')
    assert shown(open_dataset("imagefolder", tmp_path)) == {"a": {"1"}, "b": set()}


def test_the_size_of_a_voc_file_may_be_written_so_too(tmp_path):
    text = "<annotation><size><width>64.0</width><height>48.</height></size></annotation>"
    (tmp_path / "a.xml").write_text(text)
    assert read_voc_file(tmp_path / "a.xml").size == (64, 48)
    (tmp_path / "a.xml").write_text(text.replace("64.0", "64.5"))
    assert read_voc_file(tmp_path / "a.xml").size is None


# ---- one file under two ids ----
def test_a_file_under_two_ids_is_named(tmp_path):
    images = [{"id": 7, "file_name": "a.png"}, {"id": 8, "file_name": "./a.png"}]
    (tmp_path / "annotations.json").write_text(json.dumps(coco(images=images)))
    for read in ("records", "ground_truth"):
        with pytest.raises(AnnotationError, match=r"images 7 and 8 must be two files, got 'a\.png' twice"):
            getattr(open_dataset("coco", tmp_path), read)("trainval")


# ---- words of no class, and cells of several ----
@pytest.mark.parametrize("word", ["nan", "NaN", "None", "none", "NULL", "<NA>", "n/a", "background", "Negative"])
def test_a_word_for_nothing_is_no_class(tmp_path, word):
    (tmp_path / "labels.csv").write_text(f"image,label\na.png,cat\nb.png,{word}\n")
    (tmp_path / "metadata.csv").write_text(f"file_name,label\na.png,cat\nb.png,{word}\n")
    for name in ("csv", "imagefolder"):
        dataset = open_dataset(name, tmp_path)
        assert dataset.classes == ("cat",)
        assert shown(dataset) == {"a": {"cat"}, "b": set()}
    (tmp_path / "labels.csv").write_text(f"image,label\na.png,cat\na.png,{word}\n")
    with pytest.raises(LabelsError, match=f"line 3: 'a.png' must have an empty label in its only row, got '{word}'"):
        open_dataset("csv", tmp_path)


def test_a_cell_of_two_classes_is_refused(tmp_path):
    (tmp_path / "labels.csv").write_text('image,label\na.png,"cat,dog"\n')
    (tmp_path / "metadata.csv").write_text('file_name,label\na.png,"cat,dog"\n')
    for name in ("csv", "imagefolder"):
        with pytest.raises(LabelsError, match="line 2: a label must be one class, got 'cat,dog'; write a row"):
            open_dataset(name, tmp_path)
    (tmp_path / "metadata.csv").write_text('file_name,labels\na.png,"cat,dog"\n')
    assert shown(open_dataset("imagefolder", tmp_path)) == {"a": {"cat", "dog"}}


# ---- accents ----
@pytest.mark.parametrize(("table", "disk"), [("NFC", "NFD"), ("NFD", "NFC"), ("NFC", "NFC")])
def test_the_form_of_accents_does_not_count(tmp_path, table, disk):
    written, stored = normalize(table, "é/ü.png"), normalize(disk, "é/ü.png")
    picture(tmp_path / stored)
    (tmp_path / "labels.csv").write_text(f"image,label\n{written},cat\n", encoding="utf-8")
    (tmp_path / "metadata.csv").write_text(f"file_name,label\n{written},cat\n", encoding="utf-8")
    images = [{"id": 7, "file_name": written}]
    (tmp_path / "annotations.json").write_text(json.dumps(coco(images=images)))
    for name in ("csv", "imagefolder", "coco"):
        (record,) = open_dataset(name, tmp_path).records("trainval")
        assert record.pixels().shape == (3, 4, 3)
        assert getattr(open_dataset(name, tmp_path), "ignored_files", dict)() == {}
    (tmp_path / "ImageSets" / "Main").mkdir(parents=True)
    (tmp_path / "ImageSets" / "Main" / "cat_train.txt").write_text(normalize(table, "ü 1\n"), encoding="utf-8")
    picture(tmp_path / "JPEGImages" / normalize(disk, "ü.png"))
    (record,) = open_dataset("voc", tmp_path).records("train")
    assert record.pixels().shape == (3, 4, 3)
    picture(tmp_path / "f" / stored)
    dataset = open_dataset("folder", tmp_path / "f", classes=(normalize(table, "é"),))
    assert dataset.classes == (normalize(disk, "é"),)


def test_a_class_in_both_forms_of_its_accents_is_refused(tmp_path):
    composed, decomposed = (normalize(form, "é") for form in ("NFC", "NFD"))
    picture(tmp_path / "train" / composed / "a.png")
    picture(tmp_path / "test" / decomposed / "a.png")
    (tmp_path / "labels.csv").write_text(f"image,label\na.png,{composed}\nb.png,{decomposed}\n")
    for reader in ("folder", "csv"):
        with pytest.raises(LabelsError, match=r"accents of a class must have one form \(NFC, NFD\), got 'é' twice"):
            open_dataset(reader, tmp_path)
