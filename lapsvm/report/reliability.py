"""How far probabilities can be trusted: reliability curves of held-out pictures, their errors, and thresholds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lapsvm.detection import Reliability
from lapsvm.evaluation.tables import mean
from lapsvm.report.contents import Contents
from lapsvm.report.diagnosis import Cell, FigureTable
from lapsvm.report.plots import Plot, reliability_plot
from lapsvm.report.tables import UNDEFINED, decimal


@dataclass(frozen=True)
class ReliabilityView:
    """What the page shows of probabilities: a table, and a plot per class."""

    table: FigureTable
    plots: tuple[tuple[str, Plot], ...]


def reliability_view(contents: Contents) -> ReliabilityView | None:
    """Return the section on probabilities, or None if no class has any."""
    known = contents.reliability
    if not known:
        return None
    summary = contents.summary
    entry = contents.figures.get(summary.test.name, {}) if summary.test is not None else {}
    thresholds: Mapping[str, Any] = entry.get("thresholds", {})
    rows = tuple((name, _row(name, one, thresholds)) for name, one in known.items())
    means = [mean([getattr(one, field) for one in known.values()]) for field in ("ece", "brier")]
    blank = Cell("")
    more = ("Best F1", f"Recall at precision {thresholds['wanted']:g}") if thresholds else ()
    header = ("With the class", "Without", "ECE", "Brier score", *more)
    last = (blank, blank, *(Cell(decimal(value)) for value in means), *(blank for _ in more))
    table = FigureTable(
        "Probabilities", f"held out on {summary.train.name}", _caption(bool(thresholds)), header, rows, last
    )
    return ReliabilityView(table, tuple((name, reliability_plot(name, one)) for name, one in known.items()))


def _caption(has_thresholds: bool) -> str:
    """Return what the table shows."""
    first = "Held-out pictures, and errors of the probability that a picture shows the class."
    second = " Best boxes by a threshold that was chosen on the test set, so these figures are optimistic."
    return first + (second if has_thresholds else "")


def _row(name: str, reliability: Reliability, thresholds: Mapping[str, Any]) -> tuple[Cell, ...]:
    counts = Cell(str(reliability.positives)), Cell(str(reliability.negatives))
    errors = Cell(decimal(reliability.ece)), Cell(decimal(reliability.brier))
    if not thresholds:
        return *counts, *errors
    rules = thresholds["classes"].get(name, {})
    pairs = (("best_f1", "f1"), ("wanted_precision", "recall"))
    return *counts, *errors, *(_threshold_cell(rules.get(rule), figure) for rule, figure in pairs)


def _threshold_cell(found: Mapping[str, float | None] | None, figure: str) -> Cell:
    """Return what a threshold reaches, and below it the probability and score of the threshold."""
    if found is None:
        return Cell(UNDEFINED)
    probability = f"probability {decimal(found['probability'])}, " if found["probability"] is not None else ""
    return Cell(decimal(found[figure]), f"{probability}score {found['score']:.4g}")
