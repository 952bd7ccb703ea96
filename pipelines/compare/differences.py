"""Differences of figures between runs or learners, with tests."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.evaluation import Figures, holm, paired_t_test
from lapsvm.evaluation.intervals import student_quantile

Difference = dict[str, Any]


def measure_table(runs: Sequence[Figures], key: str) -> dict[str, Any]:
    """Return one measure's classes and mean: the values of the runs, and their differences to the first run."""
    differences = [run.difference(runs[0], key) for run in runs[1:]]
    rows = {
        name: {
            "values": [run.classes[name][key].value for run in runs],
            "differences": [of_run["classes"][name] for of_run in differences],
        }
        for name in runs[0].classes
    }
    add_holm(row["differences"] for row in rows.values())
    means = {
        "values": [run.mean[key].value for run in runs],
        "differences": [of_run["mean"] for of_run in differences],
    }
    return {"classes": rows, "mean": means}


def shared_measures(runs: Sequence[Figures]) -> list[str]:
    """Return the measures with intervals that all runs have, in the order of tables."""
    drawn = [{key for row in run.classes.values() for key in row if row[key].is_drawn} for run in runs]
    return [measure.key for measure in runs[0].measures() if all(measure.key in keys for keys in drawn)]


def t_test_row(first: Float64, other: Float64, overlap: float = 0.0) -> Difference:
    """Return the paired t-test of two runs' values (n,), with the interval of the differences that it accepts."""
    test, n = paired_t_test(first, other, overlap=overlap), len(first)
    error = float((other - first).std(ddof=1) * np.sqrt(1 / n + overlap))
    half = student_quantile(n) * error
    return {**asdict(test), "low": test.difference - half, "high": test.difference + half}


def add_holm(rows: Iterable[Sequence[Difference | None]]) -> None:
    """Add "p_holm" to the differences of every class (rows) and run (columns), corrected over the classes."""
    for of_run in zip(*rows, strict=True):
        defined = [difference for difference in of_run if difference is not None]
        p_values = holm([difference["p_value"] for difference in defined]).tolist()
        for difference, p_value in zip(defined, p_values, strict=True):
            difference["p_holm"] = p_value
