"""The tables of what goes wrong: intervals, kinds of errors, localisation and windows, COCO's figures, probabilities.

Their numbers are entries of evaluation.json (``Contents.figures``).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lapsvm.detection import Reliability
from lapsvm.evaluation import ErrorKind
from lapsvm.evaluation.tables import mean
from lapsvm.report.contents import Contents, SetSummary
from lapsvm.report.plots import Plot, reliability_plot
from lapsvm.report.tables import HELD_OUT, IN_SAMPLE, UNDEFINED, decimal, drawn_text

MEASURES = {
    "ap_11point": "AP 11-point", "ap_area": "AP area", "image_ap": "Image AP", "image_auroc": "Image AUROC",
    "corloc": "CorLoc", "pointing": "Pointing", "map_pointing": "Map pointing",
}  # fmt: skip
CORLOCS = {"corloc_30": "CorLoc at .3", "corloc": "CorLoc at .5", "corloc_70": "CorLoc at .7"}
WINDOWS = {"abo": "Best overlap of windows", "recall_50": "Window recall at .5", "recall_70": "Window recall at .7"}
KIND_TITLES = {kind: str(kind).capitalize() for kind in ErrorKind} | {ErrorKind.CLASS: "Wrong class"}
COCO = {
    "coco_ap": "AP", "coco_ap50": "AP50", "coco_ap75": "AP75", "coco_ar100": "AR", "coco_ap_small": "AP small",
    "coco_ap_medium": "AP medium", "coco_ap_large": "AP large",
}  # fmt: skip
_Part = tuple[Mapping[str, Any], Mapping[str, str]]  # a table of evaluation.json, measure -> title of its column
_NOTHING: Mapping[str, Any] = {"classes": {}, "mean": {}}
UNSEEN, SEEN = "by models that did not see the picture", "of pictures that the models have seen"
_ERROR_CAPTION = (
    "The best boxes of each class, as many as it has objects, by what is wrong with them. Wrong class: on an "
    "object of another class (IoU of at least .5); localisation: an IoU of .1 to .5 with an object of the class; "
    "both: of .1 to .5 with one of another class; duplicate: a better box has found the object; background: on no "
    "known object; missed: objects that no box explains. Below each number: how much AP (area) would rise if no "
    "such error occurred among all boxes."
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
    known = _entries(contents)
    makers = (_error_table, _localisation_table, _coco_table)
    tables = [maker(contents, data, entry) for maker in makers for data, entry in known]
    tables += [_interval_table(contents, group, entry) for group, entry in _groups(contents)]
    return [table for table in tables if table is not None]


def place(group: str) -> str:
    """Return a group of columns in plain words, such as "on test"."""
    if group.startswith(HELD_OUT):
        return UNSEEN
    return SEEN if group.startswith(IN_SAMPLE) else group[0].lower() + group[1:]


def _groups(contents: Contents) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the groups of columns whose figures have intervals, with their entries."""
    for data, entry in _entries(contents):
        yield f"{IN_SAMPLE if data is contents.summary.train else 'On'} {data.name}", entry
        yield f"{HELD_OUT} {data.name}", entry.get("held_out", {})


def _entries(contents: Contents) -> list[tuple[SetSummary, Mapping[str, Any]]]:
    """Return the sets with their entries of evaluation.json, the test set first."""
    sets = [data for data in (contents.summary.test, contents.summary.train) if data is not None]
    return [(data, contents.figures[data.name]) for data in sets if data.name in contents.figures]


def mean_intervals(contents: Contents) -> dict[tuple[str, str], Mapping[str, float]]:
    """Return the interval of each mean that has one, by the group of its column and its measure."""
    known = {
        (group, measure): interval
        for group, entry in _groups(contents)
        for measure, interval in entry.get("intervals", {}).get("mean", {}).items()
    }
    return {key: interval for key, interval in known.items() if interval is not None}


def interval_text(interval: Mapping[str, float] | None) -> str:
    """Return an interval as "0.360 to 0.470", "-" where it is undefined."""
    return UNDEFINED if interval is None else f"{decimal(interval['low'])} to {decimal(interval['high'])}"


def _error_table(contents: Contents, data: SetSummary, entry: Mapping[str, Any]) -> FigureTable | None:
    """Return the kinds of errors among the best boxes of each class, with the AP that each kind costs."""
    errors: Mapping[str, Any] = entry.get("errors", {})
    names = [result.name for result in contents.classes if result.name in errors]
    if not names:
        return None
    n_objects = {name: int(entry["classes"][name]["npos"]) for name in names}
    rows = []
    for name in names:
        kinds = [errors[name][kind] for kind in ErrorKind]
        cells = [Cell(str(value["top"]), _gain(value["ap_gain"])) for value in kinds]
        rows.append((name, (Cell(str(n_objects[name])), Cell(str(errors[name]["correct"]["top"])), *cells)))
    gains = [mean([errors[name][kind]["ap_gain"] for name in names]) for kind in ErrorKind]
    totals = [sum(int(cells[column].text) for _, cells in rows) for column in range(2 + len(ErrorKind))]
    notes = ["", "", *map(_gain, gains)]
    last = tuple(Cell(str(total), note) for total, note in zip(totals, notes, strict=True))
    header = ("Objects", "Correct", *KIND_TITLES.values())
    return FigureTable("Kinds of errors", f"on {data.name}", _ERROR_CAPTION, header, tuple(rows), last, "total")


def _gain(value: float | None) -> str:
    return UNDEFINED if value is None else f"+{decimal(value)}"


