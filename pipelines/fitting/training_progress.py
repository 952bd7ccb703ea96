"""What trainings side by side tell while they go: passes, the gap of each class, and roughly the time left."""

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from ..run.progress import Bar

NAMED = 4  # classes whose gap is spelt out
FEW = 3  # outer steps of a training before anything is foretold


class TrainingProgress:
    """Hears of every outer step; each record is given the seconds since the trainings began.

    Parameters
    ----------
    bar : Bar
    names : sequence of str
        The class of each training.
    tol : float or None
        The gap at which trainings end. None: they go on with another C then, and nothing is foretold.
    """

    def __init__(self, bar: Bar, names: Sequence[str], tol: float | None) -> None:
        self._bar, self._names, self._tol = bar, names, tol
        self._told: dict[int, list[Mapping[str, Any]]] = {}
        self._distances: dict[int, list[tuple[float, float]]] = {}

    def update(self, place: int, record: dict[str, Any]) -> None:
        """Take down an outer step of the training at `place`."""
        record["seconds"] = round(self._bar.seconds, 3)
        self._told.setdefault(place, []).append(record)
        if self._tol is not None:
            self._distances.setdefault(place, []).append((record["seconds"], self._distance(place, self._tol)))
        self._bar.seconds_left = self._left()
        self._bar.step(1, self._note())

    def _note(self) -> str:
        """Return the passes so far and the largest gap of each class, the largest first."""
        gaps: dict[str, float] = {}
        for place, own in self._told.items():
            gaps[self._names[place]] = max(gaps.get(self._names[place], 0.0), own[-1]["gap"])
        largest = sorted(gaps.items(), key=lambda one: -one[1])
        shown = ", ".join(f"{name} {gap:.1g}" for name, gap in largest[:NAMED])
        rest = f" and {len(largest) - NAMED} smaller" if len(largest) > NAMED else ""
        passes = max(own[-1]["passes"] for own in self._told.values())
        return f"pass {passes}, gap {shown}{rest}"

    def _distance(self, place: int, tol: float) -> float:
        """Return how far a training is from its end: by how many factors of e its gap and its changes must fall."""
        now = self._told[place][-1]
        if _rests(self._told[place], tol):
            return 0.0
        distance = math.log(max(now["gap"] / tol, 1.0)) + math.log(max(now["changed"] / 0.5, 1.0))
        return max(1.0, distance)  # what does not rest yet has some way to go

    def _left(self) -> float | None:
        """Return roughly the seconds left; None if trainings have only begun, or come no nearer to their ends.

        The training that is farthest from its end is taken to come nearer as fast as the median one did so far.
        """
        if len(self._distances) < len(self._names):
            return None
        rates = [rate for own in self._distances.values() if (rate := _fall(own)) is not None]
        farthest = max(own[-1][1] for own in self._distances.values())
        if not farthest or not rates or median(rates) <= 0:
            return None
        return farthest / median(rates)


def _fall(distances: Sequence[tuple[float, float]]) -> float | None:
    """Return how fast a distance falls, per second; None if too little is known."""
    (begin, first), (end, last) = distances[0], distances[-1]
    if len(distances) < FEW or end <= begin:
        return None
    return (first - last) / (end - begin)


def _rests(told: Sequence[Mapping[str, Any]], tol: float) -> bool:
    """Tell whether a training has ended, as CCCP ends."""
    now = told[-1]
    fall = told[-2]["objective"] - now["objective"] if len(told) > 1 else math.inf
    proved = now["gap"] <= tol and now.get("proved", True)  # on candidates alone a gap is but a bound
    return bool(proved and (now["changed"] == 0 or fall <= tol * abs(now["objective"])))
