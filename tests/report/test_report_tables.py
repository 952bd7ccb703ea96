"""The per-class table, its means, what is left out without boxes, and Markdown."""

from dataclasses import replace

import pytest

from lapsvm.errors import ShapeError
from lapsvm.report import ClassSummary, Contents, class_columns, left_out_sentence, markdown_table
from lapsvm.report.tables import duration, window_counts

TWO = (
    ClassSummary(
        "bus",
        ap_11point=0.25,
        ap_area=0.2,
        image_ap=0.9,
        npos=12,
        corloc=0.5,
        pointing=0.75,
        C=10.0,
        duality_gap=8.3e-4,
    ),
    ClassSummary("cat", ap_11point=0.5, ap_area=None, image_ap=0.7, npos=0, corloc=None),
)


def titles(contents):
    return [(column.group, column.title) for column in class_columns(contents)]


def test_the_columns_of_a_run_with_boxes(make_summary):
    assert titles(Contents(make_summary(), TWO)) == [
        ("On test", "AP 11-point"),
        ("On test", "AP area"),
        ("On test", "Image AP"),
        ("On test", "Objects"),
        ("In-sample on trainval", "CorLoc"),
        ("In-sample on trainval", "Pointing"),
        ("In-sample on trainval", "Image AP"),
        ("Training", "C"),
        ("Training", "Duality gap"),
        ("Training", "CCCP steps"),
    ]


def test_cells_have_three_decimals_and_a_dash_where_undefined(make_summary):
    columns = {
        column.title: column for column in class_columns(Contents(make_summary(), TWO)) if "train" not in column.group
    }
    assert columns["AP 11-point"].cells == ("0.250", "0.500")
    assert columns["AP area"].cells == ("0.200", "-")
    assert columns["Objects"].cells == ("12", "0")
    assert columns["C"].cells == ("10", "-")
    assert columns["Duality gap"].cells == ("8.3e-04", "-")


def test_means_are_over_the_classes_where_a_measure_is_defined(make_summary):
    means = {(c.group, c.title): c.mean for c in class_columns(Contents(make_summary(), TWO))}
    assert means["On test", "AP 11-point"] == f"{(0.25 + 0.5) / 2:.3f}"
    assert means["On test", "AP area"] == f"{0.2:.3f}"
    assert means["In-sample on trainval", "CorLoc"] == f"{0.5:.3f}"
    assert means["In-sample on trainval", "Pointing"] == f"{0.75:.3f}"
    assert means["In-sample on trainval", "Image AP"] == "-"
    assert means["On test", "Objects"] == means["Training", "C"] == ""


@pytest.mark.parametrize(
    ("settings", "gone", "sentence"),
    [
        ({}, set(), ""),
        (
            {"test_boxes": False, "train_boxes": False},
            {"AP 11-point", "AP area", "Objects", "CorLoc", "Pointing"},
            "Detection AP and CorLoc were left out because no boxes are known.",
        ),
        (
            {"test_boxes": False},
            {"AP 11-point", "AP area", "Objects"},
            "Detection AP was left out because no boxes are known for the set test.",
        ),
        (
            {"train_boxes": False},
            {"CorLoc", "Pointing"},
            "CorLoc was left out because no boxes are known for the set trainval.",
        ),
        (
            {"with_test": False, "train_boxes": False},
            {"AP 11-point", "AP area", "Objects", "CorLoc", "Pointing"},
            "Detection AP and CorLoc were left out because no boxes are known.",
        ),
        ({"with_test": False}, {"AP 11-point", "AP area", "Objects"}, ""),
    ],
)
def test_what_needs_boxes_is_left_out_with_a_sentence_where_none_are_known(make_summary, settings, gone, sentence):
    everything = {title for _, title in titles(Contents(make_summary(), TWO))}
    contents = Contents(make_summary(**settings), TWO)
    assert {title for _, title in titles(contents)} == everything - gone
    assert left_out_sentence(contents) == sentence


def test_markdown_is_padded_and_escaped():
    table = markdown_table(["class", "AP"], [["a|b", 0.12345], ["<i>&\\", None], ["two\nlines", 7]])
    assert table.splitlines() == [
        "| class         |    AP |",
        "| ------------- | ----: |",
        "| a\\|b          | 0.123 |",
        "| &lt;i>&amp;\\\\ |     - |",
        "| two lines     |     7 |",
    ]


def test_cells_that_are_markdown_already_are_kept():
    lines = markdown_table(["run", "AP"], [["*best*", "0.123 [0.100, 0.200]"]], escape=False).splitlines()
    assert lines[2] == "| *best* | 0.123 [0.100, 0.200] |"


def test_a_row_of_another_length_is_named():
    with pytest.raises(ShapeError, match=r"row 1 of a table must have 2 cell\(s\), got 1"):
        markdown_table(["a", "b"], [[1, 2], [1]])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4213, "0.42 s"),
        (9.996, "10.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (185.2, "3 min 05 s"),
        (3599.6, "1 h 00 min"),
        (7380, "2 h 03 min"),
    ],
)
def test_durations_read_as_people_say_them(seconds, text):
    assert duration(seconds) == text


def test_best_windows_are_counted_by_what_they_show(full_contents):
    classes = [replace(result, hits=10 + i) for i, result in enumerate(full_contents.classes)]
    counted = window_counts(classes)
    assert counted.titles == (
        "Pictures", "Correct", "Too large", "Too small (a part)", "Poor overlap (context)", "Wrong object",
    )  # fmt: skip
    for i, (result, (name, counts)) in enumerate(zip(classes, counted.rows, strict=True)):
        assert name == result.name
        assert counts[:2] == (10 + i + len(result.misses), 10 + i)
        assert sum(counts[2:]) == len(result.misses)
        assert all(count > 0 for count in counts)
    assert counted.totals == tuple(sum(counts[i] for _, counts in counted.rows) for i in range(6))


def test_without_boxes_best_windows_are_not_counted():
    assert window_counts([ClassSummary("bus"), ClassSummary("cat")]) is None
    assert [name for name, _ in window_counts([ClassSummary("bus"), ClassSummary("cat", hits=1)]).rows] == ["cat"]
