"""A comparison as tables, in Markdown and on a terminal, and as an SVG plot, from the same rows.

The plot has the difference to the first run and its interval, for each measure and class. Cross-validation, if there is
any, is one more measure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from math import ceil, floor
from typing import Any, NamedTuple

from lapsvm.evaluation import MEASURES
from lapsvm.names.escapes import printable
from lapsvm.report import escape_markdown, markdown_table
from lapsvm.report.plots import round_step

from ..figures.tables import Cell, difference_text, print_rows

COLOURS = ("#2a6fb0", "#c8553d", "#3a8f5c", "#8a5bb0", "#b08a2a")
_LEFT, _WIDTH, _RIGHT, _ROW, _HEAD, _FOOT = 130.0, 420.0, 20.0, 22.0, 34.0, 34.0
_STYLE = (
    "text{font:12px sans-serif;fill:#222}.frame{stroke:#bbb}.zero{stroke:#555}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.frame{stroke:#555}.zero{stroke:#aaa}}"
)


class Table(NamedTuple):
    """One table: its title, its header, and its rows, the mean last."""

    title: str
    header: list[str]
    rows: list[list[Cell]]


def comparison_markdown(table: Mapping[str, Any]) -> str:
    """Return comparison.md."""
    first = escape_markdown(table["runs"][0]["name"])
    lines = ["# Comparison", "", f"Differences are to {first}; brackets hold {_interval(table)}.", ""]
    lines += [f"* {escape_markdown(', '.join(run.values()))}" for run in table["runs"]]
    for part in _tables(table):
        header = [escape_markdown(title) for title in part.header]
        rows = [[escape_markdown(str(name)), *cells] for name, *cells in part.rows]
        lines += ["", f"## {part.title}", "", markdown_table(header, rows, escape=False).rstrip("\n")]
    return "\n".join(lines) + "\n"


def print_comparison(table: Mapping[str, Any]) -> None:
    """Print the tables on standard output."""
    for part in _tables(table):
        print_rows(*part)


def _tables(table: Mapping[str, Any]) -> Iterator[Table]:
    """Yield the table of every measure, then that of the folds."""
    for measure, entry in table["measures"].items():
        rows = [_bootstrap_row(name, row) for name, row in _rows(entry)]
        yield Table(MEASURES[measure].title, _header(table, "p (Holm)"), rows)
    if any(seconds is not None for seconds in table.get("cpu_seconds", ())):
        names = [run["name"] for run in table["runs"]]
        cells = ["-" if seconds is None else f"{seconds:.0f}" for seconds in table["cpu_seconds"]]
        yield Table("CPU seconds", ["stages", *names], [["training and refinement", *cells]])
    if "folds" in table:
        folds = table["folds"]
        title = f"Held-out image AP, {folds['folds']} folds, {folds['seeds']} seed(s), corrected t-intervals"
        if "without_refinement" in folds:
            title += f"; {', '.join(folds['without_refinement'])} without refinement"
        rows = [_fold_row(name, row) for name, row in _rows(folds)]
        yield Table(title, _header(table, "p (Holm)", "p corrected (Holm)"), rows)


def _header(table: Mapping[str, Any], *tests: str) -> list[str]:
    """Return the titles of columns: the runs, then each run's difference to the first with its tests."""
    first, *others = [run["name"] for run in table["runs"]]
    columns = [title for other in others for title in (f"{other} - {first}", *tests)]
    return ["class", first, *others, *columns]


