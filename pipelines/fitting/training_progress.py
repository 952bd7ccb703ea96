"""Progress of trainings side by side: passes, the gap of each class, and roughly the time left."""

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from ..run.progress import Bar

NAMED = 4  # classes whose gap is shown
FEW = 3  # outer steps of a training before the time left is predicted


class TrainingProgress:
    """Receives every outer step, and stores in each record the seconds since the trainings began.

    `names` has the class of each training. `tol` is the gap at which trainings end; None: they go on with another C
    then, and no time is predicted.
    """

    def __init__(self, bar: Bar, names: Sequence[str], tol: float | None) -> None:
        self.bar, self._names, self._tol = bar, names, tol
        self._records: dict[int, list[Mapping[str, Any]]] = {}
        self._distances: dict[int, list[tuple[float, float]]] = {}

    def update(self, index: int, record: dict[str, Any]) -> None:
        """Add an outer step of training `index`."""
        record["seconds"] = round(self.bar.seconds, 3)
        self._records.setdefault(index, []).append(record)
        if self._tol is not None:
            self._distances.setdefault(index, []).append((record["seconds"], self._distance(index, self._tol)))
        self.bar.seconds_left = self._left()
        self.bar.step(1, self._note())

    def _note(self) -> str:
        """Return the passes so far and the largest gap of each class, the largest first."""
        gaps: dict[str, float] = {}
        for index, records in self._records.items():
            gaps[self._names[index]] = max(gaps.get(self._names[index], 0.0), records[-1]["gap"])
        largest = sorted(gaps.items(), key=lambda item: -item[1])
        shown = ", ".join(f"{name} {gap:.1g}" for name, gap in largest[:NAMED])
        others = f" and {len(largest) - NAMED} smaller" if len(largest) > NAMED else ""
        passes = max(records[-1]["passes"] for records in self._records.values())
        return f"pass {passes}, gap {shown}{others}"

    def _distance(self, index: int, tol: float) -> float:
        """Return how far a training is from its end: by how many factors of e its gap and its changes must fall."""
        records = self._records[index]
        if _is_converged(records, tol):
            return 0.0
        gap, changed = records[-1]["gap"] / tol, records[-1]["changed"] / 0.5
        return max(1.0, math.log(max(gap, 1.0)) + math.log(max(changed, 1.0)))  # at least 1 until it converges

    def _left(self) -> float | None:
        """Return roughly the seconds left; None after few steps, or if distances do not fall.

        The training that is farthest from its end is assumed to approach it as fast as the median one did so far.
        """
        if len(self._distances) < len(self._names):
            return None
        rates = [rate for points in self._distances.values() if (rate := _rate(points)) is not None]
        farthest = max(points[-1][1] for points in self._distances.values())
        if not farthest or not rates or median(rates) <= 0:
            return None
        return farthest / median(rates)


def _rate(points: Sequence[tuple[float, float]]) -> float | None:
    """Return how fast a distance falls per second, from points (seconds, distance); None if they are few."""
    (begin, first), (end, last) = points[0], points[-1]
    if len(points) < FEW or end <= begin:
        return None
    return (first - last) / (end - begin)


def _is_converged(records: Sequence[Mapping[str, Any]], tol: float) -> bool:
    """Return whether a training has ended by `tol`; one that has learned little may go on."""
    last = records[-1]
    fall = records[-2]["objective"] - last["objective"] if len(records) > 1 else math.inf
    is_certified = last["gap"] <= tol and last.get("certified", True)  # on candidates alone a gap is only a bound
    return bool(is_certified and (last["changed"] == 0 or fall <= tol * abs(last["objective"])))
