"""The tables of a protocol: figures of every learner, and differences to the first learner, with tests.

One repetition: differences over draws of the pictures (bootstrap), and over the folds of cross-validation (t-tests,
corrected for overlapping training sets, and plain as the thesis reports them). Several: t-tests over the repetitions,
whose pictures are drawn independently. P-values of classes are corrected by Holm's method.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from cell_figures import MEASURES
from cells import Cell
from lapsvm.pipelines.compare.differences import add_holm, measure_table, t_test_row
from lapsvm.pipelines.figures.tables import interval_text

from lapsvm.arrays import Float64
from lapsvm.evaluation import Figure, Figures
from lapsvm.evaluation.intervals import Smoothed
from lapsvm.evaluation.measures import Pictures as MeasuredPictures
from lapsvm.evaluation.tables import mean
from lapsvm.report import escape_markdown, markdown_table

Results = dict[str, Any]  # "given": share or learner -> class -> counts; "cells": share or learner -> learner -> cell
Table = dict[str, Any]

HELD_OUT, PLAIN, BEST = "held_out_ap", "held_out_ap_plain", "best_test_ap"
TITLES = {
    HELD_OUT: "image AP, held-out",
    PLAIN: "image AP, held-out (plain t)",
    "image_ap": "image AP, test",
    BEST: "best grid point on test",
    "ap_11point": "AP 11-point",
    "ap_area": "AP area",
    "corloc": "CorLoc",
}
COLUMNS = (HELD_OUT, "image_ap", BEST, "ap_11point", "ap_area", "corloc")
LEVEL = 0.05


def protocol_table(options: Any, results: Sequence[Results]) -> Table:
    """Return the content of NAME.json."""
    methods = options.titles
    keys = [*options.shares, *(methods if options.swap else ())]
    return {
        "protocol": options.name,
        "methods": methods,
        "seeds": list(options.seeds),
        "folds": options.folds,
        "draws": options.draws,
        "first": options.first,
        "shares": [_share(key, list(methods), options.folds, results) for key in keys],
    }


def label(titles: dict[str, str], key: float | str) -> str:
    """Return the text for given windows: a share of the oracle windows, or the windows that a learner chose."""
    return f"by {titles[key]}" if isinstance(key, str) else f"{key:g} %"


def _share(share: float | str, methods: Sequence[str], folds: int, results: Sequence[Results]) -> Table:
    """Return the entry of a share of oracle windows, or of the windows that a learner chose."""
    cells = {name: [result["cells"][share][name] for result in results] for name in methods}
    classes = list(results[0]["given"][share])
    return {
        "share": share,
        "given": [result["given"][share] for result in results],
        "classes": {name: {method: _row(cells[method], name) for method in methods} for name in classes},
        "mean": {method: _mean_row(cells[method], classes) for method in methods},
        "differences": _differences(cells, classes, folds) if len(methods) > 1 else {},
    }


def _row(cells: Sequence[Cell], name: str) -> Table:
    """Return the figures of one learner and class, means over the repetitions, and the chosen constants."""
    figures = [_figures(cell, name) for cell in cells]
    chosen = [_chosen(cell, name)["constants"] for cell in cells]
    return {**{key: mean(row[key] for row in figures) for key in COLUMNS}, "chosen": chosen}


def _mean_row(cells: Sequence[Cell], classes: Iterable[str]) -> Table:
    """Return the means of one learner over classes and repetitions, and the cost of training with tuning."""
    figures = [_figures(cell, name) for name in classes for cell in cells]
    return {
        **{key: mean(row[key] for row in figures) for key in COLUMNS},
        "cpu_seconds": sum(cell["cpu_seconds"] for cell in cells),
        "calls": sum(entry["calls"] for cell in cells for entry in cell["classes"].values()),
    }


def _figures(cell: Cell, name: str) -> dict[str, float | None]:
    """Return the figures of one class in one cell."""
    entry = cell["classes"][name]
    return {
        HELD_OUT: float(np.mean(_chosen(cell, name)["folds"])),
        BEST: max(point["test_image_ap"] for point in entry["grid"]),
        **{measure: entry["figures"][measure]["value"] for measure in MEASURES},
    }


def _chosen(cell: Cell, name: str) -> Table:
    """Return the grid point that one class chose."""
    entry = cell["classes"][name]
    point: Table = entry["grid"][entry["chosen"]]
    return point


def _differences(cells: dict[str, list[Cell]], classes: Sequence[str], folds: int) -> Table:
    """Return measure -> the table of differences to the first learner."""
    held_out = np.array([[np.concatenate([_chosen(cell, name)["folds"] for cell in repeated]) for name in classes]
                         for repeated in cells.values()])  # fmt: skip
    tables = {HELD_OUT: t_table(held_out, classes, 1 / (folds - 1)), PLAIN: t_table(held_out, classes)}
    for measure in MEASURES:
        found = [{name: [cell["classes"][name]["figures"][measure] for cell in repeated] for name in classes}
                 for repeated in cells.values()]  # fmt: skip
        defined = [name for name in classes if all(one["value"] is not None for of in found for one in of[name])]
        if len(next(iter(cells.values()))) == 1:
            tables[measure] = measure_table([_of_class(measure, of, defined) for of in found], measure)
        else:
            values = [[[one["value"] for one in of[name]] for name in defined] for of in found]
            tables[measure] = t_table(np.array(values), defined)
    return tables


def _of_class(measure: str, entries: dict[str, Any], classes: Sequence[str]) -> Figures:
    """Return one measure of each class of a learner."""
    rows = {name: {measure: _figure(*entries[name])} for name in classes}
    return Figures("", MeasuredPictures.TEST, rows).with_means()


def _figure(entry: dict[str, Any]) -> Figure:
    """Return a figure with its draws."""
    draws = np.array(entry["draws"], dtype=np.float64)
    return Figure(entry["value"], draws, Smoothed(*entry["with_pseudo"]), entry["n_groups"])


def t_table(values: Float64, classes: Sequence[str], overlap: float = 0.0) -> Table:
    """Return t-tests of values (learners, classes, n) against the first learner, for each class and the mean."""
    rows = {name: _t_row(values[:, index], overlap) for index, name in enumerate(classes)}
    add_holm(row["differences"] for row in rows.values())
    return {"classes": rows, "mean": _t_row(values.mean(axis=1), overlap)}


def _t_row(values: Float64, overlap: float) -> Table:
    """Return the means of all learners (learners, n) and their differences to the first."""
    differences = [t_test_row(values[0], other, overlap) for other in values[1:]]
    return {"values": values.mean(axis=1).tolist(), "differences": differences}


def markdown(table: Table) -> str:
    """Return the tables as Markdown."""
    titles = list(table["methods"].values())
    columns = [TITLES[key] for key in COLUMNS]
    texts = [
        "Means over the classes.",
        _grid(["given windows", "learner", *columns, "CPU s", "calls"], _mean_rows(table)),
    ]
    if len(titles) > 1:
        header = ["given windows", "learner", "figure", "difference", "95 %", "p", "better", "worse"]
        about = (
            f"Differences to {titles[0]}: means over the classes, and in how many classes the learner is better or "
            f"worse at a corrected p below {LEVEL}."
        )
        texts += [about, _grid(header, _test_rows(table))]
    header = ["given windows", "class", "learner", *columns, "chosen"]
    return "\n\n".join([*texts, "Class by class.", _grid(header, _class_rows(table))]) + "\n"


def _grid(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    return markdown_table(header, list(rows), escape=False).rstrip("\n")


def _mean_rows(table: Table) -> Iterator[list[Any]]:
    """Yield the rows of the table of means."""
    for share in table["shares"]:
        for method, title in table["methods"].items():
            row = share["mean"][method]
            figures = [row[key] for key in COLUMNS]
            yield [label(table["methods"], share["share"]), title, *figures, f"{row['cpu_seconds']:.0f}", row["calls"]]


def _test_rows(table: Table) -> Iterator[list[Any]]:
    """Yield the rows of the table of differences."""
    for share in table["shares"]:
        for index, title in enumerate(list(table["methods"].values())[1:]):
            for measure, tests in share["differences"].items():
                yield [label(table["methods"], share["share"]), title, TITLES[measure], *_test_cells(tests, index)]


def _test_cells(tests: Table, index: int) -> list[Any]:
    """Return difference, interval, p, and the numbers of classes that are significantly better and worse."""
    mean_test = tests["mean"]["differences"][index]
    if mean_test is None:
        return [None] * 5
    rows = [row["differences"][index] for row in tests["classes"].values()]
    significant = [row["difference"] for row in rows if row is not None and row["p_holm"] < LEVEL]
    n_better = sum(difference > 0 for difference in significant)
    n_worse = sum(difference < 0 for difference in significant)
    texts = f"{mean_test['difference']:+.3f}", interval_text(mean_test), f"{mean_test['p_value']:.3f}"
    return [*texts, n_better, n_worse]


def _class_rows(table: Table) -> Iterator[list[Any]]:
    """Yield the rows of the table of classes."""
    for share in table["shares"]:
        for name, row in share["classes"].items():
            for method, title in table["methods"].items():
                figures = [row[method][key] for key in COLUMNS]
                texts = label(table["methods"], share["share"]), escape_markdown(name), title
                yield [*texts, *figures, _constants(row[method]["chosen"])]


def _constants(chosen: Sequence[dict[str, float]]) -> str:
    """Return the constants that the repetitions chose."""
    return "; ".join(
        ", ".join(f"{name} {value:.3g}" for name, value in constants.items() if value) for constants in chosen
    )
