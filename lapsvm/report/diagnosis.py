"""The tables of what goes wrong: intervals, kinds of errors, localisation and windows, COCO's figures, probabilities.

Their numbers are entries of evaluation.json (``Contents.figures``).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lapsvm.detection import Reliability
from lapsvm.evaluation import MEASURES, ErrorKind, Figure, Figures
from lapsvm.evaluation.figures import Row
from lapsvm.evaluation.measured import HeldOutClass
from lapsvm.evaluation.measures import Measure, Pictures, Shown, shown_in
from lapsvm.evaluation.tables import mean
from lapsvm.report.contents import Contents
from lapsvm.report.misses import MissKind, by_kind
from lapsvm.report.plots import Plot, reliability_plot
from lapsvm.report.tables import UNDEFINED, UNSEEN, decimal, where

KIND_TITLES = {kind: str(kind).capitalize() for kind in ErrorKind} | {ErrorKind.CLASS: "Wrong class"}
_ERROR_CAPTION = (
    "The best boxes of each class, as many as it has objects, by what is wrong with them. Wrong class: on an "
    "object of another class (IoU of at least .5); localisation: an IoU of .1 to .5 with an object of the class; "
    "both: of .1 to .5 with one of another class; duplicate: a better box has found the object; background: on no "
    "known object; missed: objects that no box explains. Below each number: how much AP (area) would rise if no "
    "such error occurred among all boxes."
)
_COUNTS_CAPTION = (
    "Pictures with the class, counted by what their best-scored box covers. The section "
    '<a href="#mistakes">Mistakes</a> shows examples.'
)


@dataclass(frozen=True)
class Cell:
    """A cell: its text, and a smaller one below it."""

    text: str
    note: str = ""


@dataclass(frozen=True)
class FigureTable:
    """A table of one row per class and a last row.

    Attributes
    ----------
    title, where, caption : str
        The heading, the set's part of it, and what the table shows.
    header : tuple of str
        Without the column of classes.
    rows : tuple of (class name, tuple of Cell)
    last : tuple of Cell
        Sums or means.
    last_name : str
    folded : bool
        Whether the page shows it on demand.
    """

    title: str
    where: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    last: tuple[Cell, ...]
    last_name: str = "mean"
    folded: bool = False


def figure_tables(contents: Contents) -> list[FigureTable]:
    """Return the tables whose numbers are known, in the order of the page."""
    sets = [figures for figures in contents.places if figures.pictures is not Pictures.HELD_OUT]
    makers = (_error_table, _localisation_table, _coco_table)
    tables = [maker(contents, figures) for maker in makers for figures in sets]
    tables += [_interval_table(contents, figures) for figures in contents.places]
    return [table for table in tables if table is not None]


def window_counts(contents: Contents) -> FigureTable | None:
    """Return the training pictures with each class by what their best window covers. None if no hits are known."""
    from markupsafe import Markup

    known = [result for result in contents.classes if result.hits is not None]
    if not known:
        return None
    counts = [[result.hits or 0, *map(len, by_kind(result.misses).values())] for result in known]
    numbers = [(sum(row), *row) for row in counts]
    rows = tuple((result.name, _count_cells(row)) for result, row in zip(known, numbers, strict=True))
    header = ("Pictures", "Correct", *(str(kind).capitalize() for kind in MissKind))
    known_places = (result.missed_on for result in contents.classes if result.missed_on)
    pictures = next(known_places, f"on {contents.summary.train.name}")
    totals = _count_cells(map(sum, zip(*numbers, strict=True)))
    caption = Markup(_COUNTS_CAPTION)  # noqa: S704 our own text
    return FigureTable("What the best box covers", pictures, caption, header, rows, totals, "total")


def _count_cells(counts: Iterable[int]) -> tuple[Cell, ...]:
    return tuple(Cell(str(count)) for count in counts)


def value_cell(figure: Figure | None) -> Cell:
    """Return a value with three decimals, "-" where there is none."""
    return Cell(decimal(None if figure is None else figure.value))


def interval_cell(figure: Figure | None) -> Cell:
    """Return an interval as "0.360 to 0.470", "-" where there is none."""
    limits = None if figure is None else figure.interval
    return Cell(UNDEFINED if limits is None else f"{decimal(limits[0])} to {decimal(limits[1])}")


def _error_table(contents: Contents, figures: Figures) -> FigureTable | None:
    """Return the kinds of errors among the best boxes of each class, with the AP that each kind costs."""
    errors: Mapping[str, Any] = contents.figures[figures.set_name].get("errors", {})
    names = [result.name for result in contents.classes if result.name in errors]
    if not names:
        return None
    count = next(measure for measure in MEASURES.values() if measure.is_count)
    n_objects = {name: int(figures.value(name, count.key) or 0) for name in names}
    rows = []
    for name in names:
        kinds = [errors[name][kind] for kind in ErrorKind]
        cells = [Cell(str(value["top"]), _gain(value["ap_gain"])) for value in kinds]
        rows.append((name, (Cell(str(n_objects[name])), Cell(str(errors[name]["correct"]["top"])), *cells)))
    gains = [mean([errors[name][kind]["ap_gain"] for name in names]) for kind in ErrorKind]
    totals = [sum(int(cells[column].text) for _, cells in rows) for column in range(2 + len(ErrorKind))]
    notes = ["", "", *map(_gain, gains)]
    last = tuple(Cell(str(total), note) for total, note in zip(totals, notes, strict=True))
    header = (count.heading, "Correct", *KIND_TITLES.values())
    return FigureTable("Kinds of errors", f"on {figures.set_name}", _ERROR_CAPTION, header, tuple(rows), last, "total")


def _gain(value: float | None) -> str:
    return UNDEFINED if value is None else f"+{decimal(value)}"


def _localisation_table(contents: Contents, figures: Figures) -> FigureTable | None:
    """Return CorLoc at three thresholds and the figures of the windows."""
    windows = contents.figures[figures.set_name].get("windows")
    known = figures if windows is None else figures.joined(Figures.from_json(windows))
    has_boxes = any(measure.is_share for measure in known.measures(Shown.FIT))
    return _plain_table(contents, known, Shown.FIT, "How well boxes fit" if has_boxes else "Windows")


def _coco_table(contents: Contents, figures: Figures) -> FigureTable | None:
    """Return COCO's figures."""
    return _plain_table(contents, figures, Shown.COCO, "COCO")


