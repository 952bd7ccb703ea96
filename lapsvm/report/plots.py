"""Plots as geometry: what the template draws as inline SVG.

They are drawn here and not by matplotlib because a page holds one small plot or two per class: plain SVG follows the
reader's dark or light colours, weighs a few kilobytes, and has the same bytes on every machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64
from lapsvm.report.contents import CccpStep, ClassSummary, Curve

OVER = {"passes": "Passes over the windows", "seconds": "Seconds"}  # what training is drawn over, with its axis's title
_WIDTH, _HEIGHT, _LOW_HEIGHT = 320.0, 220.0, 130.0
_TOP, _RIGHT, _BOTTOM = 10.0, 12.0, 40.0
_TINY = 1e-300  # smaller numbers are drawn as 0
_DIGIT = 6.6  # width of a tick label's character


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis, in units of the drawing."""

    place: float
    label: str


@dataclass(frozen=True)
class Plot:
    """One line in a frame.

    Attributes
    ----------
    label : str
        What a reader is told who does not see the picture.
    x_title, y_title : str
    left, right, top, bottom : float
        The frame in the drawing.
    width, height : float
        Of the drawing, titles included.
    x_ticks, y_ticks : tuple of Tick
    line : str
        The points of an SVG polyline, "x,y x,y ...".
    dots : tuple of (x, y)
        Marked points.
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


@dataclass(frozen=True)
class _Axis:
    """A linear map from values to the drawing, with its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]

    def place(self, values: ArrayLike, start: float, end: float) -> Float64:
        share = (np.asarray(values, dtype=np.float64) - self.low) / (self.high - self.low)
        return np.asarray(start + share * (end - start))

    def marks(self, start: float, end: float) -> tuple[Tick, ...]:
        places = self.place(self.ticks, start, end).round(1).tolist()
        return tuple(Tick(place, label) for place, label in zip(places, self.labels, strict=True))


@dataclass(frozen=True, eq=False)
class _Series:
    """What is to be drawn: y over x."""

    label: str
    titles: tuple[str, str]
    axes: tuple[_Axis, _Axis]
    x: Float64
    y: Float64
    height: float = _HEIGHT
    dotted: bool = True

    @property
    def margin(self) -> float:
        """Room that the vertical axis's labels and title need."""
        return 30.0 + _DIGIT * max(len(text) for text in self.axes[1].labels)


_UNIT = _Axis(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0), ("0", "0.25", "0.5", "0.75", "1"))


def precision_recall_plot(name: str, curve: Curve) -> Plot:
    """Return the plot of precision over recall, both axes from 0 to 1."""
    recall, precision = np.asarray(curve.recall, dtype=np.float64), np.asarray(curve.precision, dtype=np.float64)
    reached = f"recall reaches {recall.max():.3f}" if len(recall) else "no detections"
    label = f"Precision over recall of {name}; {reached}."
    axes = _UNIT, _UNIT
    return _drawn([_Series(label, ("Recall", "Precision"), axes, recall, precision, dotted=False)])[0]


def training_plots(result: ClassSummary) -> dict[str, tuple[Plot, ...]]:
    """Return the plots of training: the objective, whose axis spans its values, and the gap, from zero.

    Each is drawn over "passes" and over "seconds", a dot for every CCCP step; over "steps" where neither is known.
    Empty if no step is known; without the gap if no step tells it.
    """
    return {over.name: _drawn([*_objective(result, over), *_gap(result, over)]) for over in _overs(result.steps)}


@dataclass(frozen=True, eq=False)
class _Over:
    """What the steps of training are drawn over."""

    name: str
    title: str
    axis: _Axis
    places: Float64


def _overs(steps: Sequence[CccpStep]) -> list[_Over]:
    """Return what is known to draw over."""
    known = [
        _Over(name, title, _axis(0.0, max(places)), np.array(places, dtype=np.float64))
        for name, title in OVER.items()
        if len(places := [place for step in steps if (place := getattr(step, name)) is not None]) == len(steps) > 0
    ]
    if known or not steps:
        return known
    return [_Over("steps", "CCCP step", _steps_axis(len(steps)), np.arange(1.0, len(steps) + 1))]


