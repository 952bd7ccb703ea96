"""Verdicts of any source count only if they are of the run's classes and their boxes lie in their pictures."""

import json
import shutil

import numpy as np
import pytest
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.figures.right_boxes import reviewed_classes
from lapsvm.pipelines.review.server import _called, _Refused
from lapsvm.pipelines.review.session import ReviewSession
from lapsvm.pipelines.verdicts.counting import usable_verdicts
from lapsvm.pipelines.verdicts.verdict import Verdict, append_verdicts, read_verdicts
from PIL import Image

from lapsvm.catalog import open_dataset
from lapsvm.features import open_shards

IN, FAR, FLAT = (1.0, 1.0, 30.0, 30.0), (5000.0, 5000.0, 5100.0, 5100.0), (0.1, 0.2, 0.4, 0.9)


def said(name, *boxes, kind="boxes", **more):
    return Verdict(name, more.pop("class_name", "six"), kind, tuple(boxes) if kind == "boxes" else (), **more)


def test_one_check_names_what_it_leaves_out():
    given = [
        said("a", IN),
        said("b", IN, FAR),
        said("c", FLAT),
        said("d", kind="none", candidates=(FAR,)),
        said("e", kind="absent", candidates=(FAR,)),
        said("f", IN, class_name="Six"),
        said("g", kind="absent", class_name="Six"),
        said("h", FAR),
    ]
    sizes = dict.fromkeys("abcdefg", (90, 60))
    kept, notes = usable_verdicts(given, ("six", "three"), lambda one: sizes.get(one.picture))
    assert [one.picture for one in kept] == ["a", "e", "h"]  # of h the size is not known
    assert notes == [
        "2 verdicts are of classes that the run lacks and are left out: 'Six'",
        "2 verdicts of 'six' with a box outside of the picture are left out: 'b', 'd'",
        "1 verdicts of 'six' with a box in shares of the picture's sides and not in pixels are left out: 'c'",
    ]


@pytest.fixture
def pictures(run_copy):
    """Ids and pixel hashes of the training pictures."""
    shards = open_shards(run_copy / "shards" / "trainval")
    return list(zip(shards.image_ids, shards.pixel_hashes, strict=True))


@pytest.mark.parametrize("door", ["review", "train"])
def test_a_merge_takes_only_what_counts(run_copy, pictures, tmp_path, command, door):
    (first, digest), (second, _), (third, _), *_ = pictures
    given, before = tmp_path / "given.jsonl", tmp_path / "before.jsonl"
    append_verdicts(before, [said(first, IN, order="random")])
    assert command("review", "--out", run_copy, "--merge", before).status == 0
    changed = said(third, FAR, pixels="of another picture")  # whose size is not known
    others = said(second, IN), said(second, IN, class_name="Six")
    append_verdicts(given, [said(first, FAR, pixels=digest), *others, changed])
    line = {"review": ("--merge", given), "train": ("--verdicts", given)}[door]
    result = command(door, "--out", run_copy, *line)
    assert result.status == 0, result.err
    assert f"1 verdicts of 'six' with a box outside of the picture are left out: {first!r}" in result.err
    assert "1 verdicts are of classes that the run lacks and are left out: 'Six'" in result.err
    assert f"1 verdicts are of pictures that have changed since, and say nothing: {third!r}" in result.err
    log = read_verdicts(run_copy / "verdicts.jsonl")
    assert set(log.by_class) == {"six"}
    assert log.of_class("six")[first].boxes == (IN,)  # what it would have replaced
    assert log.of_class("six").keys() == {first, second, third}


