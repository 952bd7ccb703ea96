"""Training for requested constants, along paths of C."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from lapsvm.bags import Bags
from lapsvm.latent import HingeRisk, LatentProblem, LatentSolution, RankRisk, ReplayLog

from ..run.context import RunContext
from ..run.dataset import Labels, content_hash
from ..run.settings import Settings, TrainSettings
from .trainer import fit_side_by_side, training_progress


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


def fit_requests(
    context: RunContext, title: str, requests: Sequence[FitRequest], bags: Bags, names: Sequence[str]
) -> list[LatentSolution]:
    """Return the solutions of all requests, trained side by side; `names` are their classes.

    With ``train.path`` a training begins where that with the next larger C of the settings ended, requested or not;
    requests that differ in C alone share a path.
    """
    settings, paths = context.settings, _paths(context.settings.train, requests)
    problems = [problem(settings, requests[indices[0]]) for indices, _ in paths]
    classes = [names[indices[0]] for indices, _ in paths]
    with (
        replay_log(context, title, requests, bags) as log,
        training_progress(context.reporter, title, classes, len(requests)) as progress,
    ):
        options = {"candidates": settings.train.candidates, "pass_counts": context.pass_counts, "log": log}
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
    context: RunContext, title: str, requests: Sequence[FitRequest], bags: Bags
) -> AbstractContextManager[ReplayLog | None]:
    """Return the log of a training, with the answers of an interrupted one; None where the run folder is only read."""
    if not context.run.is_locked:
        return nullcontext()
    shards = context.shards(context.train_set).provenance
    hashed = [(content_hash(request.y.tolist()), request.constants) for request in requests]
    decisive = [title, hashed, asdict(context.settings.train), context.settings.seed, shards, bags.n_windows, bags.dim]
    key = content_hash(json.dumps(decisive, sort_keys=True, default=np.ndarray.item))
    path = context.run.training / f"{key[:16]}.answers"
    context.run.files.claim([path])
    return ReplayLog(path)
