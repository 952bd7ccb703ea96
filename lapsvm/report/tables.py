"""Tables of results: per-class columns, counts of misses, and Markdown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lapsvm.errors import ShapeError
from lapsvm.evaluation.measures import MEANING, Pictures, seen_note
from lapsvm.evaluation.tables import mean
from lapsvm.names.escapes import printable
from lapsvm.report.contents import ClassSummary, Contents, SetSummary
from lapsvm.report.misses import by_kind

UNDEFINED = "-"
_MARKDOWN_ESCAPES = (
    ("\\", "\\\\"), ("|", "\\|"), ("&", "&amp;"), ("<", "&lt;"), ("[", "\\["), ("`", "\\`"), ("*", "\\*"),
)  # fmt: skip

Cell = str | float | int | None


@dataclass(frozen=True)
class Column:
    """One column of the per-class table.

    Attributes
    ----------
    group : str
        The heading above the title: "On test", "Held out on trainval", "In-sample on trainval" or "Training".
    title : str
    cells : tuple of str
        One per class, formatted.
    mean : str
        Mean over the classes for which the value is defined; empty for columns without a mean.
    key : str
        The measure's name in evaluation.json, "" if it is not there.
    values : tuple of float or None
        The numbers in the cells.
    average : float or None
        The mean as a number, None where there is none.
    """

    group: str
    title: str
    cells: tuple[str, ...]
    mean: str
    key: str = ""
    values: tuple[float | None, ...] = ()
    average: float | None = None


def decimal(value: float | None) -> str:
    """Return a number with 3 decimals, "-" for None."""
    return UNDEFINED if value is None else f"{value:z.3f}"


def drawn_text(intervals: Mapping[str, Any]) -> str:
    """Return what intervals are over: pictures, or groups of them."""
    return f"{intervals['groups']:,} groups of pictures" if "groups" in intervals else "pictures"


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


FILTERS = {"decimal": decimal, "short": short, "scientific": scientific, "duration": duration}
"""Filters of the page's template, by name."""


@dataclass(frozen=True)
class _Spec:
    title: str
    field: str
    form: Callable[[float | None], str]
    averaged: bool = False
    needs_boxes: bool = False


_TEST = (
    _Spec("AP 11-point", "ap_11point", decimal, averaged=True, needs_boxes=True),
    _Spec("AP area", "ap_area", decimal, averaged=True, needs_boxes=True),
    _Spec("Image AP", "image_ap", decimal, averaged=True),
    _Spec("Objects", "npos", short, needs_boxes=True),
)
_TRAIN = (
    _Spec("CorLoc", "corloc", decimal, averaged=True, needs_boxes=True),
    _Spec("Pointing", "pointing", decimal, averaged=True, needs_boxes=True),
    _Spec("Image AP", "train_image_ap", decimal, averaged=True),
)
_TRAINING = (
    _Spec("C", "C", short),
    _Spec("Duality gap", "duality_gap", scientific),
    _Spec("CCCP steps", "cccp_steps", short),
)


_UNSEEN = {
    "corloc": "CorLoc", "pointing": "Pointing", "image_ap": "Image AP", "image_auroc": "Image AUROC",
    "chance": "Chance",
}  # fmt: skip
_TESTED = {
    "pointing": "Pointing", "map_pointing": "Map pointing", "image_auroc": "Image AUROC",
    "pixel_auroc": "Pixel AUROC", "pro": "PRO",
}  # fmt: skip
IN_SAMPLE = "In-sample on"
"""Group of the figures of pictures that the detectors were trained with."""
HELD_OUT = "Held out on"
"""Group of the figures of training pictures by models that did not see the picture."""


def class_columns(contents: Contents) -> tuple[Column, ...]:
    """Return the columns of the per-class table: test set, held-out pictures, training set, training.

    A set without boxes has no columns that need boxes. Without a test set, the test columns are left out.
    """
    summary, classes = contents.summary, contents.classes
    return (
        *_set_columns(_TEST, "On", summary.test, classes),
        *_tested_columns(contents),
        *_held_out_columns(contents),
        *_set_columns(_TRAIN, IN_SAMPLE, summary.train, classes),
        *(_column("Training", spec, classes) for spec in _TRAINING),
    )


