"""`lapsvm evaluate --coco`: COCO files give the figures of VOC."""

import json
import shutil
import sys

import numpy as np
import pytest


def write_pair(tmp_path, seed=0):
    """A ground truth of three categories in twenty pictures, and detections beside and on the objects."""
    rng = np.random.default_rng(seed)
    images = [{"id": number, "file_name": f"{number}.jpg", "width": 100, "height": 100} for number in range(20)]
    objects, results = [], []
    for image in images:
        for _ in range(rng.integers(0, 4)):
            box, category = (
                [*rng.integers(0, 60, 2).tolist(), *rng.integers(10, 40, 2).tolist()],
                int(rng.integers(1, 3)),
            )
            objects.append(
                {"id": len(objects), "image_id": image["id"], "category_id": category, "bbox": box, "iscrowd": 0}
            )
            moved = (np.array(box) + rng.integers(-4, 5, 4)).tolist()
            results.append({"image_id": image["id"], "category_id": category, "bbox": moved, "score": rng.normal()})
    objects[3]["iscrowd"] = 1
    categories = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}, {"id": 3, "name": "nothing here"}]
    truth = {"images": images, "annotations": objects, "categories": categories}
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "results.json").write_text(json.dumps(results))
    return truth, results


def write_voc(tmp_path, truth, results):
    """The same as VOC annotations and result files."""
    for folder in ("VOC/Annotations", "VOC/ImageSets/Main", "results"):
        (tmp_path / folder).mkdir(parents=True)
    names = {one["id"]: one["name"].replace(" ", "_") for one in truth["categories"]}
    for image in truth["images"]:
        text = ""
        for one in truth["annotations"]:
            if one["image_id"] == image["id"]:
                x, y, w, h = one["bbox"]
                corners = f"<xmin>{x + 1}</xmin><ymin>{y + 1}</ymin><xmax>{x + w}</xmax><ymax>{y + h}</ymax>"
                name = f"<name>{names[one['category_id']]}</name><difficult>{one['iscrowd']}</difficult>"
                text += f"<object>{name}<bndbox>{corners}</bndbox></object>"
        (tmp_path / f"VOC/Annotations/{image['id']}.xml").write_text(f"<annotation>{text}</annotation>")
    ids = "".join(f"{image['id']}\n" for image in truth["images"])
    (tmp_path / "VOC/ImageSets/Main/test.txt").write_text(ids)
    for key, name in names.items():
        lines = ""
        for one in results:
            if one["category_id"] == key:
                x, y, w, h = one["bbox"]
                lines += f"{one['image_id']} {one['score']!r} {x + 1} {y + 1} {x + w} {y + h}\n"
        (tmp_path / f"results/comp4_det_test_{name}.txt").write_text(lines)


@pytest.mark.parametrize("iou", ["0.5", "0.7"])
def test_coco_files_give_the_figures_of_the_same_voc_files(command, tmp_path, iou):
    truth, results = write_pair(tmp_path)
    write_voc(tmp_path, truth, results)
    common = ["--iou", iou, "--quiet", "--json"]
    coco = command(
        "evaluate", "--coco", tmp_path / "truth.json", "--results", tmp_path / "results.json", *common, tmp_path / "a"
    )
    voc = command("evaluate", "--root", tmp_path / "VOC", "--results", tmp_path / "results", *common, tmp_path / "b")
    assert (coco.status, voc.status) == (0, 0), (coco, voc)
    found, wanted = (json.loads((tmp_path / name).read_text()) for name in "ab")
    assert found["mean"] == wanted["mean"]
    assert 0 < found["mean"]["ap_area"] < 1
    assert found["classes"]["nothing here"] == {"ap_11point": None, "ap_area": None, "npos": 0}
    assert [found["classes"][name] for name in ("cat", "dog")] == [wanted["classes"][name] for name in ("cat", "dog")]


