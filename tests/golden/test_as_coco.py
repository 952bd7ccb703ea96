"""Detections and boxes of any data set, evaluated by COCO's rules."""

from dataclasses import replace
from pathlib import Path

import pytest

from lapsvm.boxes import areas
from lapsvm.coco_files import read_coco, read_coco_results
from lapsvm.evaluation import as_coco, coco_evaluation, coco_rows

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
