"""Exported files, read back by small readers that share no code with the writers."""

import json
import os
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from defusedxml import ElementTree
from hypothesis import given
from hypothesis import strategies as st
from lapsvm.pipelines.commands import verbs  # noqa: F401 - adds the options of export
from PIL import Image

from lapsvm.annotations.export import write_export
from lapsvm.annotations.exported import AnnotatedPicture, Annotations
from lapsvm.annotations.formats import voc
from lapsvm.annotations.table import FORMATS
from lapsvm.errors import InputError, MissingError, OptionError, WriteError

NAMES = (
    "cat/one.jpg",
    "dog/one.jpg",
    "dog/zwei Äpfel & <b>.png",
    "images/50% #1+2.jpg",
    "deep/er/'q\".jpg",
    "日本/犬.jpg",
)
CLASSES = ("cat", 'big "dog" & co', "Ärger <x>")


def annotations(root: Path, names=NAMES, classes=CLASSES, seed=0) -> Annotations:
    """Pictures of different sizes, with zero to four boxes each."""
    rng, pictures = np.random.default_rng(seed), []
    for number, name in enumerate(names):
        width, height = int(rng.integers(20, 90)), int(rng.integers(20, 90))
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (width, height), (number * 7 % 256, 1, 2)).save(path)
        n = number % 5
        low = rng.uniform(0, [width / 2, height / 2], (n, 2))
        high = low + rng.uniform(1, [width / 2 - 1, height / 2 - 1], (n, 2))
        boxes = np.hstack([low, high])
        pictures.append(
            AnnotatedPicture(name, path, width, height, tuple(rng.choice(classes, n)), boxes, rng.normal(size=n))
        )
    return Annotations("trainval", tuple(classes), tuple(pictures))


def expected(given: Annotations) -> dict[str, list]:
    """Picture name -> sorted (class, box)."""
    return {
        picture.name: sorted(zip(picture.classes, picture.boxes.tolist(), strict=True)) for picture in given.pictures
    }


def assert_same(found: dict[str, list], given: Annotations) -> None:
    """The same pictures, classes and boxes, to half a pixel."""
    wanted = expected(given)
    assert found.keys() == wanted.keys()
    for name, rows in wanted.items():
        got = sorted(found[name])
        assert [label for label, _ in got] == [label for label, _ in rows]
        for (_, box), (_, other) in zip(got, rows, strict=True):
            np.testing.assert_allclose(box, other, atol=0.5)


def size_of(path: Path) -> tuple[int, int]:
    with Image.open(path) as picture:
        return picture.size


def read_coco(folder: Path, file: str) -> dict[str, list]:
    content = json.loads((folder / "annotations.json").read_text(encoding="utf-8"))
    rows = content["annotations"] if file == "annotations.json" else json.loads((folder / file).read_text("utf-8"))
    names = {one["id"]: one["name"] for one in content["categories"]}
    files = {one["id"]: one["file_name"] for one in content["images"]}
    found = {name: [] for name in files.values()}
    for row in rows:
        x, y, w, h = row["bbox"]
        found[files[row["image_id"]]].append((names[row["category_id"]], [x, y, x + w, y + h]))
    return found


def read_yolo(folder: Path, part: str) -> dict[Path, list]:
    """Read as the usual trainers do: list file, then the last "images" of a path replaced, then rows of five."""
    yaml = (folder / "data.yaml").read_text(encoding="utf-8").splitlines()
    settings = dict(line.split(": ", 1) for line in yaml if not line.startswith(("#", " ", "names")))
    names = {int(n): json.loads(text) for n, text in (line.split(": ", 1) for line in yaml if line.startswith("  "))}
    assert int(settings["nc"]) == len(names)
    listed = [folder / line for line in (folder / f"{part}.txt").read_text(encoding="utf-8").splitlines()]
    below = [path for path in (folder / settings[part]).rglob("*") if path.is_file()]
    assert sorted(below) == sorted(listed)
    found = {}
    for path in listed:
        labels = Path("/labels/".join(str(path).rsplit("/images/", 1))).with_suffix(".txt")
        width, height = size_of(path)
        found[path] = []
        for line in labels.read_text(encoding="utf-8").splitlines():
            number, cx, cy, w, h = line.split(" ")
            cx, w, cy, h = float(cx) * width, float(w) * width, float(cy) * height, float(h) * height
            found[path].append((names[int(number)], [cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2]))
    return found


