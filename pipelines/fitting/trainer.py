"""Train latent problems side by side on shared passes, with a progress bar and a summary of early stops."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from lapsvm.bags import Bags
from lapsvm.latent import LatentProblem, LatentSolution, fit_paths

from ..run.progress import Bar, Reporter

SIDE_BY_SIDE = 512  # problems that share passes: each stores its planes, and a large grid has thousands
_SHOWN = 3  # warnings printed in full
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


def fit_side_by_side(
    problems: Sequence[LatentProblem],
    values: Sequence[Sequence[float]],
    bags: Bags,
    progress: TrainingProgress,
    **options: Any,
) -> list[list[LatentSolution]]:
    """Return the solutions of every problem for its values of C, trained with at most `SIDE_BY_SIDE` in one pass.

    `progress` receives every outer step; `options` are the keywords candidates, pass_counts and log of
    `lapsvm.latent.fit_paths`.
    """

    def report(first: int, index: int, record: dict[str, Any]) -> None:
        progress.update(first + index, record)

    return [
        found
        for part in batches(len(problems))
        for found in fit_paths(problems[part], values[part], bags, partial(report, part.start), **options)
    ]


def batches(count: int, each: int = 1) -> Iterator[slice]:
    """Yield slices of `count` items of `each` problems: as many as train side by side, at least one."""
    size = max(1, SIDE_BY_SIDE // each)
    for first in range(0, count, size):
        yield slice(first, first + size)


@contextmanager
def training_progress(
    reporter: Reporter, title: str, names: Sequence[str], tol: float | None, count: int | None = None
) -> Iterator[TrainingProgress]:
    """Show a bar for trainings of the classes `names`, and afterwards report which of them stopped early.

    `tol` is the gap at which trainings end, None where that of one value of C is not the end. `count` is the number of
    trainings to show, by default that of the names.
    """
    count = len(names) if count is None else count
    with (
        reporter.bar(f"{title} ({count} trainings)", None, "outer steps") as bar,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", ConvergenceWarning)
        yield TrainingProgress(bar, names, tol)
    for warning in caught[:_SHOWN]:
        reporter.say(f"{title}: {warning.message}")
    if len(caught) > _SHOWN:
        reporter.say(f"{title}: {len(caught) - _SHOWN} more of {count} trainings stopped early.")
