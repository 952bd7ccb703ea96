"""The same boxes in every format: all readers take the same ones, and leave out and count the same ones."""

import json

import pytest
from lapsvm.pipelines.annotations.known_boxes import attach_boxes
from PIL import Image

from lapsvm.box_faults import EMPTY, NOT_NUMBERS, OTHER_SIZE, OUTSIDE, ROTATED, SHARES
from lapsvm.catalog import open_dataset
from lapsvm.errors import AnnotationError

GOOD = ((10.0, 12.0, 50.0, 40.0), None)
BAD = {
    "flat": (((10, 12, 10, 40), None), EMPTY),
    "swapped": (((50, 40, 10, 12), None), EMPTY),
    "beside the picture": (((500, 12, 540, 40), None), OUTSIDE),
    "of a larger picture": (((10, 12, 150, 120), None), OUTSIDE),
    "left of it": (((-30, 12, 20, 40), None), OUTSIDE),
    "rotated": (((10, 12, 50, 40), 90.0), ROTATED),
}


def xml(boxes, size):
    """VOC's, as CVAT writes an angle; None for no size."""
    objects = ""
    for (x1, y1, x2, y2), angle in boxes:
        sides = zip(("xmin", "ymin", "xmax", "ymax"), (x1 + 1, y1 + 1, x2, y2), strict=True)
        corners = "".join(f"<{side}>{value}</{side}>" for side, value in sides)
        turned = f"<attributes><attribute><name>rotation</name><value>{angle}</value></attribute></attributes>"
        objects += f"<object><name>cat</name><bndbox>{corners}</bndbox>{turned if angle is not None else ''}</object>"
    stated = "" if size is None else f"<size><width>{size[0]}</width><height>{size[1]}</height></size>"
    return f"<annotation>{stated}{objects}</annotation>"


