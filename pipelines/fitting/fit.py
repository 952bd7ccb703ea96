"""Training with the constants that are wanted: along paths of C, from several starts, with progress."""

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lapsvm.bags import Bags
from lapsvm.features import open_shards
from lapsvm.latent import HingeRisk, LatentProblem, LatentSolution, RankRisk, ReplayLog, fit_multifold, fit_paths

from ..run.context import RunContext
from ..run.dataset import Labels, content_hash
from ..run.progress import Bar
from ..run.settings import Settings, TrainSettings
from .starts import started
from .training_progress import TrainingProgress

SIDE_BY_SIDE = 512  # paths that share passes: each holds its planes, and a large grid has thousands
_SAID = 3  # warnings spelt out


class Constants(NamedTuple):
    """The constants of one training; J and the ignored share are None where the learner has none."""

    C: float
    J: float | None = None
    ignored: float | None = None

    def known(self) -> dict[str, float]:
        """Return the constants that the learner has, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}


class FitRequest(NamedTuple):
    """One training: labels, 0 leaving a picture out, and constants."""

    y: Labels
    constants: Constants


def problem(settings: Settings, wanted: FitRequest) -> LatentProblem:
    """Return the training problem of one class."""
    train, constants = settings.train, wanted.constants
    return LatentProblem(
        y=wanted.y,
        risk=RankRisk(train.loss) if constants.J is None else HingeRisk(constants.J),
        C=constants.C,
        init="whole_image" if train.init == "centre" else train.init,  # see starts: window 0 is then the central one
        tol=train.tol,
        top=train.top,
        seed=settings.seed,
        fit_intercept=constants.J is not None,
        ignored=constants.ignored or 0.0,
        anneal=train.anneal,
        pace=train.pace,
    )


def fit_requests(
    context: RunContext, title: str, wanted: Sequence[FitRequest], bags: Bags, names: Sequence[str]
) -> list[LatentSolution]:
    """Train all that is wanted side by side, telling how far they are; `names` are the classes.

    With ``train.path`` a training begins where that with the next larger C of the settings ended, whether that one is
    wanted or not; those that differ in C alone share their path. Of ``train.n_init`` starts the lowest objective is
    kept for each C.
    """
    settings, paths = context.settings, _paths(context.settings.train, wanted)
    starts = [
        (replace(problem(settings, wanted[places[0]]), seed=settings.seed + number), values)
        for places, values in paths
        for number in range(settings.train.n_init)
    ]
    own = [names[places[0]] for places, _ in paths for _ in range(settings.train.n_init)]
    with told(context, title, len(wanted)) as bar, replay_log(context, title, wanted, bags) as log:
        steps = TrainingProgress(bar, own, None if settings.train.path else settings.train.tol)
        walked = _walk(context, started(context, starts, bags, log), bags, bar, steps, log)
    solutions: dict[int, LatentSolution] = {}
    for number, (places, values) in enumerate(paths):
        tried = walked[number * settings.train.n_init : (number + 1) * settings.train.n_init]
        for place in places:
            step = values.index(wanted[place].constants.C)
            solutions[place] = min((path[step] for path in tried), key=lambda found: found.objective)
    return [solutions[place] for place in range(len(wanted))]


def _paths(train: TrainSettings, wanted: Sequence[FitRequest]) -> list[tuple[list[int], list[float]]]:
    """Return paths: the places of what is wanted on each, and its values of C, the largest first."""
    shared: dict[Any, list[int]] = {}
    for place, (y, constants) in enumerate(wanted):
        key = (y.tobytes(), constants._replace(C=0.0)) if train.path else place
        shared.setdefault(key, []).append(place)
    return [(places, _values(train, [wanted[place].constants.C for place in places])) for places in shared.values()]


def _values(train: TrainSettings, wanted: Sequence[float]) -> list[float]:
    """Return the values of C on the way to the wanted ones."""
    before = [C for C in train.C if min(wanted) < C] if train.path else []
    return sorted({*wanted, *before}, reverse=True)


def replay_log(
    context: RunContext, title: str, wanted: Sequence[FitRequest], bags: Bags
) -> AbstractContextManager[ReplayLog | None]:
    """Return the log of a training, with what it holds already if that was interrupted.

    There is none where the run folder is only read, as in comparisons.
    """
    if not context.run.is_locked:
        return nullcontext()
    shards = open_shards(context.run.shards(context.settings.data.train_set)).provenance
    asked = [(content_hash(one.y.tolist()), one.constants) for one in wanted]
    known = [title, asked, asdict(context.settings.train), context.settings.seed, shards, bags.n_windows, bags.dim]
    key = content_hash(json.dumps(known, sort_keys=True, default=np.ndarray.item))
    path = context.run.training / f"{key[:16]}.answers"
    context.run.files.claim([path])
    return ReplayLog(path)


def _walk(
    context: RunContext,
    starts: Sequence[tuple[LatentProblem, list[float]]],
    bags: Bags,
    bar: Bar,
    steps: TrainingProgress,
    log: ReplayLog | None,
) -> list[list[LatentSolution]]:
    """Train every problem for its values of C."""
    train = context.settings.train
    options: dict[str, Any] = {"candidates": train.candidates, "tally": context.tally, "log": log}
    if train.multifold:
        walked = []
        for one, values in starts:
            walked.append([fit_multifold(replace(one, C=C), bags, train.multifold, **options) for C in values])
            bar.step(1, f"objective {walked[-1][-1].objective:.4g}")
        return walked

    def tell(place: int, record: dict[str, Any]) -> None:
        steps.update(first + place, record)

    walked = []
    for first in range(0, len(starts), SIDE_BY_SIDE):
        problems, values = zip(*starts[first : first + SIDE_BY_SIDE], strict=True)
        walked += fit_paths(problems, values, bags, progress=tell, **options)
    return walked


@contextmanager
def told(context: RunContext, title: str, count: int) -> Iterator[Bar]:
    """Show progress, and afterwards say which trainings stopped early."""
    with (
        context.reporter.bar(f"{title} ({count} trainings)", None, "outer steps") as bar,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", ConvergenceWarning)
        yield bar
    for warning in caught[:_SAID]:
        context.reporter.say(f"{title}: {warning.message}")
    if len(caught) > _SAID:
        context.reporter.say(f"{title}: {len(caught) - _SAID} more of {count} trainings stopped early.")
