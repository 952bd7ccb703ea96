"""Good and defective pictures on the page: figures of unseen pictures, and alarms with their intervals."""

from dataclasses import replace

import pytest

from lapsvm.inspection.alarm_rate import AlarmRate
from lapsvm.inspection.threshold import AlarmThreshold
from lapsvm.inspection.whole_pictures import PictureModel
from lapsvm.report import ClassSummary, Contents, render_page
from lapsvm.report.alarms import alarm_sentences, alarm_view

TEST = {
    "classes": {
        "crack": {
            "image_auroc": 0.9,
            "image_ap": 0.8,
            "pointing": 0.7,
            "map_pointing": 0.6,
            "pixel_auroc": 0.5,
            "pro": 0.4,
        },
        "stain": {"image_auroc": 0.75, "image_ap": None, "pointing": None},
    },
    "mean": {},
    "any_class": {"image_auroc": 0.95, "image_ap": 0.97, "map_pointing": 0.55, "pixel_auroc": 0.45, "pro": 0.35},
}
HELD_OUT = {"classes": {"crack": {"image_auroc": 0.6, "image_ap": 0.5, "chance": 0.25}}, "mean": {}}
ALARM = AlarmThreshold(
    0.625, 0.05, {"crack": "", "stain": ""},
    {"ok": AlarmRate(2, 60), "crack": AlarmRate(9, 10), "stain": AlarmRate(0, 0)},
    {"ok": AlarmRate(1, 12), "crack": AlarmRate(5, 6)},
)  # fmt: skip


@pytest.fixture
def contents(make_summary):
    figures = {"test": TEST, "trainval": {"classes": {}, "mean": {}, "held_out": HELD_OUT}}
    return Contents(make_summary(), (ClassSummary("crack"), ClassSummary("stain")), figures=figures, has_good=True)


def rows(table):
    return {name: [cell.text for cell in cells] for name, cells in [*table.rows, (table.last_name, table.last)]}


def test_the_figures_of_the_test_set_stand_before_those_of_held_out_pictures(contents):
    tested, held_out = alarm_view(contents).tables
    assert tested.header == ("Pointing", "Image AP", "Image AUROC", "Pixel AUROC", "PRO", "Map pointing")
    assert rows(tested) == {
        "crack": ["0.700", "0.800", "0.900", "0.500", "0.400", "0.600"],
        "stain": ["-", "-", "0.750", "-", "-", "-"],
        "any defect": ["-", "0.970", "0.950", "0.450", "0.350", "0.550"],
    }
    assert (tested.where, tested.folded) == ("on test", False)
    assert (held_out.where, held_out.folded) == ("by models that did not see the picture", True)
    assert rows(held_out)["crack"] == ["0.500", "0.600"]


def test_without_a_test_set_held_out_pictures_are_not_folded(contents, make_summary):
    (table,) = alarm_view(replace(contents, summary=make_summary(with_test=False))).tables
    assert (table.header, table.folded) == (("Image AP", "Image AUROC"), False)


def test_the_threshold_stands_with_its_interval(contents):
    view = alarm_view(replace(contents, alarm=ALARM))
    assert view.sentences == alarm_sentences(ALARM) == (
        (
            "A picture raises an alarm from a probability of 0.625 on. The promise holds on average over training "
            "sets, of the models of folds and of new pictures like these: at most 5 % of good ones raise an alarm."
        ),
        "Good pictures that raise one, by models that did not see the picture: 2 of 60 (0.4 to 11.5 %).",
        "Good pictures that raise one, on the test set: 1 of 12 (0.2 to 38.5 %).",
    )  # fmt: skip
    alarms, *_ = view.tables
    assert rows(alarms) == {
        "crack": ["9 of 10", "5 of 6"], "stain": ["none", "none"], "good pictures": ["2 of 60", "1 of 12"],
    }  # fmt: skip
    assert alarms.last[0].note == "0.4 to 11.5 %"
    page = render_page(replace(contents, alarm=ALARM))
    assert "2 of 60 (0.4 to 11.5 %)" in page
    assert "not chosen" not in page


def test_the_page_says_the_promise_of_this_threshold_and_counts_groups(contents):
    sure = replace(ALARM, confidence=0.9, held_out=ALARM.held_out | {"ok": AlarmRate(2, 60, 20.0, 0.1)})
    page = render_page(replace(contents, alarm=sure))
    assert sure.promise in page
    assert "with confidence 90 % of this threshold" in page
    assert "2 of 60, 10.0 % by group" in page
    assert "count each group the same, as the promise does" in page


def test_where_no_threshold_is_chosen_the_command_stands(contents):
    page = render_page(replace(contents, threshold="lapsvm threshold --out '<RUN>' --max-false-alarms 0.05"))
    assert "lapsvm threshold --out &#39;&lt;RUN&gt;&#39; --max-false-alarms 0.05" in page
    assert "is not chosen yet" in page
    assert "is not chosen yet" not in render_page(contents)


def test_photographs_are_no_defects(contents):
    contents = replace(contents, has_good=False)
    assert alarm_view(contents) is None
    assert alarm_view(replace(contents, alarm=ALARM)) is not None
    assert "any defect" not in render_page(contents)
    assert "Good and defective pictures" not in render_page(contents)


def test_the_headline_has_what_masks_say_of_boxes_before_pictures(contents):
    page = render_page(contents)
    head = page[page.index('id="known"') : page.index('id="classes"')]
    for part in ("70 %", ">Pointing<", "60 %", ">Map pointing<"):
        assert head.index(part) < head.index(">Whole pictures</h3>")
    assert head.index(">Whole pictures</h3>") < head.index(">Image AUROC<")


def test_classes_whose_whole_pictures_count_are_named_beside_figures_of_best_boxes():
    whole = replace(ALARM, pictures={"crack": PictureModel(1.0, 0.0, [0.5])})
    assert alarm_sentences(whole)[:-1] == alarm_sentences(ALARM)
    assert alarm_sentences(whole)[-1] == (
        "The whole picture counts beside the best box for crack, in alarms alone: how well defects are found, below, "
        "is by best boxes."
    )
