"""What extraction and import share: checking, claiming and making the shards of every set."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..run.context import RunContext
from ..shards.jobs import Picture, ShardJob, ShardJobs, copy_shard, make_shards
from .model_checks import check_models

Make = Callable[[RunContext, ShardJobs[Picture], Sequence[ShardJob], str, dict[str, Any]], None]
ToDo = Mapping[str, list[ShardJob]]


def claim_shards(context: RunContext, sets: Mapping[str, ShardJobs[Picture]], others: Sequence[Path] = ()) -> ToDo:
    """Return the shards to make in each set, after every check; list them and `others` as files of the run.

    Raises SettingsError if shards or models were made with other settings, or a file to write is another program's.
    """
    to_do = {name: jobs.to_do(context.reporter, f"check {name}", context.threads) for name, jobs in sets.items()}
    copies = [path for name, jobs in sets.items() for _, path in jobs.copies(to_do[name])]
    check_models(context, shards_are_done=not any(to_do.values()) and not copies)
    old = [path for jobs in sets.values() for path in jobs.existing()] if context.redo else []
    new = [*(path for jobs in to_do.values() for path, _ in jobs), *copies, *others]
    context.run.files.check([*old, *new])  # the last check: from here on files are written
    context.run.remove(old)
    context.run.files.claim(new)
    return to_do


def make_set(
    context: RunContext, title: str, jobs: ShardJobs[Picture], to_do: Sequence[ShardJob],
    make: Make[Picture] = make_shards,
) -> None:  # fmt: skip
    """Copy and make the shards of one set."""
    for source, path in jobs.copies(to_do):
        copy_shard(source, path)
    with context.timed(title) as counts:
        make(context, jobs, to_do, title, counts)
