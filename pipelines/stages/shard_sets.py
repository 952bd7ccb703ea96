"""What extraction and import share: checking what is there, claiming and making the shards of every set."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lapsvm.errors import SettingsError
from lapsvm.features import open_shards

from ..context import RunContext
from ..fitting.selection import check_folds
from ..products.models import (
    FitTask,
    denied_tasks,
    final_task,
    is_refinement,
    stored_provenance,
    trained_tasks,
)
from ..shards.jobs import Picture, ShardJobs, make_shards, measure_shards
from ..shards.placement import ShardJob

ToDo = Mapping[str, list[ShardJob]]


def claim_shards(context: RunContext, sets: Mapping[str, ShardJobs[Picture]], others: Sequence[Path] = ()) -> ToDo:
    """Return the shards to make in each set, after every check; list them and `others` as files of the run.

    Raises SettingsError if shards or models were made with other settings, or a file to write is another program's.
    """
    to_do = {name: jobs.to_do(context.reporter, f"check {name}", context.threads) for name, jobs in sets.items()}
    kept = [path for name, jobs in sets.items() for path in jobs.carried_over(to_do[name])]
    old = [path for jobs in sets.values() for path in jobs.stale()]
    planned = sets[context.train_set].objectness.description if "refine" in context.stages else {}
    _check_models(context, planned, shards_are_done=not (any(to_do.values()) or kept or old))
    new = [*(path for jobs in to_do.values() for path, _ in jobs), *kept, *others]
    new += [path for jobs in sets.values() for path, _ in jobs.unmeasured]
    context.run.files.check([*old, *new])  # the last check: from here on files are written
    context.run.remove(old)
    context.run.files.claim(new)
    for name, jobs in sets.items():
        _say_changes(context, name, jobs)
    return to_do


def _say_changes(context: RunContext, set_name: str, jobs: ShardJobs[Picture]) -> None:
    """Report how the pictures of a set differ from those with features; an interrupted command has no new ones."""
    were_finished = not {f"extract {set_name}", f"import {set_name}"}.isdisjoint(context.run.timings())
    if jobs.placement.stored and jobs.placement.changes and (were_finished or jobs.source is not None):
        context.reporter.say(f"set {set_name}: {jobs.placement.changes}; the features of the others are kept")


def make_set(
    context: RunContext, set_name: str, title: str, jobs: ShardJobs[Picture], to_do: Sequence[ShardJob]
) -> None:
    """Copy, change and make the shards of one set, here or on the cluster."""
    for path in jobs.carried_over(to_do):
        jobs.carry_over(path)
    with context.timed(title) as counts:
        if context.cluster is None:
            make_shards(jobs, to_do, title, counts, context.reporter, context.threads)
        else:
            from ..shards.cluster import extract_on_cluster

            extract_on_cluster(context.cluster, context.workspace, context.settings, jobs, to_do, title, counts)
    context.run.files.forget(context.run.lost_shards(set_name))  # all that belong in it are there now


def measure_stored(context: RunContext, set_name: str, jobs: ShardJobs[Picture]) -> None:
    """Measure the objectness that the shards of one set lack, here or on the cluster; every shard is written once."""
    count, title = sum(len(records) for _, records in jobs.unmeasured), f"objectness {set_name}"
    if not jobs.unmeasured:
        return
    context.reporter.say(f"set {set_name}: the objectness of {count:,} pictures is measured; their features are kept")
    with context.timed(title) as counts:
        counts["pictures"] = count
        if context.cluster is None:
            measure_shards(jobs, title, context.reporter, context.threads)
        else:
            from ..shards.cluster import measure_on_cluster

            measure_on_cluster(context.cluster, context.workspace, context.settings, jobs, title)


def _check_models(context: RunContext, planned: Mapping[str, Any], *, shards_are_done: bool) -> None:
    """Raise SettingsError if there are models made with other settings, unless they are made again (--redo).

    Other pictures or labels of the same training set are no other settings: models are then trained again. `planned` is
    the source by which objectness is about to be measured for refinement, empty without one.

    Raises OneClassError if a class has too few pictures for training. With `shards_are_done` models are compared with
    the shards, too.
    """
    folder = context.run.shards(context.train_set)
    tasks = trained_tasks(context.stored, open_shards(folder) if shards_are_done else None)
    if "train" in context.stages:
        denied = denied_tasks(context.settings.train, tasks)  # which training leaves out
        labels = {task.name: task.y for task in tasks if task.name not in denied}
        check_folds(context.settings, labels, tasks[0].groups)
    before = context.run.settings().data.train_set
    for task in tasks if not context.redo else ():
        _check_train_set(context, task, before)
        task.product.is_to_make()
        if context.settings.refine.rounds and is_refinement(stored_provenance(context.run.model(task.name))):
            final_task(context.run, context.settings, task, planned).product.is_to_make()


def _check_train_set(context: RunContext, task: FitTask, before: str) -> None:
    """Raise SettingsError if a model was trained on another set of the run."""
    now = context.train_set
    if task.path.exists() and before != now:
        raise SettingsError(
            f"{task.path} was trained with data.train_set {before!r} instead of {now!r}; use another --out, or --redo "
            "to train again."
        )
