"""Figures as tables: titles of measures, cells with intervals, tables on a terminal."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from lapsvm.evaluation.figure import Figure
from lapsvm.evaluation.figures import MEAN, Figures, Row
from lapsvm.evaluation.measures import MEASURES, Shown, seen_note
from lapsvm.report import cell_text

Cell = str | float | int | None


def print_figures(
    figures: Figures, title: str, errors: Mapping[str, Any] | None = None, missing: Sequence[str] = (), *,
    with_intervals: bool = False,
) -> None:  # fmt: skip
    """Print figures of classes and their means on standard output, and what they have seen below.

    Parameters
    ----------
    figures : Figures
    title : str
    errors : mapping, optional
        Class -> kinds of errors, of evaluation.json.
    missing : sequence of str, default ()
        Classes of the ground truth that are not in the means, which are named by their number then.
    with_intervals : bool, default False
        Whether every figure has its interval, in place of a line with those of the means. Such figures are of result
        files, of which it is not known what they have seen.
    """
    known = len(figures.classes)
    rows = figure_rows(figures, with_intervals=with_intervals)
    if missing:
        rows[-1][0] = f"mean over {known} of {known + len(missing)} classes"
    measures = figures.measures(Shown.FIGURES)
    lines = ["" if with_intervals else seen_note(measures, figures.pictures), _errors_line(errors or {})]
    if figures.drawn is not None and with_intervals:
        lines.append(f"brackets: {figures.drawn.level:.0%} intervals over {figures.drawn.over}")
    elif figures.drawn is not None:
        lines.append(_intervals_line(figures))
    print_rows(title, ["class", *(measure.title for measure in measures)], rows, "\n".join(filter(None, lines)))


def figure_rows(figures: Figures, *, with_intervals: bool) -> list[list[Cell]]:
    """Return the rows of the table of figures: classes, all classes as one, the mean."""
    text = figure_text if with_intervals else cell_of
    measures = figures.measures(Shown.FIGURES)
    return [[name, *(text(row.get(measure.key)) for measure in measures)] for name, row in figures.rows()]


def cell_of(figure: Figure | None) -> Cell:
    """Return the value of a figure; "" if there is none in its row."""
    return "" if figure is None else figure.value


def figure_text(figure: Figure | None) -> Cell:
    """Return the value of a figure with its interval, if it has one."""
    limits = None if figure is None else figure.interval
    return cell_of(figure) if limits is None else f"{cell_text(cell_of(figure))} {limits_text(*limits, '')}"


def print_thresholds(entry: Mapping[str, Any], title: str) -> None:
    """Print the thresholds of classes on standard output; see `threshold_entry`."""
    keys = ("score", "probability", "precision", "recall", "f1")
    rows = [
        [name, rule, *((found or {}).get(key) for key in keys)]
        for name, rules in entry["classes"].items()
        for rule, found in zip(("best F1", f"precision {entry['wanted']:g}"), rules.values(), strict=True)
    ]
    print_rows(title, ["class", "rule", *keys], rows, has_means=False)


def _errors_line(errors: Mapping[str, Any]) -> str:
    """Return a line with the most frequent kind of error among the best boxes; "" without errors."""
    counts = Counter[str]()
    for of_class in errors.values():
        counts.update({kind: entry["top"] for kind, entry in of_class.items() if kind not in ("correct", "missed")})
    n_correct, n_wrong = sum(of_class["correct"]["top"] for of_class in errors.values()), counts.total()
    if not n_wrong:
        return ""
    kind, count = counts.most_common(1)[0]
    return (
        f"errors: {n_wrong:,} of the {n_correct + n_wrong:,} best boxes (as many as objects) are wrong; "
        f"most frequent kind: {kind} ({count / n_wrong:.0%})"
    )


def _intervals_line(figures: Figures) -> str:
    """Return a line with the intervals of the means, and of all classes as one."""
    if figures.drawn is None:
        return ""
    means, joined = _intervals_text(figures.mean), _intervals_text(figures.any_class)
    more = f"; of any class: {joined}" if joined else ""
    level, over = figures.drawn.level, figures.drawn.over
    return f"{level:.0%} intervals of the {MEAN}s over {over}: {means or 'undefined'}{more}"


def _intervals_text(row: Row) -> str:
    """Return the intervals of a row with the titles of their measures, in the order of tables."""
    known = {key: row[key].interval for key in MEASURES if key in row}
    return ", ".join(f"{MEASURES[key].title} {limits_text(*limits, '')}" for key, limits in known.items() if limits)


def print_rows(
    title: str, header: Sequence[str], rows: Sequence[Sequence[Cell]], note: str = "", *, has_means: bool = True
) -> None:
    """Print a table on standard output, a line above its last row if that has means, and a note below it.

    The table is never narrower than its figures: where lines are too short for it, the terminal breaks them.
    """
    printed = Table(title=title, title_justify="left")
    for column, text in enumerate(header):
        printed.add_column(text, justify="right" if column else "left", no_wrap=True)
    for row in rows:
        if has_means and row is rows[-1]:
            printed.add_section()
        printed.add_row(*map(cell_text, row))
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = max(console.width, console.measure(printed, options=console.options.update(width=1000)).maximum)
    console.print(printed, markup=False)
    if note:
        console.print(note, soft_wrap=True)


def limits_text(low: float, high: float, sign: str = "+") -> str:
    """Return an interval, "[low, high]"; with an empty `sign` positive bounds have no "+"."""
    return f"[{low:{sign}.3f}, {high:{sign}.3f}]"


def interval_text(entry: Mapping[str, float], sign: str = "+") -> str:
    """Return the interval of an entry with "low" and "high"."""
    return limits_text(entry["low"], entry["high"], sign)


def difference_text(difference: Mapping[str, float] | None) -> str | None:
    """Return a difference with its interval; None where it is undefined."""
    return None if difference is None else f"{difference['difference']:+.3f} {interval_text(difference)}"
