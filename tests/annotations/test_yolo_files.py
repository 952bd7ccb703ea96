"""The files of a YOLO data set in the forms of other programs: names of classes, and where labels lie."""

import pytest
from lapsvm.pipelines.review.mended_files import read_mended

from lapsvm.annotations.pictures import FileBox
from lapsvm.annotations.yolo import class_names, label_files
from lapsvm.errors import AnnotationError, MissingError
from lapsvm.texts.numbers import whole_number

NAMES = {0: "dent", 1: "big scratch"}
FORMS = {
    "table": "names:\n  0: dent\n  1: big scratch\n",
    "list": "names:\n- dent\n- big scratch\n",
    "list, set in": "names:\n    - dent\n    - big scratch",
    "list in one line": "names: [dent, 'big scratch']\n",
    "list over lines": "names: [\n  dent,\n  big scratch,\n]\n",
    "table in one line": 'names: {0: dent, 1: "big scratch"}\n',
    "quoted numbers": "names:\n  '0': dent\n  \"1\": big scratch\n",
    "numbers with a fraction": "names:\n  0.0: dent\n  1.0: big scratch\n",
    "quoted key": "'names':\n  0: dent\n  1: big scratch\n",
    "blank lines": "\n\nnames:\n\n  0: dent\n\n  1: big scratch\n\nnc: 2\n",
    "comments": "# names: [a]\nnames: # classes\n  # first\n  0: dent # a dent\n  1: big scratch\n",
    "other order": "names:\n  1: big scratch\n  0: dent\n",
    "a document": "%YAML 1.1\n---\nnames: [dent, big scratch]\n...\n",
    "other keys": "path: ../a\ntrain: train/images\nroboflow:\n  names: x\nnames: [dent, big scratch]\nnc: 2\n",
    "several lines of text": "names:\n  0: dent\n  1: big\n    scratch\n",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_names_are_the_same_in_every_form(tmp_path, form, mark, end):
    (tmp_path / "data.yaml").write_bytes(mark + FORMS[form].encode().replace(b"\n", end))
    assert class_names(tmp_path / "data.yaml") == NAMES


def test_a_list_of_classes_has_one_in_a_line(tmp_path):
    (tmp_path / "classes.txt").write_bytes(b"\xef\xbb\xbfdent\r\nbig scratch\r\n\r\n")
    assert class_names(tmp_path / "classes.txt") == NAMES


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nc: 2\n", "must have the names of classes as a list, or a table of numbers: names"),
        ("names:\n", "must have the names of classes as a list"),
        ("names: dent\n", "must have the names of classes as a list"),
        ("- names\n", "must have the names of classes as a list"),
        ("names:\n  dent: 0\n", "names must be a list, or have whole numbers as keys, got 'dent'"),
        ("names:\n  -1: dent\n", "whole numbers as keys, got '-1'"),
        ("names:\n  0: [a, b]\n", "the name of class 0 must be a text, got a list"),
        ("names:\n  0:\n", "the name of class 0 must be a text, got ''"),
        ("names: &a [*a]\n", "is not valid YAML"),
        ("names: [dent\n", "is not valid YAML"),
        ("names:\n\t0: dent\n", "is not valid YAML"),
    ],
)
def test_what_names_no_classes_is_told(tmp_path, text, told):
    (tmp_path / "data.yaml").write_text(text)
    with pytest.raises(AnnotationError) as caught:
        class_names(tmp_path / "data.yaml")
    assert told in str(caught.value)
    assert "data.yaml" in str(caught.value)


def test_names_of_names_that_grow_are_told_at_once(tmp_path):
    text = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    (tmp_path / "data.yaml").write_text(f"{text}names: *a59\n")
    with pytest.raises(AnnotationError, match="the name of class 0 must be a text, got a list"):
        class_names(tmp_path / "data.yaml")


def test_words_that_yaml_takes_for_truth_are_names(tmp_path):
    (tmp_path / "data.yaml").write_text("names: [no, on, 1, null]\n")
    assert class_names(tmp_path / "data.yaml") == {0: "no", 1: "on", 2: "1", 3: "null"}
    with pytest.raises(MissingError):
        class_names(tmp_path / "none.yaml")


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("12", 12), ("1.0", 1), ("1.", 1), ("1.5", None), ("-1", None)])
def test_the_number_of_a_class(text, number):
    assert whole_number(text) == number


PLACES = {
    "labels/train/dent/a.txt": ("dent/a",),
    "labels/val/images_/a.txt": ("images_/a", "images/a"),
    "labels/a.txt": ("a",),
    "labels/dent/a.txt": ("dent/a",),
    "train/labels/a.txt": ("a",),
    "valid/labels/dent/a_png.rf.0a1b2c.txt": ("dent/a_png.rf.0a1b2c",),
}


@pytest.mark.parametrize("place", PLACES)
def test_labels_are_found_where_programs_put_them(tmp_path, place):
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text("0 .5 .5 1 1\n")
    foreign = [
        "classes.txt",
        "._a.txt",
        "README.txt",
        "notes.txt",
        "labels.cache",
        ".ipynb_checkpoints/a-checkpoint.txt",
    ]
    for name in foreign:
        (path.parent / name).parent.mkdir(exist_ok=True)
        (path.parent / name).write_bytes(b"\0\5\x16\7")
    (tmp_path / "README.roboflow.txt").write_text("an export")
    (tmp_path / "train.txt").write_text("./images/a.png\n")
    (found,) = label_files(tmp_path)
    assert (found.path, found.names) == (path, PLACES[place])


@pytest.mark.parametrize("names", ["data.yaml", "data.yml", "classes.txt", "labels/classes.txt"])
def test_a_folder_is_known_by_its_names(tmp_path, names):
    (tmp_path / "labels").mkdir()
    (tmp_path / names).write_text("dent\nbig scratch\n" if names.endswith(".txt") else "names: [dent, big scratch]\n")
    (tmp_path / "labels" / "a.txt").write_bytes(b"\xef\xbb\xbf1.0 0.5 0.5 0.2 0.4\r\n\r\n")
    for path in (tmp_path, tmp_path / names):
        format_name, file = read_mended(path)
        (picture,) = file.pictures
        assert format_name == "yolo"
        (box,) = picture.boxes
        assert box == FileBox("big scratch", pytest.approx((0.4, 0.3, 0.6, 0.7)))


@pytest.mark.parametrize("row", ["2 .5 .5 1 1", "dent .5 .5 1 1", "-1 .5 .5 1 1", "1.5 .5 .5 1 1"])
@pytest.mark.parametrize("names", ["data.yaml", "classes.txt"])
def test_a_row_without_the_number_of_a_class_is_no_box(tmp_path, names, row):
    (tmp_path / names).write_text("dent\nbig scratch\n" if names == "classes.txt" else "names: [dent, big scratch]\n")
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "a.txt").write_text(f"{row}\n1.0 .5 .5 1 1\n")
    (picture,) = read_mended(tmp_path)[1].pictures
    assert [(box.class_name, box.fault) for box in picture.boxes] == [
        ("", "of a class number without a name"),
        ("big scratch", ""),
    ]


def test_labels_in_utf_16_are_told(tmp_path):
    (tmp_path / "data.yaml").write_text("names: [dent, big scratch]\n")
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "a.txt").write_bytes("0 .5 .5 1 1\n".encode("utf-16"))
    with pytest.raises(AnnotationError, match=r"a\.txt must be text in UTF-8, got UTF-16"):
        read_mended(tmp_path)