def _plain_table(contents: Contents, figures: Figures, table: Shown, title: str) -> FigureTable | None:
    """Return the measures of a table with what they are; None without a measure."""
    measures = figures.measures(table)
    if not measures:
        return None
    caption = " ".join(measure.definition for measure in measures)
    return measure_table(contents, figures, measures, (title, f"on {figures.set_name}"), caption, value_cell)


def _interval_table(contents: Contents, figures: Figures) -> FigureTable | None:
    """Return the intervals of each class."""
    drawn = figures.drawn
    if drawn is None:
        return None
    caption = (
        f"{drawn.level:.0%} intervals over {drawn.over}: how far a figure would differ on other "
        f"pictures of the same kind (from {drawn.draws} bootstrap draws)."
    )
    keys = {key for _, row in figures.rows() for key in row if row[key].is_drawn}
    measures = [measure for measure in figures.measures() if measure.key in keys]
    table = measure_table(contents, figures, measures, ("Intervals", where(figures)), caption, interval_cell)
    return replace(table, folded=True)


def measure_table(
    contents: Contents, figures: Figures, measures: Sequence[Measure], heading: tuple[str, str], caption: str,
    cell: Callable[[Figure | None], Cell],
) -> FigureTable:  # fmt: skip
    """Return a table of the figures of each class and their means."""
    rows = tuple((name, row_cells(figures.classes.get(name, {}), measures, cell)) for name in contents.names)
    header = tuple(measure.heading for measure in measures)
    return FigureTable(*heading, caption, header, rows, row_cells(figures.mean, measures, cell))


def row_cells(row: Row, measures: Sequence[Measure], cell: Callable[[Figure | None], Cell]) -> tuple[Cell, ...]:
    """Return the cells of a row of figures."""
    return tuple(cell(row.get(measure.key)) for measure in measures)


@dataclass(frozen=True)
class ReliabilityView:
    """What the page shows of probabilities: a table, a plot per class, and what the measures are."""

    table: FigureTable
    plots: tuple[tuple[str, Plot], ...]
    sentences: str


def reliability_view(contents: Contents) -> ReliabilityView | None:
    """Return the section on probabilities, or None if no class has any."""
    known = contents.reliability
    if not known:
        return None
    test = contents.summary.test
    entry = contents.figures.get(test.name, {}) if test is not None else {}
    thresholds: Mapping[str, Any] = entry.get("thresholds", {})
    measures = shown_in(Shown.PROBABILITIES)
    rows = tuple((name, _reliability_row(name, reliability, thresholds)) for name, reliability in known.items())
    means = [mean([_error(measure, reliability) for reliability in known.values()]) for measure in measures]
    blank = Cell("")
    more = ("Best F1", f"Recall at precision {thresholds['wanted']:g}") if thresholds else ()
    header = ("With the class", "Without", *(measure.heading for measure in measures), *more)
    last = (blank, blank, *(Cell(decimal(value)) for value in means), *(blank for _ in more))
    table = FigureTable("Probabilities", UNSEEN, _reliability_caption(bool(thresholds)), header, rows, last)
    plots = tuple((name, reliability_plot(name, reliability)) for name, reliability in known.items())
    return ReliabilityView(table, plots, " ".join(measure.definition for measure in measures))


def _reliability_caption(has_thresholds: bool) -> str:
    """Return the caption of the table of probabilities."""
    first = "Held-out pictures, and errors of the probability that a picture shows the class."
    second = " Best boxes by a threshold that was chosen on the test set, so these figures are optimistic."
    return first + (second if has_thresholds else "")


def _error(measure: Measure, reliability: Reliability) -> float | None:
    """Return an error of the probabilities of a class."""
    return measure.value(HeldOutClass(math.nan, reliability))


def _reliability_row(name: str, reliability: Reliability, thresholds: Mapping[str, Any]) -> tuple[Cell, ...]:
    counts = Cell(str(reliability.positives)), Cell(str(reliability.negatives))
    errors = [Cell(decimal(_error(measure, reliability))) for measure in shown_in(Shown.PROBABILITIES)]
    if not thresholds:
        return *counts, *errors
    rules = thresholds["classes"].get(name, {})
    pairs = (("best_f1", "f1"), ("wanted_precision", "recall"))
    return *counts, *errors, *(_threshold_cell(rules.get(rule), figure) for rule, figure in pairs)


def _threshold_cell(figures: Mapping[str, float | None] | None, figure: str) -> Cell:
    """Return the figure of a threshold, and below it the probability and score of the threshold."""
    if figures is None:
        return Cell(UNDEFINED)
    probability = f"probability {decimal(figures['probability'])}, " if figures["probability"] is not None else ""
    return Cell(decimal(figures[figure]), f"{probability}score {figures['score']:.4g}")
