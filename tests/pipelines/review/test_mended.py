"""Boxes that were mended in another program come back as verdicts, whatever format they were exported in."""

import json
from pathlib import PurePosixPath

import pytest
from defusedxml import ElementTree
from lapsvm.pipelines.review.mended_export import MendedExport, match_exported
from lapsvm.pipelines.review.mended_files import read_mended
from lapsvm.pipelines.verdicts.verdict import Verdict, VerdictLog, append_verdicts, read_verdicts
from PIL import Image

from lapsvm.annotations.export import EXPORTED, read_exported, write_export
from lapsvm.annotations.exported import AnnotatedPicture, Annotations
from lapsvm.annotations.pictures import AnnotatedFile, FileBox, FilePicture
from lapsvm.box_faults import ROTATED

DRAWN = [4.0, 6.0, 40.0, 50.0]
CLASSES = ("six", "three")


# ---- small editors that share no code with the readers: they set the boxes of a picture in an export ----
def edit_coco(folder, picture, rows):
    path = folder / "annotations.json"
    content = json.loads(path.read_text())
    image = next(one["id"] for one in content["images"] if one["file_name"] == picture.name)
    numbers = {one["name"]: one["id"] for one in content["categories"]}
    kept = [one for one in content["annotations"] if one["image_id"] != image]
    for at, (name, (x1, y1, x2, y2)) in enumerate(rows):
        row = {"id": 1000 * image + 500 + at, "image_id": image, "category_id": numbers[name]}
        kept.append(row | {"bbox": [x1, y1, x2 - x1, y2 - y1]})
    path.write_text(json.dumps(content | {"annotations": kept}))
    return folder


def edit_yolo(folder, picture, rows):
    (path,) = folder.glob(f"labels/*/*/{PurePosixPath(picture.name).stem}.txt")
    lines = []
    for name, (x1, y1, x2, y2) in rows:
        middle, side = ((x1 + x2) / 2 / picture.width, (y1 + y2) / 2 / picture.height), (x2 - x1, y2 - y1)
        lines.append(
            f"{CLASSES.index(name)} {middle[0]} {middle[1]} {side[0] / picture.width} {side[1] / picture.height}"
        )
    path.write_text("\n".join(lines))
    return folder


def edit_voc(folder, picture, rows):
    path = folder / "Annotations" / f"{PurePosixPath(picture.name).stem}.xml"
    tree = ElementTree.parse(path)
    root = tree.getroot()
    for one in root.findall("object"):
        root.remove(one)
    for name, (x1, y1, x2, y2) in rows:
        corners = {"xmin": x1 + 1, "ymin": y1 + 1, "xmax": x2, "ymax": y2}
        inner = "".join(f"<{key}>{round(value)}</{key}>" for key, value in corners.items())
        root.append(ElementTree.fromstring(f"<object><name>{name}</name><bndbox>{inner}</bndbox></object>"))
    tree.write(path)
    return folder


def edit_label_studio(folder, picture, rows):
    """Add a person's answer to an export of the program."""
    path = folder / "project-1.json"
    content = json.loads((path if path.exists() else folder / "tasks.json").read_text())
    task = next(one for one in content if one["data"]["image"].endswith(picture.name))
    width, height = picture.width / 100, picture.height / 100
    result = [
        {
            "type": "rectanglelabels", "original_width": picture.width, "original_height": picture.height,
            "value": {"x": x1 / width, "y": y1 / height, "width": (x2 - x1) / width, "height": (y2 - y1) / height,
                      "rotation": 0, "rectanglelabels": [name]},
        }
        for name, (x1, y1, x2, y2) in rows
    ]  # fmt: skip
    task["annotations"] = [{"was_cancelled": False, "result": result}]
    path.write_text(json.dumps(content))
    return path


def edit_cvat(folder, picture, rows):
    path = folder / "annotations.xml"
    tree = ElementTree.parse(path)
    image = next(one for one in tree.getroot().iter("image") if one.get("name") == picture.name)
    for one in image.findall("box"):
        image.remove(one)
    for name, box in rows:
        sides = " ".join(f'{side}="{value}"' for side, value in zip(("xtl", "ytl", "xbr", "ybr"), box, strict=True))
        image.append(ElementTree.fromstring(f'<box label="{name}" {sides}/>'))
    tree.write(path)
    return folder


EDITORS = {"coco": edit_coco, "yolo": edit_yolo, "voc": edit_voc, "label-studio": edit_label_studio, "cvat": edit_cvat}


