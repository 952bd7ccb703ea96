"""Train latent problems side by side on shared passes, with a progress bar and a summary of early stops."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sklearn.exceptions import ConvergenceWarning

from lapsvm.bags import Bags
from lapsvm.latent import LatentProblem, LatentSolution, fit_many, fit_paths

from ..run.progress import Reporter
from .training_progress import TrainingProgress

SIDE_BY_SIDE = 512  # problems that share passes: each stores its planes, and a large grid has thousands
_SHOWN = 3  # warnings printed in full
Result = TypeVar("Result")


class Trainer:
    """Trains problems side by side, at most `SIDE_BY_SIDE` in one pass.

    `progress` receives every outer step; `options` are the keywords candidates, pass_counts and log of
    `lapsvm.latent.fit_many`.
    """

    def __init__(self, progress: TrainingProgress | None = None, **options: Any) -> None:
        self.progress, self.options = progress, options

    def fit(self, problems: Sequence[LatentProblem], bags: Bags) -> list[LatentSolution]:
        """Return the solution of every problem."""
        return self._batched(lambda part, report: fit_many(problems[part], bags, report, **self.options), len(problems))

    def fit_paths(
        self, problems: Sequence[LatentProblem], values: Sequence[Sequence[float]], bags: Bags
    ) -> list[list[LatentSolution]]:
        """Return the solutions of every problem for its values of C."""
        return self._batched(
            lambda part, report: fit_paths(problems[part], values[part], bags, report, **self.options), len(problems)
        )

    def _batched(self, fit: Callable[[slice, Any], list[Result]], count: int) -> list[Result]:
        return [result for part in batches(count) for result in fit(part, self._report(part.start))]

    def _report(self, first: int) -> Callable[[int, dict[str, Any]], None] | None:
        """Return the function that receives the outer steps of a batch that begins at problem `first`."""
        progress = self.progress
        return None if progress is None else lambda index, record: progress.update(first + index, record)


def batches(count: int) -> Iterator[slice]:
    """Yield slices of at most `SIDE_BY_SIDE` of `count` problems."""
    for first in range(0, count, SIDE_BY_SIDE):
        yield slice(first, first + SIDE_BY_SIDE)


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
