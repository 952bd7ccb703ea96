"""The tables of a protocol: figures of every learner, and how each differs from the first, with tests.

One repetition: differences over draws of the pictures (bootstrap), and over the folds of cross-validation (t-tests,
corrected for overlapping training sets, and plain as the thesis reports them). Several: t-tests over the repetitions,
whose pictures are drawn apart from each other. P-values of classes are corrected by Holm's method.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.evaluation import paired_t_test
from lapsvm.evaluation.tables import mean
from lapsvm.report import escape_markdown

from ..compare.runs import Figure, correct_over_classes, measure_table
from .cells import Cell
from .figures import MEASURES

Results = dict[str, Any]  # "known": share or learner -> class -> counts; "cells": the same -> learner -> cell
Table = dict[str, Any]

HELD_OUT, PLAIN, BEST = "held_out_ap", "held_out_ap_plain", "best_test_ap"
TITLES = {
    HELD_OUT: "image AP, held-out",
    PLAIN: "image AP, held-out (plain t)",
    "image_ap": "image AP, test",
    BEST: "best candidate on test",
    "ap_11point": "AP 11-point",
    "ap_area": "AP area",
    "corloc": "CorLoc",
}
COLUMNS = (HELD_OUT, "image_ap", BEST, "ap_11point", "ap_area", "corloc")
LEVEL = 0.05


def table(plan: Any, results: Sequence[Results]) -> Table:
    """Return what NAME.json holds."""
    methods = plan.titles
    keys = [*plan.shares, *(methods if plan.swap else ())]
    return {
        "protocol": plan.name,
        "methods": methods,
        "seeds": list(plan.seeds),
        "folds": plan.folds,
        "draws": plan.draws,
        "first": plan.first,
        "shares": [_share(key, list(methods), plan.folds, results) for key in keys],
    }


def label(titles: dict[str, str], key: float | str) -> str:
    """Return how tables call what was known: a share of the right windows, or those that a learner chose."""
    return f"by {titles[key]}" if isinstance(key, str) else f"{key:g} %"


def _share(share: float | str, methods: Sequence[str], folds: int, results: Sequence[Results]) -> Table:
    """Return the part of one share of known windows, or of those that a learner chose."""
    cells = {name: [one["cells"][share][name] for one in results] for name in methods}
    classes = list(results[0]["known"][share])
    return {
        "share": share,
        "known": [one["known"][share] for one in results],
        "classes": {name: {method: _row(cells[method], name) for method in methods} for name in classes},
        "mean": {method: _mean_row(cells[method], classes) for method in methods},
        "differences": _differences(cells, classes, folds) if len(methods) > 1 else {},
    }


def _row(cells: Sequence[Cell], name: str) -> Table:
    """Return one learner's figures of one class, means over the repetitions, and the constants that were chosen."""
    figures = [_figures(cell, name) for cell in cells]
    chosen = [_chosen(cell, name)["constants"] for cell in cells]
    return {**{key: mean(one[key] for one in figures) for key in COLUMNS}, "chosen": chosen}


def _mean_row(cells: Sequence[Cell], classes: Iterable[str]) -> Table:
    """Return one learner's means over classes and repetitions, and what training cost, tuning included."""
    figures = [_figures(cell, name) for name in classes for cell in cells]
    return {
        **{key: mean(one[key] for one in figures) for key in COLUMNS},
        "cpu_seconds": sum(cell["cpu_seconds"] for cell in cells),
        "calls": sum(entry["calls"] for cell in cells for entry in cell["classes"].values()),
    }


def _figures(cell: Cell, name: str) -> dict[str, float | None]:
    """Return the figures of one class in one cell."""
    entry = cell["classes"][name]
    return {
        HELD_OUT: float(np.mean(_chosen(cell, name)["folds"])),
        BEST: max(one["test_image_ap"] for one in entry["candidates"]),
        **{measure: entry["figures"][measure]["value"] for measure in MEASURES},
    }


def _chosen(cell: Cell, name: str) -> Table:
    """Return the candidate that one class took."""
    entry = cell["classes"][name]
    candidate: Table = entry["candidates"][entry["chosen"]]
    return candidate


def _differences(cells: dict[str, list[Cell]], classes: Sequence[str], folds: int) -> Table:
    """Return measure -> the table of differences to the first learner."""
    held_out = np.array(
        [[np.concatenate([_chosen(one, name)["folds"] for one in own]) for name in classes] for own in cells.values()]
    )
    tables = {
        HELD_OUT: t_table(held_out, classes, 1 / (folds - 1)),
        PLAIN: t_table(held_out, classes),
    }
    for measure in MEASURES:
        known = [name for name in classes if all(_value(cell, name, measure) is not None
                 for own in cells.values() for cell in own)]  # fmt: skip
        if len(next(iter(cells.values()))) == 1:
            tables[measure] = measure_table(
                {name: [_figure(own[0], name, measure) for own in cells.values()] for name in known}
            )
        else:
            values = [[[_value(cell, name, measure) for cell in own] for name in known] for own in cells.values()]
            tables[measure] = t_table(np.array(values), known)
    return tables