@pytest.fixture(params=EDITORS)
def export(request, exported):
    """Return format, folder, and picture name -> picture of an export of the training pictures."""
    folder, pictures = exported(request.param)
    return request.param, folder, {picture.name: picture for picture in pictures}


def rows_of(picture, name):
    return [(one, box) for one, box in zip(picture.classes, picture.boxes.tolist(), strict=True) if one == name]


def merge(command, run, path, *options):
    said = command("review", "--out", run, "--merge", path, *options)
    assert said.status == 0, said.err
    return said.out + said.err


def test_changed_and_removed_boxes_become_verdicts_and_kept_ones_say_nothing(export, run_copy, command):
    name, folder, exported = export
    changed, removed, added, *_ = exported.values()
    path = EDITORS[name](folder, changed, [("six", DRAWN), *rows_of(changed, "three")])
    path = EDITORS[name](folder, removed, rows_of(removed, "six"))
    path = EDITORS[name](folder, added, [*rows_of(added, "six"), *rows_of(added, "three"), ("three", DRAWN)])
    assert "new verdicts" in merge(command, run_copy, path)
    log = read_verdicts(run_copy / "verdicts.jsonl")
    kept = {"six": {removed.id, added.id}, "three": {changed.id}} if name == "label-studio" else {}
    six, three = log.of_class("six"), log.of_class("three")
    assert six.keys() == {changed.id} | kept.get("six", set())
    assert three.keys() == {removed.id, added.id} | kept.get("three", set())
    assert six[changed.id].boxes[0] == pytest.approx(DRAWN, abs=0.5)
    assert three[removed.id].verdict == "none"
    assert three[removed.id].candidates[0] == pytest.approx(rows_of(removed, "three")[0][1], abs=0.01)
    assert three[added.id].boxes[0] == pytest.approx(rows_of(added, "three")[0][1], abs=0.01)  # as it was exported
    assert three[added.id].boxes[1] == pytest.approx(DRAWN, abs=0.5)
    assert {one.order for of_class in (six, three) for one in of_class.values()} == {"next"}
    assert all(len(one.pixels) == 32 for one in six.values())
    assert "review: 0 new verdicts" in merge(command, run_copy, path)


def test_an_export_as_it_was_says_nothing_unless_it_is_accepted(export, run_copy, command):
    _, folder, exported = export
    assert "review: 0 new verdicts" in merge(command, run_copy, folder)
    assert not (run_copy / "verdicts.jsonl").exists()
    merge(command, run_copy, folder, "--accept-unchanged")
    log = read_verdicts(run_copy / "verdicts.jsonl")
    for name in CLASSES:
        found = {picture: [list(box) for box in one.boxes] for picture, one in log.of_class(name).items()}
        wanted = {one.id: [box for _, box in rows_of(one, name)] for one in exported.values()}
        assert found.keys() == wanted.keys()
        assert all(found[key] == [pytest.approx(box, abs=0.01) for box in wanted[key]] for key in wanted)


@pytest.fixture
def coco(run_copy, tmp_path, command):
    """Return the folder of an export, and its pictures."""
    folder = tmp_path / "out"
    line = ("export", "--out", run_copy, "--to", folder, "--set", "trainval", "--quiet", "--format", "coco")
    assert command(*line).status == 0
    return folder, list(read_exported(folder / EXPORTED).values())


def test_unknown_missing_changed_and_resized_pictures_are_named_and_not_used(coco, run_copy, command):
    folder, pictures = coco
    for picture in pictures[:5]:
        edit_coco(folder, picture, [("six", DRAWN)])
    path = folder / "annotations.json"
    content = json.loads(path.read_text())
    images = {one["file_name"]: one for one in content["images"]}
    images[pictures[0].name]["file_name"] = "JPEGImages/other.png"
    images[pictures[1].name]["width"] += 1
    path.write_text(json.dumps(content))
    record = json.loads((folder / EXPORTED).read_text())
    record["pictures"][2]["pixels"] = "0" * 32
    record["pictures"][3]["id"] = "of-the-test-set"
    (folder / EXPORTED).write_text(json.dumps(record))
    said = merge(command, run_copy, path)
    assert "1 pictures were not exported, or cannot be told apart, and are left out: 'JPEGImages/other.png'." in said
    assert f"1 exported pictures are missing and say nothing: {pictures[0].name!r}." in said
    assert f"1 pictures have another size than exported and are left out: {pictures[1].name!r}." in said
    assert f"1 pictures have changed since and are left out: {pictures[2].name!r}." in said
    assert f"1 pictures are none of the training set and are left out: {pictures[3].name!r}." in said
    assert list(read_verdicts(run_copy / "verdicts.jsonl").of_class("six")) == [pictures[4].id]


