"""The VOC layout: labels from lists alone, boxes for evaluation alone, and a sentence for every broken file."""

import numpy as np
import pytest
from lapsvm.datasets import voc as reader
from lapsvm.datasets.voc import find_lists, open_voc

from lapsvm.annotations import voc as voc_files
from lapsvm.boxes import from_voc
from lapsvm.catalog import Dataset, open_dataset
from lapsvm.errors import AnnotationError, LabelsError, MissingError, OptionError

BOMB = """<!DOCTYPE annotation [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<annotation><object><name>&b;</name></object></annotation>"""
OUTSIDE = """<!DOCTYPE annotation [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<annotation><object><name>&a;</name></object></annotation>"""


def xml_object(name="cat", corners=(10, 20, 30, 40), difficult=None):
    tags = zip(("xmin", "ymin", "xmax", "ymax"), corners, strict=True)
    box = "".join(f"<{tag}>{value}</{tag}>" for tag, value in tags)
    flag = "" if difficult is None else f"<difficult>{difficult}</difficult>"
    return f"<object><name>{name}</name>{flag}<bndbox>{box}</bndbox></object>"


def annotation(*objects):
    return f"<annotation>{''.join(objects)}</annotation>"


def make(root, files):
    """Write files, given as path -> text."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def make_lists(root, **lists):
    return make(root, {f"ImageSets/Main/{name}.txt": text for name, text in lists.items()})


@pytest.fixture
def voc(tmp_path):
    """Two classes, three pictures to train and two to test."""
    make_lists(
        tmp_path,
        trainval="b\na\nc\n",
        cat_trainval="a  1\nb -1\nc  0\n",
        dog_trainval="a -1\nb 1\nc -1\n",
        test="e\nd\n",
        cat_test="d 1\ne -1\n",
        dog_test="d -1\ne -1\n",
    )
    (tmp_path / "JPEGImages").mkdir()
    objects = {
        "a": [xml_object(corners=("10.25", 20, 30, "40.5")), xml_object("dog", difficult=1)],
        "b": [],
        "c": [xml_object(difficult=0), xml_object(corners=(1, 1, 1, 1), difficult=1)],
    }
    make(tmp_path, {f"Annotations/{name}.xml": annotation(*found) for name, found in objects.items()})
    return tmp_path


def test_pictures_are_in_the_order_of_the_sets_list(voc):
    dataset = open_dataset("voc", voc)
    assert isinstance(dataset, Dataset)
    assert (dataset.name, dataset.classes, dataset.sets) == ("voc", ("cat", "dog"), ("trainval", "test"))
    assert [record.id for record in dataset.records("trainval")] == ["b", "a", "c"]


def test_labels_are_the_flags_of_the_class_lists(voc):
    labels = {record.id: record.labels for record in open_voc(voc).records("trainval")}
    assert labels == {"a": {"cat": 1, "dog": -1}, "b": {"cat": -1, "dog": 1}, "c": {"cat": 0, "dog": -1}}


def test_only_the_classes_asked_for_are_given_in_that_order(voc):
    dataset = open_voc(voc, classes=["dog"])
    assert dataset.classes == ("dog",)
    assert dataset.records("test")[0].labels == {"dog": -1}
    assert list(dataset.ground_truth("trainval")) == ["dog"]
    assert open_voc(voc, classes=("dog", "cat")).classes == ("dog", "cat")


def test_without_a_sets_list_the_order_is_that_of_the_first_class(voc):
    (voc / "ImageSets/Main/trainval.txt").unlink()
    assert [record.id for record in open_voc(voc).records("trainval")] == ["a", "b", "c"]


def test_blank_lines_tabs_a_byte_order_mark_and_windows_ends_are_read(voc):
    (voc / "ImageSets/Main/cat_trainval.txt").write_bytes(b"\xef\xbb\xbfa\t+1\r\n\r\n  b   -1 \r\nc 0")
    assert [record.labels["cat"] for record in open_voc(voc).records("trainval")] == [-1, 1, 0]


@pytest.mark.parametrize("suffix", [".jpg", ".JPG", ".jpeg", ".png"])
def test_a_picture_is_found_by_any_of_its_suffixes(voc, suffix):
    (voc / f"JPEGImages/a{suffix}").touch()
    (voc / "JPEGImages/a.txt").touch()
    paths = {record.id: record.path for record in open_voc(voc).records("trainval")}
    assert paths["a"] == voc / f"JPEGImages/a{suffix}"


def test_a_jpg_comes_before_a_png(voc):
    (voc / "JPEGImages/a.jpg").touch()
    (voc / "JPEGImages/a.png").touch()
    assert open_voc(voc).records("trainval")[1].path.name == "a.jpg"


def test_a_missing_picture_is_named_when_it_is_read(voc):
    with pytest.raises(MissingError, match=r"picture .*b\.jpg is not there"):
        open_voc(voc).records("trainval")[0].pixels()


def test_labels_never_come_from_annotations(voc, monkeypatch):
    def refuse(*args, **kwargs):
        raise RuntimeError("an annotation was opened")

    expected = open_voc(voc).records("trainval")
    for path in (voc / "Annotations").iterdir():
        path.write_text("<poison")
        path.chmod(0)
    monkeypatch.setattr(voc_files.ElementTree, "parse", refuse)
    monkeypatch.setattr(reader, "read_voc_file", refuse)
    assert open_voc(voc).records("trainval") == expected
    with pytest.raises(RuntimeError, match="an annotation was opened"):
        open_voc(voc).ground_truth("trainval")


def test_ground_truth_has_an_entry_for_every_picture_and_class(voc):
    truth = open_voc(voc).ground_truth("trainval")
    assert {name: list(found) for name, found in truth.items()} == {"cat": ["b", "a", "c"], "dog": ["b", "a", "c"]}
    assert truth["dog"]["b"].boxes.shape == (0, 4)
    assert truth["dog"]["b"].difficult.shape == (0,)


def test_boxes_are_in_the_houses_convention_and_floats_are_kept(voc):
    truth = open_voc(voc).ground_truth("trainval")["cat"]
    assert truth["a"].boxes.tolist() == [[10.25 - 1, 20 - 1, 30, 40.5]]
    np.testing.assert_array_equal(truth["c"].boxes, from_voc([[10, 20, 30, 40], [1, 1, 1, 1]]))
    assert truth["c"].boxes.dtype == np.float64


def test_difficult_is_a_flag_and_absent_means_no(voc):
    truth = open_voc(voc).ground_truth("trainval")
    assert truth["cat"]["a"].difficult.tolist() == [False]
    assert truth["cat"]["c"].difficult.tolist() == [False, True]
    assert truth["dog"]["a"].difficult.dtype == bool


def test_a_box_of_a_part_is_not_the_objects(voc):
    part = f"<part><name>head</name>{xml_object()}<bndbox><xmin>1</xmin></bndbox></part>"
    (voc / "Annotations/b.xml").write_text(annotation(xml_object().replace("<bndbox>", f"{part}<bndbox>", 1)))
    assert open_voc(voc).ground_truth("trainval")["cat"]["b"].boxes.tolist() == [[9, 19, 30, 40]]


def test_a_set_without_any_annotation_has_no_boxes(voc):
    assert open_voc(voc).ground_truth("test") is None
    for path in (voc / "Annotations").iterdir():
        path.unlink()
    (voc / "Annotations").rmdir()
    assert open_voc(voc).ground_truth("trainval") is None


def test_the_first_missing_annotation_of_some_is_named(voc):
    (voc / "Annotations/a.xml").unlink()
    (voc / "Annotations/c.xml").unlink()
    with pytest.raises(AnnotationError, match=r"annotation .*Annotations/a\.xml is not there\.$"):
        open_voc(voc).ground_truth("trainval")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "a.xml must be XML, got an empty file; write or copy it again"),
        ("<annotation><object>", "is no XML that can be read"),
        ("\0\0", "is no XML that can be read"),
        (BOMB, "is no XML that can be read: EntitiesForbidden"),
        (OUTSIDE, "is no XML that can be read: EntitiesForbidden"),
        ("<html></html>", "must be XML, got a page of HTML"),
        ('<?xml version="1.0" encoding="klingon"?><annotation/>', "unknown encoding"),
        (annotation("<object><bndbox/></object>"), "has an <object> without a <name>"),
        (annotation(xml_object(difficult="maybe")), "<difficult> must be 0 or 1, got 'maybe'"),
    ],
)
def test_a_broken_annotation_is_named_in_one_sentence(voc, text, sentence):
    (voc / "Annotations/a.xml").write_text(text)
    with pytest.raises(AnnotationError, match=rf"annotation .*a\.xml.*{sentence.removeprefix('a.xml ')}") as caught:
        open_voc(voc).ground_truth("trainval")
    assert "\n" not in str(caught.value)


NOT_NUMBERS = "with a box that is not four finite numbers"
TURNED = xml_object().replace("</object>", "<rotated_bndbox><angle>1</angle></rotated_bndbox></object>")


@pytest.mark.parametrize(
    ("odd", "fault"),
    [
        *((xml_object(corners=corners), NOT_NUMBERS) for corners in [("x", 1, 2, 3), (1, 1, "nan", 3), (1, "", 2, 3)]),
        *((xml_object(corners=(1, 1, 2, text)), NOT_NUMBERS) for text in ("1_0", "inf", "1,5", "\u0663")),
        ("<object><name>cat</name><bndbox/></object>", NOT_NUMBERS),
        ("<object><name>cat</name></object>", "without a box"),
        (TURNED, "with a rotated box"),
        (TURNED.replace("rotated_bndbox", "robndbox"), "with a rotated box"),
    ],
)
def test_an_object_without_a_usable_box_is_left_out_and_counted(voc, odd, fault):
    (voc / "Annotations/b.xml").write_text(annotation(xml_object(difficult="0.0"), odd))
    truth = open_voc(voc).ground_truth("trainval")
    assert truth["cat"]["b"].boxes.tolist() == [[9, 19, 30, 40]]
    assert truth.faults == {fault: 1}


def test_an_annotation_that_is_a_folder_is_named(voc):
    (voc / "Annotations/a.xml").unlink()
    (voc / "Annotations/a.xml").mkdir()
    with pytest.raises(AnnotationError, match=r"a\.xml cannot be read"):
        open_voc(voc).ground_truth("trainval")


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("cat_trainval", "a 1\nb\n", r"cat_trainval\.txt, line 2: must be a picture id and 1, -1 or 0, got 'b'"),
        ("cat_trainval", "a 1\n\nb -1 0\n", r"line 3: must be a picture id and 1, -1 or 0, got 'b -1 0'"),
        ("cat_trainval", "a 2\n", r"line 1: must be a picture id and 1, -1 or 0, got 'a 2'"),
        ("cat_trainval", "a 1\nb 1\na -1\n", r"line 3: a picture must have one flag, got -1 for 'a' after 1"),
        ("cat_trainval", "../x 1\n", r"line 1: a picture's id must be a plain name .*, got '\.\./x'"),
        ("cat_trainval", "x\\y 1\n", r"a picture's id must be a plain name"),
        ("cat_trainval", "\n \n", r"list .*cat_trainval\.txt names no picture"),
        ("cat_trainval", "a 1\nb 1\n", r"cat_trainval\.txt must have every picture of trainval\.txt, but lacks 'c'"),
        ("cat_trainval", "a 1\nb 1\nc 1\nz 1\n", r"must have only pictures of trainval\.txt, got 'z'"),
        ("trainval", "", r"trainval\.txt names no picture"),
        ("trainval", "a\nb 1\nc\n", r"trainval\.txt, line 2: must be one picture id, got 'b 1'"),
        ("trainval", "a\n/etc/passwd\n", r"line 2: a picture's id must be a plain name"),
    ],
)
def test_a_malformed_list_is_named_with_its_line(voc, name, text, sentence):
    make_lists(voc, **{name: text})
    with pytest.raises(LabelsError, match=sentence):
        open_voc(voc).records("trainval")


def test_a_list_that_is_no_text_is_named(voc):
    (voc / "ImageSets/Main/cat_trainval.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LabelsError, match=r"cat_trainval\.txt must be text in UTF-8, got UTF-16"):
        open_voc(voc).records("trainval")


def test_class_lists_without_a_sets_list_must_agree(voc):
    (voc / "ImageSets/Main/trainval.txt").unlink()
    make_lists(voc, dog_trainval="a 1\nb 1\n")
    with pytest.raises(LabelsError, match=r"dog_trainval\.txt must have every picture of cat_trainval\.txt"):
        open_voc(voc).records("trainval")


def test_a_class_without_a_list_in_a_set_that_has_others_is_refused(voc):
    (voc / "ImageSets/Main/dog_test.txt").unlink()
    with pytest.raises(LabelsError, match=r"class 'dog' has no list dog_test\.txt, though other classes have one"):
        open_voc(voc).records("test")
    assert len(open_voc(voc, classes=["cat"]).records("test")) == 2


def test_a_set_without_any_class_list_gives_pictures_without_labels(voc):
    make_lists(voc, val="y\nx\n")
    assert [(record.id, record.labels) for record in open_voc(voc).records("val")] == [("y", {}), ("x", {})]


def test_what_is_not_there_is_refused_with_what_there_is(voc):
    with pytest.raises(MissingError, match=r"data folder .*nowhere is not there"):
        open_voc(voc / "nowhere")
    with pytest.raises(MissingError, match=r"folder of lists .*Main is not there"):
        open_voc(voc / "JPEGImages")
    with pytest.raises(OptionError, match="class 'cow' does not exist; choose from cat, dog"):
        open_voc(voc, classes=("cat", "cow"))
    with pytest.raises(OptionError, match="set 'val' does not exist; choose from trainval, test"):
        open_voc(voc).records("val")
    with pytest.raises(OptionError, match="set 'val' does not exist; choose from trainval, test"):
        open_voc(voc).ground_truth("val")
    (voc / "JPEGImages").rmdir()
    with pytest.raises(MissingError, match=r"folder of pictures .*JPEGImages is not there"):
        open_voc(voc).records("trainval")


@pytest.mark.parametrize("classes", ["cat", (), ("cat", "cat")])
def test_classes_must_be_different_names(voc, classes):
    with pytest.raises(OptionError, match="classes must"):
        open_voc(voc, classes=classes)


def test_a_folder_without_class_lists_is_refused(tmp_path):
    make_lists(tmp_path, trainval="a\n")
    with pytest.raises(LabelsError, match=r"holds no class list <class>_<set>\.txt to take labels from"):
        open_voc(tmp_path)


def lists_of(root):
    lists = find_lists(root)
    return set(lists.sets), set(lists.labels)


def test_a_class_called_train_is_told_from_the_set(tmp_path):
    sets = ("train", "val", "trainval", "test")
    make_lists(tmp_path, **dict.fromkeys(sets, ""), **{f"train_{name}": "" for name in sets})
    assert lists_of(tmp_path) == (set(sets), {("train", name) for name in sets})


def test_a_class_called_train_needs_no_sets_list(tmp_path):
    make_lists(tmp_path, train_val="", test_test="")
    assert lists_of(tmp_path) == (set(), {("train", "val"), ("test", "test")})


def test_names_with_underscores_are_parted_at_the_longest_set(tmp_path):
    make_lists(tmp_path, dev="", extra_dev="", big_cat_dev="", cat_extra_dev="")
    # extra_dev.txt is the class "extra" in the set "dev": a set's own list never ends in another set's name
    assert lists_of(tmp_path) == ({"dev"}, {("extra", "dev"), ("big_cat", "dev"), ("cat_extra", "dev")})


def test_a_set_of_an_unusual_name_is_known_when_it_is_said(tmp_path):
    make_lists(tmp_path, cat_dev="a 1\n")
    with pytest.raises(LabelsError, match="holds no class list"):
        open_voc(tmp_path)
    (tmp_path / "JPEGImages").mkdir()
    dataset = open_voc(tmp_path, train_set="dev")
    assert (dataset.classes, dataset.sets) == (("cat",), ("dev",))
    assert [record.id for record in dataset.records("dev")] == ["a"]


def boxes_of(root, set_name, classes):
    """Return the boxes of a set, read without pictures and class lists."""
    return open_voc(root, classes=classes, test_set=set_name, boxes_only=True).ground_truth(set_name)


def test_annotations_alone_suffice_for_evaluation(tmp_path):
    make_lists(tmp_path, test="d\ne\n")
    make(tmp_path, {"Annotations/d.xml": annotation(xml_object()), "Annotations/e.xml": annotation()})
    truth = boxes_of(tmp_path, "test", ["cat", "unicorn"])
    assert {name: [len(found.boxes) for found in images.values()] for name, images in truth.items()} == {
        "cat": [1, 0],
        "unicorn": [0, 0],
    }


def test_opened_for_boxes_alone_no_class_list_is_looked_at(voc):
    make_lists(voc, cat_trainval="broken")
    dataset = open_voc(voc, classes=["dog", "unicorn"], boxes_only=True)
    assert (dataset.classes, dataset.sets) == (("dog", "unicorn"), ("trainval", "test"))
    truth = dataset.ground_truth("trainval")
    assert [len(found.boxes) for found in truth["dog"].values()] == [0, 1, 0]
    assert [len(found.boxes) for found in truth["unicorn"].values()] == [0, 0, 0]
    assert dataset.ground_truth("test") is None
    for classes in (None, []):
        with pytest.raises(OptionError, match="classes must be named where only boxes are read"):
            open_voc(voc, classes=classes, boxes_only=True)


def test_evaluation_needs_the_sets_list_and_every_annotation(voc):
    with pytest.raises(OptionError, match="set 'val' does not exist; choose from trainval, test"):
        boxes_of(voc, "val", ["cat"])
    (voc / "Annotations/d.xml").write_text(annotation())
    with pytest.raises(AnnotationError, match=r"e\.xml is not there"):
        boxes_of(voc, "test", ["cat"])
