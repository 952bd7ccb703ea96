"""What a merge does not understand is no verdict: it is named, and the picture is not used."""

import json
import re
from pathlib import PurePosixPath

import pytest

from .reviews import change_json


@pytest.fixture
def merged(merge):
    """Return a function that merges a path, and returns the warnings and the verdicts as (picture, class, kind)."""

    def merged(*arguments):
        said, verdicts = merge(*arguments)
        return said, {(one.picture, one.class_name, one.verdict) for one in verdicts}

    return merged


def rows_of(content, number):
    """The annotations of the picture with this number, which COCO counts from 1."""
    return [row for row in content["annotations"] if row["image_id"] == number + 1]


COCO = {
    "crowd": ({"iscrowd": 1}, "with a crowd region"),
    "mask": ({"bbox": [], "segmentation": {"counts": [4], "size": [2, 2]}}, "with a mask in run lengths and no box"),
    "polygon": ({"bbox": [], "segmentation": [[1, 1, 9, 1, 9, 9]]}, "without a box"),
    "rotated": ({"attributes": {"rotation": 12.5}}, "with a rotated box"),
    "outside": ({"bbox": [4000, 10, 20, 20]}, "with a box outside of the picture"),
    "shares": ({"bbox": [0.1, 0.2, 0.3, 0.4]}, ""),
    "swapped": ({"bbox": [60, 60, -20, -20]}, "with an empty box"),
    "no category": ({"category_id": 99}, "of a category that the file does not list"),
}


@pytest.mark.parametrize("kind", COCO)
def test_an_odd_annotation_of_coco_is_no_verdict(exported, merged, kind):
    change, fault = COCO[kind]
    folder, pictures = exported("coco")

    def edit(content):
        for row in rows_of(content, 0):
            row.update(change if kind != "shares" else {"bbox": [0.1, 0.2, 0.3, 0.4]})
        content["annotations"] = [row for row in content["annotations"] if row not in rows_of(content, 1)]

    change_json(folder / "annotations.json", edit)
    said, found = merged(folder)
    assert f"1 pictures have an annotation {fault or 'with a box in shares of the picture'}" in said
    assert repr(pictures[0].name) in said
    assert found == {(pictures[1].id, name, "none") for name in ("six", "three")}  # emptied, and the file has others


@pytest.mark.parametrize("shape", ["polygon", "mask", "skeleton"])
def test_another_shape_of_cvat_is_no_verdict(exported, merged, shape):
    folder, pictures = exported("cvat")
    path = folder / "annotations.xml"
    head, tail = path.read_text().split('<image id="1"')
    path.write_text(re.sub(r"<box label=(\S+) .*?</box>", rf"<{shape} label=\1/>", head) + '<image id="1"' + tail)
    said, found = merged(folder)
    assert f"with a shape that is no upright box ({shape}) and are left out: {pictures[0].name!r}" in said
    assert found == set()


def test_a_tag_of_cvat_marks_nothing(exported, merged):
    folder, _ = exported("cvat")
    path = folder / "annotations.xml"
    path.write_text(path.read_text().replace("  </image>", '    <tag label="blurred"/>\n  </image>'))
    assert merged(folder)[1] == set()
    assert len(merged(folder, "--accept-unchanged")[1]) > 0


def submitted(folder, change):
    """Submit the predictions of all tasks of Label Studio, changed; the first task is the only one changed."""
    path = folder / "tasks.json"
    tasks = json.loads(path.read_text())
    for number, task in enumerate(tasks):
        result = task.pop("predictions")[0]["result"]
        task["annotations"] = [{"id": 1, "result": change(result) if number == 0 else result}]
    path.write_text(json.dumps(tasks))


def polygons(result):
    points = {"points": [[1, 1], [9, 1], [9, 9]], "polygonlabels": ["six"]}
    return [{**region, "type": "polygonlabels", "value": points} for region in result]


def unlabelled(result):
    values = [{name: value for name, value in one["value"].items() if name != "rectanglelabels"} for one in result]
    return [{**one, "value": value} for one, value in zip(result, values, strict=True)]


def with_empty_labels(result):
    return [{**one, "value": one["value"] | {"rectanglelabels": []}} for one in result]


def turned(result):
    return [{**one, "value": one["value"] | {"rotation": 30}} for one in result]


def brushed(result):
    return [*result, {"type": "brushlabels", "value": {"format": "rle", "rle": [0], "brushlabels": ["six"]}}]


def apart(result):
    return [{**one, "type": kind} for one in unlabelled(result) for kind in ("rectangle", "labels")]


LABEL_STUDIO = {
    polygons: "with a shape that is no upright box (polygon)",
    unlabelled: "without a label",
    with_empty_labels: "without a label",
    turned: "with a rotated box",
    brushed: "with a shape that is no upright box (brush)",
    apart: "whose label is apart from its shape",
}


@pytest.mark.parametrize("change", LABEL_STUDIO, ids=lambda one: one.__name__)
def test_an_odd_region_of_label_studio_is_no_verdict_and_ends_no_merge(exported, merged, change):
    folder, pictures = exported("label-studio")
    submitted(folder, change)
    said, found = merged(folder)
    assert f"1 pictures have an annotation {LABEL_STUDIO[change]} and are left out: {pictures[0].name!r}" in said
    assert found == {(one.id, name, "boxes") for one in pictures[1:] for name in one.classes}