def test_a_picture_that_has_changed_on_disk_is_named_and_not_used(coco, run_copy, command, digits):
    folder, (first, second, *_) = coco
    for picture in (first, second):
        edit_coco(folder, picture, [("six", DRAWN)])
    path = digits / first.name
    before = path.read_bytes()
    try:
        path.write_bytes((digits / second.name).read_bytes())
        said = merge(command, run_copy, folder)
    finally:
        path.write_bytes(before)
    assert f"picture {first.id} has changed since the run was made, so it is left out." in said
    assert list(read_verdicts(run_copy / "verdicts.jsonl").of_class("six")) == [second.id]


def test_a_random_picture_stays_one(coco, run_copy, command):
    folder, (first, *_) = coco
    edit_coco(folder, first, [("six", DRAWN)])
    (run_copy / "verdicts.jsonl").unlink(missing_ok=True)
    given = folder.parent / "given.jsonl"
    append_verdicts(given, [Verdict(first.id, "six", "none", pixels=first.pixels, order="random")])
    merge(command, run_copy, given)
    merge(command, run_copy, folder)
    (said,) = read_verdicts(run_copy / "verdicts.jsonl").of_class("six").values()
    assert (said.verdict, said.order) == ("boxes", "random")


def test_what_is_no_export_is_refused_in_a_sentence(coco, run_copy, refused, tmp_path):
    folder, _ = coco
    line = ("review", "--out", run_copy, "--merge")
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text('{"images": [], "annotations": [], "categories": []}')
    assert "beside exported.json" in refused(*line, elsewhere)
    (tmp_path / "empty").mkdir()
    assert "must be a folder that lapsvm export wrote" in refused(*line, tmp_path / "empty")
    task = '[{"data": {"image": "a"}, "annotations": [3]}]'
    for text in ("[1]", "[{}]", '[{"data": {"image": 3}}]', task, "{}", "{", "[" * 100_000):
        (folder / "broken.json").write_text(text)
        assert refused(*line, folder / "broken.json").endswith(".\n")
    image = "<annotations><image name='a' width='x'/></annotations>"
    bomb = '<!DOCTYPE a [<!ENTITY b "x">]><annotations>&b;</annotations>'
    for text in ("<annotation/>", "<annotations><image/></annotations>", "<a", image, bomb):
        (folder / "broken.xml").write_text(text)
        assert refused(*line, folder / "broken.xml").endswith(".\n")
    for text in ("{}", "[]", '{"pictures": [{"name": "../x"}]}', "\xff"):
        (folder / EXPORTED).write_text(text)
        assert "must be as lapsvm export writes it" in refused(*line, folder)
    assert not (run_copy / "verdicts.jsonl").exists()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("cat/one.jpg", "cat/one.jpg"),
        ("data/cat/one.jpg", "cat/one.jpg"),
        ("C:\\data\\dog\\one", "dog/one.jpg"),
        ("two", None),  # ".a" is no suffix
        ("two.a", "cat/two.a.png"),
        ("one.jpg", None),
        ("x/two.a.png", None),
        ("two.a.jpg", None),
        ("", None),
        ("cat/one_jpg.rf.0a1b2c3d.jpg", "cat/one.jpg"),  # of Roboflow
        ("cat/one_jpg.rf.0a1b2c3d", "cat/one.jpg"),
        ("two.a_png.rf.0a1b2c3d.jpg", "cat/two.a.png"),
        ("one_jpg.rf.0a1b2c3d.jpg", None),
        ("/data/upload/3/0a1b2c3d-two.a.png", "cat/two.a.png"),  # of Label Studio
        ("images\\0a1b2c3d-one.jpg", None),
        ("cat%2Fone.jpg", "cat/one.jpg"),
    ],
)
def test_a_name_means_the_exported_picture_whose_path_ends_like_it(name, meant):
    exported = ("cat/one.jpg", "dog/one.jpg", "cat/two.a.png")
    picture = FilePicture((name,), None, ())
    found, unknown, unequal = match_exported([picture], exported)
    assert (found, unknown, unequal) == (({meant: picture}, [], []) if meant else ({}, [name], []))