def test_an_export_of_a_run_is_evaluated_as_the_run(command, finished, tmp_path):
    """All boxes as COCO results, against the data set's own boxes as COCO annotations."""
    from lapsvm.pipelines.run.folder import RunFolder

    from lapsvm.catalog import open_dataset

    exported = tmp_path / "out"
    command("export", "--out", finished, "--to", exported, "--format", "coco", "--per-class", "100")
    truth = json.loads((exported / "annotations.json").read_text())
    dataset = open_dataset("voc", RunFolder(finished).settings().data.root, classes=("six", "three"))
    numbers = {one["name"]: one["id"] for one in truth["categories"]}
    images = {one["file_name"]: one["id"] for one in truth["images"]}
    truth["annotations"] = [
        {
            "image_id": images[f"JPEGImages/{image_id}.jpg"],
            "category_id": numbers[name],
            "bbox": [box[0], box[1], box[2] - box[0], box[3] - box[1]],
            "iscrowd": int(difficult),
        }
        for name, of_class in dataset.ground_truth("test").items()
        for image_id, objects in of_class.items()
        for box, difficult in zip(objects.boxes.tolist(), objects.difficult, strict=True)
    ]
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    result = command(
        "evaluate", "--coco", tmp_path / "truth.json", "--results", exported / "results.json", "--json", tmp_path / "a"
    )
    assert result.status == 0, result.err
    assert "ap" in result.out.lower()
    own = json.loads((finished / "evaluation.json").read_text())["sets"]["test"]
    found = json.loads((tmp_path / "a").read_text())
    for name in ("six", "three"):
        for figure in ("ap_11point", "ap_area"):
            assert found["classes"][name][figure] == pytest.approx(own["classes"][name][figure], abs=1e-12)


def test_wrong_calls_are_one_sentence(refused, tmp_path):
    truth, _ = write_pair(tmp_path)
    pair = ("--coco", tmp_path / "truth.json", "--results", tmp_path / "results.json")
    assert "is not there" in refused("evaluate", *pair[:3], tmp_path / "none")
    (tmp_path / "truth.json").write_text(json.dumps(truth | {"images": []}))
    assert "must have an image of the file" in refused("evaluate", *pair)


def test_coco_metrics_stand_beside_those_of_voc(command, refused, tmp_path):
    pytest.importorskip("faster_coco_eval", reason="faster-coco-eval is not installed")
    write_pair(tmp_path)
    pair = ["--coco", tmp_path / "truth.json", "--results", tmp_path / "results.json", "--json", tmp_path / "a"]
    result = command("evaluate", *pair, "--metrics", "voc,coco")
    assert result.status == 0, result.err
    assert "COCO AP" in result.out
    assert "11-point" in result.out
    found = json.loads((tmp_path / "a").read_text())
    assert 0 < found["mean"]["coco_ap"] < found["mean"]["coco_ap50"]
    assert found["classes"]["nothing here"]["coco_ap"] is None
    assert "--metrics must name some of voc, coco, got 'tide'" in refused("evaluate", *pair, "--metrics", "voc,tide")


def test_without_the_evaluator_the_extra_is_named(refused, finished, tmp_path, monkeypatch):
    write_pair(tmp_path)
    monkeypatch.setitem(sys.modules, "faster_coco_eval", None)
    pair = ["--coco", tmp_path / "truth.json", "--results", tmp_path / "results.json"]
    for form in (pair, ["--out", finished]):
        assert 'pip install ".[coco]" in the folder of the source' in refused("evaluate", *form, "--metrics", "coco")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"attributes": {"rotation": 30.0}}, "with a rotated box"),
        ({"bbox": [9000, 9000, 10, 10]}, "with a box outside of the picture"),
        ({"bbox": [20, 20, -5, 10]}, "with an empty box"),
    ],
)
def test_annotations_that_cannot_be_used_are_counted(command, refused, tmp_path, change, fault):
    truth, _ = write_pair(tmp_path)
    images = [one | {"width": 800, "height": 600} for one in truth["images"]]
    first, *others = truth["annotations"]
    line = ("evaluate", "--coco", tmp_path / "truth.json", "--results", tmp_path / "results.json")
    (tmp_path / "truth.json").write_text(
        json.dumps(truth | {"images": images, "annotations": [first | change, *others]})
    )
    said = command(*line)
    assert said.status == 0, said.err
    count = f"1 of {len(others) + 1:,} annotations are left out of evaluation (1 {fault})"
    assert f"{tmp_path / 'truth.json'}: {count}" in said.err
    (tmp_path / "truth.json").write_text(json.dumps(truth | {"images": images, "annotations": [first | change]}))
    assert "must have a usable box, but 1 of 1 annotations" in refused(*line)


def test_rotated_boxes_of_voc_files_are_counted(command, refused, finished, digits, tmp_path):
    data = shutil.copytree(digits, tmp_path / "data")
    turned = "<attributes><attribute><name>rotation</name><value>90.0</value></attribute></attributes></object>"
    paths = [path for path in sorted((data / "Annotations").iterdir()) if "<object>" in path.read_text()]
    ids = (data / "ImageSets" / "Main" / "test.txt").read_text().split()
    line = ("evaluate", "--root", data, "--results", finished / "detections" / "test")
    (first, *others) = [path for path in paths if path.stem in ids]
    first.write_text(first.read_text().replace("</object>", turned))
    said = command(*line)
    assert said.status == 0, said.err
    assert f"{first.read_text().count('<object>')} with a rotated box" in said.err
    for path in others:
        path.write_text(path.read_text().replace("</object>", turned))
    assert "must have a usable box" in refused(*line)