def write_voc(root, boxes, size):
    for name, text in {
        "ImageSets/Main/trainval.txt": "a\nb\n",
        "ImageSets/Main/cat_trainval.txt": "a 1\nb -1\n",
        "Annotations/a.xml": xml(boxes, size),
        "Annotations/b.xml": xml([], size),
        "JPEGImages/README": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def write_coco(root, boxes, size):
    stated = {} if size is None else {"width": size[0], "height": size[1]}
    rows = [
        {"id": at, "image_id": 0, "category_id": 1, "bbox": [x1, y1, x2 - x1, y2 - y1]}
        | ({} if angle is None else {"attributes": {"occluded": False, "rotation": angle}})
        for at, ((x1, y1, x2, y2), angle) in enumerate(boxes)
    ]
    images = [{"id": at, "file_name": f"{name}.jpg", **stated} for at, name in enumerate("ab")]
    content = {"images": images, "annotations": rows, "categories": [{"id": 1, "name": "cat"}]}
    (root / "annotations.json").write_text(json.dumps(content))


def write_imagefolder(root, boxes, _):
    objects = {
        "bbox": [[x1, y1, x2 - x1, y2 - y1] for (x1, y1, x2, y2), _ in boxes],
        "categories": ["cat"] * len(boxes),
    }
    objects["rotation"] = [angle for _, angle in boxes]
    rows = [{"file_name": "a.jpg", "objects": objects}, {"file_name": "b.jpg", "objects": {"bbox": [], "category": []}}]
    (root / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


WRITERS = {"voc": write_voc, "coco": write_coco, "imagefolder": write_imagefolder}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("bad", BAD)
def test_a_reader_leaves_out_what_cannot_be_used_and_counts_it(tmp_path, name, bad):
    box, fault = BAD[bad]
    WRITERS[name](tmp_path, [GOOD, box], (90, 60))
    truth = open_dataset(name, tmp_path).ground_truth("trainval")
    if name == "imagefolder":  # its tables have no sizes: those of the pictures say what is outside
        truth = truth.checked({"a": (90, 60)})
    assert truth["cat"]["a"].boxes.tolist() == [list(GOOD[0])]
    assert truth["cat"]["b"].boxes.shape == (0, 4)
    assert (truth.faults, truth.total, truth.unknown) == ({fault: 1}, 2, frozenset())


@pytest.mark.parametrize("name", WRITERS)
def test_shares_of_the_sides_are_no_pixels(tmp_path, name):
    WRITERS[name](tmp_path, [((0.1, 0.2, 0.5, 0.6), None), ((0.3, 0.3, 0.9, 0.8), None)], None)
    truth = open_dataset(name, tmp_path).ground_truth("trainval")
    assert truth.is_empty
    assert (truth.faults, truth.unknown) == ({SHARES: 2}, {"a"})


@pytest.mark.parametrize("name", WRITERS)
def test_boxes_of_another_size_of_the_picture_are_left_out(tmp_path, name):
    WRITERS[name](tmp_path, [GOOD], (90, 60))
    truth = open_dataset(name, tmp_path).ground_truth("trainval").checked({"a": (45, 30), "b": (90, 60)})
    assert truth.faults == ({OUTSIDE: 1} if name == "imagefolder" else {OTHER_SIZE: 1})
    assert (truth.unknown, truth.is_empty) == ({"a"}, True)


@pytest.fixture(params=["voc", "coco"])
def attached(request, tmp_path):
    """Return a function that attaches boxes of a format to two pictures."""
    (tmp_path / "pics" / "cat").mkdir(parents=True)
    (tmp_path / "pics" / "none").mkdir()
    for path in ("cat/a.jpg", "none/b.jpg"):
        Image.new("RGB", (90, 60)).save(tmp_path / "pics" / path)
    records = {"trainval": open_dataset("folder", tmp_path / "pics").records("trainval")}

    def attach(boxes, size, real=(90, 60)):
        if request.param == "voc":
            (tmp_path / "xml").mkdir(exist_ok=True)
            (tmp_path / "xml" / "a.xml").write_text(xml(boxes, size))
            path = tmp_path / "xml"
        else:
            write_coco(tmp_path, boxes, size)
            path = tmp_path / "annotations.json"
        return attach_boxes(str(path), records, ("cat",), lambda *_: real)

    return attach


@pytest.mark.parametrize("bad", BAD)
def test_attached_boxes_are_judged_by_the_same_rule(attached, bad):
    box, fault = BAD[bad]
    found = attached([GOOD, box], None)
    assert found.pictures["trainval"]["cat/a"] == [("cat", GOOD[0], False)]
    assert f"1 of 2 annotations are left out of evaluation (1 {fault})" in found.sentences[0]
    with pytest.raises(AnnotationError, match="must have a usable box, but 1 of 1 annotations"):
        attached([box], None)


def test_attached_boxes_of_another_size_are_refused(attached):
    with pytest.raises(AnnotationError, match=f"1 {OTHER_SIZE}"):
        attached([GOOD], (180, 120))
    assert attached([GOOD], (180, 120), None).pictures["trainval"]["cat/a"]


def test_objects_without_an_upright_box_are_counted(tmp_path):
    """Of a VOC file: a turned box of another program, and an object that has a polygon alone."""
    turned = "<object><name>cat</name><robndbox><cx>9</cx><cy>9</cy><w>4</w><h>4</h></robndbox></object>"
    polygon = "<object><name>cat</name><polygon><x1>4</x1></polygon></object>"
    write_voc(tmp_path, [GOOD], None)
    path = tmp_path / "Annotations" / "a.xml"
    path.write_text(path.read_text().replace("</annotation>", f"{turned}{polygon}</annotation>"))
    truth = open_dataset("voc", tmp_path).ground_truth("trainval")
    assert truth.faults == {ROTATED: 1, "without a box": 1}


def test_numbers_that_are_no_box_are_counted(tmp_path):
    row = {"categories": ["cat"] * 4, "bbox": [[1, 1, 10**400, 1], [1, 2, 3], "x", [1, 1, 8, 8]]}
    (tmp_path / "metadata.jsonl").write_text(json.dumps({"file_name": "a.jpg", "objects": row}))
    truth = open_dataset("imagefolder", tmp_path).ground_truth("trainval")
    assert (truth.faults, len(truth["cat"]["a"].boxes)) == ({NOT_NUMBERS: 3}, 1)