def read_voc(folder: Path) -> dict[str, list]:
    found = {}
    for image_id in (folder / "ImageSets/Main/trainval.txt").read_text(encoding="utf-8").splitlines():
        root = ElementTree.parse(folder / "Annotations" / f"{image_id}.xml").getroot()
        picture = folder / "JPEGImages" / root.findtext("filename")
        size = (int(root.findtext("size/width")), int(root.findtext("size/height")))
        assert size_of(picture) == size
        rows = found[root.findtext("path")] = []
        for one in root.iter("object"):
            corners = [int(one.findtext(f"bndbox/{corner}")) for corner in ("xmin", "ymin", "xmax", "ymax")]
            assert 1 <= corners[0] <= corners[2] <= size[0]
            assert 1 <= corners[1] <= corners[3] <= size[1]
            rows.append((one.findtext("name"), [corners[0] - 1, corners[1] - 1, *corners[2:]]))
    return found


def read_label_studio(folder: Path, document_root: Path) -> dict[str, list]:
    found = {}
    for task in json.loads((folder / "tasks.json").read_text(encoding="utf-8")):
        address = urlsplit(task["data"]["image"])
        assert address.path == "/data/local-files/"
        path = document_root / parse_qs(address.query, strict_parsing=True)["d"][0]
        assert "annotations" not in task
        rows = found[path.relative_to(document_root / "data").as_posix()] = []
        width, height = size_of(path)
        for result in (one for prediction in task.get("predictions", []) for one in prediction["result"]):
            value = result["value"]
            assert (result["original_width"], result["original_height"]) == (width, height)
            x, y = value["x"] * width / 100, value["y"] * height / 100
            box = [x, y, x + value["width"] * width / 100, y + value["height"] * height / 100]
            rows.append((value["rectanglelabels"][0], box))
    return found


def read_cvat(folder: Path) -> dict[str, list]:
    root = ElementTree.parse(folder / "annotations.xml").getroot()
    labels = {one.findtext("name") for one in root.iter("label")}
    found = {}
    for image in root.iter("image"):
        rows = found[image.get("name")] = []
        for box in image.iter("box"):
            assert box.get("label") in labels
            rows.append((box.get("label"), [float(box.get(side)) for side in ("xtl", "ytl", "xbr", "ybr")]))
    return found


@pytest.fixture
def given_boxes(tmp_path) -> Annotations:
    return annotations(tmp_path / "data")


@pytest.mark.parametrize("file", ["annotations.json", "results.json"])
def test_coco_comes_back(tmp_path, given_boxes, file):
    write_export(given_boxes, tmp_path / "out", "coco")
    assert_same(read_coco(tmp_path / "out", file), given_boxes)


def test_only_coco_results_have_scores(tmp_path, given_boxes):
    write_export(given_boxes, tmp_path / "out", "coco")
    truth = json.loads((tmp_path / "out/annotations.json").read_text(encoding="utf-8"))["annotations"]
    results = json.loads((tmp_path / "out/results.json").read_text(encoding="utf-8"))
    assert not any("score" in one for one in truth)
    scores = np.concatenate([picture.scores for picture in given_boxes.pictures])
    assert [one["score"] for one in results] == scores.tolist()
    assert len({one["id"] for one in truth}) == len(truth)
    for one in truth:
        assert one["area"] == pytest.approx(one["bbox"][2] * one["bbox"][3])


@pytest.mark.parametrize("copy", [False, True])
def test_yolo_comes_back_with_its_pictures(tmp_path, given_boxes, copy):
    write_export(given_boxes, tmp_path / "out", "yolo", copy=copy)
    found = {}
    for part in ("train", "val"):
        for path, rows in read_yolo(tmp_path / "out", part).items():
            assert path.is_symlink() != copy
            name = path.relative_to(tmp_path / "out/images" / part).as_posix().replace("images_/", "images/")
            assert path.read_bytes() == (tmp_path / "data" / name).read_bytes()
            found[name] = rows
    assert_same(found, given_boxes)


def test_a_tenth_of_the_pictures_is_for_validation_and_one_stands_in_both(tmp_path):
    many = annotations(tmp_path / "data", [f"{n}.png" for n in range(40)])
    write_export(many, tmp_path / "many", "yolo")
    parts = [set(read_yolo(tmp_path / "many", part)) for part in ("train", "val")]
    assert [len(part) for part in parts] == [36, 4]
    one = annotations(tmp_path / "data", ["a.png"])
    write_export(one, tmp_path / "one", "yolo")
    assert [len(read_yolo(tmp_path / "one", part)) for part in ("train", "val")] == [1, 1]


