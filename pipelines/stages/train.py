"""Stage 2: one detector per class; all classes, folds and values of C and J are trained side by side."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Index
from lapsvm.bags import Bags
from lapsvm.errors import OptionError
from lapsvm.features import ShardSet
from lapsvm.latent import LatentSolution, PassCounts

from ..context import RunContext
from ..fitting.fit import Constants, FitRequest, Trainer, batches, fit_requests
from ..fitting.history import history_rows
from ..fitting.selection import Choice, check_folds, choose_constants, undecided_message
from ..fitting.training_bags import training_bags, window_boxes
from ..products.fold_models import FoldModels, fold_numbers, seen_labels
from ..products.held_out import ScoredPictures, calibrated, is_to_learn
from ..products.history import write_history
from ..products.models import (
    FitTask,
    decisive,
    denied_tasks,
    fit_tasks,
    fitted_detector,
    weights_hash,
)
from ..products.projection import projection_of
from ..products.shards import finished_shards
from ..run.checked_files import read_checked, with_checksum
from ..run.dataset import Labels, content_hash


def run(context: RunContext) -> None:
    """Train the classes that have no model yet, and leave out those that verdicts leave with too few pictures.

    Raises StageError if there are no shards, SettingsError if there are models trained with other settings.
    """
    shards = finished_shards(context.run, context.settings, context.data, "train", context.train_set)
    tasks = fit_tasks(context.stored, shards)
    if denied := denied_tasks(context.settings.train, tasks):
        context.leave_out(denied)
        tasks = [task for task in tasks if task.name not in denied]
    to_do: Sequence[FitTask] = [
        task for task in tasks if context.redo or is_to_learn(context.run, context.settings, task)
    ]
    if not context.redo:
        to_do = _resumed_tasks(context, tasks, to_do)
    changed = [task.name for task in to_do if "data" in task.state().followed]
    if changed:
        context.reporter.say(f"train: pictures, labels or groups have changed; trained again: {', '.join(changed)}")
    for note in (note for task in tasks for note in task.reviews.notes):
        context.reporter.warn(f"train: {note}")
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
    gone = [path for name in denied for path in context.run.models_of(name)]
    context.run.remove(gone)
    context.run.files.forget(gone)


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
    check_folds(context.settings, labels, tasks[0].groups)
    if context.settings.train.init == "whole_image":
        _check_whole_image(shards)
    bags, scale, pairs = training_bags(context.workspace, context.settings, shards)
    projection = projection_of(context.run, shards)
    if context.redo:  # everything is checked; from here on files are written
        context.run.remove_training()
    context.run.files.claim(task.path for task in tasks)
    _write_resume_file(context, context.run.resume_file, {"keys": [_choice_key(task) for task in tasks]})
    trainer = Trainer(context.settings, context.reporter, context.run, shards.provenance, context.pass_counts)
    choices = _choices(context, trainer, bags, tasks)
    folds = {task.name: fold_numbers(context.settings, task.y, task.groups) for task in tasks}
    requests = {task.name: _requests(task.y, folds[task.name], choices[task.name]) for task in tasks}
    solutions = _solutions(trainer, bags, requests)
    rows = [row for name in labels for row in choices[name].history]
    for name, (request, *_) in requests.items():
        rows += history_rows(name, "final", request.constants, solutions[name][0])
    write_history(context.run, rows, context.reporter.say)
    context.save_settings()
    pictures = ScoredPictures(bags, window_boxes(shards), shards.image_ids)
    for task in tasks:
        solution, *of_folds = solutions[task.name]
        choice = choices[task.name]
        result = {**choice.constants.known(), "held_out_image_ap": choice.candidates}
        if not solution.coef.any():
            context.reporter.say(f"train: {task.name} ended at w = 0, which scores every window alike; raise --C.")
        if sentence := undecided_message(task.name, choice.candidates):
            context.reporter.say(f"train: {sentence}")
        unfolded = replace(solution, coef=pairs.unfold(solution.coef))
        detector = fitted_detector(task, result, unfolded, pairs.unfold_scale(scale), projection)
        if of_folds:
            fold = folds[task.name]
            stored = np.stack([pairs.unfold(one.coef * scale) for one in of_folds], axis=1)
            path = context.run.fold_models(task.name)
            context.run.files.claim([path])
            FoldModels(fold, stored, weights_hash(detector)).save(path)
        if not context.settings.refine.rounds:  # which has held-out scores of its own
            weights, fold = [one.coef for one in solutions[task.name]], folds[task.name]
            detector = calibrated(context.workspace, context.settings, task, detector, pictures, fold, weights)
        detector.save(task.path)
    context.run.remove_training()


def _requests(y: Labels, fold: Index, choice: Choice) -> list[FitRequest]:
    """Return the trainings of a class: with all labels, then without those of each fold."""
    of_folds = zip(seen_labels(y, fold), choice.of_folds, strict=True)
    return [FitRequest(y, choice.constants), *(FitRequest(*pair) for pair in of_folds)]


def _check_whole_image(shards: ShardSet) -> None:
    """Raise OptionError if a picture has no window of the whole picture: an imported one may lack it."""
    for shard in shards:
        whole = np.hstack([np.zeros_like(shard.sizes), shard.sizes[:, ::-1]])
        differs = (shard.boxes[shard.offsets[:-1]] != whole).any(axis=1)
        if differs.any():
            image_id = shard.image_ids[int(np.argmax(differs))]
            raise OptionError(
                f"option --init whole_image needs a window of the whole picture, but picture {image_id!r} has none."
            )


def _solutions(
    trainer: Trainer, bags: Bags, requests: Mapping[str, Sequence[FitRequest]]
) -> dict[str, list[LatentSolution]]:
    """Return the solutions of the requests of every class, trained side by side."""
    together = [request for own in requests.values() for request in own]
    classes = [name for name, own in requests.items() for _ in own]
    found = iter(fit_requests(trainer, "train", together, bags, classes))
    return {name: list(islice(found, len(own))) for name, own in requests.items()}


def _choices(context: RunContext, trainer: Trainer, bags: Bags, tasks: Sequence[FitTask]) -> dict[str, Choice]:
    """Return the choice of every class; those that an interrupted training has stored are not made again."""
    by_name = {task.name: task for task in tasks}
    choices = {} if context.redo else _stored_choices(context, tasks)
    train, names = context.settings.train, list(by_name)
    grid = len(train.J) * len(train.trim) if train.learner == "latent_svm" else 1
    for part in batches(len(names), train.folds * grid):
        new = {name: by_name[name].y for name in names[part] if name not in choices}
        choices |= choose_constants(trainer, bags, new, tasks[0].groups) if new else {}
        entries = {name: {"key": _choice_key(by_name[name]), **asdict(choice)} for name, choice in choices.items()}
        _write_resume_file(context, context.run.choices_file, {"choices": entries})
    return choices


def _write_resume_file(context: RunContext, path: Path, content: Mapping[str, Any]) -> None:
    context.run.write(path, json.dumps(with_checksum(path, content)))


def _stored_choices(context: RunContext, tasks: Sequence[FitTask]) -> dict[str, Choice]:
    """Return the choices that an interrupted training made with the same settings and data."""
    stored = read_checked(context.run.choices_file, context.reporter.say)
    entries = {} if stored is None else stored["choices"]
    choices = {}
    for task in tasks:
        entry = entries.get(task.name)
        if entry and entry["key"] == _choice_key(task):
            constants, *of_folds = (Constants(*values) for values in (entry["constants"], *entry["of_folds"]))
            choices[task.name] = Choice(constants, of_folds, entry["candidates"], entry["history"])
    return choices


def _choice_key(task: FitTask) -> str:
    """Return the hash of everything that decides a choice."""
    mended = task.reviews.labels_key
    return content_hash(json.dumps({**decisive(task.provenance), **mended}, sort_keys=True))
