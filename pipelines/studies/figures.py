"""Figures on the pictures and on bootstrap draws of them, and differences between runs or learners, with tests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lapsvm.arrays import Float64
from lapsvm.catalog import GroundTruth
from lapsvm.evaluation import (
    Detections,
    bootstrap_difference,
    detection_ap_draws,
    holm,
    paired_t_test,
    share_draws,
)
from lapsvm.evaluation.localisation import ClassCorLoc
from lapsvm.evaluation.tables import mean
from lapsvm.evaluation.voc import ClassResult

LEVEL = 0.95
"""Confidence level of all intervals."""
Difference = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """A figure of one run and class: its value on the pictures, and on every draw of them."""

    value: float | None
    draws: Float64


def detection_figures(
    result: ClassResult,
    detections: Detections,
    truth: Mapping[str, GroundTruth],
    ids: Sequence[str],
    counts: NDArray[np.integer],
) -> dict[str, Figure]:
    """Return the detection APs of one class; `counts` (draws, pictures) says how often each draw has each of `ids`."""
    positions = {image: position for position, image in enumerate(ids)}
    images = [positions[detections.image_ids[row]] for row in result.order]
    npos = [int((~np.asarray(truth[image].difficult, dtype=bool)).sum()) for image in ids]
    points, areas = detection_ap_draws(result.matches.outcome, images, npos, counts)
    return {"ap_11point": Figure(result.ap_11point, points), "ap_area": Figure(result.ap_area, areas)}


def corloc_figure(result: ClassCorLoc, ids: Sequence[str], counts: NDArray[np.integer]) -> Figure:
    """Return the CorLoc of one class; `counts` (draws, pictures) says how often each draw has each of `ids`."""
    positions = {image: position for position, image in enumerate(ids)}
    return Figure(result.corloc, share_draws(result.hits, [positions[image] for image in result.image_ids], counts))


def mean_figure(figures: Sequence[Figure]) -> Figure:
    """Return the mean of the figures that are defined, on the pictures and on every draw."""
    draws = np.stack([figure.draws for figure in figures])
    defined = ~np.isnan(draws)
    sums, sizes = np.where(defined, draws, 0.0).sum(axis=0), defined.sum(axis=0)
    means = np.divide(sums, sizes, out=np.full(len(sums), np.nan), where=sizes > 0)
    return Figure(mean(figure.value for figure in figures), means)


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
    if first.value is None or other.value is None:
        return None
    difference = bootstrap_difference(other.value - first.value, first.draws, other.draws, LEVEL)
    return None if difference is None else asdict(difference)


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
