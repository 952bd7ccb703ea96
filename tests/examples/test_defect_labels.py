"""The script that labels pictures of defects by their names: public defect sets become one folder with a table."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.annotations.known_boxes import attach_boxes
from PIL import Image

from lapsvm.catalog import open_dataset

SCRIPT = Path(__file__).parents[2] / "examples" / "defect_labels.py"


def save_picture(path, rng):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(rng.integers(0, 256, (64, 80, 3)).astype(np.uint8)).save(path)


def label(folder):
    return subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True, check=False)


STEEL = """<annotation><filename>{name}.jpg</filename><size><width>80</width><height>64</height></size>
<object><name>{kind}</name><bndbox><xmin>11</xmin><ymin>5</ymin><xmax>30</xmax><ymax>24</ymax></bndbox></object>
</annotation>"""


@pytest.mark.parametrize(
    ("picture", "annotation", "sets"),
    [
        ("IMAGES/{name}.jpg", "ANNOTATIONS/{name}.xml", {"trainval": 6}),
        ("{part}/images/{kind}/{name}.jpg", "{part}/annotations/{name}.xml", {"train": 4, "validation": 2}),
    ],
)
def test_pictures_of_steel_get_labels_from_their_names_and_boxes_for_evaluation(tmp_path, picture, annotation, sets):
    root, rng = tmp_path / "NEU-DET", np.random.default_rng(0)
    for number in (1, 2, 3):
        for kind in ("crazing", "rolled-in_scale"):
            words = {"kind": kind, "name": f"{kind}_{number}", "part": "validation" if number == 3 else "train"}
            save_picture(root / picture.format(**words), rng)
            (root / annotation.format(**words)).parent.mkdir(parents=True, exist_ok=True)
            (root / annotation.format(**words)).write_text(STEEL.format(**words), encoding="utf-8")
    (root / "._crazing_1.jpg").write_bytes(b"left by a system")
    assert "6 pictures, crazing, rolled-in_scale" in label(root).stdout
    dataset = open_dataset("csv", root)
    records = {name: dataset.records(name) for name in dataset.sets}
    assert {name: len(of_set) for name, of_set in records.items()} == sets
    for record in (record for of_set in records.values() for record in of_set):
        assert [f"{name}_" in record.id for name in dataset.classes] == [one > 0 for one in record.labels.values()]
    boxes = attach_boxes(str(root), records, dataset.classes)
    assert {name: len(of_set) for name, of_set in boxes.pictures.items()} == sets
    for of_set in boxes.pictures.values():
        for image_id, ((kind, corners, difficult),) in of_set.items():
            assert (f"{kind}_" in image_id, corners, difficult) == (True, (10, 4, 30, 24), False)


def test_a_table_of_visa_gives_a_picture_each_of_its_defects(tmp_path):
    root, rng = tmp_path / "VisA" / "candle", np.random.default_rng(0)
    kinds = {"Normal/0000": "normal", "Anomaly/000": "melt", "Anomaly/001": '"melt,wick, bent"'}
    names = {name: f"Data/Images/{name}.JPG" for name in kinds}
    for name in names.values():
        save_picture(root / name, rng)
    rows = [f"candle/{names[name]},{kind},candle/Data/Masks/{name}.png" for name, kind in kinds.items()]
    (root / "image_anno.csv").write_text("\n".join(["image,label,mask", *rows]), encoding="utf-8")
    assert label(root).returncode == 0
    dataset = open_dataset("csv", root)
    shown = {one.id: {name for name, label in one.labels.items() if label > 0} for one in dataset.records("trainval")}
    defects = ({"melt"}, {"melt", "wick", "bent"})
    assert shown == dict(zip((f"Data/Images/{name}" for name in kinds), (set(), *defects), strict=True))


def test_pictures_with_empty_masks_are_good(tmp_path):
    rng = np.random.default_rng(0)
    for part, number, is_defect in (("train", 1, True), ("train", 2, False), ("test", 3, False), ("test", 4, True)):
        save_picture(tmp_path / part / f"1000{number}.png", rng)
        mask = np.zeros((64, 80), np.uint8)
        mask[:2] = 255 * is_defect
        Image.fromarray(mask).save(tmp_path / part / f"1000{number}_GT.png")
    assert "4 pictures, defect, good" in label(tmp_path).stdout
    dataset = open_dataset("csv", tmp_path)
    found = {name: {one.id: dict(one.labels) for one in dataset.records(name)} for name in ("train", "test")}
    assert found == {
        "train": {"train/10001": {"defect": 1}, "train/10002": {"defect": -1}},
        "test": {"test/10003": {"defect": -1}, "test/10004": {"defect": 1}},
    }


def test_a_picture_without_a_number_is_named(tmp_path):
    save_picture(tmp_path / "crazing.jpg", np.random.default_rng(0))
    done = label(tmp_path)
    assert (done.returncode, "crazing.jpg must be called by its defect" in done.stderr) == (1, True)