@pytest.mark.parametrize("copy", [False, True])
def test_voc_comes_back(tmp_path, given_boxes, copy):
    write_export(given_boxes, tmp_path / "out", "voc", copy=copy)
    assert_same(read_voc(tmp_path / "out"), given_boxes)


def test_voc_opens_as_a_data_set(tmp_path):
    from lapsvm.catalog import open_dataset

    boxes = annotations(tmp_path / "data", ("cat/a b.jpg", "dog/a b.jpg", "dog/c.png"), ("cat", "dog"))
    write_export(boxes, tmp_path / "out", "voc")
    dataset = open_dataset("voc", tmp_path / "out")
    records, truth = dataset.records("trainval"), dataset.ground_truth("trainval")
    for record, picture in zip(records, boxes.pictures, strict=True):
        assert record.pixels().shape[:2] == (picture.height, picture.width)
        for name in ("cat", "dog"):
            assert record.labels[name] == (1 if name in picture.classes else -1)
            assert len(truth[name][record.id].boxes) == picture.classes.count(name)


def test_voc_ids_are_plain_where_they_can_be(tmp_path):
    boxes = annotations(tmp_path / "data", ("JPEGImages/000005.jpg", "JPEGImages/000007.jpg"))
    write_export(boxes, tmp_path / "out", "voc")
    assert (tmp_path / "out/ImageSets/Main/trainval.txt").read_text() == "000005\n000007\n"


def test_label_studio_comes_back(tmp_path, given_boxes):
    write_export(given_boxes, tmp_path / "out", "label-studio")
    assert_same(read_label_studio(tmp_path / "out", tmp_path), given_boxes)
    labels = [one.get("value") for one in ElementTree.parse(tmp_path / "out/labels.xml").iter("Label")]
    assert labels == list(CLASSES)


def test_label_studio_has_probabilities_where_they_are_known(tmp_path):
    path = tmp_path / "data/a.png"
    path.parent.mkdir()
    Image.new("RGB", (10, 10)).save(path)
    picture = AnnotatedPicture(
        "a.png", path, 10, 10, ("c",), np.array([[1.0, 1, 5, 5]]), np.array([7.0]), np.array([0.3])
    )
    write_export(Annotations("test", ("c",), (picture,)), tmp_path / "out", "label-studio")
    (task,) = json.loads((tmp_path / "out/tasks.json").read_text())
    assert task["predictions"][0]["result"][0]["score"] == 0.3


def test_cvat_comes_back(tmp_path, given_boxes):
    write_export(given_boxes, tmp_path / "out", "cvat")
    assert_same(read_cvat(tmp_path / "out"), given_boxes)


@given(st.integers(0, 10_000))
def test_voc_pixels_are_half_a_pixel_off_at_most(seed):
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 50, (9, 2))
    boxes = np.hstack([low, low + rng.uniform(1e-9, 3, (9, 2))])
    found = np.array(voc.voc_corners(boxes))
    wide = (boxes[:, 2:] - boxes[:, :2]).min(axis=1) >= 1
    assert np.abs(found - [1, 1, 0, 0] - boxes)[wide].max(initial=0) <= 0.5
    assert (found[:, :2] <= found[:, 2:]).all()


@pytest.mark.parametrize("format_name", FORMATS)
def test_the_same_boxes_give_the_same_bytes(tmp_path, given_boxes, format_name):
    for name in ("a", "b"):
        write_export(given_boxes, tmp_path / name, format_name)
    first, second = (
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        for name in ("a", "b")
    )
    assert first == second


@pytest.mark.parametrize("format_name", ["yolo", "voc", "label-studio", "cvat"])
@pytest.mark.parametrize("what", ["class", "picture"])
def test_a_name_that_a_format_cannot_hold_is_told(tmp_path, format_name, what):
    classes, names = (("a\nb",), ("one.png",)) if what == "class" else (("cat",), ("a\nb.png",))
    boxes = annotations(tmp_path / "data", names, classes)
    with pytest.raises(InputError, match=rf"format {format_name} cannot hold the {what} name 'a\\nb"):
        write_export(boxes, tmp_path / "out", format_name)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_file_name_that_is_no_text_is_told(tmp_path, format_name):
    boxes = annotations(tmp_path / "data", (os.fsdecode(b"\xff.png"),))
    with pytest.raises(InputError, match="cannot hold the picture name"):
        write_export(boxes, tmp_path / "out", format_name)
    assert os.listdir(tmp_path) == ["data"]


