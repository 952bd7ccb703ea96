"""Detections and boxes of any data set, evaluated by COCO's rules."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lapsvm.annotations.coco import read_coco, read_coco_results
from lapsvm.boxes import areas
from lapsvm.catalog import GroundTruth
from lapsvm.evaluation import Detections, as_coco, coco_evaluation, coco_rows, evaluate_voc

FOLDER = Path(__file__).parent / "coco"


def test_the_way_through_detections_changes_no_figure():
    pytest.importorskip("faster_coco_eval", reason="faster-coco-eval is not installed")
    truth = read_coco(FOLDER / "truth.json", boxes=True)
    results = read_coco_results(FOLDER / "results.json", truth)
    of_boxes = [replace(item, area=float(areas([item.corners])[0])) for item in truth.annotations]
    wanted = coco_rows(replace(truth, annotations=tuple(of_boxes)), results)
    detections, objects = coco_evaluation(truth, results)
    found = coco_rows(*as_coco(detections, objects))
    assert 0 < wanted["cat"]["coco_ap"] < 1
    for name, row in wanted.items():
        assert found[name] == pytest.approx(row, abs=1e-12)


@pytest.mark.parametrize(("box", "excused"), [((10, 10, 40, 40), True), ((400, 10, 430, 40), False)])
def test_a_small_box_inside_a_difficult_object_is_excused_by_coco_alone(box, excused):
    pytest.importorskip("faster_coco_eval", reason="faster-coco-eval is not installed")
    object_ = (200, 0, 300, 100)
    truth = {"cat": {"a": GroundTruth(np.array([(0, 0, 100, 100), object_], float), np.array([True, False]))}}
    found = {"cat": Detections(("a", "a"), [2.0, 1.0], [box, object_])}
    assert coco_rows(*as_coco(found, truth))["cat"]["coco_ap50"] == (1 if excused else 0.5)
    assert evaluate_voc(found, truth).classes["cat"].ap_area == 0.5
