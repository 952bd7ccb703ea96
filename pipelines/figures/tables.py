"""Figures as tables: titles of measures, cells with intervals, tables on a terminal."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from lapsvm.evaluation.measures import MEASURES, Pictures, seen_note
from lapsvm.report import cell_text, drawn_text

TITLES = {**{name: measure.title for name, measure in MEASURES.items()}, "npos": "objects"}
Cell = str | float | int | None


def print_table(
    table: Mapping[str, Any], title: str, pictures: Pictures | None = None, *, with_intervals: bool = False
) -> None:
    """Print the figures of classes and their means on standard output; the means name over how many they are.

    A note says what the figures of known `pictures` have seen of their labels. The means name a number where classes of
    the ground truth are missing, see `lapsvm evaluate --results`. With intervals every figure has its own, in place of
    a line with those of the means.
    """
    missing, known = table.get("missing", ()), len(table["classes"])
    name = f"mean over {known} of {known + len(missing)} classes" if missing else "mean"
    measures = [name for name in TITLES if any(name in row for row in table["classes"].values())]
    with_intervals = with_intervals and "intervals" in table
    intervals = table["intervals"] if with_intervals else {"classes": {}, "mean": {}}
    rows = [
        [name, *_with_intervals(row, measures, intervals["classes"].get(name, {}))]
        for name, row in table["classes"].items()
    ]
    if "any_class" in table:
        rows.append(["any class", *(table["any_class"].get(measure, "") for measure in measures)])
    means = _with_intervals({**table["mean"], "npos": ""}, measures, intervals["mean"])
    lines = ["" if pictures is None else seen_note(measures, pictures), _errors_line(table.get("errors", {}))]
    if with_intervals:
        lines.append(f"brackets: {intervals['level']:.0%} intervals over {drawn_text(intervals)}")
    elif "intervals" in table:
        lines.append(_intervals_line(table["intervals"]))
    note = "\n".join(filter(None, lines))
    print_rows(title, ["class", *(TITLES[measure] for measure in measures)], [*rows, [name, *means]], note)


def _with_intervals(
    row: Mapping[str, Cell], measures: Sequence[str], intervals: Mapping[str, Mapping[str, float] | None]
) -> list[Cell]:
    """Return the cells of a row, with an interval behind each figure that has one."""
    return [
        f"{cell_text(row.get(measure))} {interval_text(known, '')}"
        if (known := intervals.get(measure))
        else row.get(measure)
        for measure in measures
    ]


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


def _intervals_line(intervals: Mapping[str, Any]) -> str:
    """Return a line with the intervals of the means, and of all classes as one."""
    means, joined = _intervals_text(intervals["mean"]), _intervals_text(intervals.get("any_class", {}))
    more = f"; of any class: {joined}" if joined else ""
    return f"{intervals['level']:.0%} intervals of the means over {drawn_text(intervals)}: {means or 'undefined'}{more}"


def _intervals_text(row: Mapping[str, Mapping[str, float] | None]) -> str:
    """Return the intervals that there are, with the titles of their measures."""
    known = {TITLES[measure]: value for measure, value in row.items() if value is not None}
    return ", ".join(f"{title} {interval_text(value, '')}" for title, value in known.items())


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


def interval_text(figure: Mapping[str, float], sign: str = "+") -> str:
    """Return the interval of a figure, "[low, high]"; with an empty `sign` positive bounds have no "+"."""
    return f"[{figure['low']:{sign}.3f}, {figure['high']:{sign}.3f}]"


def difference_text(difference: Mapping[str, float] | None) -> str | None:
    """Return a difference with its interval; None where it is undefined."""
    return None if difference is None else f"{difference['difference']:+.3f} {interval_text(difference)}"