def test_what_is_in_the_file_of_a_run_is_checked_where_it_is_read(run_copy, pictures, command):
    (first, _), (second, _), *_ = pictures
    given = [said(first, FAR), said(second, IN), said(first, kind="absent", class_name="Six")]
    append_verdicts(run_copy / "verdicts.jsonl", given)
    context = RunContext.opened(run_copy, "evaluate", quiet=True)
    assert list(reviewed_classes(context.stored)["six"].verdicts) == [second]
    review = ReviewSession(RunContext.opened(run_copy, "review", quiet=True).stored, "six")
    assert list(review.classes[0].verdicts) == [second]
    result = command("evaluate", "--out", run_copy)
    assert "1 verdicts are of classes that the run lacks and are left out: 'Six'" in result.err
    assert f"1 verdicts of 'six' with a box outside of the picture are left out: {first!r}." in result.err


def test_the_server_refuses_what_files_may_not_give(run_copy):
    session = ReviewSession(RunContext.opened(run_copy, "review", quiet=True).stored, "six")
    row = session.classes[0].rows[0]
    for box, words in ((FAR, "with a box outside of the picture"), (FLAT, "in shares of the picture's sides")):
        with pytest.raises(_Refused, match=words):
            _called(session.record, {"class": 0, "n": row, "verdict": "boxes", "boxes": [list(box)]})


def test_verdicts_that_count_in_no_figure_are_named(run_copy, pictures, tmp_path, command):
    given = tmp_path / "given.jsonl"
    append_verdicts(given, [said(name, IN, order="next") for name, _ in pictures[:3]])
    words = "3 verdicts are on pictures that were not drawn at random"
    assert words in command("review", "--out", run_copy, "--merge", given).err
    assert f"evaluate: {words}" in command("evaluate", "--out", run_copy).err


@pytest.fixture
def resized(digits, finished, tmp_path):
    """A finished run whose first training picture was replaced by a larger one: the run, its data, the picture."""
    data = shutil.copytree(digits, tmp_path / "data")
    run = shutil.copytree(finished, tmp_path / "RUN")
    name = next(one.id for one in open_dataset("voc", digits).records("trainval") if one.labels["six"] == 1)
    path = next((data / "JPEGImages").glob(f"{name}.*"))
    with Image.open(path) as picture:
        size = picture.size
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 255, (2 * size[1], 3 * size[0], 3), dtype=np.uint8)).save(path)
    return run, data, name


@pytest.mark.parametrize("form", ["coco", "yolo", "voc", "label-studio", "cvat"])
def test_no_box_is_written_into_a_picture_of_another_size(resized, tmp_path, refused, form):
    run, data, name = resized
    line = ("export", "--out", run, "--root", data, "--set", "trainval", "--format", form, "--to", tmp_path / "out")
    told = refused(*line)
    assert f"1 pictures have changed their size since the run was made, so its boxes are not theirs: {name!r}" in told
    assert "verify --out" in told
    assert not (tmp_path / "out").exists()


def test_a_run_names_pictures_that_have_another_size_than_its_features(resized, command):
    run, data, name = resized
    result = command("run", "--out", run, "--root", data)
    assert result.status == 0, result.err
    assert "set trainval: 1 pictures have changed their size since their features were made" in result.err
    assert repr(name) in result.err


def test_annotations_of_the_new_picture_are_not_compared_with_boxes_of_the_old_one(resized, command):
    run, data, name = resized
    path = data / "Annotations" / f"{name}.xml"
    with Image.open(next((data / "JPEGImages").glob(f"{name}.*"))) as picture:
        width, height = picture.size
    text = path.read_text()
    for side, value in (("width", width), ("height", height)):
        head, tail = text.split(f"<{side}>", 1)
        text = f"{head}<{side}>{value}{tail[tail.index('<') :]}"
    path.write_text(text)
    n_objects = sum(text.count(f"<name>{one}</name>") for one in ("six", "three"))
    result = command("evaluate", "--out", run, "--root", data)
    assert f"({n_objects} in a picture that has another size than the file says)" in result.err
    figures = json.loads((run / "evaluation.json").read_text())["sets"]["trainval"]
    assert figures["with_boxes"] == figures["pictures"] - 1
