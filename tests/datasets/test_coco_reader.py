"""COCO annotations: labels from categories, boxes for evaluation alone."""

import json
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from lapsvm.annotations.coco import NO_CATEGORY, read_coco, read_coco_results
from lapsvm.box_faults import EMPTY, NO_BOX, NOT_NUMBERS
from lapsvm.catalog import open_dataset
from lapsvm.errors import AnnotationError, DataError, LabelsError, MissingError, OptionError, ResultsError
from lapsvm.ground_truth import PICTURES_TWICE, TWICE

IMAGES = [{"id": 7, "file_name": "a b.jpg"}, {"id": 3, "file_name": "sub/a b.jpg"}, {"id": 9, "file_name": "犬.png"}]
CATEGORIES = [{"id": 1, "name": "cat"}, {"id": 5, "name": "dog"}, {"id": 6, "name": "bird"}]
RLE = {"counts": [0, 4, 12], "size": [4, 4]}
OBJECTS = [
    {"id": 1, "image_id": 7, "category_id": 1, "bbox": [1, 2, 3.5, 4], "iscrowd": 0, "segmentation": [[1, 2, 3]]},
    {"id": 2, "image_id": 7, "category_id": 1, "bbox": [0, 0, 9, 9], "iscrowd": 1, "segmentation": RLE},
    {"id": 3, "image_id": 3, "category_id": 5, "bbox": [0, 0, 9, 9], "iscrowd": 1, "segmentation": RLE},
    {"id": 4, "image_id": 3, "category_id": 1, "bbox": [5, 5, 1, 1]},
]


def content(**changes):
    return {"images": IMAGES, "categories": CATEGORIES, "annotations": OBJECTS} | changes


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def pictures(folder):
    for image in IMAGES:
        (folder / image["file_name"]).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 10)).save(folder / image["file_name"])


LAYOUTS = {
    "coco": ("annotations/instances_train.json", "train"),
    "coco with images": ("annotations/instances_train.json", "images/train"),
    "flat": ("annotations/instances_train.json", "images"),
    "roboflow": ("train/_annotations.coco.json", "train"),
    "single": ("annotations.json", "."),
    "single with images": ("annotations.json", "images"),
}


def test_whole_numbers_with_a_point_are_ids(tmp_path):
    path, plain = tmp_path / "a" / "annotations.json", tmp_path / "b" / "annotations.json"
    floats = [{**one, "image_id": float(one["image_id"]), "category_id": float(one["category_id"])} for one in OBJECTS]
    write(path, content(annotations=floats))
    write(plain, content())
    found, expected = (open_dataset("coco", one.parent, train_set="train") for one in (path, plain))
    assert [one.labels for one in found.records("train")] == [one.labels for one in expected.records("train")]
    truth, wanted = found.ground_truth("train"), expected.ground_truth("train")
    np.testing.assert_array_equal(truth["cat"]["a%20b"].boxes, wanted["cat"]["a%20b"].boxes)
    write(path, content(annotations=[{**OBJECTS[0], "image_id": 7.5}]))
    with pytest.raises(AnnotationError, match=r"must have an image of the file, got image_id 7\.5"):
        open_dataset("coco", path.parent, train_set="train")


REPEATED = {
    "an entry of each list": content(images=IMAGES * 2, categories=CATEGORIES * 2, annotations=OBJECTS * 2),
    "annotations of other ids": content(annotations=OBJECTS + [one | {"id": one["id"] + 9} for one in OBJECTS]),
    "annotations without ids": content(annotations=[one | {"id": None} for one in OBJECTS * 2]),
    "pictures of other ids": content(
        images=IMAGES + [one | {"id": one["id"] + 90} for one in IMAGES],
        annotations=OBJECTS + [one | {"id": one["id"] + 9, "image_id": one["image_id"] + 90} for one in OBJECTS],
    ),
    "an unused category of the same name": content(categories=[{"id": 0, "name": "cat"}, *CATEGORIES]),
}


