"""Stage 2: one detector per class; all classes, folds and values of C and J are trained side by side."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.bags import Bags
from lapsvm.detection import Detector
from lapsvm.errors import StageError
from lapsvm.features import ShardSet, open_shards
from lapsvm.latent import LatentSolution, PassCounts

from ..fitting import trainer
from ..fitting.agreement import Proposals
from ..fitting.contrast_start import obstacle
from ..fitting.fit import Constants, FitRequest, fit_requests
from ..fitting.fold_scores import FoldScores
from ..fitting.history import CONSTANTS, history_rows, write_history
from ..fitting.mean_probe import by_mean_probe, check_constants, data_warnings, mean_probe_image_aps
from ..fitting.selection import HELD_OUT_FOLDS, Choice, check_folds, choose_constants, grid, held_out_scores
from ..fitting.starts import check_start
from ..fitting.tasks import FitTask, check_other_learners, decisive, files_of_other_learners, fit_tasks, fitted_detector
from ..fitting.training_bags import training_bags
from ..fitting.window_subset import WindowSubset, window_subsets
from ..results.held_out import TrainingPictures, is_complete, save_held_out, too_few_pictures
from ..run.checked_files import read_checked, with_checksum
from ..run.context import RunContext
from ..run.dataset import Labels, content_hash
from ..run.settings import BASELINES, TrainSettings
from ..shards.projection import projection_of
from .train_baseline import is_trained, train_baseline


def run(context: RunContext) -> None:
    """Train the classes that have no model yet.

    Raises StageError if there are no shards, SettingsError if there are models trained with other settings.
    """
    folder = context.run.shards(context.settings.data.train_set)
    if not any(folder.glob("*.safetensors")):
        raise StageError(f"train needs shards, but {folder} holds none; run lapsvm extract first.")
    shards = open_shards(folder)
    tasks = fit_tasks(context, shards)
    check_other_learners(context)
    if context.settings.train.learner in BASELINES:
        _train_baseline(context, shards, tasks)
        return
    to_do = (
        tasks
        if context.redo
        else _resumed_tasks(context, tasks, [task for task in tasks if not is_complete(context.run, task)])
    )
    with context.timed("train") as counts:
        counts.update(nothing_to_do=not to_do, classes=len(to_do))
        if to_do:
            context.pass_counts = PassCounts()
            _train(context, shards, to_do)
            counts.update(asdict(context.pass_counts))
            if context.cluster is not None:
                counts.update(bytes_sent=context.cluster.sent, bytes_received=context.cluster.received)
        else:
            context.run.remove_training()


def _train_baseline(context: RunContext, shards: ShardSet, tasks: Sequence[FitTask]) -> None:
    is_needed = context.redo or not is_trained(context, tasks)
    with context.timed("train") as counts:
        counts.update(nothing_to_do=not is_needed, classes=len(tasks) if is_needed else 0)
        if is_needed:
            train_baseline(context, shards, tasks)


def _resumed_tasks(context: RunContext, tasks: Sequence[FitTask], to_do: Sequence[FitTask]) -> Sequence[FitTask]:
    """Return the tasks of an interrupted training if they include `to_do`, else `to_do`.

    Classes that share passes are trained together again, because rounding may break near ties differently without the
    others.
    """
    stored = read_checked(context.run.resume_file, context.reporter.say) if to_do else None
    if stored is None:
        return to_do
    resumed = [task for task in tasks if _choice_key(task) in stored["keys"]]
    return resumed if all(task in resumed for task in to_do) else to_do


def _train(context: RunContext, shards: ShardSet, tasks: Sequence[FitTask]) -> None:
    """Choose constants where there are candidates, then train all classes side by side on the whole set."""
    labels = {task.name: task.y for task in tasks}
    context.run.files.check(task.path for task in tasks)
    if context.settings.train.criterion == "mean_probe":
        check_constants(context.settings.train)
    check_folds(context.settings, labels)
    check_start(context.settings.train.init, shards)
    bags, scale, halves = training_bags(context, shards)
    subsets = list(window_subsets(context, shards, bags, scale, list(labels)))
    _say_obstacle(context, shards, subsets)
    projection = projection_of(context.run, shards)
    probe_aps = mean_probe_image_aps(bags, labels, context.settings.seed)
    if context.redo:  # everything is checked; from here on files are written
        context.run.remove_training()
        context.run.remove(files_of_other_learners(context))
    context.run.files.claim(task.path for task in tasks)
    _write_resume_file(context, context.run.resume_file, {"keys": [_choice_key(task) for task in tasks]})
    choices = _choices(context, subsets, tasks, probe_aps)
    requests = {name: FitRequest(y, choices[name].constants) for name, y in labels.items()}
    solutions = _solutions(context, subsets, requests)
    rows = [row for name in labels for row in choices[name].history]
    for name, request in requests.items():
        rows += history_rows(name, "final", request.constants, solutions[name])
    write_history(context, rows)
    for name in labels:
        if not solutions[name].coef.any():
            context.reporter.say(f"train: {name} ended at w = 0, which scores every window alike; raise --C.")
    context.save_settings()
    detectors = {}
    for task in tasks:
        result, solution = _result(choices[task.name], probe_aps.get(task.name)), solutions[task.name]
        for sentence in data_warnings(task.name, result):
            context.reporter.say(f"train: {sentence}")
        weights, factors = halves.unfold(solution.coef), halves.unfold_scale(scale)
        detectors[task.name] = fitted_detector(task, result, replace(solution, coef=weights), factors, projection)
    held_out = {name: choice.held_out for name, choice in choices.items() if choice.held_out is not None}
    detectors |= _calibrated(context, shards, bags, tasks, detectors, solutions, held_out)
    for task in tasks:
        detectors[task.name].save(task.path)
    context.run.remove_training()


def _say_obstacle(context: RunContext, shards: ShardSet, subsets: Sequence[WindowSubset]) -> None:
    """Report once if training starts elsewhere than ``--init contrast`` asks for."""
    reason = next(filter(None, (obstacle(shards, bags) for bags, _ in subsets)), "")
    if context.settings.train.init == "contrast" and reason:
        context.reporter.say(f"train: --init contrast needs {reason}; training starts as with --init mean.")


def _calibrated(
    context: RunContext, shards: ShardSet, bags: Bags, tasks: Sequence[FitTask], detectors: Mapping[str, Detector],
    solutions: Mapping[str, LatentSolution], held_out: Mapping[str, FoldScores],
) -> dict[str, Detector]:  # fmt: skip
    """Return the final detectors of classes with held-out scores, with their calibration."""
    if context.settings.refine.rounds:
        return {}  # refinement follows, and has held-out scores of its own
    context.run.remove(context.run.held_out(task.name) for task in tasks if task.name not in held_out)
    for task in tasks:
        if task.name not in held_out:
            context.reporter.say(f"train: {_without_probabilities(context.settings.train, task)}")
    calibrated = [task for task in tasks if task.name in held_out]
    if not calibrated:
        return {}
    best = bags.best(np.column_stack([solutions[task.name].coef for task in calibrated]))
    pictures = TrainingPictures(shards.image_ids, Proposals.of_training(context))
    return {
        task.name: save_held_out(
            context, detectors[task.name], task.y, pictures, held_out[task.name], best.column(column)
        )
        for column, task in enumerate(calibrated)
    }


def _without_probabilities(train: TrainSettings, task: FitTask) -> str:
    """Return a sentence that says why a class has no held-out scores."""
    if train.keep_windows:
        return f"scores of {task.name} have no probabilities, because folds kept other windows than detection scores."
    return too_few_pictures(task.name, task.y, HELD_OUT_FOLDS)


def _solutions(
    context: RunContext, subsets: Sequence[WindowSubset], requests: Mapping[str, FitRequest]
) -> dict[str, LatentSolution]:
    solutions: dict[str, LatentSolution] = {}
    for bags, names in subsets:
        found = fit_requests(context, "train", [requests[name] for name in names], bags, names)
        solutions |= zip(names, found, strict=True)
    return {name: solutions[name] for name in requests}


def _chosen(
    context: RunContext, bags: Bags, labels: dict[str, Labels], probe_aps: Mapping[str, float]
) -> dict[str, Choice]:
    """Return the constants of classes by the criterion of the settings."""
    if context.settings.train.criterion != "mean_probe":
        return choose_constants(context, bags, labels)
    return {
        name: Choice(by_mean_probe(grid(context.settings, y), probe_aps.get(name)), [], [])
        for name, y in labels.items()
    }


def _choices(
    context: RunContext, subsets: Sequence[WindowSubset], tasks: Sequence[FitTask], probe_aps: Mapping[str, float]
) -> dict[str, Choice]:
    """Return the choice of every class; those that an interrupted training has stored are not made again."""
    by_name = {task.name: task for task in tasks}
    choices = {} if context.redo else _stored_choices(context, tasks)
    for bags, names in batches(context.settings.train, subsets):
        labels = {name: by_name[name].y for name in names}
        new = {name: y for name, y in labels.items() if name not in choices}
        chosen = {name: choices[name] for name in names if name in choices}
        chosen |= _chosen(context, bags, new, probe_aps) if new else {}
        choices |= _with_held_out(context, bags, labels, chosen)  # stored ones lack them if refinement was planned
        entries = {name: _choice_entry(by_name[name], choice) for name, choice in choices.items()}
        _write_resume_file(context, context.run.choices_file, {"choices": entries})
    return choices


def _with_held_out(
    context: RunContext, bags: Bags, labels: Mapping[str, Labels], choices: Mapping[str, Choice]
) -> dict[str, Choice]:
    """Return choices with held-out scores where these describe the final models, training folds if there are none."""
    if context.settings.refine.rounds or context.settings.train.keep_windows:
        return {name: replace(choice, held_out=None) for name, choice in choices.items()}
    missing = {name: choice.constants for name, choice in choices.items() if choice.held_out is None}
    scores = held_out_scores(context, bags, {name: labels[name] for name in missing}, missing)
    return {**choices, **{name: replace(choices[name], held_out=found) for name, found in scores.items()}}


def _choice_entry(task: FitTask, choice: Choice) -> dict[str, Any]:
    """Return a choice as JSON values, for training that resumes."""
    stored = None if choice.held_out is None else choice.held_out.as_json()
    return {"key": _choice_key(task), **asdict(replace(choice, held_out=None)), "held_out": stored}


def _write_resume_file(context: RunContext, path: Path, content: Mapping[str, Any]) -> None:
    context.run.write(path, json.dumps(with_checksum(path, content)))


def batches(train: TrainSettings, subsets: Sequence[WindowSubset]) -> Iterator[WindowSubset]:
    """Yield as many classes at a time as train side by side; their choice is stored before the next ones."""
    hinge = train.learner == "latent_svm"
    trials = train.folds + (train.criterion == "agreement")
    paths = trials * train.n_init * (len(train.J) * len(train.trim) if hinge else 1)
    size = max(1, trainer.SIDE_BY_SIDE // paths)
    for bags, names in subsets:
        for first in range(0, len(names), size):
            yield bags, names[first : first + size]


def _stored_choices(context: RunContext, tasks: Sequence[FitTask]) -> dict[str, Choice]:
    """Return the choices that an interrupted training made with the same settings and data."""
    stored = read_checked(context.run.choices_file, context.reporter.say)
    entries = {} if stored is None else stored["choices"]
    return {
        task.name: Choice(
            Constants(*entry["constants"]), entry["candidates"], entry["history"],
            None if entry["held_out"] is None else FoldScores.from_json(entry["held_out"]),
        )
        for task in tasks
        if (entry := entries.get(task.name)) and entry["key"] == _choice_key(task) and "held_out" in entry
    }  # fmt: skip


def _choice_key(task: FitTask) -> str:
    """Return the hash of everything that decides a choice."""
    amount = task.provenance["detection"]["box_support"]  # held-out scores are those of detection
    return content_hash(json.dumps([decisive(task.provenance), amount], sort_keys=True))


def _result(choice: Choice, probe_ap: float | None) -> dict[str, Any]:
    """Return what a model's provenance records of its constants, of the candidates, and of the mean probe."""
    return {**choice.constants.known(), **_held_out(choice.candidates), "mean_probe_image_ap": probe_ap}


def _held_out(candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the scores of the candidates in the folds: image-level AP, and agreement if that is the criterion."""

    def scores(key: str) -> list[dict[str, Any]]:
        entries = [entry for entry in candidates if key in entry]
        return [
            {**{name: entry[name] for name in CONSTANTS if name in entry}, "folds": entry[key]} for entry in entries
        ]

    agreement = scores("agreement")
    return {"held_out_image_ap": scores("folds"), **({"held_out_agreement": agreement} if agreement else {})}
