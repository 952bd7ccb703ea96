"""What a merged file says twice: equal records are one, others are named, and so is what is passed over."""

import json
from copy import deepcopy
from pathlib import PurePosixPath

import pytest

from .reviews import change_json

FORMATS = ["coco", "yolo", "voc", "label-studio", "cvat"]
ELSEWHERE = {"x": 5, "y": 5, "width": 40, "height": 40}


@pytest.fixture
def merged(merge):
    """Return a function that merges a path, and returns the warnings and (picture, class) -> boxes."""

    def merged(*arguments):
        said, verdicts = merge(*arguments)
        return said, {(one.picture, one.class_name): one.boxes for one in verdicts}

    return merged


def double(folder, form):
    """Write every box of an export twice."""
    if form == "coco":
        again = lambda content: [{**one, "id": 1000 + one["id"]} for one in content["annotations"]]  # noqa: E731
        change_json(folder / "annotations.json", lambda content: content["annotations"].extend(again(content)))
    elif form == "label-studio":

        def submit(tasks):
            for task in tasks:
                result = task.pop("predictions")[0]["result"]
                task["annotations"] = [{"id": 1, "result": result + deepcopy(result)}]

        change_json(folder / "tasks.json", submit)
    for path in [*folder.glob("labels/**/*.txt"), *folder.glob("Annotations/*.xml"), *folder.glob("annotations.xml")]:
        text = path.read_text()
        for tag in ("object", "box"):
            pieces = text.split(f"<{tag}")
            ends = [piece.partition(f"</{tag}>") for piece in pieces[1:]]
            text = pieces[0] + "".join(f"<{tag}{inner}</{tag}>" * 2 + rest for inner, _, rest in ends)
        path.write_text(text * 2 if path.suffix == ".txt" else text)


@pytest.mark.parametrize("form", FORMATS)
def test_boxes_that_stand_there_twice_change_nothing_and_are_named(exported, merged, form):
    folder, pictures = exported(form)
    double(folder, form)
    said, found = merged(folder)
    assert "twice" in said
    assert f"{len(pictures)} pictures have a box twice" in said or "boxes are given twice and count once" in said
    assert all(len(boxes) == 1 for boxes in found.values())
    assert bool(found) == (form == "label-studio")  # which says that they were submitted


def submitted(tasks, number, *values):
    """Submit annotations of a task, each with its boxes elsewhere."""
    result = tasks[number]["predictions"][0]["result"]
    given = [[{**one, "value": one["value"] | value} for one in result] for value in values]
    tasks[number]["annotations"] = [{"id": at, "result": one} for at, one in enumerate(given)]


def test_equal_tasks_and_annotations_are_one_and_others_are_named(exported, merged):
    folder, pictures = exported("label-studio")

    def edit(tasks):
        for number, values in enumerate(([ELSEWHERE], [ELSEWHERE] * 2, [ELSEWHERE, {"x": 50}], [ELSEWHERE])):
            submitted(tasks, number, *values)
        tasks += deepcopy(tasks[:2])
        again = deepcopy(tasks[3])
        again["annotations"][0]["result"][0]["value"]["x"] = 50
        tasks.append(again)
        tasks.append({**tasks[0], "annotations": []})  # nobody submitted this one

    change_json(folder / "tasks.json", edit)
    said, found = merged(folder)
    assert {picture for picture, _ in found} == {pictures[0].id, pictures[1].id}
    assert f"that another one of the same task contradicts and are left out: {pictures[2].name!r}" in said
    assert f"1 pictures are given twice with different boxes, of which none are taken: {pictures[3].name!r}" in said
    assert "missing" not in said


def test_drafts_and_skipped_tasks_are_named_and_never_accepted(exported, merged):
    folder, pictures = exported("label-studio")

    def edit(tasks):
        tasks[0]["drafts"] = [{"id": 1, "result": tasks[0]["predictions"][0]["result"]}]
        tasks[1]["annotations"] = [{"id": 1, "was_cancelled": True, "result": []}]
        submitted(tasks, 2, ELSEWHERE)
        tasks[2]["drafts"] = [{"id": 1, "result": []}]
        submitted(tasks, 3, ELSEWHERE)
        tasks[3]["annotations"].append({"id": 7, "was_cancelled": True, "result": []})
        tasks[3]["annotations"][0]["result"].append({"type": "choices", "value": {"choices": ["blurred"]}})

    change_json(folder / "tasks.json", edit)
    said, found = merged(folder, "--accept-unchanged")
    names = [repr(one.name) for one in pictures]
    assert f"1 pictures have an annotation in a draft that nobody submitted and are left out: {names[0]}" in said
    assert (
        f"1 pictures have an annotation that was cancelled, as a skipped task is and are left out: {names[1]}" in said
    )
    assert f"1 pictures have a draft that nobody submitted beside the annotation that counts: {names[2]}" in said
    assert f"1 pictures have an annotation that was cancelled beside one that counts: {names[3]}" in said
    assert f"1 pictures have a tag or an answer that marks no place and is passed over: {names[3]}" in said
    assert {picture for picture, _ in found} == {one.id for one in pictures[2:]}


