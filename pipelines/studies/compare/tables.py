"""A comparison as tables, in Markdown and on a terminal, from one list of rows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from lapsvm.report import escape_markdown

from ...results.tables import TITLES


class Sheet(NamedTuple):
    """One table: its title, its header, and its rows, the mean last."""

    title: str
    header: list[str]
    rows: list[list[str]]


def comparison_markdown(table: Mapping[str, Any]) -> str:
    """Return comparison.md."""
    first = escape_markdown(table["runs"][0]["name"])
    lines = ["# Comparison", "", f"Differences are to {first}; brackets hold {_interval(table)}.", ""]
    lines += [f"* {escape_markdown(', '.join(run.values()))}" for run in table["runs"]]
    for sheet in sheets(table):
        header = [escape_markdown(title) for title in sheet.header]
        lines += ["", f"## {sheet.title}", "", _line(header), _line(["---"] + ["---:"] * (len(header) - 1))]
        lines += [_line([escape_markdown(row[0]), *row[1:]]) for row in sheet.rows]
    return "\n".join(lines) + "\n"


def print_comparison(table: Mapping[str, Any]) -> None:
    """Print the tables on standard output."""
    console = Console(highlight=False, markup=False, emoji=False)
    for sheet in sheets(table):
        printed = Table(title=sheet.title, title_justify="left")
        for column, text in enumerate(sheet.header):
            printed.add_column(text, justify="right" if column else "left", no_wrap=True)
        for row in sheet.rows[:-1]:
            printed.add_row(*row)
        printed.add_section()
        printed.add_row(*sheet.rows[-1])
        # a figure is never cut off: where lines are too short for a table, the terminal breaks them
        console.width = max(console.width, console.measure(printed, options=console.options.update(width=1000)).maximum)
        console.print(printed, markup=False)


def sheets(table: Mapping[str, Any]) -> Iterator[Sheet]:
    """Yield the table of every measure, then that of the folds."""
    names = [run["name"] for run in table["runs"]]
    for measure, entry in table["measures"].items():
        header = ["class", *names]
        for other in names[1:]:
            header += [f"{other} - {names[0]}", "p (Holm)"]
        yield Sheet(TITLES[measure], header, [_boot_row(name, row) for name, row in _rows(entry)])
    if "folds" in table:
        folds = table["folds"]
        header = ["class", *names]
        for other in names[1:]:
            header += [f"{other} - {names[0]}", "p (Holm)", "p corrected (Holm)"]
        title = f"Held-out image AP, {folds['folds']} folds, {folds['seeds']} seed(s), corrected t-intervals"
        if "without_refinement" in folds:
            title += f"; {', '.join(folds['without_refinement'])} without refinement"
        yield Sheet(title, header, [_fold_row(name, row) for name, row in _rows(folds)])


def _rows(entry: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the classes and the mean."""
    return [*entry["classes"].items(), ("mean", entry["mean"])]


def _boot_row(name: str, row: Mapping[str, Any]) -> list[str]:
    """Return the cells of one class: values, differences with their intervals, p-values."""
    cells = [name, *(_shown(value) for value in row["values"])]
    for one in row["differences"]:
        if one is None:
            cells += ["-", "-"]
        else:
            cells += [_between(one), _p(one)]
    return cells


def _fold_row(name: str, row: Mapping[str, Any]) -> list[str]:
    """Return the cells of one class: means and standard deviations, differences, both p-values."""
    pairs = zip(row["means"], row["stds"], strict=True)
    cells = [name, *(f"{middle:.3f} ± {spread:.3f}" for middle, spread in pairs)]
    for one in row["differences"]:
        cells += [_between(one["corrected"]), _p(one["plain"]), _p(one["corrected"])]
    return cells


def _between(one: Mapping[str, float]) -> str:
    """Return a difference and its interval."""
    return f"{one['difference']:+.3f} [{one['low']:+.3f}, {one['high']:+.3f}]"


def _p(test: Mapping[str, Any]) -> str:
    """Return a p-value, the corrected one where there is one (the mean is a hypothesis of its own)."""
    value = test.get("p_holm", test["p_value"])
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _shown(value: float | None) -> str:
    """Return a figure as a table shows it."""
    return "-" if value is None else f"{value:.3f}"


def _interval(table: Mapping[str, Any]) -> str:
    """Return what the brackets hold."""
    return (
        f"the {100 * table['level']:g} % percentile interval over {table['draws']} bootstrap draws of the pictures"
        f" (seed {table['seed']})"
    )


def _line(cells: Sequence[str]) -> str:
    """Return one row of a Markdown table."""
    return f"| {' | '.join(cells)} |"
