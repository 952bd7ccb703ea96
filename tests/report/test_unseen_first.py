"""The headline is what unseen pictures say; in-sample figures are named so; probabilities show their reliability."""

import re
from dataclasses import replace

import pytest

from lapsvm.detection import reliability
from lapsvm.report import ClassSummary, Contents, class_columns, render_page
from lapsvm.report.diagnosis import reliability_view
from lapsvm.report.tables import headline

BUS = ClassSummary(
    "bus", ap_11point=0.25, ap_area=0.2, image_ap=0.9, npos=12, corloc=0.5, pointing=0.625, train_image_ap=0.999
)
HELD_OUT = {
    "classes": {"bus": {"corloc": 0.375, "pointing": 0.5, "image_ap": 0.8125, "chance": 0.5, "ece": 0.1, "brier": 0.2}}
}
INTERVALS = {"mean": {"image_ap": {"low": 0.75, "high": 0.875}}, "classes": {}, "level": 0.95, "draws": 1000}
THRESHOLD = {"score": 1.5, "probability": 0.625, "precision": 0.9, "recall": 0.25, "f1": 0.4375}


def contents(summary, held_out=True, **more):
    figures = (
        {"trainval": {"classes": {}, "mean": {}, "held_out": {**HELD_OUT, "intervals": INTERVALS}}} if held_out else {}
    )
    return Contents(summary, (BUS,), figures=figures, **more)


def groups(found):
    return [(column.group, column.title) for column in headline(class_columns(found))]


def test_the_headline_of_a_run_with_a_test_set(make_summary):
    assert groups(contents(make_summary())) == [
        ("On test", "AP 11-point"),
        ("On test", "AP area"),
        ("On test", "Image AP"),
        ("Held out on trainval", "CorLoc"),
        ("Held out on trainval", "Pointing"),
        ("Held out on trainval", "Image AP"),
    ]


def test_the_headline_without_a_test_set_is_that_of_held_out_pictures(make_summary):
    found = contents(make_summary(with_test=False))
    assert groups(found) == [("Held out on trainval", title) for title in ("CorLoc", "Pointing", "Image AP")]
    page = render_page(found)
    key = page[page.index('<dl class="key">') : page.index("</dl>")]
    assert re.findall(r"<dd>([\d.]+)", key) == ["0.375", "0.500", "0.812"]
    assert "0.750 to 0.875" in key
    assert "0.999" not in key
    assert "Pointing is the share of the same pictures in which the centre" in page
    assert page.index("Held out on trainval</th>") < page.index("In-sample on trainval</th>") < page.index("0.999")
    assert "in-sample figures say little about new pictures" in page
    assert "no result is measured on unseen pictures" not in page


def test_without_unseen_pictures_the_headline_says_in_sample(make_summary):
    found = contents(make_summary(with_test=False), held_out=False)
    assert groups(found) == [("In-sample on trainval", title) for title in ("CorLoc", "Pointing", "Image AP")]
    page = render_page(found)
    assert 'class="where name">in-sample on trainval<' in page[: page.index("</dl>")]
    assert "no result is measured on unseen pictures" in page


@pytest.fixture
def calibrated(make_summary):
    found = reliability([0.1, 0.15, 0.5, 0.5, 0.95], [-1, -1, 1, -1, 1])
    return contents(make_summary(), reliability={"bus": found})


def test_the_reliability_of_probabilities_is_shown(calibrated):
    view = reliability_view(calibrated)
    assert view.table.header == ("With the class", "Without", "ECE", "Brier score")
    (name, cells), ((plotted, plot),) = view.table.rows[0], view.plots
    assert (name, plotted) == ("bus", "bus")
    assert [cell.text for cell in cells] == ["2", "3", "0.060", "0.107"]
    assert len(plot.dots) == 3
    page = render_page(calibrated)
    assert "It is not the probability that the box is right." in page
    assert 'class="guide"' in page
    assert reliability_view(replace(calibrated, reliability={})) is None


def test_thresholds_stand_beside(calibrated):
    rules = {"best_f1": THRESHOLD, "wanted_precision": None}
    figures = {
        **calibrated.figures,
        "test": {"classes": {}, "mean": {}, "thresholds": {"wanted": 0.9, "classes": {"bus": rules}}},
    }
    view = reliability_view(replace(calibrated, figures=figures))
    assert view.table.header[4:] == ("Best F1", "Recall at precision 0.9")
    best, wanted = view.table.rows[0][1][4:]
    assert (best.text, best.note, wanted.text) == ("0.438", "probability 0.625, score 1.5", "-")
    without = {"best_f1": {**THRESHOLD, "probability": None}, "wanted_precision": THRESHOLD}
    figures["test"]["thresholds"]["classes"]["bus"] = without
    best, wanted = reliability_view(replace(calibrated, figures=figures)).table.rows[0][1][4:]
    assert (best.note, wanted.text) == ("score 1.5", "0.250")
