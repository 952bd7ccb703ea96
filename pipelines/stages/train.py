"""Stage 2: one detector per class, all classes, folds and values of C and J side by side."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from lapsvm.errors import StageError
from lapsvm.features import ShardSet, open_shards
from lapsvm.latent import LatentSolution, PassCounts

from ..fitting.fit import SIDE_BY_SIDE, Constants, FitRequest, fit_requests
from ..fitting.history import CONSTANTS, history_rows, write_history
from ..fitting.mean_probe import data_warnings, mean_probe_image_aps
from ..fitting.selection import Choice, check_folds, choose_constants
from ..fitting.starts import check_start
from ..fitting.tasks import FitTask, _decisive, fit_tasks, fitted_detector, is_done
from ..fitting.training_bags import training_bags
from ..fitting.window_subset import WindowSubset, window_subsets
from ..run.checked_files import read_checked, with_checksum
from ..run.context import RunContext
from ..run.dataset import content_hash
from ..run.settings import TrainSettings
from ..shards.projection import projection_of


def run(context: RunContext) -> None:
    """Train the classes whose model is not there yet.

    Raises
    ------
    StageError
        If nothing was extracted.
    SettingsError
        If models are there that were trained otherwise.
    """
    set_name = context.settings.data.train_set
    folder = context.run.shards(set_name)
    if not any(folder.glob("*.safetensors")):
        raise StageError(f"train needs shards, but {folder} holds none; run lapsvm extract first.")
    shards = open_shards(folder)
    tasks = fit_tasks(context, shards)
    to_do = tasks if context.redo else _begun(context, tasks, [task for task in tasks if not is_done(task)])
    with context.timed("train") as counts:
        counts.update(nothing_to_do=not to_do, classes=len(to_do))
        if to_do:
            context.tally = PassCounts()
            _train(context, shards, to_do)
            counts.update(asdict(context.tally))
            if context.cluster is not None:
                counts.update(bytes_sent=context.cluster.sent, bytes_received=context.cluster.received)
        else:
            context.run.remove_training()


def _begun(context: RunContext, tasks: Sequence[FitTask], to_do: Sequence[FitTask]) -> Sequence[FitTask]:
    """Return what an interrupted training had begun with, if what is left to do is a part of it, else what is left.

    Classes that share passes are trained together again, for near ties may fall otherwise in other company.
    """
    kept = read_checked(context.run.resume_file, context.reporter.say) if to_do else None
    if kept is None:
        return to_do
    begun = [task for task in tasks if _choice_key(task) in kept["keys"]]
    return begun if all(task in begun for task in to_do) else to_do


def _train(context: RunContext, shards: ShardSet, tasks: Sequence[FitTask]) -> None:
    """Train classes side by side: choose constants where there is a choice, then train on the whole set."""
    context.run.files.check(task.path for task in tasks)
    check_folds(context.settings, {task.name: task.y for task in tasks})
    check_start(context.settings.train.init, shards)
    bags, scale, halves = training_bags(context, shards)
    parts = list(window_subsets(context, shards, bags, scale, [task.name for task in tasks]))
    projection = projection_of(context.run, shards)
    scenery = mean_probe_image_aps(bags, {task.name: task.y for task in tasks}, context.settings.seed)
    if context.redo:  # everything is checked; from here on files are written
        context.run.remove_training()
    context.run.files.claim(task.path for task in tasks)
    _keep(context, context.run.resume_file, {"keys": [_choice_key(task) for task in tasks]})
    chosen = _chosen(context, parts, tasks)
    found = _fitted(context, parts, {task.name: FitRequest(task.y, chosen[task.name].constants) for task in tasks})
    solutions = [found[task.name] for task in tasks]
    rows = [row for task in tasks for row in chosen[task.name].history]
    for task, solution in zip(tasks, solutions, strict=True):
        if not solution.coef.any():
            context.reporter.say(f"train: {task.name} ended at w = 0, which scores every window alike; raise --C.")
        rows += history_rows(task.name, "final", chosen[task.name].constants, solution)
    write_history(context, rows)
    context.save_settings()
    for task, solution in zip(tasks, solutions, strict=True):
        known = _known(chosen[task.name], scenery.get(task.name))
        for sentence in data_warnings(task.name, known):
            context.reporter.say(f"train: {sentence}")
        weights, factors = halves.unfold(solution.coef), halves.unfold_scale(scale)
        fitted_detector(task, known, replace(solution, coef=weights), factors, projection).save(task.path)
    context.run.remove_training()


def _fitted(
    context: RunContext, parts: Sequence[WindowSubset], wanted: Mapping[str, FitRequest]
) -> dict[str, LatentSolution]:
    """Return the solution of every class."""
    found: dict[str, LatentSolution] = {}
    for bags, names in parts:
        found |= zip(names, fit_requests(context, "train", [wanted[name] for name in names], bags, names), strict=True)
    return found


def _chosen(context: RunContext, parts: Sequence[WindowSubset], tasks: Sequence[FitTask]) -> dict[str, Choice]:
    """Return every class's constants; what an interrupted training has chosen already is not chosen again."""
    by_name = {task.name: task for task in tasks}
    chosen = {} if context.redo else _kept_choices(context, tasks)
    for bags, names in batches(context.settings.train, parts):
        labels = {name: by_name[name].y for name in names if name not in chosen}
        chosen |= choose_constants(context, bags, labels) if labels else {}
        entries = {name: {"key": _choice_key(by_name[name]), **asdict(choice)} for name, choice in chosen.items()}
        _keep(context, context.run.choices_file, {"choices": entries})
    return chosen


