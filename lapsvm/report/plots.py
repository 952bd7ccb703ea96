"""Plots as geometry that the template draws as inline SVG.

Matplotlib is not used: plain SVG follows the reader's dark or light colours, takes a few kilobytes, and has the same
bytes on every machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log10

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64
from lapsvm.detection import Reliability
from lapsvm.report.contents import ClassSummary, Curve

_WIDTH, _HEIGHT, _LOW_HEIGHT = 320.0, 220.0, 130.0
_TOP, _RIGHT, _BOTTOM = 10.0, 12.0, 40.0
_TINY = 1e-300  # smaller numbers count as 0
_DIGIT = 6.6  # width of a tick label's character
_PASSES = "Passes over the windows"


@dataclass(frozen=True)
class Tick:
    """A labelled position on an axis, in units of the drawing."""

    position: float
    label: str


@dataclass(frozen=True)
class Plot:
    """A line plot.

    Attributes
    ----------
    label : str
        Text for screen readers.
    x_title, y_title : str
    left, right, top, bottom : float
        The frame in the drawing.
    width, height : float
        Of the drawing, including titles.
    x_ticks, y_ticks : tuple of Tick
    line : str
        The points of an SVG polyline, "x,y x,y ...".
    dots : tuple of (x, y)
        Marked points.
    guide : str
        The points of a thin line behind the others; empty for none.
    """

    label: str
    x_title: str
    y_title: str
    left: float
    right: float
    top: float
    bottom: float
    width: float
    height: float
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    line: str
    dots: tuple[tuple[float, float], ...]
    guide: str = ""


@dataclass(frozen=True)
class _Axis:
    """A linear map from values to the drawing, with its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]

    def positions(self, values: ArrayLike, start: float, end: float) -> Float64:
        share = (np.asarray(values, dtype=np.float64) - self.low) / (self.high - self.low)
        return np.asarray(start + share * (end - start))

    def tick_marks(self, start: float, end: float) -> tuple[Tick, ...]:
        positions = self.positions(self.ticks, start, end).round(1).tolist()
        return tuple(Tick(position, label) for position, label in zip(positions, self.labels, strict=True))


@dataclass(frozen=True, eq=False)
class _Series:
    """The data of one plot: y over x."""

    label: str
    titles: tuple[str, str]
    axes: tuple[_Axis, _Axis]
    x: Float64
    y: Float64
    height: float = _HEIGHT
    dotted: bool = True

    @property
    def margin(self) -> float:
        """Width of the vertical axis's labels and title."""
        return 30.0 + _DIGIT * max(len(text) for text in self.axes[1].labels)


_UNIT = _Axis(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0), ("0", "0.25", "0.5", "0.75", "1"))


def precision_recall_plot(name: str, curve: Curve) -> Plot:
    """Return the plot of precision over recall, both axes from 0 to 1."""
    recall, precision = np.asarray(curve.recall, dtype=np.float64), np.asarray(curve.precision, dtype=np.float64)
    reached = f"recall reaches {recall.max():.3f}" if len(recall) else "no detections"
    label = f"Precision over recall of {name}; {reached}."
    axes = _UNIT, _UNIT
    return _plots([_Series(label, ("Recall", "Precision"), axes, recall, precision, dotted=False)])[0]


def reliability_plot(name: str, reliability: Reliability) -> Plot:
    """Return the plot of the share of pictures that show a class over their probability, and the diagonal."""
    probabilities, shares = (
        np.array([getattr(point, axis) for point in reliability.curve]) for axis in ("probability", "share")
    )
    label = f"Share of pictures with {name} over their probability; expected calibration error {reliability.ece:.3f}."
    series = _Series(label, ("Probability", "Share with the class"), (_UNIT, _UNIT), probabilities, shares)
    plot = _plots([series])[0]
    return replace(plot, guide=f"{plot.left:g},{plot.bottom:g} {plot.right:g},{plot.top:g}")


def training_plots(result: ClassSummary) -> tuple[Plot, ...]:
    """Return the plots of the objective and the duality gap over passes; every CCCP step is a dot.

    The result is empty unless every step has its passes, and has no plot of the gap if no step has one.
    """
    known = [step.passes for step in result.steps if step.passes is not None]
    if not known or len(known) < len(result.steps):
        return ()
    return _plots([_objective(result, np.array(known, np.float64)), *_gap(result, np.array(known, np.float64))])