@pytest.mark.parametrize("given", REPEATED.values(), ids=REPEATED)
def test_what_is_said_twice_is_said_once(tmp_path, given):
    for name, value in (("once", content()), ("twice", given)):
        write(tmp_path / name / "annotations.json", value)
        pictures(tmp_path / name)
    once, twice = (open_dataset("coco", tmp_path / name, train_set="train") for name in ("once", "twice"))
    assert twice.classes == once.classes
    assert [(one.id, one.labels) for one in twice.records("train")] == [
        (one.id, one.labels) for one in once.records("train")
    ]
    truth, wanted = twice.ground_truth("train"), once.ground_truth("train")
    assert {name: {key: one.boxes.tolist() for key, one in of.items()} for name, of in truth.items()} == {
        name: {key: one.boxes.tolist() for key, one in of.items()} for name, of in wanted.items()
    }
    n_others = len({one["file_name"] for one in given["images"]}) - len({one["id"] for one in given["images"]})
    n_boxes = 0 if n_others else len(given["annotations"]) - len(OBJECTS)
    assert truth.remarks == Counter({TWICE: n_boxes, PICTURES_TWICE: -n_others}) - Counter()
    assert truth.total == wanted.total


def test_a_picture_of_two_ids_is_refused_by_both(tmp_path):
    write(tmp_path / "annotations.json", content(images=[*IMAGES, {"id": 99, "file_name": "a b.jpg"}]))
    dataset = open_dataset("coco", tmp_path, train_set="train")
    for read in (dataset.records, dataset.ground_truth):
        with pytest.raises(AnnotationError, match=r"images 7 and 99 must be two files, got 'a b\.jpg' twice"):
            read("train")


@pytest.mark.parametrize(("file", "folder"), LAYOUTS.values(), ids=LAYOUTS)
def test_each_layout_gives_labels_and_boxes(tmp_path, file, folder):
    write(tmp_path / file, content())
    pictures(tmp_path / folder)
    dataset = open_dataset("coco", tmp_path, train_set="train")
    assert (dataset.classes, dataset.sets) == (("bird", "cat", "dog"), ("train",))
    records = dataset.records("train")
    assert [record.id for record in records] == ["a%20b", "sub/a%20b", "犬"]
    assert [record.labels for record in records] == [
        {"bird": -1, "cat": 1, "dog": -1},
        {"bird": -1, "cat": 1, "dog": 0},
        {"bird": -1, "cat": -1, "dog": -1},
    ]
    assert records[1].pixels().shape == (10, 20, 3)
    truth = dataset.ground_truth("train")
    assert {name: set(of_class) for name, of_class in truth.items()} == {
        name: {record.id for record in records} for name in dataset.classes
    }
    np.testing.assert_array_equal(truth["cat"]["a%20b"].boxes, [[1, 2, 4.5, 6], [0, 0, 9, 9]])
    assert truth["cat"]["a%20b"].difficult.tolist() == [False, True]
    assert truth["dog"]["sub/a%20b"].difficult.tolist() == [True]
    assert truth["bird"]["犬"].boxes.shape == (0, 4)


def test_classes_and_sets_are_chosen(tmp_path):
    write(tmp_path / "annotations/instances_train2017.json", content())
    write(tmp_path / "annotations/instances_val2017.json", content(categories=[*CATEGORIES, {"id": 8, "name": "fox"}]))
    write(tmp_path / "annotations/captions_val2017.json", "{}")
    dataset = open_dataset("coco", tmp_path, classes=("dog",), train_set="train2017", test_set="val2017")
    assert (dataset.classes, dataset.sets) == (("dog",), ("train2017", "val2017"))
    assert list(dataset.records("val2017")[0].labels) == ["dog"]
    assert open_dataset("coco", tmp_path, train_set="train2017", test_set="val2017").classes[-1] == "fox"
    with pytest.raises(OptionError, match="set 'test' does not exist"):
        dataset.records("test")
    with pytest.raises(OptionError, match="class 'cow' does not exist"):
        open_dataset("coco", tmp_path, classes=("cow",))


def test_labels_need_no_boxes_and_do_not_look_at_them(tmp_path):
    bare = [{key: value for key, value in one.items() if key != "bbox"} for one in OBJECTS]
    write(tmp_path / "annotations.json", content(annotations=bare))
    dataset = open_dataset("coco", tmp_path)
    assert [record.labels["cat"] for record in dataset.records("trainval")] == [1, 1, -1]
    assert all(one.corners is None for one in read_coco(tmp_path / "annotations.json").annotations)
    truth = dataset.ground_truth("trainval")
    assert truth.is_empty
    assert truth.sentence == (
        "4 of 4 annotations are left out of evaluation (2 without a box, 2 with a mask in run lengths and no box)"
    )