@pytest.mark.parametrize(
    ("format_name", "names"), [("yolo", ("a.jpg", "a.png")), ("voc", ("b/a.jpg", "b/a.png", "b__a.jpg"))]
)
def test_pictures_that_would_share_a_file_are_told(tmp_path, format_name, names):
    with pytest.raises(InputError, match=r"name each picture's file once"):
        write_export(annotations(tmp_path / "data", names), tmp_path / "out", format_name)


def test_a_folder_that_is_not_empty_is_refused_and_an_empty_one_taken(tmp_path, given_boxes):
    target = tmp_path / "out"
    target.mkdir()
    write_export(given_boxes, target, "coco")
    before = (target / "results.json").read_bytes()
    with pytest.raises(OptionError, match="must be empty"):
        write_export(given_boxes, target, "cvat")
    assert sorted(os.listdir(target)) == ["annotations.json", "results.json"]
    assert (target / "results.json").read_bytes() == before


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("format_name", ["yolo", "voc"])
def test_nothing_is_left_of_an_export_that_ends_early(tmp_path, given_boxes, format_name, error, monkeypatch):
    done = []

    def place(*arguments):
        if len(done) == 3:
            raise error
        done.append(arguments)

    monkeypatch.setattr(f"lapsvm.annotations.formats.{format_name}.place_picture", place)
    with pytest.raises(WriteError if isinstance(error, OSError) else KeyboardInterrupt):
        write_export(given_boxes, tmp_path / "out", format_name)
    assert os.listdir(tmp_path) == ["data"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pascal", False), "must be one of coco, yolo"),
        (("coco", True), "the parameter copy goes with a format that holds pictures"),
    ],
)
def test_a_format_must_be_known_and_take_its_options(tmp_path, given_boxes, arguments, message):
    with pytest.raises(OptionError, match=message):
        write_export(given_boxes, tmp_path / "out", arguments[0], copy=arguments[1])


@pytest.mark.parametrize(
    "name", ["../a.jpg", "b/../../a.jpg", "/a.jpg", "..", ".", "/", "", "./a.jpg", "a//b.jpg", "a\0"]
)
def test_a_name_that_leaves_the_folder_is_refused(tmp_path, name):
    with pytest.raises(InputError, match="name of a picture must be a path inside the exported folder"):
        AnnotatedPicture(name, tmp_path / "a.jpg", 9, 9)
    with pytest.raises(InputError, match="name of a set must be a path inside the exported folder"):
        Annotations(name or "a/b", ("cat",), ())


@pytest.mark.parametrize("name", ["sub/set", "..\\..\\a"])
def test_a_set_is_one_file_name(name):
    with pytest.raises(InputError, match="name of a set must be"):
        Annotations(name, ("cat",), ())


def test_a_class_that_is_not_listed_and_what_is_listed_twice_are_refused(tmp_path):
    one = AnnotatedPicture("a.jpg", tmp_path / "a.jpg", 9, 9, ("dog",), [[0, 0, 2, 2]], [1.0])
    with pytest.raises(InputError, match=r"'a\.jpg': a box must be of a class that is listed \(cat\), got 'dog'"):
        Annotations("test", ("cat",), (one,))
    with pytest.raises(InputError, match=r"each picture once, got 'a\.jpg' twice"):
        Annotations("test", ("dog",), (one, one))
    with pytest.raises(InputError, match="each class once, got 'dog' twice"):
        Annotations("test", ("dog", "dog"), (one,))


@pytest.mark.parametrize("format_name", ["yolo", "voc"])
@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_a_picture_that_is_no_file_is_refused(tmp_path, format_name, copy, make):
    """Files below a link to a folder would be written into that folder."""
    (tmp_path / "data").mkdir()
    make(tmp_path / "data" / "a")
    pictures = tuple(AnnotatedPicture(name, tmp_path / "data" / "a", 9, 9) for name in ("a", "a/b.jpg"))
    with pytest.raises(MissingError, match="must be a regular file"):
        write_export(Annotations("test", ("cat",), pictures), tmp_path / "out", format_name, copy=copy)
    assert os.listdir(tmp_path) == ["data"]