def _objective(result: ClassSummary, passes: Float64) -> _Series:
    values = np.array([step.objective for step in result.steps])
    decrease = f"{len(values)} CCCP step(s), from {values[0]:g} to {values[-1]:g}"
    label = f"Objective of {result.name} over passes: {decrease}."
    axes = _axis(0.0, float(passes.max())), _axis(float(values.min()), float(values.max()))
    return _Series(label, (_PASSES, "Objective"), axes, passes, values)


def _gap(result: ClassSummary, passes: Float64) -> list[_Series]:
    gaps = np.array([step.duality_gap for step in result.steps], dtype=np.float64)  # None is NaN
    known = ~np.isnan(gaps)
    if not known.any():
        return []
    gaps, x_axis = gaps[known], _axis(0.0, float(passes.max()))
    label = f"Duality gap of {result.name} over passes, {gaps[-1]:.1e} at the end."
    axes = x_axis, _axis(float(gaps.min(initial=0)), float(gaps.max(initial=0)))
    return [_Series(label, (_PASSES, "Duality gap"), axes, passes[known], gaps, height=_LOW_HEIGHT)]


def _plots(stack: Sequence[_Series]) -> tuple[Plot, ...]:
    """Return the plots of a stack with a common left edge of their frames."""
    left = max((series.margin for series in stack), default=0.0)
    return tuple(_plot(series, left) for series in stack)


def _plot(series: _Series, left: float) -> Plot:
    (x_axis, y_axis), right, bottom = series.axes, _WIDTH - _RIGHT, series.height - _BOTTOM
    across, down = x_axis.positions(series.x, left, right).round(1), y_axis.positions(series.y, bottom, _TOP).round(1)
    frame, size = (left, right, _TOP, bottom), (_WIDTH, series.height)
    ticks = x_axis.tick_marks(left, right), y_axis.tick_marks(bottom, _TOP)
    dots = tuple(zip(across.tolist(), down.tolist(), strict=True)) if series.dotted else ()
    return Plot(series.label, *series.titles, *frame, *size, *ticks, _thinned(across, down), dots)


def _thinned(x: Float64, y: Float64) -> str:
    """Return the points as text; of points with equal x, keep the first, lowest, highest and last."""
    if not len(x):
        return ""
    starts = np.flatnonzero(np.r_[True, np.diff(x) != 0])
    kept: list[int] = []
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(x)], strict=True):
        column = y[start:end]
        kept += sorted({start, start + int(column.argmin()), start + int(column.argmax()), end - 1})
    return " ".join(f"{x[i]:g},{y[i]:g}" for i in kept)


def _axis(low: float, high: float) -> _Axis:
    """Return an axis over [low, high], widened to round ticks."""
    size = max(abs(low), abs(high))
    if size <= _TINY:
        low, high = 0.0, 1.0
    elif high - low <= 1e-12 * size:
        low, high = low - 0.05 * size, high + 0.05 * size
    step = round_step((high - low) / 4)
    ticks = tuple(step * i for i in range(floor(low / step + 1e-9), ceil(high / step - 1e-9) + 1))
    return _Axis(ticks[0], ticks[-1], ticks, _labels(ticks, step))


def round_step(raw: float) -> float:
    """Return the smallest of 1, 2, 5, 10 times a power of ten that is at least `raw`."""
    power = 10.0 ** floor(log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power >= raw)


def _labels(ticks: Sequence[float], step: float) -> tuple[str, ...]:
    """Return labels with enough digits to distinguish the ticks."""
    largest = max(abs(tick) for tick in ticks)
    exponent = floor(log10(step) + 1e-9)
    if 1e-3 <= largest < 1e7:
        return tuple(f"{tick:z.{max(0, -exponent)}f}" for tick in ticks)
    digits = max(0, floor(log10(largest)) - exponent)
    return tuple("0" if abs(tick) < step / 2 else f"{tick:.{digits}e}" for tick in ticks)