def test_tracks_of_cvat_are_named_with_their_boxes(exported, merged):
    folder, _ = exported("cvat")
    path = folder / "annotations.xml"
    box = '<box frame="{}" outside="{}" xtl="1" ytl="1" xbr="9" ybr="9"/>'
    track = f'<track id="0" label="six">{box.format(0, 0)}{box.format(1, 0)}{box.format(2, 1)}</track>'
    path.write_text(path.read_text().replace("</annotations>", f"{track}</annotations>"))
    said, found = merged(folder)
    assert "2 boxes and shapes of 1 tracks are left out, which name frames and no pictures" in said
    assert found == {}


@pytest.mark.parametrize(
    "place", ["classes.txt", "labels/classes.txt", "labels/train/classes.txt", "obj.names", "data.yml"]
)
def test_lists_of_classes_must_agree_or_one_be_named(exported, merged, run_copy, refused, place):
    folder, _ = exported("yolo")
    is_list = not place.endswith(".yml")
    (folder / place).write_text("six\nthree\n" if is_list else "names: [six, three]\n")
    assert merged(folder)[1] == {}
    (folder / place).write_text("three\nsix\n" if is_list else "names: [three, six]\n")
    said = refused("review", "--out", run_copy, "--merge", folder)
    assert f"lists of classes must agree, but class 0 is 'six' in data.yaml and 'three' in {place}" in said
    said, found = merged(folder / "data.yaml")
    assert (
        f"lists of classes differ, and data.yaml counts: class 0 is 'six' in data.yaml and 'three' in {place}" in said
    )
    assert found == {}


def test_equal_labels_of_two_parts_are_one_and_others_are_named(exported, merged):
    folder, pictures = exported("yolo")
    files = [next(folder.glob(f"labels/*/*/{PurePosixPath(one.name).stem}.txt")) for one in pictures[:2]]
    for path in files:
        other = folder / "labels" / "val" / path.parent.name / path.name
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_text(path.read_text())
    other.write_text("0 .5 .5 .25 .25\n")
    said, found = merged(folder)
    assert f"1 pictures are given twice with different boxes, of which none are taken: {pictures[1].name!r}" in said
    assert found == {}


def test_a_folder_of_several_formats_is_refused_and_other_files_are_named(exported, merged, run_copy, refused):
    folder, _ = exported("coco")
    (folder / "project-1.json").write_text("[]")
    (folder / "classes.txt").write_text("six\n")  # a list without labels says nothing
    assert "other files in the folder are not read, name one to merge it: project-1.json." in merged(folder)[0]
    (folder / "tasks.json").write_text("[]")
    said = refused("review", "--out", run_copy, "--merge", folder)
    assert "must hold boxes once, got annotations.json and tasks.json; name the file that was mended" in said


def test_verdicts_that_replace_others_are_named(exported, merged, tmp_path):
    _, pictures = exported("coco")
    line = {"picture": pictures[0].id, "class": "six", "verdict": "boxes", "boxes": [[1, 1, 9, 9], [1, 1, 9, 9]]}
    files = [tmp_path / f"{name}.jsonl" for name in ("first", "second")]
    files[0].write_text(json.dumps(line) + "\n")
    files[1].write_text(
        json.dumps(line | {"verdict": "absent", "boxes": []}) + "\n" + json.dumps(line | {"boxes": [[1, 1, 9, 8]]})
    )
    assert merged(files[0])[1] == {(pictures[0].id, "six"): ((1, 1, 9, 9),)}
    said, found = merged(files[1])
    assert found == {(pictures[0].id, "six"): ((1, 1, 9, 8),)}
    assert f"1 verdicts are replaced by later lines of the file that differ: {pictures[0].id!r}" in said
    assert f"1 verdicts replace earlier ones of the run that differ: {pictures[0].id!r}" in said
