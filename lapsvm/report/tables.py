"""Tables of results: per-class columns, counts of misses, and Markdown."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lapsvm.errors import ShapeError
from lapsvm.evaluation import Figures
from lapsvm.evaluation.measures import MEANING, Measure, Pictures, Shown, seen_note, shown_in
from lapsvm.names.escapes import printable
from lapsvm.report.contents import Contents

if TYPE_CHECKING:
    from markupsafe import Markup

UNDEFINED = "-"
_MARKDOWN_ESCAPES = (
    ("\\", "\\\\"), ("|", "\\|"), ("&", "&amp;"), ("<", "&lt;"), ("[", "\\["), ("`", "\\`"), ("*", "\\*"),
)  # fmt: skip

Cell = str | float | int | None


UNSEEN, SEEN = "by models that did not see the picture", "of pictures that the models have seen"


@dataclass(frozen=True)
class Column:
    """One column of the per-class table: its title, a cell for each class, and the last one, a mean or empty."""

    title: str
    cells: tuple[str, ...]
    last: str = ""


@dataclass(frozen=True)
class ColumnGroup:
    """Columns under one heading: "On test", "Held out on trainval", "In-sample on trainval" or "Training"."""

    title: str
    columns: tuple[Column, ...]


def decimal(value: float | None) -> str:
    """Return a number with 3 decimals, "-" for None."""
    return UNDEFINED if value is None else f"{value:z.3f}"


def short(value: float | None) -> str:
    """Return a number with at most 6 significant digits, "-" for None."""
    return UNDEFINED if value is None else f"{value:g}"


def scientific(value: float | None) -> str:
    """Return a small number as 1.2e-04, "-" for None."""
    return UNDEFINED if value is None else f"{value:.1e}"


def duration(seconds: float) -> str:
    """Return a wall time as "0.42 s", "12.3 s", "3 min 05 s" or "1 h 02 min"."""
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, remainder = divmod(round(seconds), 60)
    return f"{minutes} min {remainder:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def broken(name: object) -> "Markup":
    """Return a name as HTML that may be broken after separators such as "_" and "/"."""
    from markupsafe import Markup, escape

    return Markup("<wbr>").join(escape(part) for part in re.split(r"(?<=[_/:,])(?=\w)", str(name)))


FILTERS = {"decimal": decimal, "short": short, "scientific": scientific, "duration": duration, "broken": broken}
"""Filters of the page's template, by name."""


_GROUPS = {Pictures.TEST: "On", Pictures.HELD_OUT: "Held out on", Pictures.TRAINING: "In-sample on"}


def column_groups(contents: Contents) -> tuple[ColumnGroup, ...]:
    """Return the columns of the per-class table: test set, held-out pictures, training set, training."""
    groups = [_group(figures, contents.names) for figures in contents.places]
    training = {
        "C": [short(result.C) for result in contents.classes],
        "Duality gap": [scientific(result.duality_gap) for result in contents.classes],
        "CCCP steps": [short(result.cccp_steps) for result in contents.classes],
    }
    columns = tuple(Column(title, tuple(cells)) for title, cells in training.items())
    return (*(group for group in groups if group.columns), ColumnGroup("Training", columns))


def _group(figures: Figures, names: Sequence[str]) -> ColumnGroup:
    columns = [_column(figures, measure, names) for measure in figures.measures(Shown.FIGURES)]
    return ColumnGroup(f"{_GROUPS[figures.pictures]} {figures.set_name}", tuple(columns))


def _column(figures: Figures, measure: Measure, names: Sequence[str]) -> Column:
    form = short if measure.is_count else decimal
    cells = tuple(form(figures.value(name, measure.key)) for name in names)
    return Column(measure.heading, cells, "" if measure.is_count else decimal(figures.mean_value(measure.key)))


def sentences(contents: Contents) -> list[str]:
    """Return one sentence on each measure of the per-class table."""
    known = {measure.key for figures in contents.places for measure in figures.measures(Shown.FIGURES)}
    return [measure.definition for measure in shown_in(Shown.FIGURES) if measure.key in known]


def seen_notes(contents: Contents) -> tuple[str, ...]:
    """Return for each group of columns what its figures have seen of the labels of their own pictures."""
    notes = []
    for figures in contents.places:
        if note := seen_note(figures.measures(Shown.FIGURES), figures.pictures):
            meaning = f", {MEANING[figures.pictures]}" if MEANING[figures.pictures] else ""
            notes.append(f"{_GROUPS[figures.pictures]} {figures.set_name}{meaning}: {note}.")
    return tuple(notes)


def where(figures: Figures) -> str:
    """Return the pictures of figures in plain words, such as "on test"."""
    plain = {Pictures.TEST: f"on {figures.set_name}", Pictures.HELD_OUT: UNSEEN, Pictures.TRAINING: SEEN}
    return plain[figures.pictures]


def left_out_sentence(contents: Contents) -> str:
    """Return a sentence naming the measures that need unknown boxes; empty if there are none."""
    train, test = contents.summary.train, contents.summary.test
    boxless = [data for data in (test, train) if data is not None and not data.has_boxes]
    if not boxless:
        return ""
    if train in boxless and (test is None or test in boxless):
        return "Detection AP and CorLoc were left out because no boxes are known."
    measure = "CorLoc was" if train in boxless else "Detection AP was"
    return f"{measure} left out because no boxes are known for the set {boxless[0].name}."


def markdown_table(titles: Sequence[str], rows: Sequence[Sequence[Cell]], *, escape: bool = True) -> str:
    """Return a table in Markdown, the first column set left and the others right, padded to be read as text.

    Parameters
    ----------
    titles : sequence of str
    rows : sequence of sequences of str, float, int or None
        Floats are given 3 decimals, None becomes "-".
    escape : bool, default True
        Escape pipes, HTML and Markdown in texts, and turn line breaks into spaces; False if the texts are Markdown.

    Returns
    -------
    str
        Ends with a line break.

    Raises
    ------
    ShapeError
        If a row does not have one cell per title.
    """
    for number, row in enumerate(rows):
        if len(row) != len(titles):
            raise ShapeError(f"row {number} of a table must have {len(titles)} cell(s), got {len(row)}.")
    written = escape_markdown if escape else str
    grid = [[written(cell_text(cell)) for cell in row] for row in [titles, *rows]]
    widths = [max(3, *(len(row[i]) for row in grid)) for i in range(len(titles))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])] if titles else []
    lines = [_padded(row, widths) for row in grid]
    return "".join(f"| {' | '.join(line)} |\n" for line in [lines[0], rule, *lines[1:]])


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def cell_text(cell: Cell) -> str:
    """Return the text of a cell: a float with 3 decimals, "-" for None."""
    return decimal(cell) if cell is None or isinstance(cell, float) else str(cell)


def escape_markdown(text: str) -> str:
    """Escape a text for one line or table cell of Markdown, so that it renders literally."""
    text = printable(" ".join(text.split()))
    for character, escaped in _MARKDOWN_ESCAPES:
        text = text.replace(character, escaped)
    return text
