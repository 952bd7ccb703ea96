"""Tables of numbers per class, as JSON."""

import json

import numpy as np
import pytest

from lapsvm.boxes import from_voc
from lapsvm.catalog import GroundTruth
from lapsvm.errors import NotFiniteError
from lapsvm.evaluation import Detections, class_table, corloc, evaluate_voc, write_json

BOX = from_voc([[1, 1, 10, 10]])
FOUND = Detections(("a",), [1], BOX)
TRUTH = {
    "cat": {"a": GroundTruth(BOX, np.zeros(1, dtype=bool))},
    "dog": {"a": GroundTruth(np.empty((0, 4)), np.empty(0, dtype=bool))},
    "cow": {"a": GroundTruth(BOX + 50, np.zeros(1, dtype=bool))},
}


def test_the_table_of_an_evaluation_has_both_average_precisions_and_their_means():
    report = evaluate_voc(dict.fromkeys(TRUTH, FOUND), TRUTH)
    assert class_table(report.rows()) == {
        "classes": {
            "cat": {"ap_11point": 1.0, "ap_area": 1.0, "npos": 1},
            "dog": {"ap_11point": None, "ap_area": None, "npos": 0},
            "cow": {"ap_11point": 0.0, "ap_area": 0.0, "npos": 1},
        },
        "mean": {"ap_11point": (1 + 0) / 2, "ap_area": (1 + 0) / 2},
    }


def test_a_table_joins_measures():
    found = dict.fromkeys(["cat", "dog"], FOUND)
    test = class_table(evaluate_voc(found, TRUTH).rows(), {"cat": {"image_ap": 0.5}, "dog": {"image_ap": 0.25}})
    trainval = class_table(corloc(found, TRUTH).rows(), {"cat": {"image_ap": 1.0}, "dog": {"image_ap": None}})
    assert test["classes"]["dog"] == {"ap_11point": None, "ap_area": None, "npos": 0, "image_ap": 0.25}
    assert test["mean"] == {"ap_11point": 1.0, "ap_area": 1.0, "image_ap": (0.5 + 0.25) / 2}
    assert trainval["classes"]["cat"] == {"corloc": 1.0, "image_ap": 1.0}
    assert trainval["mean"] == {"corloc": 1.0, "image_ap": 1.0}


def test_a_class_that_one_measure_lacks_gets_null():
    table = class_table({"cat": {"corloc": 1.0}}, {"cat": {"image_ap": 1.0}, "dog": {"image_ap": 0.0}})
    assert table["classes"]["dog"] == {"corloc": None, "image_ap": 0.0}


def test_without_classes_there_is_nothing():
    assert class_table() == {"classes": {}, "mean": {}}


def test_the_file_is_json_and_undefined_is_null(tmp_path):
    table = class_table(evaluate_voc(dict.fromkeys(TRUTH, FOUND), TRUTH).rows())
    write_json(tmp_path / "a.json", table)
    assert json.loads((tmp_path / "a.json").read_text()) == table
    assert (tmp_path / "a.json").read_bytes().endswith(b"}\n")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_never_reaches_a_file(tmp_path, value):
    with pytest.raises(NotFiniteError, match=r"a\.json must be finite or None, got NaN or infinity\.$"):
        write_json(tmp_path / "a.json", {"x": value})
    assert list(tmp_path.iterdir()) == []