def test_annotations_that_evaluation_cannot_take_are_counted_and_nothing_else_is_lost(tmp_path):
    bad = [
        {"bbox": [1, 2, 0, 4]},
        {"bbox": None, "segmentation": RLE},
        {"bbox": []},
        {"bbox": [1, 2, 3]},
        {"bbox": [1, 2, 3, -4]},
        {"attributes": {"rotation": 30.0}},
        {"rotation": "45"},
        {"bbox": [9, 9, 4, 4, 0.5]},
        {"category_id": 99},
    ]
    rows = [
        {"id": 10 + index, "image_id": 9, "category_id": 6, "bbox": [0, 0, 2, 2]} | one for index, one in enumerate(bad)
    ]
    write(tmp_path / "annotations.json", content(annotations=[*OBJECTS, *rows]))
    dataset = open_dataset("coco", tmp_path)
    assert dataset.records("trainval")[2].labels == {"bird": 1, "cat": 0, "dog": 0}
    truth = dataset.ground_truth("trainval")
    assert {name: sum(len(one.boxes) for one in of.values()) for name, of in truth.items()} == {
        "bird": 0, "cat": 3, "dog": 1,
    }  # fmt: skip
    assert dataset.unusable_boxes("trainval") == (
        "9 of 13 annotations are left out of evaluation (2 with an empty box, 1 with a mask in run lengths and no box, "
        "1 without a box, 1 with a box that is not four finite numbers, 3 with a rotated box, 1 of a category that the "
        "file does not list); "
        "2 crowd regions count as difficult; 1 pictures with annotations of a category that the file does not list "
        "take no part in the training of classes that their other annotations do not name"
    )
    write(tmp_path / "annotations.json", content(annotations=[OBJECTS[0]]))
    assert open_dataset("coco", tmp_path).unusable_boxes("trainval") == ""


@pytest.mark.parametrize("category", ["1", 99, None])
def test_a_picture_with_an_annotation_of_no_listed_category_is_negative_for_no_class(tmp_path, category):
    write(tmp_path / "annotations.json", content(annotations=[OBJECTS[0] | {"category_id": category}]))
    records = open_dataset("coco", tmp_path).records("trainval")
    (image,) = read_coco(tmp_path / "annotations.json").without_category
    assert image == OBJECTS[0]["image_id"]
    assert [set(record.labels.values()) for record in records].count({0}) == 1
    assert [set(record.labels.values()) for record in records].count({-1}) == len(records) - 1


def changed(**changes):
    return content(annotations=[OBJECTS[0] | changes])


DEEP = '{"images": ' + "[" * 100_000 + "]" * 100_000 + "}"
BAD = {
    "no JSON": ("{", "cannot be read as JSON"),
    "not text": (
        '{"images": "\ud800"}'.encode("utf-8", "surrogatepass"),
        "must be text in UTF-8, got the byte 0xed in line 1",
    ),
    "deep": (DEEP, "cannot be read as JSON"),
    "a list": ([], "must hold a JSON object with images"),
    "no images": ({}, "must have a list 'images', got None"),
    "images of another kind": (content(images={"7": 1}), "must have a list 'images'"),
    "an image that is none": (content(images=[7]), "entry 0 of images must be an object, got 7"),
    "an id that is none": (content(images=[{"id": [7]}]), "whole number or a text as id, got [7]"),
    "an id of NaN": ('{"images": [{"id": NaN}], "categories": [], "annotations": []}', "as id, got nan"),
    "an image twice": (
        content(images=[*IMAGES, {"id": 7, "file_name": "c.png"}]),
        "ids of images must differ, got 7 twice",
    ),
    "a category twice": (
        content(categories=[*CATEGORIES, {"id": 1, "name": "cow"}]),
        "ids of categories must differ, got 1 twice",
    ),
    "a name twice": (
        content(categories=[{"id": 1, "name": "cat"}, {"id": 5, "name": "cat"}]),
        "names of categories must differ where annotations use them, got 'cat' for the ids 1 and 5",
    ),
    "a category without a name": (content(categories=[{"id": 1}]), "must have a text as name"),
    "an annotation twice": (
        content(annotations=[*OBJECTS, OBJECTS[0] | {"id": 2}]),
        "ids of annotations must be numbers or texts and differ, got 2",
    ),
    "no such image": (changed(image_id=99), "annotation 1 must have an image of the file, got image_id 99"),
    "crowd of another kind": (changed(iscrowd="yes"), "0 or 1 as iscrowd, got 'yes'"),
    "a path that leads out": (content(images=[IMAGES[0] | {"file_name": "../a.jpg"}, *IMAGES[1:]]), "path below"),
    "an absolute path": (content(images=[IMAGES[0] | {"file_name": "/a.jpg"}, *IMAGES[1:]]), "path below"),
    "no path": (content(images=[{"id": 7}, *IMAGES[1:]]), "path below"),
    "a path that is none": (content(images=[{"id": 7, "file_name": 7}, *IMAGES[1:]]), "must have a text as file_name"),
    "two suffixes": (content(images=[*IMAGES, {"id": 1, "file_name": "a b.png"}]), "more than its suffix"),
    "a name that is no file's": (content(categories=[*CATEGORIES, {"id": 8, "name": "a/b"}]), "printable, without '/'"),
}


