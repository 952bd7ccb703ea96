"""The per-class table, its means, what is left out without boxes, and Markdown."""

from dataclasses import replace

import pytest

from lapsvm.errors import ShapeError
from lapsvm.evaluation import MEASURES
from lapsvm.report import ClassSummary, Contents, column_groups, left_out_sentence, markdown_table
from lapsvm.report.diagnosis import window_counts
from lapsvm.report.tables import duration

TWO = (ClassSummary("bus", C=10.0, duality_gap=8.3e-4), ClassSummary("cat"))
AP = {"ap_11point", "ap_area", "npos"}
LOCATED = {"corloc", "pointing"}
FIGURES = {
    "test": {"bus": {"ap_11point": 0.25, "ap_area": 0.2, "npos": 12, "image_ap": 0.9},
             "cat": {"ap_11point": 0.5, "ap_area": None, "npos": 0, "image_ap": 0.7}},
    "trainval": {"bus": {"corloc": 0.5, "pointing": 0.75, "image_ap": None},
                 "cat": {"corloc": None, "pointing": None, "image_ap": None}},
}  # fmt: skip


def contents(summary, gone=()):
    """Return the page of two classes, without the measures that are gone."""
    figures = {
        name: {"classes": {one: {key: row[key] for key in row if key not in gone} for one, row in of_set.items()},
               "mean": {}}
        for name, of_set in FIGURES.items()
    }  # fmt: skip
    return Contents(summary, TWO, figures=figures)


def titles(found):
    return {group.title: [column.title for column in group.columns] for group in column_groups(found)}


def test_the_columns_of_a_run_with_boxes(make_summary):
    assert titles(contents(make_summary())) == {
        "On test": ["AP 11-point", "AP area", "Objects", "Image AP"],
        "In-sample on trainval": ["CorLoc", "Pointing", "Image AP"],
        "Training": ["C", "Duality gap", "CCCP steps"],
    }


def test_cells_have_three_decimals_and_a_dash_where_undefined_and_means_are_over_the_others(make_summary):
    groups = column_groups(contents(make_summary()))
    cells = {(group.title, one.title): (*one.cells, one.last) for group in groups for one in group.columns}
    assert cells["On test", "AP 11-point"] == ("0.250", "0.500", "0.375")
    assert cells["On test", "AP area"] == ("0.200", "-", "0.200")
    assert cells["On test", "Objects"] == ("12", "0", "")
    assert cells["In-sample on trainval", "CorLoc"] == ("0.500", "-", "0.500")
    assert cells["In-sample on trainval", "Pointing"] == ("0.750", "-", "0.750")
    assert cells["In-sample on trainval", "Image AP"] == ("-", "-", "-")
    assert cells["Training", "C"] == ("10", "-", "")
    assert cells["Training", "Duality gap"] == ("8.3e-04", "-", "")


@pytest.mark.parametrize(
    ("settings", "gone", "sentence"),
    [
        ({}, set(), ""),
        (
            {"test_boxes": False, "train_boxes": False},
            AP | LOCATED,
            "Detection AP and CorLoc were left out because no boxes are known.",
        ),
        ({"test_boxes": False}, AP, "Detection AP was left out because no boxes are known for the set test."),
        ({"train_boxes": False}, LOCATED, "CorLoc was left out because no boxes are known for the set trainval."),
        (
            {"with_test": False, "train_boxes": False},
            LOCATED,
            "Detection AP and CorLoc were left out because no boxes are known.",
        ),
        ({"with_test": False}, set(), ""),
    ],
)
def test_what_needs_boxes_is_left_out_with_a_sentence_where_none_are_known(make_summary, settings, gone, sentence):
    found = contents(make_summary(**settings), gone)
    shown = {title for of_group in titles(found).values() for title in of_group}
    assert not shown & {MEASURES[key].heading for key in gone}
    assert ("On test" in titles(found)) is settings.get("with_test", True)
    assert left_out_sentence(found) == sentence


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
    classes = tuple(replace(result, hits=10 + i) for i, result in enumerate(full_contents.classes))
    counted = window_counts(replace(full_contents, classes=classes))
    assert counted.header == (
        "Pictures", "Correct", "Too large", "Too small (a part)", "Poor overlap (context)", "Wrong object",
    )  # fmt: skip
    rows = [(name, [int(cell.text) for cell in cells]) for name, cells in counted.rows]
    for i, (result, (name, counts)) in enumerate(zip(classes, rows, strict=True)):
        assert name == result.name
        assert counts[:2] == [10 + i + len(result.misses), 10 + i]
        assert sum(counts[2:]) == len(result.misses)
        assert all(count > 0 for count in counts)
    assert [int(cell.text) for cell in counted.last] == [sum(counts[i] for _, counts in rows) for i in range(6)]


def test_without_boxes_best_windows_are_not_counted(full_contents):
    without, known = ClassSummary("bus"), ClassSummary("cat", hits=1)
    assert window_counts(replace(full_contents, classes=(without,))) is None
    assert [name for name, _ in window_counts(replace(full_contents, classes=(without, known))).rows] == ["cat"]
