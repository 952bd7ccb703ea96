"""Every reader of files that somebody else wrote, with sound files and strategies that change these."""

import json
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from lapsvm.pipelines.annotations.known_boxes import attach_boxes
from lapsvm.pipelines.review.mended_export import MendedExport
from lapsvm.pipelines.settings.checks import check_settings
from lapsvm.pipelines.settings.recipes import recipe_values
from lapsvm.pipelines.settings.settings import Settings
from lapsvm.pipelines.verdicts.counting import usable_verdicts
from lapsvm.pipelines.verdicts.verdict import VERDICTS, VerdictLog, read_verdicts

from lapsvm.annotations.coco import read_coco, read_coco_results
from lapsvm.catalog import ImageRecord, open_dataset
from lapsvm.detection import Detector
from lapsvm.detection.scoring import model_hash
from lapsvm.evaluation import read_result_file
from lapsvm.inspection.alarm_rate import AlarmRate
from lapsvm.inspection.threshold import AlarmThreshold
from lapsvm.inspection.threshold_file import signed
from lapsvm.inspection.whole_pictures import PictureModel

from .law import Data
from .trees import (
    altered,
    encoded,
    json_files,
    json_lines,
    json_text,
    lines_of_json,
    often_whole,
    table_text,
    tables,
    toml_files,
    toml_text,
    xml_files,
    xml_text,
    yaml_files,
    yaml_text,
)

SIZE = (80, 60)


class Door(NamedTuple):
    """A reader: sound files by name, the strategies that change them, and the function that reads a folder of them."""

    sound: dict[str, bytes]
    changed: dict[str, Any]
    read: Any


def cases(door):
    """Return the strategy of a door's cases: one or two files are changed, and seldom one is not there."""

    @st.composite
    def drawn(draw):
        case = dict(door.sound)
        for name in draw(st.lists(st.sampled_from(sorted(door.changed)), min_size=1, max_size=2, unique=True)):
            case[name] = Data(draw(door.changed[name]))
        if len(case) > 1 and draw(st.integers(0, 19)) == 19:
            del case[draw(st.sampled_from(sorted(case)))]
        return case

    return drawn()


# ---- data sets ----
COCO = {
    "images": [
        {"id": 1, "file_name": "a.jpg", "width": 80, "height": 60},
        {"id": "b", "file_name": "sub/b.jpg", "width": 80, "height": 60},
    ],
    "categories": [{"id": 1, "name": "cat"}, {"id": 2.0, "name": "dog"}],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 30, 40], "area": 1200, "iscrowd": 0},
        {"id": 2, "image_id": "b", "category_id": 2, "bbox": [1.5, 2, 3, 4], "attributes": {"rotation": 0.0}},
        {"id": 3, "image_id": 1, "category_id": 2, "segmentation": {"counts": [1], "size": [2, 2]}, "iscrowd": 1},
    ],
}
RESULTS = [
    {"image_id": 1, "category_id": 1, "bbox": [1, 2, 30, 40], "score": 0.5},
    {"image_id": "b", "category_id": 2, "bbox": [1, 2, 3.5, 4], "score": 1},
]
VOC = ["annotation", {}, "", [
    ["filename", {}, "a.jpg", []],
    ["size", {}, "", [["width", {}, "80", []], ["height", {}, "60", []], ["depth", {}, "3", []]]],
    *(["object", {}, "", [["name", {}, name, []], ["difficult", {}, "0", []], ["bndbox", {}, "", [
        ["xmin", {}, "1", []], ["ymin", {}, "2", []], ["xmax", {}, "30.0", []], ["ymax", {}, "40", []]]]]]
      for name in ("cat", "dog")),
]]  # fmt: skip
LABELS = [
    ["image", "label", "set"],
    ["a.jpg", "cat", "trainval"],
    ["a.jpg", "dog", "trainval"],
    ["b, c.jpg", "", "test"],
]
METADATA = [
    {"file_name": "a.jpg", "objects": {"categories": ["cat", 1], "bbox": [[1, 2, 3, 4], [5, 6, 7.5, 8]]}},
    {"file_name": "b.jpg", "objects": {"categories": [], "bbox": []}},
    {"file_name": "c.jpg", "label": 1.0, "objects": {"category": ["cat"], "bbox": [[0, 0, 1, 1]], "rotation": [0]}},
]
METADATA_TABLE = [["file_name", "label", "objects"], ["a.jpg", "cat", ""], ["b.jpg", "", '{"categories": [1]}']]
VOC_LISTS = {
    "ImageSets/Main/trainval.txt": [["a"], ["b"]],
    "ImageSets/Main/cat_trainval.txt": [["a", "", "1"], ["b", "-1"]],
    "ImageSets/Main/dog_trainval.txt": [["a", "-1"], ["b", "", "0"]],
}


