"""Checks of training and refinement that are made before earlier stages write anything."""

from ..fitting.selection import check_folds
from ..fitting.tasks import check_other_learners, is_done
from ..results.inputs import final_task, is_refined, trained_tasks, training_shards
from ..run.context import RunContext


def check_models(context: RunContext, shards_are_done: bool) -> None:
    """Raise SettingsError if there are models made with other settings, unless they are made again (--redo).

    Raises OneClassError if a class has too few pictures for training. With `shards_are_done` models are compared with
    the shards, too.
    """
    tasks = trained_tasks(context, training_shards(context) if shards_are_done else None)
    if "train" in context.stages:
        check_other_learners(context)
        check_folds(context.settings, {task.name: task.y for task in tasks})
    for task in tasks if not context.redo else ():
        is_done(task)
        if context.settings.refine.rounds and is_refined(context.run.model(task.name)):
            is_done(final_task(context, task))
