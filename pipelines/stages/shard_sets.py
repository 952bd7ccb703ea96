"""What extraction and import share: checking, claiming and making the shards of every set."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..run.context import RunContext
from ..shards.jobs import Picture, ShardJobs, make_shards
from ..shards.placement import ShardJob
from .model_checks import check_models

Make = Callable[[RunContext, ShardJobs[Picture], Sequence[ShardJob], str, dict[str, Any]], None]
ToDo = Mapping[str, list[ShardJob]]


def claim_shards(context: RunContext, sets: Mapping[str, ShardJobs[Picture]], others: Sequence[Path] = ()) -> ToDo:
    """Return the shards to make in each set, after every check; list them and `others` as files of the run.

    Raises SettingsError if shards or models were made with other settings, or a file to write is another program's.
    """
    to_do = {name: jobs.to_do(context.reporter, f"check {name}", context.threads) for name, jobs in sets.items()}
    kept = [path for name, jobs in sets.items() for path in jobs.carried_over(to_do[name])]
    old = [path for jobs in sets.values() for path in jobs.stale()]
    check_models(context, shards_are_done=not (any(to_do.values()) or kept or old))
    new = [*(path for jobs in to_do.values() for path, _ in jobs), *kept, *others]
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
    context: RunContext, title: str, jobs: ShardJobs[Picture], to_do: Sequence[ShardJob],
    make: Make[Picture] = make_shards,
) -> None:  # fmt: skip
    """Copy, change and make the shards of one set."""
    for path in jobs.carried_over(to_do):
        jobs.carry_over(path)
    with context.timed(title) as counts:
        make(context, jobs, to_do, title, counts)