def test_choices_and_relations_beside_boxes_and_several_labels_of_one_region_are_read(exported, merged):
    folder, pictures = exported("label-studio")
    choice = {"type": "choices", "value": {"choices": ["blurred"]}}
    relation = {"type": "relation", "from_id": "a", "to_id": "b", "direction": "right"}  # has no value
    submitted(
        folder,
        lambda result: [
            choice,
            relation,
            result[0] | {"value": result[0]["value"] | {"rectanglelabels": ["six", "three"]}},
        ],
    )
    _, found = merged(folder)
    assert {(pictures[0].id, name, "boxes") for name in ("six", "three")} <= found


def test_an_emptied_task_that_was_submitted_rejects_its_boxes(exported, merged):
    folder, pictures = exported("label-studio")
    submitted(folder, lambda _: [])
    _, found = merged(folder)
    assert {(pictures[0].id, name, "none") for name in set(pictures[0].classes)} <= found


@pytest.mark.parametrize(
    ("annotations", "predictions"), [([], [17]), (None, None), ([{"was_cancelled": True, "result": []}], [])]
)
def test_a_task_that_nobody_marked_says_nothing(exported, merged, annotations, predictions):
    """Label Studio exports numbers of predictions in place of them."""
    folder, pictures = exported("label-studio")

    def edit(tasks):
        tasks[0] |= {"annotations": annotations, "predictions": predictions}

    change_json(folder / "tasks.json", edit)
    said, found = merged(folder)
    assert f"1 pictures have neither an annotation nor the exported boxes and say nothing: {pictures[0].name!r}" in said
    assert found == set()


def test_a_broken_task_is_named(exported, run_copy, refused):
    folder, _ = exported("label-studio")
    change_json(folder / "tasks.json", lambda tasks: tasks[2].update(id=4711, annotations=[{"id": 1}]))
    assert "tasks.json: task 4711 must be in the form" in refused("review", "--out", run_copy, "--merge", folder)


YOLO = {
    "0 .1 .1 .2 .1 .2 .2 .1 .2": "with a shape that is no upright box (polygon)",
    "7 .5 .5 .1 .1": "of a class number without a name",
    "six .5 .5 .1 .1": "of a class number without a name",
    "0 .5 .5 .1": "that cannot be read",
    "0 .5 .5 wide .1": "that cannot be read",
    "0 .5 .5 nan .1": "with a box that is not four finite numbers",
    "0 320 240 60 40": "with a box outside of the picture",
    "0 .5 .5 0 .1": "with an empty box",
}


@pytest.mark.parametrize("line", YOLO)
def test_an_odd_row_of_yolo_is_no_verdict_and_ends_no_merge(exported, merged, line):
    folder, pictures = exported("yolo")
    (path,) = folder.glob(f"labels/*/*/{PurePosixPath(pictures[0].name).stem}.txt")
    path.write_text(path.read_text() + line + "\n")
    said, found = merged(folder)
    assert f"1 pictures have an annotation {YOLO[line]} and are left out: {pictures[0].name!r}" in said
    assert found == set()


VOC = {
    "<object><name>six</name><polygon><x1>3</x1></polygon></object>": "without a box",
    "<object><name>six</name><robndbox><cx>9</cx></robndbox></object>": "with a rotated box",
    "<object><bndbox/></object>": "that cannot be read",
    "<object><name>six</name><difficult>1</difficult><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax>"
    "</bndbox></object>": "with a difficult box",
    "<object><name>seven</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object>": (
        "of a class that the run lacks ('seven')"
    ),
}


@pytest.mark.parametrize("entry", VOC)
def test_an_odd_object_of_voc_is_no_verdict_and_ends_no_merge(exported, merged, entry):
    folder, pictures = exported("voc")
    path = folder / "Annotations" / f"{PurePosixPath(pictures[0].name).stem}.xml"
    path.write_text(path.read_text().replace("</annotation>", f"{entry}</annotation>"))
    said, found = merged(folder)
    assert f"1 pictures have an annotation {VOC[entry]} and are left out: {pictures[0].name!r}" in said
    assert found == set()


def test_a_class_that_is_gone_from_the_whole_file_is_no_rejection(exported, merged):
    folder, pictures = exported("coco")

    def forget(content):
        (six,) = (one["id"] for one in content["categories"] if one["name"] == "six")
        content["annotations"] = [row for row in content["annotations"] if row["category_id"] != six]
        content["categories"] = [one for one in content["categories"] if one["id"] != six]

    change_json(folder / "annotations.json", forget)
    said, found = merged(folder)
    assert found == set()
    assert f"{len(pictures)} pictures had the only boxes of class 'six', which the file has no more" in said
    assert "--accept-unchanged takes them as emptied." in said
    said, found = merged(folder, "--accept-unchanged")
    assert {one for one in found if one[1] == "six"} == {(one.id, "six", "none") for one in pictures}


def test_letters_that_are_half_a_character_are_named(exported, merged):
    folder, pictures = exported("coco")

    def spoil(content):
        content["images"][0]["file_name"] = "\ud800.png"
        content["categories"].append({"id": 99, "name": "\udfff"})
        rows_of(content, 1)[0]["category_id"] = 99

    change_json(folder / "annotations.json", spoil)
    said, found = merged(folder)
    assert "1 pictures were not exported, or cannot be told apart, and are left out: '\\ud800.png'." in said
    assert f"of a class that the run lacks ('\\udfff') and are left out: {pictures[1].name!r}" in said
    assert found == set()
