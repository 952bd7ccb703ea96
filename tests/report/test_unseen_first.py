"""The headline: boxes first, of unseen pictures, in plain words; probabilities show their reliability."""

import re
from dataclasses import replace

import pytest

from lapsvm.detection import reliability
from lapsvm.evaluation import MEASURES
from lapsvm.report import CccpStep, ClassSummary, Contents, render_page
from lapsvm.report.diagnosis import reliability_view
from lapsvm.report.headline import class_table, headline

BUS = ClassSummary("bus")
TEST = {"classes": {"bus": {"ap_11point": 0.25, "ap_area": 0.2, "npos": 12, "image_ap": 0.9}}, "mean": {}}
TRAIN = {"classes": {"bus": {"corloc": 0.5, "pointing": 0.625, "image_ap": 0.999}}, "mean": {}}
HELD_OUT = {
    "classes": {"bus": {"corloc": 0.375, "pointing": 0.5, "image_ap": 0.8125, "chance": 0.5, "ece": 0.1, "brier": 0.2}}
}
INTERVALS = {"mean": {"image_ap": {"low": 0.75, "high": 0.875}}, "classes": {}, "level": 0.95, "draws": 1000}
THRESHOLD = {"score": 1.5, "probability": 0.625, "precision": 0.9, "recall": 0.25, "f1": 0.4375}


def contents(summary, held_out=True, **more):
    unseen = {"held_out": {**HELD_OUT, "intervals": INTERVALS}} if held_out else {}
    return Contents(summary, (BUS,), figures={"test": TEST, "trainval": TRAIN | unseen}, **more)


def facts(found):
    """The facts of boxes and of pictures as (value, where)."""
    known = headline(found)
    return [[(one.value, one.where) for one in part] for part in (known.boxes, known.pictures)]


UNSEEN, SEEN = "by models that did not see the picture", "of pictures that the models have seen"


def test_the_headline_of_a_run_with_a_test_set_has_boxes_first(make_summary):
    boxes, pictures = facts(contents(make_summary()))
    assert boxes == [("0.200", "on test"), ("38 %", UNSEEN), ("50 %", UNSEEN)]
    assert pictures == [("0.900", "on test")]


def test_the_headline_without_a_test_set_is_that_of_held_out_pictures(make_summary):
    found = contents(make_summary(with_test=False))
    assert facts(found) == [[("38 %", UNSEEN), ("50 %", UNSEEN)], [("0.812", UNSEEN)]]
    page = render_page(found)
    head = page[page.index('id="known"') : page.index('id="classes"')]
    assert re.findall(r"<dd>([\d.]+)", head) == ["38", "50", "0.812"]
    assert head.index(">Boxes</h3>") < head.index("38 %") < head.index(">Whole pictures</h3>") < head.index("0.812")
    assert "0.750 to 0.875" in head
    assert "0.999" not in head
    assert f"Pointing: {MEASURES['pointing'].sentence}." in page
    assert page.index("Held out on trainval</th>") < page.index("In-sample on trainval</th>") < page.index("0.999")
    assert "Held out on trainval, each picture by a model that did not see it: figures have seen the labels" in page
    assert "no result is measured on unseen pictures" not in page


def test_without_unseen_pictures_the_headline_says_so(make_summary):
    found = contents(make_summary(with_test=False), held_out=False)
    assert facts(found) == [[("50 %", SEEN), ("62 %", SEEN)], [("0.999", SEEN)]]
    page = render_page(found)
    assert page[: page.index("</dl>")].count(f'class="where name">{SEEN}<') == 2
    assert "no result is measured on unseen pictures" in page


def test_an_interval_of_a_share_is_read_as_per_cent(make_summary):
    spans = {
        "mean": {"corloc": {"low": 0.254, "high": 0.5}, "pointing": None},
        "classes": {},
        "level": 0.95,
        "draws": 9,
    }
    figures = {"trainval": {"classes": {}, "mean": {}, "held_out": {**HELD_OUT, "intervals": spans}}}
    right, pointing = headline(Contents(make_summary(with_test=False), (BUS,), figures=figures)).boxes
    assert (right.measure.title, right.interval, pointing.interval) == ("CorLoc", "25 to 50 %", "")


def test_nothing_known_of_boxes_is_said_plainly_above_what_is_known_of_pictures(make_summary, entry_of):
    summary = make_summary(test_boxes=False, train_boxes=False)
    found = Contents(summary, (BUS,), figures={"test": entry_of(bus={"image_ap": 0.914})})
    page = render_page(found)
    assert page.index("Nothing is known of the boxes yet") < page.index("0.914")
    sentence = "nothing is known of the boxes yet: look at, or mark, 20: lapsvm review --out RUN"
    page = render_page(replace(found, verified=(sentence,)))
    assert page.index(sentence) < page.index("0.914")
    assert "Nothing is known" not in page


def test_each_class_has_its_boxes_first_and_what_a_person_says_before_all(make_summary):
    found = replace(contents(make_summary()), classes=(BUS, ClassSummary("cat")))
    test = {"classes": {**TEST["classes"], "cat": {"image_ap": 0.5}}, "mean": {}}
    found = replace(found, verdicts={"bus": "2 of 20 right: 3 to 30 %"}, figures={**found.figures, "test": test})
    table = class_table(found)
    assert table.header == ("Judged by a person", "AP area", "CorLoc", "Pointing", "Image AP")
    assert table.caption == f"AP area, Image AP: on test. CorLoc, Pointing: {UNSEEN}."
    rows = {name: [cell.text for cell in cells] for name, cells in table.rows}
    assert rows["bus"] == ["2 of 20 right: 3 to 30 %", "0.200", "38 %", "50 %", "0.900"]
    assert rows["cat"] == ["nothing", "-", "-", "-", "0.500"]
    assert [cell.text for cell in table.last] == ["", "0.200", "38 %", "50 %", "0.700"]
    assert class_table(replace(found, verdicts={})).header == table.header[1:]
    assert class_table(Contents(make_summary(), (BUS,))) is None


def test_words_of_the_trade_are_folded(calibrated):
    """Outside of what a reader unfolds, the page says in plain words which pictures its figures are of."""
    page = render_page(replace(calibrated, classes=(replace(BUS, steps=(CccpStep(2.0, 1e-3, 4.0),)),)))
    words = ("held out", "held-out", "in-sample", "ece", "cccp", "brier", "duality")
    folded = "".join(re.findall(r"<details>.*?</details>", page, flags=re.DOTALL)).lower()
    shown = re.sub(r"<style>.*?</style>|<details>.*?</details>", "", page, flags=re.DOTALL).lower()
    assert [word for word in words if word in folded] == [*words]
    assert [word for word in words if re.search(rf"\b{word}\b", shown)] == []


@pytest.fixture
def calibrated(make_summary):
    found = reliability([0.1, 0.15, 0.5, 0.5, 0.95], [-1, -1, 1, -1, 1])
    return contents(make_summary(), reliability={"bus": found})


def test_the_reliability_of_probabilities_is_shown(calibrated):
    view = reliability_view(calibrated)
    assert view.table.header == ("With the class", "Without", "ECE", "Brier")
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
