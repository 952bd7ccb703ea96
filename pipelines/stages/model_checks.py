"""What can be checked of training and refinement before the stages in front of them write anything."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from lapsvm.detection import Detector
from lapsvm.errors import ModelFileError, SettingsError
from lapsvm.features import open_shards, settings_difference

from ..fitting.selection import check_folds
from ..fitting.tasks import PARTS, FitTask, fit_tasks, is_done, labels_provenance, training_settings
from ..fitting.window_subset import subset_provenance
from ..run.context import RunContext
from ..run.dataset import label_vector
from .refine import check_positives, is_refined, trained_file


def check_models(context: RunContext, shards_are_done: bool) -> None:
    """Raise if the models that are there were trained or refined otherwise, or if the labels are too few.

    Parameters
    ----------
    context : RunContext
    shards_are_done : bool
        Whether all shards are there, so that models can be compared with them, too, and not with the settings alone.

    Raises
    ------
    SettingsError
        If models are there that were made otherwise, unless they are to be made again.
    OneClassError
        If a class has too few pictures for what follows.
    """
    tasks = _tasks(context, shards_are_done)
    if "train" in context.stages:
        check_folds(context.settings, {task.name: task.y for task in tasks})
        for task in tasks:
            subset_provenance(context.settings.train, task.name)
    if "refine" in context.stages and context.settings.refine.rounds:
        for task in tasks:
            check_positives(task)
    for task in tasks if not context.redo else ():
        _check_trained(replace(task, path=trained_file(context, task)), shards_are_done)
        _check_refined(context, task)


def _check_trained(task: FitTask, shards_are_done: bool) -> None:
    """Raise SettingsError if a class was trained otherwise; without shards their content counts as what it was."""
    if not shards_are_done:
        stored = _stored(task.path)
        task = replace(
            task, provenance={**task.provenance, "data": {**stored.get("data", {}), **task.provenance["data"]}}
        )
    is_done(task, PARTS if shards_are_done else PARTS[:2])


def _stored(path: Path) -> Mapping[str, Any]:
    """Return the provenance of a model; nothing if there is none that is whole."""
    try:
        return Detector.load(path).provenance if path.is_file() else {}
    except ModelFileError:
        return {}


def _tasks(context: RunContext, shards_are_done: bool) -> Sequence[FitTask]:
    """Return what is to be learned; without shards only the settings of training are known."""
    train_set = context.settings.data.train_set
    if shards_are_done:
        return fit_tasks(context, open_shards(context.run.shards(train_set)))
    records = context.data.records[train_set]
    labels = {name: label_vector(records, name) for name in context.data.classes}
    whole = not context.settings.data.skip_bad
    return [
        FitTask(
            name,
            y,
            {"training": training_settings(context), "data": labels_provenance(y) if whole else {}},
            context.trained_model(name),
        )
        for name, y in labels.items()
    ]


def _check_refined(context: RunContext, task: FitTask) -> None:
    """Raise SettingsError if a class was refined, and otherwise than the settings say."""
    final, settings = context.run.model(task.name), context.settings.refine
    if not settings.rounds or not is_refined(final):
        return
    stored = _stored(final)["training"]
    wanted = task.provenance["training"] | {"refine": asdict(settings), "first": stored.get("first")}
    difference = settings_difference({"training": stored}, {"training": wanted})
    if difference:
        raise SettingsError(f"{final} was trained with {difference}; use another --out, or --redo to train again.")