def _localisation_table(contents: Contents, data: SetSummary, entry: Mapping[str, Any]) -> FigureTable | None:
    """Return CorLoc at three thresholds and the figures of the windows."""
    corlocs, windows = _known(entry, CORLOCS), _known(entry.get("windows", _NOTHING), WINDOWS)
    heading = "How well boxes fit" if corlocs[1] else "Windows", f"on {data.name}"
    return _figures(contents, heading, _fit_caption(bool(corlocs[1])), [corlocs, windows])


def _fit_caption(with_corloc: bool) -> str:
    windows = (
        "how well the best of all windows fit the objects (the mean of their best overlaps over the classes is MABO): "
        "no detector finds what no window covers."
    )
    corloc = "CorLoc is the share of pictures with the class whose best box exceeds an IoU with an object; then "
    return corloc + windows if with_corloc else windows.capitalize()


def _coco_table(contents: Contents, data: SetSummary, entry: Mapping[str, Any]) -> FigureTable | None:
    """Return COCO's figures."""
    caption = "COCO's figures: AP over IoU .5 to .95, at .5 and at .75, recall with 100 boxes a picture, AP by size."
    return _figures(contents, ("COCO", f"on {data.name}"), caption, [_known(entry, COCO)])


def _interval_table(contents: Contents, where: str, entry: Mapping[str, Any]) -> FigureTable | None:
    """Return the intervals of each class."""
    if "intervals" not in entry:
        return None
    intervals = entry["intervals"]
    caption = (
        f"{intervals['level']:.0%} intervals over {drawn_text(intervals)}: how far a figure would differ on other "
        f"pictures of the same kind (from {intervals['draws']} bootstrap draws)."
    )
    heading = "Intervals", place(where)
    table = _figures(contents, heading, caption, [_known(intervals, MEASURES)], interval_text)
    return table and replace(table, folded=True)


def _known(table: Mapping[str, Any], titles: Mapping[str, str]) -> _Part:
    """Return a table of evaluation.json with the titles of the measures that it has."""
    return table, {measure: title for measure, title in titles.items() if measure in table["mean"]}


def _figures(
    contents: Contents, heading: tuple[str, str], caption: str, parts: list[_Part], text: Callable[[Any], str] = decimal
) -> FigureTable | None:
    """Return a table of figures per class and their means, side by side from several parts; None without a measure."""
    header = tuple(title for _, titles in parts for title in titles.values())
    if not header:
        return None

    def cells(row_of: list[Mapping[str, Any]]) -> tuple[Cell, ...]:
        return tuple(Cell(text(row.get(key))) for row, (_, keys) in zip(row_of, parts, strict=True) for key in keys)

    names = [of_class.name for of_class in contents.classes]
    rows = [(name, cells([figures["classes"].get(name, {}) for figures, _ in parts])) for name in names]
    return FigureTable(*heading, caption, header, tuple(rows), cells([figures["mean"] for figures, _ in parts]))


@dataclass(frozen=True)
class ReliabilityView:
    """What the page shows of probabilities: a table, and a plot per class."""

    table: FigureTable
    plots: tuple[tuple[str, Plot], ...]


def reliability_view(contents: Contents) -> ReliabilityView | None:
    """Return the section on probabilities, or None if no class has any."""
    known = contents.reliability
    if not known:
        return None
    test = contents.summary.test
    entry = contents.figures.get(test.name, {}) if test is not None else {}
    thresholds: Mapping[str, Any] = entry.get("thresholds", {})
    rows = tuple((name, _reliability_row(name, reliability, thresholds)) for name, reliability in known.items())
    means = [mean([getattr(reliability, field) for reliability in known.values()]) for field in ("ece", "brier")]
    blank = Cell("")
    more = ("Best F1", f"Recall at precision {thresholds['wanted']:g}") if thresholds else ()
    header = ("With the class", "Without", "ECE", "Brier score", *more)
    last = (blank, blank, *(Cell(decimal(value)) for value in means), *(blank for _ in more))
    table = FigureTable("Probabilities", UNSEEN, _reliability_caption(bool(thresholds)), header, rows, last)
    return ReliabilityView(
        table, tuple((name, reliability_plot(name, reliability)) for name, reliability in known.items())
    )


def _reliability_caption(has_thresholds: bool) -> str:
    """Return what the table shows."""
    first = "Held-out pictures, and errors of the probability that a picture shows the class."
    second = " Best boxes by a threshold that was chosen on the test set, so these figures are optimistic."
    return first + (second if has_thresholds else "")


def _reliability_row(name: str, reliability: Reliability, thresholds: Mapping[str, Any]) -> tuple[Cell, ...]:
    counts = Cell(str(reliability.positives)), Cell(str(reliability.negatives))
    errors = Cell(decimal(reliability.ece)), Cell(decimal(reliability.brier))
    if not thresholds:
        return *counts, *errors
    rules = thresholds["classes"].get(name, {})
    pairs = (("best_f1", "f1"), ("wanted_precision", "recall"))
    return *counts, *errors, *(_threshold_cell(rules.get(rule), figure) for rule, figure in pairs)


def _threshold_cell(figures: Mapping[str, float | None] | None, figure: str) -> Cell:
    """Return what a threshold reaches, and below it the probability and score of the threshold."""
    if figures is None:
        return Cell(UNDEFINED)
    probability = f"probability {decimal(figures['probability'])}, " if figures["probability"] is not None else ""
    return Cell(decimal(figures[figure]), f"{probability}score {figures['score']:.4g}")