def read_data(name):
    """Return a function that opens a data set of a folder, and checks labels and boxes."""

    def read(folder):
        dataset = open_dataset(name, folder)
        for set_name in dataset.sets:
            check_records(dataset.records(set_name), dataset.classes, folder)
            check_truth(dataset.ground_truth(set_name), dataset.classes)
        getattr(dataset, "ignored_files", dict)()
        for set_name in dataset.sets if name == "coco" else ():
            dataset.unusable_boxes(set_name).encode()

    return read


def check_records(records, classes, root):
    """Check that ids differ and are words, labels are labels, and paths stay below the folder."""
    assert len({one.id for one in records}) == len(records)
    for record in records:
        assert record.id
        assert not set(record.id) & set(" \t\n\0")
        assert {record.labels.get(name, 0) for name in classes} <= {-1, 0, 1}
        assert record.path.is_relative_to(root)
        assert ".." not in record.path.relative_to(root).parts


def check_truth(truth, classes):
    """Check that boxes of evaluation are finite and have an area."""
    for of_class in ({} if truth is None else truth).values():
        for one in of_class.values():
            check_boxes(one.boxes)
            assert one.difficult.shape == (len(one.boxes),)


def check_boxes(boxes):
    """Check boxes (n, 4)."""
    boxes = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    assert np.isfinite(boxes).all()
    assert (boxes[:, :2] < boxes[:, 2:]).all()


def _listed(rows):
    return often_whole(tables(rows, (" ", "  ", "\t")))


DATA = {
    "coco": Door({"annotations.json": json_text(COCO)}, {"annotations.json": json_files(COCO)}, read_data("coco")),
    "voc": Door(
        {name: table_text(rows, " ") for name, rows in VOC_LISTS.items()}
        | {f"Annotations/{name}.xml": xml_text(VOC).encode() for name in "ab"}
        | {f"JPEGImages/{name}.jpg": b"" for name in "ab"},
        {name: _listed(rows) for name, rows in VOC_LISTS.items()} | {"Annotations/a.xml": xml_files(VOC)},
        read_data("voc"),
    ),
    "csv": Door({"labels.csv": table_text(LABELS, ",")}, {"labels.csv": tables(LABELS)}, read_data("csv")),
    "imagefolder": Door(
        {"metadata.jsonl": lines_of_json(METADATA)}, {"metadata.jsonl": json_lines(METADATA)}, read_data("imagefolder")
    ),
    "imagefolder-csv": Door(
        {"train/metadata.csv": table_text(METADATA_TABLE, ",")},
        {"train/metadata.csv": tables(METADATA_TABLE)},
        read_data("imagefolder"),
    ),
}


# ---- boxes of other programs ----
def _exported():
    pictures = [
        {"id": name, "name": f"{name}.jpg", "pixels": "0" * 32, "width": SIZE[0], "height": SIZE[1],
         "classes": ["cat"], "boxes": [[1.0, 2.0, 30.0, 40.0]]}
        for name in ("a", "sub/b")
    ]  # fmt: skip
    return {"set": "trainval", "pictures": pictures}


