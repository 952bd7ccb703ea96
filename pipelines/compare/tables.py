"""A comparison as tables, in Markdown and on a terminal, from the same rows."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from lapsvm.report import escape_markdown, markdown_table

from ..results.tables import TITLES, Cell, difference_text, print_rows


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
        yield Table(TITLES[measure], _header(table, "p (Holm)"), rows)
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
        f"the {100 * table['level']:g} % percentile interval over {table['draws']} bootstrap draws of the pictures"
        f" (seed {table['seed']})"
    )
