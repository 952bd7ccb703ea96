"""Figures of windows alone."""

import numpy as np
import pytest

from lapsvm.catalog import GroundTruth
from lapsvm.evaluation import Figures, MeasuredClass, best_overlaps
from lapsvm.evaluation.measures import Pictures


def truth(boxes, difficult=()):
    boxes = np.array(boxes, dtype=float).reshape(-1, 4)
    return GroundTruth(boxes, np.array(difficult or [False] * len(boxes), dtype=bool))


WINDOWS = [("a", [[0, 0, 10, 10], [0, 0, 10, 6]]), ("b", np.empty((0, 4)))]


def test_the_best_window_of_each_easy_object_counts():
    objects = {
        "cat": {"a": truth([[0, 0, 10, 6], [0, 0, 10, 12]]), "b": truth([[0, 0, 5, 5]]), "c": truth([[0, 0, 9, 9]])},
        "dog": {"a": truth([[0, 0, 10, 20], [1, 1, 9, 9]], [False, True]), "b": truth([])},
        "yak": {"a": truth([]), "b": truth([[0, 0, 1, 1]], [True])},
    }
    found = best_overlaps(iter(WINDOWS), objects)
    assert found["cat"].tolist() == [1, 10 / 12, 0]
    assert found["dog"].tolist() == [0.5]
    assert found["yak"].tolist() == []
    windows = {name: MeasuredClass(overlaps=overlaps) for name, overlaps in found.items()}
    rows = Figures.of("test", Pictures.TEST, windows).to_json()["classes"]
    assert rows["cat"] == pytest.approx({"abo": (1 + 10 / 12) / 3, "recall_50": 2 / 3, "recall_70": 2 / 3})
    assert rows["dog"] == {"abo": 0.5, "recall_50": 1.0, "recall_70": 0.0}
    assert rows["yak"] == {"abo": None, "recall_50": None, "recall_70": None}