@pytest.mark.parametrize(("value", "message"), BAD.values(), ids=BAD)
def test_a_broken_file_is_one_sentence(tmp_path, value, message):
    path = tmp_path / "annotations.json"
    if isinstance(value, bytes):
        path.write_bytes(value)
    else:
        write(path, value)

    def everything():
        read_coco(path, boxes=True)
        dataset = open_dataset("coco", tmp_path)
        dataset.records("trainval")
        dataset.ground_truth("trainval")

    with pytest.raises(DataError) as caught:
        everything()
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert isinstance(caught.value, AnnotationError | LabelsError)


FAULTY = {
    "no such category": (changed(category_id=99), NO_CATEGORY),
    "a category that is none": (changed(category_id={}), NO_CATEGORY),
    "a box of no width": (changed(bbox=[1, 2, 0, 4]), EMPTY),
    "a box turned inside out": (changed(bbox=[1, 2, 3, -4]), EMPTY),
    "a box of three": (changed(bbox=[1, 2, 3]), NOT_NUMBERS),
    "no box": (changed(bbox=None), NO_BOX),
    "an empty box": (changed(bbox=[]), NO_BOX),
    "a box of words": (changed(bbox=["1", "2", "3", "4"]), NOT_NUMBERS),
    "a box of NaN": (changed(bbox=[float("nan")] * 4), NOT_NUMBERS),
    "a box without an end": (changed(bbox=[10**400, 0, 1, 1]), NOT_NUMBERS),
    "a box whose end is infinite": (changed(bbox=[1.7e308, 0, 1.7e308, 1]), NOT_NUMBERS),
}


@pytest.mark.parametrize(("value", "fault"), FAULTY.values(), ids=FAULTY)
def test_an_annotation_that_is_not_usable_is_counted(tmp_path, value, fault):
    assert read_coco(write(tmp_path / "annotations.json", value), boxes=True).faults == {fault: 1}


def test_a_folder_without_annotations_or_with_two_files_for_a_set_is_refused(tmp_path):
    with pytest.raises(MissingError, match=r"holds no annotations/instances_<set>\.json"):
        open_dataset("coco", tmp_path)
    write(tmp_path / "annotations/instances_train.json", content())
    write(tmp_path / "train/_annotations.coco.json", content())
    with pytest.raises(AnnotationError, match="set 'train' must have one file"):
        open_dataset("coco", tmp_path)


BAD_RESULTS = {
    "an object": ({}, "must hold a JSON list"),
    "a number": ([1], "result 0 must be an object"),
    "no such image": ([{"image_id": 99}], "must be in an image of"),
    "no such category": ([{"image_id": 7, "category_id": 99}], "must have its categories, got category_id 99"),
    "no score": ([{"image_id": 7, "category_id": 1, "bbox": [1, 1, 1, 1]}], "must have a finite score, got None"),
    "no box": ([{"image_id": 7, "category_id": 1, "score": 1, "bbox": [1]}], "four finite numbers as bbox"),
    "no JSON": ("[", "cannot be read as JSON"),
}


@pytest.mark.parametrize(("value", "message"), BAD_RESULTS.values(), ids=BAD_RESULTS)
def test_broken_results_are_one_sentence(tmp_path, value, message):
    truth = read_coco(write(tmp_path / "truth.json", content()))
    with pytest.raises(ResultsError, match=message):
        read_coco_results(write(tmp_path / "results.json", value), truth)


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(MissingError, match=r"file of annotations .*none\.json is not there"):
        read_coco(tmp_path / "none.json")
    truth = read_coco(write(tmp_path / "truth.json", content()))
    with pytest.raises(MissingError, match=r"file of results .*none\.json is not there"):
        read_coco_results(tmp_path / "none.json", truth)