def _value(cell: Cell, name: str, measure: str) -> float | None:
    """Return one figure."""
    value: float | None = cell["classes"][name]["figures"][measure]["value"]
    return value


def _figure(cell: Cell, name: str, measure: str) -> Figure:
    """Return one figure with its draws."""
    entry = cell["classes"][name]["figures"][measure]
    return Figure(entry["value"], np.array(entry["draws"], dtype=np.float64))


def t_table(values: Float64, classes: Sequence[str], overlap: float = 0.0) -> Table:
    """Return t-tests of values (learners, classes, n) against the first learner, class by class and of the mean."""
    rows = {name: _t_row(values[:, place], overlap) for place, name in enumerate(classes)}
    correct_over_classes([row["differences"] for row in rows.values()], "p_value", "p_holm")
    return {"classes": rows, "mean": _t_row(values.mean(axis=1), overlap)}


def _t_row(values: Float64, overlap: float) -> Table:
    """Return the means of all learners (learners, n) and their differences to the first."""
    return {
        "values": values.mean(axis=1).tolist(),
        "differences": [_t_difference(values[0], other, overlap) for other in values[1:]],
    }


def _t_difference(first: Float64, other: Float64, overlap: float) -> Table:
    """Return one difference with its interval at 95 %."""
    from scipy.special import stdtrit

    test = paired_t_test(first, other, overlap)
    half = abs(test.difference / test.statistic) * float(stdtrit(test.n - 1, 0.975)) if test.statistic else 0.0
    low, high = test.difference - half, test.difference + half
    return {"difference": test.difference, "low": low, "high": high, "p_value": test.p_value}


def markdown(found: Table) -> str:
    """Return the tables as Markdown."""
    methods = list(found["methods"])
    parts = ["Means over the classes.", _grid(["known windows", "learner", *(TITLES[key] for key in COLUMNS), "CPU s",
                                               "calls"], _mean_lines(found))]  # fmt: skip
    if len(methods) > 1:
        parts += [
            _about_tests(found),
            _grid(
                ["known windows", "learner", "figure", "difference", "95 %", "p", "better", "worse"], _test_lines(found)
            ),
        ]
    header = ["known windows", "class", "learner", *(TITLES[key] for key in COLUMNS), "chosen"]
    return "\n\n".join([*parts, "Class by class.", _grid(header, _class_lines(found))]) + "\n"


def _about_tests(found: Table) -> str:
    """Return the sentence above the differences."""
    return (
        f"Differences to {next(iter(found['methods'].values()))}: means over the classes, and in how many classes the "
        f"learner is better or worse at a corrected p below {LEVEL}."
    )


def _mean_lines(found: Table) -> list[list[str]]:
    """Return the rows of the table of means."""
    return [
        [label(found["methods"], part["share"]), title, *_shown(row), f"{row['cpu_seconds']:.0f}", str(row["calls"])]
        for part in found["shares"]
        for title, row in zip(found["methods"].values(), part["mean"].values(), strict=True)
    ]


def _test_lines(found: Table) -> list[list[str]]:
    """Return the rows of the table of differences."""
    others = list(found["methods"].values())[1:]
    return [
        [label(found["methods"], part["share"]), title, TITLES[measure], *_tested(tests, place)]
        for part in found["shares"]
        for place, title in enumerate(others)
        for measure, tests in part["differences"].items()
    ]


def _tested(tests: Table, place: int) -> list[str]:
    """Return difference, interval, p, and the counts of classes."""
    overall = tests["mean"]["differences"][place]
    if overall is None:
        return ["-"] * 5
    rows = [row["differences"][place] for row in tests["classes"].values()]
    sure = [row["difference"] for row in rows if row is not None and row["p_holm"] < LEVEL]
    return [
        f"{overall['difference']:+.3f}",
        f"[{overall['low']:+.3f}, {overall['high']:+.3f}]",
        f"{overall['p_value']:.3f}",
        str(sum(one > 0 for one in sure)),
        str(sum(one < 0 for one in sure)),
    ]


def _class_lines(found: Table) -> list[list[str]]:
    """Return the rows of the table of classes."""
    return [
        [
            label(found["methods"], part["share"]),
            escape_markdown(name),
            title,
            *_shown(row[method]),
            _constants(row[method]["chosen"]),
        ]
        for part in found["shares"]
        for name, row in part["classes"].items()
        for method, title in found["methods"].items()
    ]


def _shown(row: Table) -> list[str]:
    """Return a row's figures."""
    return ["-" if row[key] is None else f"{row[key]:.3f}" for key in COLUMNS]


def _constants(chosen: Sequence[dict[str, float]]) -> str:
    """Return the constants that the repetitions chose."""
    return "; ".join(", ".join(f"{name} {value:.3g}" for name, value in one.items() if value) for one in chosen)


def _grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
