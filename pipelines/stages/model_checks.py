"""Checks of training and refinement that are made before earlier stages write anything."""

from lapsvm.errors import SettingsError

from ..fitting.selection import check_folds
from ..fitting.tasks import FitTask, is_done, is_refinement, stored_provenance
from ..results.detectors import final_task, trained_tasks, training_shards
from ..run.context import RunContext


def check_models(context: RunContext, shards_are_done: bool) -> None:
    """Raise SettingsError if there are models made with other settings, unless they are made again (--redo).

    Other pictures or labels of the same training set are no other settings: models are then trained again.

    Raises OneClassError if a class has too few pictures for training. With `shards_are_done` models are compared with
    the shards, too.
    """
    tasks = trained_tasks(context, training_shards(context) if shards_are_done else None)
    if "train" in context.stages:
        check_folds(context.settings, {task.name: task.y for task in tasks})
    before = context.run.settings().data.train_set
    for task in tasks if not context.redo else ():
        _check_train_set(context, task, before)
        is_done(task)
        if context.settings.refine.rounds and is_refinement(stored_provenance(context.run.model(task.name))):
            is_done(final_task(context, task))


def _check_train_set(context: RunContext, task: FitTask, before: str) -> None:
    """Raise SettingsError if a model was trained on another set of the run."""
    now = context.train_set
    if task.path.exists() and before != now:
        raise SettingsError(
            f"{task.path} was trained with data.train_set {before!r} instead of {now!r}; use another --out, or --redo "
            "to train again."
        )
