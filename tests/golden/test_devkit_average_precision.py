"""Average precision as the devkit's own code computed it on made-up result files (see devkit/README.md)."""

import json
from pathlib import Path

import numpy as np
import pytest

from lapsvm.boxes import from_voc
from lapsvm.catalog import GroundTruth
from lapsvm.evaluation import evaluate_voc, read_results

FOLDER = Path(__file__).parent / "devkit"
DEVKIT = json.loads((FOLDER / "devkit.json").read_text())


@pytest.fixture(scope="module")
def ground_truth():
    rows = [line.split() for line in (FOLDER / "ground_truth.txt").read_text().splitlines()]
    images = (FOLDER / "test.txt").read_text().split()
    return {name: {image: objects(rows, image, name) for image in images} for name in {row[1] for row in rows}}


def objects(rows, image, name):
    here = [row[2:] for row in rows if row[:2] == [image, name]]
    boxes = from_voc([[float(edge) for edge in row[:4]] for row in here])
    return GroundTruth(boxes, np.array([row[4] == "1" for row in here], dtype=bool))


@pytest.mark.parametrize("overlap", DEVKIT)
def test_every_class_has_the_devkits_average_precision(ground_truth, overlap):
    report = evaluate_voc(read_results(FOLDER, "test"), ground_truth, float(overlap), grid="octave")
    found = {name: (result.ap_11point, result.ap_area) for name, result in report.classes.items()}
    for name, expected in DEVKIT[overlap].items():
        assert found[name] == pytest.approx((expected["ap_11point"], expected["ap_area"]), abs=1e-12), name


def test_the_grids_differ_where_recall_is_exactly_a_tenth(ground_truth):
    found = read_results(FOLDER, "test")
    by_grid = {grid: evaluate_voc(found, ground_truth, grid=grid) for grid in ("matlab", "octave", "exact")}
    points = {grid: report.classes["wing_nut"].ap_11point for grid, report in by_grid.items()}
    assert points["octave"] < points["matlab"] <= points["exact"]
    assert points["exact"] - points["octave"] < 3 / 11
    areas = {report.mean_ap_area for report in by_grid.values()}
    assert len(areas) == 1
