"""The door to the shards of a run, for the stages that read them."""

from itertools import chain
from typing import Any

from lapsvm.errors import StageError
from lapsvm.features import ShardSet, open_shards, settings_difference

from ..run.context import RunContext
from ..run.settings import FILE, IMPORTED
from .extraction import chosen_provenance
from .windows import windows_provenance


def finished_shards(context: RunContext, stage: str, set_name: str) -> ShardSet:
    """Return the shards of a set; StageError unless they hold its pictures and were made by the run's settings.

    Pictures that extraction left out may be missing. The content of external files is not compared: training reads
    what the shards hold of it.
    """
    folder, verb = context.run.shards(set_name), _verb(context)
    if not context.run.has_shards(set_name):
        raise StageError(f"{stage} needs shards, but {folder} holds none; run lapsvm {verb} first.")
    shards = open_shards(folder)
    left_out = chain.from_iterable(header.provenance.get("left_out", ()) for header in shards.headers)
    stored, records = {*shards.image_ids, *left_out}, context.data.records[set_name]
    missing = [record.id for record in records if record.id not in stored]
    if missing and not context.settings.data.skip_bad:  # which leaves no shard where it leaves out all its pictures
        raise StageError(
            f"{stage} needs shards of all pictures of set {set_name!r}, but {folder} lacks {len(missing):,} of "
            f"{len(records):,}, the first is {missing[0]!r}; run lapsvm {verb} first."
        )
    extra = sorted(set(shards.image_ids) - {record.id for record in records})
    if extra:
        raise StageError(
            f"{stage} needs shards of the pictures of set {set_name!r} alone, but {folder} has {len(extra):,} more, "
            f"such as {extra[0]!r}; run lapsvm {verb} first."
        )
    difference = settings_difference(*_comparable(context, set_name, shards))
    if difference:
        raise StageError(
            f"{stage} needs shards by the run's settings, but {folder} was made with {difference}; run lapsvm {verb} "
            "--redo first."
        )
    return shards


def _verb(context: RunContext) -> str:
    return "import" if context.settings.windows.method == IMPORTED else "extract"


def _comparable(context: RunContext, set_name: str, shards: ShardSet) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what shards were made with, and what the settings and the training set's shards ask for."""
    settings, train_set = context.settings, context.train_set
    from_files = settings.windows.method in (FILE, IMPORTED)  # which may be gone
    wanted = {
        "windows": {"method": settings.windows.method} if from_files else windows_provenance(settings.windows),
        "features": chosen_provenance(settings),
    }
    made_with = {part: {name: shards.provenance[part].get(name) for name in values} for part, values in wanted.items()}
    if set_name != train_set and context.run.has_shards(train_set):
        wanted["training_set"], made_with["training_set"] = (
            open_shards(context.run.shards(train_set)).provenance,
            shards.provenance,
        )
    return made_with, wanted