TASKS = [
    {"id": 1, "data": {"image": "/data/local-files/?d=pictures/a.jpg"}, "predictions": [], "annotations": [
        {"was_cancelled": False, "result": [
            {"type": "rectanglelabels", "original_width": 80, "original_height": 60, "image_rotation": 0, "value":
             {"x": 10, "y": 10.5, "width": 20, "height": 30, "rotation": 0, "rectanglelabels": ["cat"]}},
            {"type": "choices", "value": {"choices": ["a"]}},
        ]}]},
    {"id": 2, "data": {"image": "sub/b.jpg"}, "predictions": [{"result": []}]},
]  # fmt: skip
CVAT = ["annotations", {}, "", [["version", {}, "1.1", []],
    ["image", {"id": 0, "name": "a.jpg", "width": 80, "height": 60}, "", [
    ["box", {"label": "cat", "xtl": 1, "ytl": 2, "xbr": 30.5, "ybr": 40, "rotation": 0}, "", []],
    ["tag", {"label": "dog"}, "", []]]]]]  # fmt: skip
YAML = {"path": ".", "train": "images/train", "names": {"0": "cat", "1": "dog"}, "nc": 2}
YOLO = [["0", ".5", ".5", ".25", ".5"], ["1.0", "0.25", "0.25", "0.5", "0.5"]]


def read_merge(name=""):
    """Return a function that takes a folder, or a file in it, as an export that came back."""

    def read(folder):
        export = MendedExport(folder / name, {"a": "0" * 32, "sub/b": "0" * 32}, ("cat", "dog"))
        for accepts in (False, True):
            for verdict in export.verdicts(VerdictLog({}), accept_unchanged=accepts):
                assert verdict.verdict in VERDICTS
                check_boxes(verdict.boxes)
                assert verdict.line().encode()
        "".join(export.sentences).encode("utf-8", "surrogatepass")

    return read


def _merge(files, changed, name=""):
    record = _exported()
    return Door(
        {"exported.json": json_text(record), **files},
        {"exported.json": json_files(record), **changed},
        read_merge(name),
    )


def read_attached(name):
    """Return a function that takes a file or folder as boxes of a run's pictures."""

    def read(folder):
        records = {"trainval": [ImageRecord(one, folder / f"{one}.jpg", {"cat": 1}) for one in ("a", "sub/b")]}
        found = attach_boxes(str(folder / name), records, ["cat", "dog"], lambda *_: SIZE)
        for objects in found.pictures["trainval"].values():
            check_boxes([corners for _, corners, _ in objects])
        "".join(found.sentences).encode("utf-8", "surrogatepass")

    return read


MERGED = {
    "merge-coco": _merge({"annotations.json": json_text(COCO)}, {"annotations.json": json_files(COCO)}),
    "merge-voc": _merge({"Annotations/a.xml": xml_text(VOC).encode()}, {"Annotations/a.xml": xml_files(VOC)}),
    "merge-label-studio": _merge({"tasks.json": json_text(TASKS)}, {"tasks.json": json_files(TASKS)}),
    "merge-cvat": _merge(
        {"annotations.xml": xml_text(CVAT).encode()}, {"annotations.xml": xml_files(CVAT)}, "annotations.xml"
    ),
    "merge-yolo": _merge(
        {"data.yaml": yaml_text(YAML).encode(), "labels/train/a.txt": table_text(YOLO, " ")},
        {"data.yaml": yaml_files(YAML), "labels/train/a.txt": _listed(YOLO)},
    ),
    "boxes-coco": Door({"a.json": json_text(COCO)}, {"a.json": json_files(COCO)}, read_attached("a.json")),
    "boxes-voc": Door({"x/a.xml": xml_text(VOC).encode()}, {"x/a.xml": xml_files(VOC)}, read_attached("x")),
}


# ---- settings, verdicts, results ----
SETTINGS = Settings().flat()
SOME = {name: SETTINGS[name] for name in ("data.name", "windows.max_windows", "features.sizes", "train.C", "seed")}
VERDICT = {
    "picture": "a", "pixels": "0" * 32, "class": "cat", "verdict": "boxes", "boxes": [[1, 2, 30.5, 40]],
    "order": "random", "candidates": [[1, 2, 3, 4]], "seconds": 1.5,
}  # fmt: skip
NONE = {"picture": "b", "class": "cat", "verdict": "none", "candidates": [[0, 0, 9, 9]]}