def seen_notes(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return for each group of columns what its figures have seen of the labels of their own pictures."""
    kinds = {HELD_OUT: Pictures.HELD_OUT, IN_SAMPLE: Pictures.TRAINING, "On": Pictures.TEST}
    notes = []
    for group in dict.fromkeys(column.group for column in columns):
        pictures = next((kind for start, kind in kinds.items() if group.startswith(f"{start} ")), None)
        keys = [column.key.removeprefix("train_") for column in columns if column.group == group]
        if pictures is not None and (note := seen_note(keys, pictures)):
            meaning = f", {MEANING[pictures]}" if MEANING[pictures] else ""
            notes.append(f"{group}{meaning}: {note}.")
    return tuple(notes)


def _set_columns(
    specs: Sequence[_Spec], group: str, data: SetSummary | None, classes: Sequence[ClassSummary]
) -> list[Column]:
    if data is None:
        return []
    return [_column(f"{group} {data.name}", spec, classes) for spec in specs if data.has_boxes or not spec.needs_boxes]


def _held_out_columns(contents: Contents) -> list[Column]:
    """Return the columns of figures by models that did not see the picture; none if no class has them."""
    train = contents.summary.train.name
    figures = contents.figures.get(train, {}).get("held_out", {}).get("classes", {})
    return _figure_columns(f"{HELD_OUT} {train}", _UNSEEN, figures, contents.classes)


def _tested_columns(contents: Contents) -> list[Column]:
    """Return the columns of a test set that are in evaluation.json alone; none that no class has."""
    test = contents.summary.test
    if test is None:
        return []
    figures = contents.figures.get(test.name, {}).get("classes", {})
    return _figure_columns(f"On {test.name}", _TESTED, figures, contents.classes)


def _figure_columns(
    group: str, titles: Mapping[str, str], figures: Mapping[str, Any], classes: Sequence[ClassSummary]
) -> list[Column]:
    """Return the columns of the measures that some class has in a table of evaluation.json."""
    columns = []
    for key, title in titles.items():
        values = [figures.get(result.name, {}).get(key) for result in classes]
        if any(value is not None for value in values):
            cells, average = tuple(map(decimal, values)), mean(values)
            columns.append(Column(group, title, cells, decimal(average), key, tuple(values), average))
    return columns


def _column(group: str, spec: _Spec, classes: Sequence[ClassSummary]) -> Column:
    values: list[float | None] = [getattr(result, spec.field) for result in classes]
    average = mean(values) if spec.averaged else None
    last = spec.form(average) if spec.averaged else ""
    cells = tuple(spec.form(value) for value in values)
    return Column(group, spec.title, cells, last, spec.field, tuple(values), average)


@dataclass(frozen=True)
class WindowCounts:
    """Pictures of the training set with a class, counted by the kind of their best window.

    Attributes
    ----------
    titles : tuple of str
        "Pictures", "Correct", the four kinds of misses, and "No window" if that occurs.
    rows : tuple of (str, tuple of int)
        A class and its counts.
    totals : tuple of int
        The sums over the classes.
    """

    titles: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int, ...]], ...]
    totals: tuple[int, ...]


def window_counts(classes: Sequence[ClassSummary]) -> WindowCounts | None:
    """Count the correct best windows and the misses of each kind; return None without classes of known hits."""
    known = [(result.name, _window_kinds(result)) for result in classes if result.hits is not None]
    if not known:
        return None
    titles = tuple(known[0][1])
    rows = tuple((name, tuple(counts.values())) for name, counts in known)
    return WindowCounts(titles, rows, tuple(map(sum, zip(*(counts for _, counts in rows), strict=True))))


def _window_kinds(result: ClassSummary) -> dict[str, int]:
    """Return the counts of one class by column title."""
    missed = {str(kind).capitalize(): len(examples) for kind, examples in by_kind(result.misses).items()}
    counts = {"Correct": result.hits or 0, **missed}
    return {"Pictures": sum(counts.values()), **counts}


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