def test_records_of_one_picture_are_one_if_they_say_the_same_and_none_if_they_differ():
    box, other = FileBox("six", (1, 1, 20, 20)), FileBox("six", (1, 1, 20, 21))

    def matched(*records):
        pictures = [FilePicture((("one", "cat/one.jpg")[at % 2],), None, *given) for at, given in enumerate(records)]
        found, unknown, unequal = match_exported(pictures, ("cat/one.jpg",))
        assert unknown == []
        return [pictures.index(one) for one in found.values()] or unequal

    assert matched([(box, other)], [(other, box)]) == [0]
    assert matched([(box,)], [(box,)], [(other,)]) == ["cat/one.jpg"]
    assert matched([(box,)], [()]) == ["cat/one.jpg"]
    assert matched([(box,)], [(other,), True], [(other,), True]) == [1]  # the first is what nobody submitted
    assert matched([(box,), True], [(other,), True]) == ["cat/one.jpg"]


@pytest.mark.parametrize(
    "box",
    [
        FileBox("six", (1, 1, 20, 20), ROTATED),
        FileBox("", (), "without a label"),
        FileBox("Six", (1, 1, 20, 20)),
        FileBox("six", (20, 1, 10, 20)),
        FileBox("six", (200, 1, 300, 20)),
        FileBox("six", (5, 5, 92, 20)),
        FileBox("six", (float("nan"), 1, 10, 20)),
    ],
)
def test_pictures_with_a_box_that_cannot_be_used_are_left_out(monkeypatch, tmp_path, box):
    fields = {"name": "a.jpg", "id": "a", "pixels": "f00d", "width": 90, "height": 60, "classes": [], "boxes": []}
    (tmp_path / EXPORTED).write_text(json.dumps({"pictures": [fields]}))
    read = "lapsvm.pipelines.review.mended_export.read_mended"
    whole = FileBox("six", (5, 5, 90.8, 20))
    for boxes, count in (((box, whole), 0), ((whole,), 1)):
        file = AnnotatedFile([FilePicture(("a.jpg",), None, boxes)])
        monkeypatch.setattr(read, lambda _, given=file: ("coco", given))
        mended = MendedExport(tmp_path, {"a": "f00d"}, CLASSES)
        said = mended.verdicts(VerdictLog({}))
        assert len(said) == count
        assert len(mended.sentences) == 1 - count
    assert said[0].boxes == ((5.0, 5.0, 90.0, 20.0),)  # cut to the picture


@pytest.mark.parametrize(
    "names",
    ["names: [cat, 'big ''dog'', x', \"Ä\"]\n", "names:\n- cat\n- 'big ''dog'', x'\n- \"\\u00c4\"\n",
     "names:\n  0: cat\n  1: 'big ''dog'', x'\n  2: Ä\nnc: 3\n"],
)  # fmt: skip
def test_classes_of_yolo_are_read_as_other_programs_write_them(tmp_path, names):
    (tmp_path / "labels" / "train").mkdir(parents=True)
    (tmp_path / "data.yaml").write_text(f"train: images\n{names}", encoding="utf-8")
    (tmp_path / "labels" / "train" / "a.txt").write_text("".join(f"{at} .5 .5 1 1\n" for at in range(3)))
    (picture,) = read_mended(tmp_path)[1].pictures
    assert [box.class_name for box in picture.boxes] == ["cat", "big 'dog', x", "Ä"]
    (tmp_path / "labels" / "train" / "a.txt").write_text("3 .5 .5 1 1\n")
    (picture,) = read_mended(tmp_path)[1].pictures
    assert [box.fault for box in picture.boxes] == ["of a class number without a name"]


@pytest.mark.parametrize("name", EDITORS)
def test_awkward_names_come_back(tmp_path, name):
    """Every format's names, written by the export itself, mean the pictures that they are of."""
    names = ("cat/one.jpg", "dog/one.jpg", "images/50% #1+2.jpg", "zwei Äpfel & <b>.png", "日本/犬.jpg", "a b/c.d.jpg")
    pictures = []
    for number, one in enumerate(names):
        path = tmp_path / "data" / one
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (60, 40)).save(path)
        box = [[3.0 * number, 2.0, 50.0, 30.25]]
        pictures.append(AnnotatedPicture(one, path, 60, 40, ("six",), box, [0.5], id=str(number), pixels="f00d"))
    write_export(Annotations("trainval", CLASSES, tuple(pictures)), tmp_path / "out", name)
    mended = MendedExport(tmp_path / "out", {str(number): "f00d" for number in range(len(names))}, CLASSES)
    assert mended.sentences == []
    assert mended.verdicts(VerdictLog({})) == []
    said = mended.verdicts(VerdictLog({}), accept_unchanged=True)
    assert sorted((one.picture, one.boxes) for one in said) == [
        (str(number), ((3.0 * number, 2.0, 50.0, 30.25),)) for number in range(len(names))
    ]