def read_verdict_file(folder):
    """Read verdicts, and use those whose boxes lie in their pictures."""
    log = read_verdicts(folder / "verdicts.jsonl")
    given = [one for of_class in log.by_class.values() for one in of_class.values()]
    kept, sentences = usable_verdicts(given, ["cat"], lambda _: SIZE)
    for verdict in kept:
        check_boxes(verdict.boxes)
        assert verdict.line().endswith("\n")
    "".join([*sentences, log.damage]).encode("utf-8", "surrogatepass")


def read_coco_figures(folder):
    """Read results on ground truth."""
    truth = read_coco(folder / "truth.json", boxes=True)
    check_boxes([one.corners for one in truth.annotations if one.corners is not None])
    for result in read_coco_results(folder / "results.json", truth):
        assert np.isfinite([result.score, *result.corners]).all()


def read_lines(folder):
    """Read a result file of the devkit."""
    found = read_result_file(folder / "comp3_det_test_cat.txt")
    assert np.isfinite(found.scores).all()
    assert found.boxes.shape == (len(found.scores), 4)


def read_threshold(folder):
    """Read a threshold of false alarms, judge a picture by it, and write it again."""
    alarm = AlarmThreshold.load(folder / "threshold.json")
    assert alarm.decide({"cat": 2.0}).is_ok == (alarm.probability > 2)
    for shares in (alarm.held_out, alarm.tested):
        for share in shares.values():
            low, high = share.interval
            assert 0 <= low <= high <= 1
            str(share).encode()
    for model in alarm.pictures.values():
        assert 0 <= model.probability([0.5], [0.25])[0] <= 1
    alarm.as_text({"cat": CAT.calibration}).encode()


def signed_files(tree):
    """Draw files that say almost what a threshold's says, with the digest of what they say."""
    written = altered(tree).map(lambda one: signed(one) if isinstance(one, dict) else json.dumps(one))
    return often_whole(written.map(encoded))


CAT = Detector("cat", [1.0, 2.0], 0.5, [1.0, 3.0])
SHARES = {"ok": AlarmRate(1, 40), "cat": AlarmRate(9, 10)}
WHOLE = {"cat": PictureModel(2.0, -1.0, [0.5, 4.0])}
THRESHOLD = json.loads(
    AlarmThreshold(0.3, 0.05, {"cat": model_hash(CAT)}, SHARES, SHARES, WHOLE).as_text({"cat": CAT.calibration})
)
LINES = [["a", "1.5", "1", "2", "3", "4"], ["b", "-0.25", "1.0", "2", "3.5", "4"]]
STRICT = {**COCO, "annotations": COCO["annotations"][:2]}
SAID = {
    "settings": Door(
        {"run.toml": toml_text(SOME)},
        {"run.toml": toml_files(SOME)},
        lambda folder: check_settings(Settings.read(folder / "run.toml")),
    ),
    "recipe": Door(
        {"a.toml": toml_text(SETTINGS)},
        {"a.toml": toml_files(SETTINGS)},
        lambda folder: recipe_values(str(folder / "a.toml")),
    ),
    "threshold": Door(
        {"threshold.json": encoded(signed(THRESHOLD))}, {"threshold.json": signed_files(THRESHOLD)}, read_threshold
    ),
    "verdicts": Door(
        {"verdicts.jsonl": lines_of_json([VERDICT, NONE])},
        {"verdicts.jsonl": json_lines([VERDICT, NONE])},
        read_verdict_file,
    ),
    "results": Door(
        {"comp3_det_test_cat.txt": table_text(LINES, " ")}, {"comp3_det_test_cat.txt": _listed(LINES)}, read_lines
    ),
    "coco-results": Door(
        {"truth.json": json_text(STRICT), "results.json": json_text(RESULTS)},
        {"truth.json": json_files(STRICT), "results.json": json_files(RESULTS)},
        read_coco_figures,
    ),
}
