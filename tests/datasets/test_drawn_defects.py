"""The drawn set of defects: equal options give equal pictures, and the boxes hold what was drawn."""

import sys
from pathlib import Path

import numpy as np
import pytest

from lapsvm.annotations.voc import read_objects
from lapsvm.boxes import from_voc
from lapsvm.catalog import open_dataset

RECIPES = Path(__file__).parents[2] / "benchmarks" / "recipes"


@pytest.fixture(scope="module")
def drawn():
    sys.path.insert(0, str(RECIPES))
    try:
        yield __import__("drawn_defects")
    finally:
        sys.path.remove(str(RECIPES))
        sys.modules.pop("drawn_defects", None)


@pytest.fixture
def write(drawn, tmp_path, monkeypatch):
    def folder(name, *options):
        monkeypatch.setattr(sys, "argv", ["drawn_defects.py", str(tmp_path / name), *options])
        with pytest.raises(SystemExit) as ended:
            drawn.main()
        assert ended.value.code == 0
        return tmp_path / name

    return folder


SMALL = ("--pictures", "8", "--size", "320", "240")


def test_equal_options_give_equal_files_and_another_seed_others(write):
    first, again, other = write("a", *SMALL), write("b", *SMALL), write("c", *SMALL, "--seed", "1")
    files = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    assert len(files) == 2 * 8 * 2 + 2 * 4
    assert all((first / file).read_bytes() == (again / file).read_bytes() for file in files)
    pictures = [file for file in files if file.suffix == ".jpg"]
    assert not any((first / file).read_bytes() == (other / file).read_bytes() for file in pictures)


def test_a_quarter_is_free_and_boxes_have_the_sides_asked_for(write):
    root = write("a", *SMALL, "--sides", "20", "40")
    objects = [read_objects(file) for file in sorted(root.glob("Annotations/*.xml"))]
    assert [not found for found in objects].count(True) == 2 * 2
    boxes = from_voc([item.corners for found in objects for item in found])
    sides = boxes[:, 2:] - boxes[:, :2]
    assert len(boxes) >= 12
    assert sides.max(axis=1).min() >= 19
    assert sides.max(axis=1).max() <= 41
    assert (sides.min(axis=1) >= 5).all()
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2:] <= [320, 240]).all()


def test_the_lists_name_the_kinds_that_a_picture_has(write):
    root = write("a", *SMALL)
    dataset = open_dataset("voc", root)
    assert set(dataset.classes) == {"scratch", "spot", "chip"}
    for record in dataset.records("trainval"):
        shown = {item.name for item in read_objects(root / "Annotations" / f"{record.id}.xml")}
        assert {name for name, label in record.labels.items() if label == 1} == shown


@pytest.mark.parametrize("kind", ["scratch", "spot", "chip"])
def test_a_box_is_tight_around_a_visible_change(drawn, kind):
    for seed in range(20):
        change = np.abs(drawn.defect(np.random.default_rng(seed), kind, 30.0))
        shown = change >= drawn.VISIBLE * change.max()
        assert all(edge.any() for edge in (shown[0], shown[-1], shown[:, 0], shown[:, -1]))
        assert change.max() >= drawn.CONTRASTS[0]
        assert abs(max(change.shape) - 30) <= 1


def test_only_the_boxes_change(drawn):
    for seed in range(10):
        scene = np.zeros((240, 320, 3))
        placed = list(drawn.place(np.random.default_rng(seed), scene, ["chip", "spot", "scratch"], (14, 60)))
        outside = scene.copy()
        for x1, y1, x2, y2 in from_voc([corners for _, corners in placed]).astype(int):
            assert scene[y1:y2, x1:x2].any()
            outside[y1:y2, x1:x2] = 0
        assert placed
        assert not outside.any()