def _rows(entry: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the classes and the mean."""
    return [*entry["classes"].items(), ("mean", entry["mean"])]


def _bootstrap_row(name: str, row: Mapping[str, Any]) -> list[Cell]:
    """Return the cells of one class: values, differences with their intervals, p-values."""
    tests = [cell for entry in row["differences"] for cell in (difference_text(entry), _p_value(entry))]
    return [name, *row["values"], *tests]


def _fold_row(name: str, row: Mapping[str, Any]) -> list[Cell]:
    """Return the cells of one class: means and standard deviations, differences, both p-values."""
    values = [f"{mean:.3f} ± {deviation:.3f}" for mean, deviation in zip(row["means"], row["stds"], strict=True)]
    tests = [
        cell
        for entry in row["differences"]
        for cell in (difference_text(entry["corrected"]), _p_value(entry["plain"]), _p_value(entry["corrected"]))
    ]
    return [name, *values, *tests]


def _p_value(test: Mapping[str, Any] | None) -> str | None:
    """Return a p-value, the corrected one where there is one (the mean is a separate hypothesis)."""
    if test is None:
        return None
    value = test.get("p_holm", test["p_value"])
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _interval(table: Mapping[str, Any]) -> str:
    """Return a description of the intervals."""
    return (
        f"the {100 * table['level']:g} % interval from {table['draws']} bootstrap draws of the pictures"
        f" (seed {table['seed']})"
    )


# ---- the plot ----
@dataclass(frozen=True)
class _Scale:
    """The horizontal axis that all panels share."""

    low: float
    high: float
    step: float

    def x(self, value: float) -> float:
        return _LEFT + _WIDTH * (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        return [self.step * i for i in range(round(self.low / self.step), round(self.high / self.step) + 1)]


def comparison_svg(table: Mapping[str, Any]) -> str:
    """Return comparison.svg: one panel for each measure, one row for each class and the mean, one mark for each run."""
    names = [run["name"] for run in table["runs"]]
    panels = {
        MEASURES[measure].title: [(name, row["differences"]) for name, row in _rows(entry)]
        for measure, entry in table["measures"].items()
    }
    if "folds" in table:
        rows = [(name, row["differences"]) for name, row in _rows(table["folds"])]
        panels["Held-out image AP over folds"] = [(name, [of["corrected"] for of in tests]) for name, tests in rows]
    scale = _scale([entry for rows in panels.values() for _, row in rows for entry in row if entry is not None])
    parts, top = _legend(names), _HEAD * len(names)
    for title, rows in panels.items():
        parts += _panel(f"{title}, difference to {names[0]}", rows, scale, top)
        top += _HEAD + _ROW * len(rows) + _FOOT
    label = escape(f"Differences of {', '.join(names[1:])} to {names[0]} with their intervals.")
    size = f"{_LEFT + _WIDTH + _RIGHT:g} {top:g}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img" aria-label="{label}">'
    return printable("\n".join([head, f"<style>{_STYLE}</style>", *parts, "</svg>"]) + "\n")


def _scale(differences: list[Mapping[str, float]]) -> _Scale:
    """Return an axis over all intervals and 0, widened to round ticks."""
    low = min([0.0, *(min(entry["low"], entry["difference"]) for entry in differences)])
    high = max([0.0, *(max(entry["high"], entry["difference"]) for entry in differences)])
    if high - low < 1e-6:
        low, high = low - 0.1, high + 0.1
    step = round_step((high - low) / 5)
    return _Scale(step * floor(low / step), step * ceil(high / step), step)


def _legend(names: list[str]) -> list[str]:
    """Return a line per run that is compared with the first."""
    parts = []
    for number, name in enumerate(names[1:]):
        y = 20 + _ROW * number
        parts.append(f'<circle cx="{_LEFT:g}" cy="{y - 4:g}" r="4" fill="{_colour(number)}"/>')
        parts.append(f'<text x="{_LEFT + 10:g}" y="{y:g}">{escape(name)}</text>')
    return parts


def _panel(title: str, rows: list[tuple[str, list[Any]]], scale: _Scale, top: float) -> list[str]:
    """Return one measure: its title, the axis, and a row per class."""
    first, bottom = top + _HEAD, top + _HEAD + _ROW * len(rows)
    parts = [f'<text x="{_LEFT:g}" y="{top + 20:g}" font-weight="bold">{escape(title)}</text>']
    for tick in scale.ticks():
        x, kind = scale.x(tick), "zero" if abs(tick) < scale.step / 2 else "frame"
        parts.append(f'<line class="{kind}" x1="{x:.1f}" y1="{first:g}" x2="{x:.1f}" y2="{bottom:g}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16:g}" text-anchor="middle">{tick:z.3g}</text>')
    for number, (name, differences) in enumerate(rows):
        middle = first + _ROW * (number + 0.5)
        parts.append(f'<text x="{_LEFT - 8:g}" y="{middle + 4:g}" text-anchor="end">{escape(name)}</text>')
        for run, difference in enumerate(differences):
            if difference is not None:
                shift = _ROW * ((run + 1) / (len(differences) + 1) - 0.5)
                parts += _mark(difference, scale, middle + shift, _colour(run))
    return parts


def _mark(difference: Mapping[str, float], scale: _Scale, y: float, colour: str) -> list[str]:
    """Return a line for the interval and a circle for the difference."""
    low, high, at = (scale.x(difference[name]) for name in ("low", "high", "difference"))
    return [
        f'<line x1="{low:.1f}" y1="{y:.1f}" x2="{high:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="2"/>',
        f'<circle cx="{at:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>',
    ]


def _colour(run: int) -> str:
    """Return the colour of a run."""
    return COLOURS[run % len(COLOURS)]
