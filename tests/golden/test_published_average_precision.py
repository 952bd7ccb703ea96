"""Numbers that others published or that the devkit itself computed, on the same files."""

import numpy as np
import pytest

from lapsvm.catalog import GroundTruth
from lapsvm.evaluation import Detections, evaluate_voc


def corner_boxes(rows):
    """x y w h of inclusive pixels, 1-based, as boxes in the house's convention."""
    x, y, w, h = np.array(rows, dtype=float).reshape(-1, 4).T
    return np.column_stack([x - 1, y - 1, x + w, y + h])


@pytest.fixture(scope="module")
def seven_pictures(real_data):
    """Seven pictures with 15 people and 24 detections, in file order."""
    folder = real_data / "eval_fixtures" / "padilla_7img"
    truth, found = {}, []
    for path in sorted((folder / "groundtruths").glob("*.txt")):
        boxes = corner_boxes([line.split()[1:] for line in path.read_text().splitlines()])
        truth[path.stem] = GroundTruth(boxes, np.zeros(len(boxes), dtype=bool))
    for path in sorted((folder / "detections").glob("*.txt")):
        rows = [line.split() for line in path.read_text().splitlines()]
        found.append((path.stem, corner_boxes([row[2:] for row in rows]), [float(row[1]) for row in rows]))
    return Detections.from_images(found), truth


def test_the_seven_pictures_have_their_published_average_precision(seven_pictures):
    found, truth = seven_pictures
    result = evaluate_voc({"person": found}, {"person": truth}, iou_threshold=0.3).classes["person"]
    assert (len(found), result.npos, int(result.tp.sum())) == (24, 15, 7)
    assert result.ap_11point == pytest.approx(0.2684, abs=5e-5)
    assert result.ap_area == pytest.approx(0.2457, abs=5e-5)


def test_the_order_of_equal_scores_moves_the_seven_pictures(seven_pictures):
    found, truth = seven_pictures
    back = Detections(found.image_ids[::-1], found.scores[::-1], found.boxes[::-1])
    result = evaluate_voc({"person": back}, {"person": truth}, iou_threshold=0.3).classes["person"]
    assert result.ap_area != pytest.approx(0.2457, abs=5e-5)
