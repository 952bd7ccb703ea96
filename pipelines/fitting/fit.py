"""Training for requested constants, along paths of C: side by side on shared passes, with a bar and early stops."""

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from threading import Lock, local
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lapsvm.bags import Bags
from lapsvm.latent import HingeRisk, LatentProblem, LatentSolution, PassCounts, RankRisk, ReplayLog, fit_paths

from ..run.dataset import Labels, content_hash
from ..run.folder import RunFolder
from ..run.progress import Bar, Reporter
from ..settings.settings import Settings, TrainSettings

SIDE_BY_SIDE = 512  # problems that share passes: each stores its planes, and a large grid has thousands
_SHOWN = 3  # warnings printed in full
NAMED = 4  # classes whose gap is shown

T = TypeVar("T")


class Constants(NamedTuple):
    """The constants of one training; J and trim are None where the learner has none."""

    C: float
    J: float | None = None
    trim: float | None = None

    def known(self) -> dict[str, float]:
        """Return the constants that the learner has, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}


class FitRequest(NamedTuple):
    """One training: labels, 0 leaving a picture out, and constants."""

    y: Labels
    constants: Constants


def problem(settings: Settings, request: FitRequest) -> LatentProblem:
    """Return the training problem of one class."""
    train, constants = settings.train, request.constants
    return LatentProblem(
        y=request.y,
        risk=RankRisk(train.loss) if constants.J is None else HingeRisk(constants.J),
        C=constants.C,
        init=train.init,
        tol=train.tol,
        top=train.top,
        seed=settings.seed,
        fit_intercept=constants.J is not None,
        trim=constants.trim or 0.0,
    )


@dataclass(frozen=True)
class Trainer:
    """What every training of a run has in common.

    Attributes
    ----------
    settings : Settings
    reporter : Reporter
    run : RunFolder
        Stores the answers of passes, from which an interrupted training resumes, if it is locked.
    provenance : mapping
        That of the training set's shards.
    pass_counts : PassCounts or None
        Where trainings count their passes.
    """

    settings: Settings
    reporter: Reporter
    run: RunFolder
    provenance: Mapping[str, Any]
    pass_counts: PassCounts | None = None


def fit_requests(
    trainer: Trainer, title: str, requests: Sequence[FitRequest], bags: Bags, names: Sequence[str]
) -> list[LatentSolution]:
    """Return the solutions of all requests, trained side by side; `names` are their classes.

    With ``train.path`` a training begins where the training with the next larger C of the settings ended, even if no
    request has that C; requests that differ in C alone share a path.
    """
    settings, paths = trainer.settings, _paths(trainer.settings.train, requests)
    problems = [problem(settings, requests[indices[0]]) for indices, _ in paths]
    classes = [names[indices[0]] for indices, _ in paths]
    with (
        replay_log(trainer, title, requests, bags) as log,
        training_progress(trainer.reporter, title, classes, len(requests)) as progress,
    ):
        options = {"candidates": settings.train.candidates, "pass_counts": trainer.pass_counts, "log": log}
        solved = fit_side_by_side(problems, [values for _, values in paths], bags, progress, **options)
    solutions = {
        index: solved[number][values.index(requests[index].constants.C)]
        for number, (indices, values) in enumerate(paths)
        for index in indices
    }
    return [solutions[index] for index in range(len(requests))]


def _paths(train: TrainSettings, requests: Sequence[FitRequest]) -> list[tuple[list[int], list[float]]]:
    """Return paths: the indices of the requests on each, and its values of C, the largest first."""
    shared: dict[Any, list[int]] = {}
    for index, (y, constants) in enumerate(requests):
        key = (y.tobytes(), constants._replace(C=0.0)) if train.path else index
        shared.setdefault(key, []).append(index)
    paths = []
    for indices in shared.values():
        requested = {requests[index].constants.C for index in indices}
        before = {C for C in train.C if min(requested) < C} if train.path else set()  # on the way to the requested ones
        paths.append((indices, sorted(requested | before, reverse=True)))
    return paths


def replay_log(
    trainer: Trainer, title: str, requests: Sequence[FitRequest], bags: Bags
) -> AbstractContextManager[ReplayLog | None]:
    """Return the log of a training, with the answers of an interrupted one; None where the run folder is only read."""
    run, settings = trainer.run, trainer.settings
    if not run.is_locked:
        return nullcontext()
    hashed = [(content_hash(request.y.tolist()), request.constants) for request in requests]
    decisive = [title, hashed, asdict(settings.train), settings.seed, trainer.provenance, bags.n_windows, bags.dim]
    key = content_hash(json.dumps(decisive, sort_keys=True, default=np.ndarray.item))
    path = run.training / f"{key[:16]}.answers"
    run.files.claim([path])
    return ReplayLog(path)


class TrainingProgress:
    """Receives every outer step, and stores in each record the seconds since the trainings began.

    `names` has the class of each training. Trainings may run on several threads. The bar counts outer steps, or, if its
    total is known, what its owner counts.
    """

    def __init__(self, bar: Bar, names: Sequence[str]) -> None:
        self.bar, self._names = bar, names
        self._last: dict[int, Mapping[str, Any]] = {}
        self._lock, self._stopped, self._thread = Lock(), set[int](), local()

    def update(self, index: int, record: dict[str, Any]) -> None:
        """Add an outer step of training `index`; raise CancelledError if it was stopped."""
        record["seconds"] = round(self.bar.seconds, 3)
        with self._lock:
            if index in self._stopped:
                raise CancelledError
            self._last[index] = record
            self.bar.step(int(self.bar.total is None), self._note())

    def run(
        self, train: Callable[..., T], pool: Executor | None, indices: Sequence[int], *arguments: Sequence[Any]
    ) -> list[T]:
        """Return the results of `train` for trainings and their arguments, on threads of a pool, or one by one here.

        All end with their next outer step where one raises, or the program is interrupted.
        """
        if pool is None or len(indices) == 1:
            return list(map(train, indices, *arguments))
        calls = [pool.submit(train, *of_one) for of_one in zip(indices, *arguments, strict=True)]
        try:
            return [call.result() for call in calls]
        except BaseException:
            self.stop(indices)
            raise
        finally:
            for call in calls:
                call.cancel()
            wait(calls)

    def stop(self, indices: Iterable[int] | None = None) -> None:
        """End some trainings with their next outer step, by default all."""
        with self._lock:
            self._stopped.update(range(len(self._names)) if indices is None else indices)

    def finish(self, name: str) -> None:
        """Count a class, whose gap is shown no more."""
        with self._lock:
            self._last = {index: record for index, record in self._last.items() if self._names[index] != name}
            self.bar.step()

    @property
    def title(self) -> str:
        """What the present thread trains, for its warnings; "" unless it was set there."""
        return getattr(self._thread, "title", "")

    @title.setter
    def title(self, title: str) -> None:
        self._thread.title = title

    def _note(self) -> str:
        """Return the passes so far and the largest gap of each class, the largest first."""
        gaps: dict[str, float] = {}
        for index, record in self._last.items():
            gaps[self._names[index]] = max(gaps.get(self._names[index], 0.0), record["gap"])
        largest = sorted(gaps.items(), key=lambda item: -item[1])
        shown = ", ".join(f"{name} {gap:.1g}" for name, gap in largest[:NAMED])
        others = f" and {len(largest) - NAMED} smaller" if len(largest) > NAMED else ""
        passes = max(record["passes"] for record in self._last.values())
        return f"pass {passes} over the windows, duality gap {shown}{others}"


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
    reporter: Reporter, title: str, names: Sequence[str], count: int | None = None, classes: int | None = None
) -> Iterator[TrainingProgress]:
    """Show a bar for trainings of the classes `names`, and afterwards report which of them stopped early.

    `count` is the number of trainings to show, by default that of the names. With `classes` the bar shows how many of
    these are finished.
    """
    count, caught = len(names) if count is None else count, list[str]()
    shown = (f"{title} ({count} trainings)", None, "steps") if classes is None else (title, classes, "classes")
    with reporter.bar(*shown) as bar, warnings.catch_warnings():
        progress = TrainingProgress(bar, names)

        def catch(message: Warning | str, *_: object, **__: object) -> None:
            caught.append(f"{progress.title or title}: {message}")

        warnings.simplefilter("always", ConvergenceWarning)
        warnings.showwarning = catch
        yield progress
    for warning in caught[:_SHOWN]:
        reporter.say(warning)
    if len(caught) > _SHOWN:
        reporter.say(f"{title}: {len(caught) - _SHOWN} more of {count} trainings stopped early.")
