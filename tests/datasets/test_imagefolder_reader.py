"""Folders with Hugging Face's metadata."""

import csv
import json

import numpy as np
import pytest
from PIL import Image

from lapsvm.catalog import open_dataset
from lapsvm.errors import AnnotationError, DataError, LabelsError, MissingError, OptionError


def write_jsonl(folder, rows):
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    (folder / "metadata.jsonl").write_text(text, encoding="utf-8")


def write_csv(folder, rows):
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "metadata.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def labels(dataset, set_name="trainval"):
    return {
        record.id: {name for name, flag in record.labels.items() if flag == 1} for record in dataset.records(set_name)
    }


def test_a_table_with_semicolons_is_read(tmp_path):
    tmp_path.joinpath("metadata.csv").write_text("file_name;label\na.jpg;cat\nb.jpg;\n")
    assert labels(open_dataset("imagefolder", tmp_path)) == {"a": {"cat"}, "b": set()}


OBJECTS = {"bbox": [[1, 2, 3, 4], [0, 0, 2.5, 2], [5, 5, 1, 1]], "categories": ["cat", "dog", "cat"]}


def test_json_lines_give_labels_and_boxes(tmp_path):
    for name in ("train", "test"):
        rows = [
            {"file_name": "a b.jpg", "objects": OBJECTS},
            {"file_name": "b/c.png", "objects": {"bbox": [], "category": []}},
        ]
        write_jsonl(tmp_path / name, rows)
    Image.new("RGB", (9, 5)).save(tmp_path / "train/a b.jpg")
    dataset = open_dataset("imagefolder", tmp_path)
    assert (dataset.classes, dataset.sets) == (("cat", "dog"), ("train", "test"))
    assert labels(dataset, "train") == {"a%20b": {"cat", "dog"}, "b/c": set()}
    assert dataset.records("train")[0].pixels().shape == (5, 9, 3)
    truth = dataset.ground_truth("train")
    np.testing.assert_array_equal(truth["cat"]["a%20b"].boxes, [[1, 2, 4, 6], [5, 5, 6, 6]])
    np.testing.assert_array_equal(truth["dog"]["a%20b"].boxes, [[0, 0, 2.5, 2]])
    assert truth["dog"]["b/c"].boxes.shape == (0, 4)
    assert not truth["cat"]["a%20b"].difficult.any()


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ({"label": "cat"}, {"cat"}),
        ({"label": 3}, {"3"}),
        ({"label": None}, set()),
        ({"label": ""}, set()),
        ({"labels": ["cat", "dog"]}, {"cat", "dog"}),
        ({"labels": []}, set()),
        ({"labels": [0, 2], "text": "more"}, {"0", "2"}),
        ({"label": "fox", "objects": {"category": ["cat"]}}, {"fox", "cat"}),
    ],
)
def test_each_kind_of_label_is_read(tmp_path, row, wanted):
    write_jsonl(tmp_path, [{"file_name": "other.jpg", "label": "other"}, {"file_name": "a.jpg", **row}])
    dataset = open_dataset("imagefolder", tmp_path)
    assert labels(dataset)["a"] == wanted
    assert dataset.ground_truth("trainval") is None


def test_csv_holds_names_lists_and_objects(tmp_path):
    write_csv(tmp_path / "train", [["file_name", "label"], ["a.jpg", "cat"], ["b.jpg", ""]])
    write_csv(tmp_path / "test", [["file_name", "labels"], ["a.jpg", "cat, dog"], ["b.jpg", '["dog"]'], ["c.jpg", ""]])
    write_csv(tmp_path / "val", [["file_name", "objects"], ["a.jpg", json.dumps(OBJECTS)]])
    dataset = open_dataset("imagefolder", tmp_path)
    assert dataset.sets == ("train", "val", "test")
    assert labels(dataset, "train") == {"a": {"cat"}, "b": set()}
    assert labels(dataset, "test") == {"a": {"cat", "dog"}, "b": {"dog"}, "c": set()}
    assert len(dataset.ground_truth("val")["cat"]["a"].boxes) == 2


def test_a_broken_table_of_values_is_named_by_its_line(tmp_path):
    for table, sentence in (
        ("file_name,labels\na.jpg,cat\nb.jpg,['cat']\n", "line 3: must be JSON, but Expecting value"),
        ('file_name,label\na.jpg,cat\nb.jpg,"cat"s\n', "line 3: a row must be CSV"),
        ("file_name,label,label\na.jpg,cat,dog\n", "line 1: columns must differ, got 'label' twice"),
    ):
        (tmp_path / "metadata.csv").write_text(table)
        with pytest.raises(LabelsError, match=sentence):
            open_dataset("imagefolder", tmp_path)


