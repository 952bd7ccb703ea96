"""Differences of figures between runs or learners, with tests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from scipy.special import stdtrit

from lapsvm.arrays import Float64
from lapsvm.evaluation import holm, paired_t_test
from lapsvm.evaluation.figures import Figure, mean_figure
from lapsvm.evaluation.intervals import LEVEL

Difference = dict[str, Any]


def measure_table(by_class: Mapping[str, Sequence[Figure]]) -> dict[str, Any]:
    """Return one measure's classes and mean: the values of the runs, and their differences to the first run."""
    rows = {name: _row(figures) for name, figures in by_class.items()}
    add_holm(row["differences"] for row in rows.values())
    runs = zip(*by_class.values(), strict=True)
    return {"classes": rows, "mean": _row([mean_figure(figures) for figures in runs])}


def _row(figures: Sequence[Figure]) -> dict[str, Any]:
    return {
        "values": [figure.value for figure in figures],
        "differences": [bootstrap_row(figures[0], figure) for figure in figures[1:]],
    }


def bootstrap_row(first: Figure, other: Figure) -> Difference | None:
    """Return how `other` differs from `first` over the same draws; None where one has no value."""
    difference = other.minus(first)
    return None if difference is None else {"difference": difference[0], **difference[1]._asdict()}


def t_test_row(first: Float64, other: Float64, overlap: float = 0.0) -> Difference:
    """Return the paired t-test of two runs' values (n,), with the interval of the differences that it accepts."""
    test, n = paired_t_test(first, other, overlap=overlap), len(first)
    error = float((other - first).std(ddof=1) * np.sqrt(1 / n + overlap))
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * error
    return {**asdict(test), "low": test.difference - half, "high": test.difference + half}


def add_holm(rows: Iterable[Sequence[Difference | None]]) -> None:
    """Add "p_holm" to the differences of every class (rows) and run (columns), corrected over the classes."""
    for of_run in zip(*rows, strict=True):
        defined = [difference for difference in of_run if difference is not None]
        p_values = holm([difference["p_value"] for difference in defined]).tolist()
        for difference, p_value in zip(defined, p_values, strict=True):
            difference["p_holm"] = p_value
