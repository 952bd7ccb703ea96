"""Checks of training and refinement that are made before earlier stages write anything."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from lapsvm.errors import SettingsError
from lapsvm.features import open_shards, settings_difference

from ..fitting.selection import check_folds
from ..fitting.tasks import (
    PARTS,
    FitTask,
    check_other_learners,
    fit_tasks,
    is_done,
    labels_provenance,
    stored_provenance,
    training_settings,
    with_neutral,
)
from ..fitting.window_subset import subset_provenance
from ..run.context import RunContext
from ..run.dataset import label_vector
from .refine import check_positives, is_refined, trained_file


def check_models(context: RunContext, shards_are_done: bool) -> None:
    """Raise SettingsError if there are models made with other settings, unless they are made again (--redo).

    Raises OneClassError if a class has too few pictures for training. With `shards_are_done` models are compared with
    the shards, too.
    """
    tasks = _tasks(context, shards_are_done)
    if "train" in context.stages:
        check_other_learners(context)
        check_folds(context.settings, {task.name: task.y for task in tasks})
        for task in tasks:
            subset_provenance(context.settings.train, task.name)
    if "refine" in context.stages and context.settings.refine.rounds:
        for task in tasks:
            check_positives(task)
    for task in tasks if not context.redo else ():
        trained = replace(task, path=trained_file(context, task))
        known = trained if shards_are_done else _with_unchanged_shards(trained)
        is_done(known, PARTS if shards_are_done else PARTS[:2])
        _check_refined(context, known)


def _with_unchanged_shards(task: FitTask) -> FitTask:
    """Return a task with what missing shards decide as its model has it: they are assumed to be unchanged."""
    stored = with_neutral(stored_provenance(task.path) or {})
    training, data = task.provenance["training"], {**stored.get("data", {}), **task.provenance["data"]}
    asked = training.get("map_weights")
    if asked == "resolution":  # which the shards may not allow
        training = training | {"map_weights": stored.get("training", {}).get("map_weights", asked)}
    return replace(task, provenance={**task.provenance, "training": training, "data": data})


def _tasks(context: RunContext, shards_are_done: bool) -> Sequence[FitTask]:
    """Return the training tasks; without shards their provenance lacks the shards."""
    train_set = context.settings.data.train_set
    if shards_are_done:
        return fit_tasks(context, open_shards(context.run.shards(train_set)))
    labels = {name: label_vector(context.data.records[train_set], name) for name in context.data.classes}
    skips = context.settings.data.skip_bad
    data = {name: {} if skips else labels_provenance(y) for name, y in labels.items()}
    training = training_settings(context)
    return [
        FitTask(name, y, {"training": training, "data": data[name]}, context.trained_model(name))
        for name, y in labels.items()
    ]


def _check_refined(context: RunContext, task: FitTask) -> None:
    """Raise SettingsError if a class was refined with other settings."""
    final, settings = context.run.model(task.name), context.settings.refine
    if not settings.rounds or not is_refined(final):
        return
    stored = with_neutral(stored_provenance(final) or {})["training"]
    requested = task.provenance["training"] | {"refine": asdict(settings), "first": stored.get("first")}
    difference = settings_difference({"training": stored}, {"training": requested})
    if difference:
        raise SettingsError(f"{final} was trained with {difference}; use another --out, or --redo to train again.")