def _objective(result: ClassSummary, over: _Over) -> list[_Series]:
    values = np.array([step.objective for step in result.steps])
    fall = f"{len(values)} CCCP step(s), from {values[0]:g} to {values[-1]:g}"
    label = f"Objective of {result.name} over {over.name}: {fall}."
    axes = over.axis, _axis(float(values.min()), float(values.max()))
    return [_Series(label, (over.title, "Objective"), axes, over.places, values)]


def _gap(result: ClassSummary, over: _Over) -> list[_Series]:
    known = [(place, step.duality_gap) for place, step in zip(over.places, result.steps, strict=True)]
    known = [(place, gap) for place, gap in known if gap is not None]
    if not known:
        return []
    places, gaps = np.array(known, dtype=np.float64).T
    label = f"Duality gap of {result.name} over {over.name}, {gaps[-1]:.1e} at the end."
    axes = over.axis, _axis(float(gaps.min(initial=0)), float(gaps.max(initial=0)))
    return [_Series(label, (over.title, "Duality gap"), axes, places, gaps, height=_LOW_HEIGHT)]


def _drawn(stack: Sequence[_Series]) -> tuple[Plot, ...]:
    """Return the plots of a stack, their frames beginning at the same place."""
    left = max((series.margin for series in stack), default=0.0)
    return tuple(_plot(series, left) for series in stack)


def _plot(series: _Series, left: float) -> Plot:
    (x_axis, y_axis), right, bottom = series.axes, _WIDTH - _RIGHT, series.height - _BOTTOM
    across, down = x_axis.place(series.x, left, right).round(1), y_axis.place(series.y, bottom, _TOP).round(1)
    return Plot(
        series.label,
        *series.titles,
        left,
        right,
        _TOP,
        bottom,
        _WIDTH,
        series.height,
        x_axis.marks(left, right),
        y_axis.marks(bottom, _TOP),
        _thinned(across, down),
        tuple(zip(across.tolist(), down.tolist(), strict=True)) if series.dotted else (),
    )


def _thinned(x: Float64, y: Float64) -> str:
    """Return the points as text; of a run in one column only its first, lowest, highest and last are seen."""
    if not len(x):
        return ""
    starts = np.flatnonzero(np.r_[True, np.diff(x) != 0])
    kept: list[int] = []
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(x)], strict=True):
        run = y[start:end]
        kept += sorted({start, start + int(run.argmin()), start + int(run.argmax()), end - 1})
    return " ".join(f"{x[i]:g},{y[i]:g}" for i in kept)


def _steps_axis(steps: int) -> _Axis:
    """Return the axis of steps 1..n, labelled at whole steps, at most about seven."""
    every = max(1, ceil(steps / 7))
    ticks = tuple(float(step) for step in range(1, steps + 1, every))
    return _Axis(0.5, steps + 0.5, ticks, tuple(f"{tick:.0f}" for tick in ticks))


def _axis(low: float, high: float) -> _Axis:
    """Return an axis over [low, high], widened to round ticks; an empty interval is widened first."""
    size = max(abs(low), abs(high))
    if size <= _TINY:
        low, high = 0.0, 1.0
    elif high - low <= 1e-12 * size:
        low, high = low - 0.05 * size, high + 0.05 * size
    step = _round_step((high - low) / 4)
    ticks = tuple(step * i for i in range(floor(low / step + 1e-9), ceil(high / step - 1e-9) + 1))
    return _Axis(ticks[0], ticks[-1], ticks, _labels(ticks, step))


def _round_step(raw: float) -> float:
    """Return the smallest of 1, 2, 5, 10 times a power of ten that is at least `raw`."""
    power = 10.0 ** floor(log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power >= raw)


def _labels(ticks: Sequence[float], step: float) -> tuple[str, ...]:
    """Return labels with as many digits as tell the ticks apart."""
    largest = max(abs(tick) for tick in ticks)
    place = floor(log10(step) + 1e-9)
    if 1e-3 <= largest < 1e7:
        return tuple(f"{tick:z.{max(0, -place)}f}" for tick in ticks)
    digits = max(0, floor(log10(largest)) - place)
    return tuple("0" if abs(tick) < step / 2 else f"{tick:.{digits}e}" for tick in ticks)