def _keep(context: RunContext, path: Path, content: Mapping[str, Any]) -> None:
    """Write a file by which training continues if it is interrupted."""
    context.run.write(path, json.dumps(with_checksum(path, content)))


def batches(train: TrainSettings, parts: Sequence[WindowSubset]) -> Iterator[WindowSubset]:
    """Yield as many classes at a time as train side by side; their choice is kept if the next ones are interrupted."""
    hinge = train.learner == "latent_svm"
    parts_of_one = train.folds + (train.criterion == "agreement")
    paths = parts_of_one * train.n_init * (len(train.J) * len(train.ignored) if hinge else 1)
    size = max(1, SIDE_BY_SIDE // paths)
    for bags, names in parts:
        for first in range(0, len(names), size):
            yield bags, names[first : first + size]


def _kept_choices(context: RunContext, tasks: Sequence[FitTask]) -> dict[str, Choice]:
    """Return the choices that an interrupted training made of the same settings and data."""
    kept = read_checked(context.run.choices_file, context.reporter.say)
    entries = {} if kept is None else kept["choices"]
    return {
        task.name: Choice(Constants(*entry["constants"]), entry["candidates"], entry["history"])
        for task in tasks
        if (entry := entries.get(task.name)) and entry["key"] == _choice_key(task)
    }


def _choice_key(task: FitTask) -> str:
    """Return the hash of all that decides a choice."""
    return content_hash(json.dumps(_decisive(task.provenance), sort_keys=True))


def _known(choice: Choice, scenery: float | None) -> dict[str, Any]:
    """Return what a model's provenance says of its constants, and of what its pictures can teach."""
    return {**choice.constants.known(), **_held_out(choice.candidates), "mean_probe_image_ap": scenery}


def _held_out(candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how the candidates did in the folds: image-level AP, and agreement if that is the criterion."""
    constants = [{name: one[name] for name in CONSTANTS if name in one} for one in candidates]
    told = {
        f"held_out_{title}": [
            {**known, "folds": one[key]} for known, one in zip(constants, candidates, strict=True) if key in one
        ]
        for title, key in (("image_ap", "folds"), ("agreement", "agreement"))
    }
    return {name: entries for name, entries in told.items() if entries or name == "held_out_image_ap"}
