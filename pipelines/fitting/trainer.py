"""Train latent problems side by side on shared passes, with a progress bar and a summary of early stops."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from lapsvm.bags import Bags
from lapsvm.latent import LatentProblem, LatentSolution, fit_paths

from ..run.progress import Bar, Reporter

SIDE_BY_SIDE = 512  # problems that share passes: each stores its planes, and a large grid has thousands
_SHOWN = 3  # warnings printed in full
NAMED = 4  # classes whose gap is shown


class TrainingProgress:
    """Receives every outer step, and stores in each record the seconds since the trainings began.

    `names` has the class of each training.
    """

    def __init__(self, bar: Bar, names: Sequence[str]) -> None:
        self.bar, self._names = bar, names
        self._last: dict[int, Mapping[str, Any]] = {}

    def update(self, index: int, record: dict[str, Any]) -> None:
        """Add an outer step of training `index`."""
        record["seconds"] = round(self.bar.seconds, 3)
        self._last[index] = record
        self.bar.step(1, self._note())

    def _note(self) -> str:
        """Return the passes so far and the largest gap of each class, the largest first."""
        gaps: dict[str, float] = {}
        for index, record in self._last.items():
            gaps[self._names[index]] = max(gaps.get(self._names[index], 0.0), record["gap"])
        largest = sorted(gaps.items(), key=lambda item: -item[1])
        shown = ", ".join(f"{name} {gap:.1g}" for name, gap in largest[:NAMED])
        others = f" and {len(largest) - NAMED} smaller" if len(largest) > NAMED else ""
        passes = max(record["passes"] for record in self._last.values())
        return f"pass {passes}, gap {shown}{others}"


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
    reporter: Reporter, title: str, names: Sequence[str], count: int | None = None
) -> Iterator[TrainingProgress]:
    """Show a bar for trainings of the classes `names`, and afterwards report which of them stopped early.

    `count` is the number of trainings to show, by default that of the names.
    """
    count = len(names) if count is None else count
    with (
        reporter.bar(f"{title} ({count} trainings)", None, "outer steps") as bar,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", ConvergenceWarning)
        yield TrainingProgress(bar, names)
    for warning in caught[:_SHOWN]:
        reporter.say(f"{title}: {warning.message}")
    if len(caught) > _SHOWN:
        reporter.say(f"{title}: {len(caught) - _SHOWN} more of {count} trainings stopped early.")
