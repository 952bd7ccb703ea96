"""COCO's figures are those of pycocotools."""

import json
from pathlib import Path

import pytest

from lapsvm.annotations.coco import read_coco, read_coco_results
from lapsvm.evaluation import COCO_MEASURES, class_table, coco_rows

FOLDER = Path(__file__).parent / "coco"


@pytest.fixture(scope="module")
def pair():
    truth = read_coco(FOLDER / "truth.json", boxes=True)
    return truth, read_coco_results(FOLDER / "results.json", truth)


@pytest.fixture(scope="module")
def reference():
    return json.loads((FOLDER / "pycocotools.json").read_text())


@pytest.fixture(scope="module")
def table(pair):
    pytest.importorskip("faster_coco_eval", reason="faster-coco-eval is not installed")
    return class_table(coco_rows(*pair))


@pytest.mark.parametrize("name", ["cat", "dog", "fox", "yak"])
def test_each_category_has_the_figures_of_pycocotools(table, reference, name):
    assert list(table["classes"][name].values()) == pytest.approx(reference[name], abs=1e-12)
    assert tuple(table["classes"][name]) == COCO_MEASURES


def test_the_means_are_the_summary_of_pycocotools(table, reference):
    assert list(table["mean"].values()) == pytest.approx(reference["all"], abs=1e-12)
    assert 0 < table["mean"]["coco_ap"] < table["mean"]["coco_ap50"] < 1


def test_without_detections_every_defined_figure_is_zero(pair):
    pytest.importorskip("faster_coco_eval", reason="faster-coco-eval is not installed")
    rows = coco_rows(pair[0], [])
    assert set(rows["cat"].values()) == {0.0}
    assert set(rows["yak"].values()) == {None}