ODD = {
    "flat": (lambda x, y, w, h: [x, y, 0, h], "detections are with an empty box, which matches no object"),
    "swapped": (lambda x, y, w, h: [x + w, y + h, -w, -h], "with an empty box"),
    "shares": (lambda x, y, w, h: [x / 100, y / 100, w / 100, h / 100], "in shares of the picture's sides"),
}


@pytest.mark.parametrize("kind", ODD)
def test_detections_that_can_match_nothing_are_counted(command, tmp_path, kind):
    change, sentence = ODD[kind]
    truth, results = write_pair(tmp_path)
    for one in results:
        one["bbox"] = change(*one["bbox"])
    (tmp_path / "results.json").write_text(json.dumps(results))
    write_voc(tmp_path, truth, results)
    for line in (("--coco", "truth.json", "--results", "results.json"), ("--root", "VOC", "--results", "results")):
        said = command("evaluate", line[0], tmp_path / line[1], line[2], tmp_path / line[3])
        assert said.status == 0, said.err
        assert f"{len(results)} of {len(results)} detections are" in said.err
        assert sentence in said.err


ORDERS = {
    "corners": (
        lambda x, y, w, h: [x, y, x + w, y + h],
        "are their numbers x1, y1, x2, y2, and not x, y, width, height?",
    ),
    "middles": (
        lambda x, y, w, h: [x + w / 2, y + h / 2, w, h],
        "are their numbers x, y of the middle, width, height, and not x, y, width, height?",
    ),
    "lines first": (lambda x, y, w, h: [y, x, h, w], "are their numbers y, x, height, width, and not x, y,"),
    "of a larger picture": (lambda *box: [4 * value for value in box], "which matches objects badly\n"),
}


@pytest.mark.parametrize("kind", ORDERS)
def test_detections_in_another_order_of_numbers_are_asked_for(command, tmp_path, kind):
    """The pictures are 400 x 100 pixels, with boxes everywhere in them."""
    change, sentence = ORDERS[kind]
    boxes = [[10 + 60 * at, 5 + 9 * at, 45.0, 40.0] for at in range(6)]
    images = [{"id": at, "file_name": f"{at}.jpg", "width": 400, "height": 100} for at in range(6)]
    rows = [{"id": at, "image_id": at, "category_id": 1, "bbox": box} for at, box in enumerate(boxes)]
    truth = {"images": images, "categories": [{"id": 1, "name": "cat"}], "annotations": rows}
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    said = {}
    for name, turn in (("plain", lambda *box: list(box)), ("changed", change)):
        results = [
            {"image_id": row["image_id"], "category_id": 1, "bbox": turn(*row["bbox"]), "score": 1} for row in rows
        ]
        (tmp_path / "results.json").write_text(json.dumps(results))
        said[name] = command("evaluate", "--coco", tmp_path / "truth.json", "--results", tmp_path / "results.json").err
    assert said["plain"] == ""
    assert "detections are with a box outside of the picture" in said["changed"]
    assert sentence in said["changed"]


def test_widths_in_files_of_corners_are_asked_for(command, tmp_path):
    boxes = [(10 + 60 * at, 5 + 9 * at, 45, 40) for at in range(6)]
    (tmp_path / "VOC" / "ImageSets" / "Main").mkdir(parents=True)
    (tmp_path / "VOC" / "Annotations").mkdir()
    (tmp_path / "VOC" / "ImageSets" / "Main" / "test.txt").write_text("".join(f"p{at}\n" for at in range(6)))
    for at, (x, y, w, h) in enumerate(boxes):
        corners = "".join(
            f"<{name}>{value}</{name}>"
            for name, value in zip(("xmin", "ymin", "xmax", "ymax"), (x, y, x + w, y + h), strict=True)
        )
        size = "<size><width>400</width><height>100</height></size>"
        text = f"<annotation>{size}<object><name>cat</name><bndbox>{corners}</bndbox></object></annotation>"
        (tmp_path / "VOC" / "Annotations" / f"p{at}.xml").write_text(text)
    (tmp_path / "results").mkdir()
    lines = [f"p{at} 1 {x} {y} {w} {h}\n" for at, (x, y, w, h) in enumerate(boxes)]
    (tmp_path / "results" / "comp4_det_test_cat.txt").write_text("".join(lines))
    said = command("evaluate", "--root", tmp_path / "VOC", "--results", tmp_path / "results")
    assert "5 of 6 detections are with an empty box, which matches no object" in said.err
    assert "are their numbers x, y, width, height, and not x1, y1, x2, y2?" in said.err
