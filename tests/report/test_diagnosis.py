"""The tables made of evaluation.json: errors, windows, COCO, intervals."""

from dataclasses import replace

import pytest

from lapsvm.report import ClassSummary, Contents, render_page
from lapsvm.report.diagnosis import figure_tables

KINDS = ("class", "localisation", "both", "duplicate", "background", "missed")
SPAN = {"low": 0.2, "high": 0.41}
TEST = {
    "classes": {
        "bus": {"ap_area": 0.3, "npos": 10, "coco_ap": 0.25}, "cat": {"ap_area": None, "npos": 4, "coco_ap": None},
    },
    "mean": {"coco_ap": 0.25},
    "errors": {
        "bus": {
            "correct": {"count": 9, "top": 4, "ap_gain": None},
            **{kind: {"count": 50, "top": 1, "ap_gain": 0.05} for kind in KINDS},
        },
        "cat": {
            "correct": {"count": 0, "top": 0, "ap_gain": None},
            **{kind: {"count": 7, "top": 0, "ap_gain": None} for kind in KINDS},
        },
    },
    "intervals": {
        "level": 0.95, "draws": 1000, "seed": 0,
        "classes": {"bus": {"ap_area": SPAN}, "cat": {"ap_area": None}}, "mean": {"ap_area": SPAN},
    },
}  # fmt: skip
ROW = {"abo": 0.75, "recall_50": 0.9, "recall_70": 0.6}
TRAIN = {
    "classes": {"bus": {"corloc": 0.5, "corloc_30": 0.7, "corloc_70": 0.1}},
    "mean": {"corloc": 0.5, "corloc_30": 0.7, "corloc_70": 0.1},
    "windows": {"classes": {"bus": ROW, "cat": dict.fromkeys(ROW)}, "mean": ROW},
}


@pytest.fixture
def contents(make_summary):
    classes = (ClassSummary("bus"), ClassSummary("cat"))
    return Contents(make_summary(), classes, figures={"test": TEST, "trainval": TRAIN})


def texts(cells):
    return [cell.text for cell in cells]


def test_tables_stand_in_order_and_hold_the_numbers(contents):
    errors, fit, coco, intervals = figure_tables(contents)
    assert (errors.title, errors.where) == ("Kinds of errors", "on test")
    assert errors.header[:3] == ("Objects", "Correct", "Wrong class")
    assert texts(errors.rows[0][1]) == ["10", "4", *"111111"]
    assert errors.rows[0][1][2].note == "+0.050"
    assert errors.rows[1][1][2].note == "-"
    assert (errors.last_name, texts(errors.last)) == ("total", ["14", "4", *"111111"])
    assert fit.header == (
        "CorLoc", "CorLoc at .3", "CorLoc at .7", "Best overlap of windows", "Window recall at .5",
        "Window recall at .7",
    )  # fmt: skip
    assert texts(fit.rows[0][1]) == ["0.500", "0.700", "0.100", "0.750", "0.900", "0.600"]
    assert texts(fit.rows[1][1]) == ["-"] * 6
    assert texts(coco.rows[0][1])[0] == "0.250"
    assert texts(intervals.rows[0][1]) == ["0.200 to 0.410"]
    assert texts(intervals.rows[1][1]) == ["-"]


def test_the_page_has_the_tables_and_the_interval_at_its_head(contents):
    source = render_page(contents)
    assert '<dd>0.300<span class="interval">0.200 to 0.410</span></dd>' in source
    assert '<td class="number">1<span class="cell-note">+0.050</span></td>' in source
    assert '<summary>Intervals <span class="name">on test</span></summary>' in source
    assert source.count('aria-label="Kinds of errors on test"') == 1


def test_held_out_figures_have_intervals_of_their_own(contents):
    held_out = {"classes": TEST["classes"], "intervals": TEST["intervals"]}
    tables = figure_tables(replace(contents, figures={"trainval": {**TRAIN, "held_out": held_out}}))
    assert [(table.title, table.where) for table in tables][1:] == [
        ("Intervals", "by models that did not see the picture")
    ]
    assert texts(tables[1].rows[0][1]) == ["0.200 to 0.410"]


def test_without_figures_there_is_no_table(contents):
    assert figure_tables(replace(contents, figures={})) == []
    assert "Kinds of errors" not in render_page(replace(contents, figures={}))
    old = {"classes": {"bus": {"image_ap": 1.0}}, "mean": {"image_ap": 1.0}}
    assert figure_tables(replace(contents, figures={"trainval": old})) == []