def test_labels_do_not_look_at_boxes(tmp_path):
    write_jsonl(tmp_path, [{"file_name": "a.jpg", "objects": {"bbox": "broken", "categories": ["cat"]}}])
    dataset = open_dataset("imagefolder", tmp_path)
    assert labels(dataset) == {"a": {"cat"}}
    with pytest.raises(AnnotationError, match="bbox must be a list of one box per category, got broken"):
        dataset.ground_truth("trainval")


GOOD = {"file_name": "a.jpg", "label": "cat"}
BAD = {
    "no JSON": ([{"file_name": "a.jpg", "label": "cat"}, "", "{"], "metadata.jsonl, line 3: must be JSON, but"),
    "deep": (["[" * 100_000 + "]" * 100_000], "line 1: must be JSON, but"),
    "no object": (["[]"], "line 1: a row must have a file_name"),
    "no file": ([{"label": "cat"}], "must have a file_name"),
    "no label column": ([{"file_name": "a.jpg", "text": "x"}], "one of label, labels, objects, got file_name, text"),
    "a path that leads out": ([GOOD | {"file_name": "../a.jpg"}], "path below the data folder"),
    "a picture twice": (
        [GOOD, GOOD | {"label": "another"}],
        "line 2: a picture must be named once, or with the same labels and boxes",
    ),
    "two suffixes": ([GOOD, GOOD | {"file_name": "a.png"}], "more than its suffix"),
    "labels that are no list": ([GOOD | {"labels": 3}], "labels must be a list"),
    "a label that is no name": ([GOOD | {"labels": [1.5]}], "a name or a whole number, got 1.5"),
    "a label of truth": ([GOOD | {"label": True}], "a name or a whole number, got True"),
    "a label with a line": ([GOOD | {"label": "a\nb"}], "must be printable"),
    "objects of another kind": ([GOOD | {"objects": [1]}], "objects must be an object"),
    "objects without categories": ([GOOD | {"objects": {"bbox": []}}], "must have categories or category, got bbox"),
    "nothing": ([], "names no picture"),
    "no label at all": ([GOOD | {"label": ""}], "gives a picture a label"),
    "too few boxes": ([GOOD | {"objects": {"categories": ["a"], "bbox": []}}], "one box per category"),
    "angles that are no list": ([GOOD | {"objects": OBJECTS | {"rotation": 45}}], "one angle per box, got 45"),
    "boxes of some": ([GOOD, {"file_name": "b", "objects": OBJECTS}], "must have boxes because other rows of its set"),
}


@pytest.mark.parametrize(("rows", "message"), BAD.values(), ids=BAD)
def test_a_broken_table_is_one_sentence(tmp_path, rows, message):
    write_jsonl(tmp_path, rows)

    def everything():
        dataset = open_dataset("imagefolder", tmp_path)
        dataset.records("trainval")
        dataset.ground_truth("trainval")

    with pytest.raises(DataError) as caught:
        everything()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, AnnotationError | LabelsError)


def test_rows_of_another_length_are_refused(tmp_path):
    for row in (["a.jpg"], ["a.jpg", "cat", "dog"]):
        write_csv(tmp_path, [["file_name", "label"], row])
        with pytest.raises(LabelsError, match="line 2: a row must have 2 values, got"):
            open_dataset("imagefolder", tmp_path)


def test_missing_tables_sets_and_classes_are_named(tmp_path):
    with pytest.raises(MissingError, match=r"holds no metadata\.jsonl or metadata\.csv"):
        open_dataset("imagefolder", tmp_path)
    write_jsonl(tmp_path, [GOOD])
    with pytest.raises(OptionError, match="class 'dog' does not exist"):
        open_dataset("imagefolder", tmp_path, classes=("dog",))
    with pytest.raises(OptionError, match="set 'test' does not exist"):
        open_dataset("imagefolder", tmp_path).records("test")


def test_rows_of_a_picture_are_one_if_they_say_the_same_in_whatever_table(tmp_path):
    row = {"file_name": "a.jpg", "labels": ["dog", "cat"]}
    write_jsonl(tmp_path, [row, row | {"labels": ["cat", "dog"]}])
    (tmp_path / "metadata.csv").write_text('file_name,labels\na.jpg,"cat,dog"\nb.jpg,cat\n')
    records = open_dataset("imagefolder", tmp_path).records("trainval")
    assert [(one.id, one.labels["dog"]) for one in records] == [("a", 1), ("b", -1)]
    (tmp_path / "metadata.csv").write_text("file_name,labels\na.jpg,cat\n")
    with pytest.raises(
        LabelsError, match=r"metadata\.csv, line 2: .* got 'a\.jpg' again after .*metadata\.jsonl, line 1"
    ):
        open_dataset("imagefolder", tmp_path)
