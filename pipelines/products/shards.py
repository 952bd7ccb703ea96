"""The door to the shards of a run, for the stages that read them."""

from itertools import chain
from pathlib import Path
from typing import Any

from lapsvm.features import ShardSet, open_shards, settings_difference
from lapsvm.settings import FILE, IMPORTED, NO_SOURCE

from ..context import open_run_shards
from ..run.dataset import RunData, positive_pictures
from ..run.folder import RunFolder
from ..settings.settings import Settings
from ..shards.extraction import chosen_provenance
from ..shards.objectness import unmeasured_pictures
from ..shards.windows import windows_provenance
from .product import unmet


def finished_shards(run: RunFolder, settings: Settings, data: RunData, stage: str, set_name: str) -> ShardSet:
    """Return the shards of a set; StageError unless they hold its pictures and were made by the run's settings.

    Pictures that extraction left out may be missing. The content of external files is not compared: training reads
    what the shards hold of it.
    """
    folder = run.shards(set_name)
    verb = "import" if settings.windows.method == IMPORTED else "extract"
    if not run.has_shards(set_name):
        raise unmet(stage, "shards", f"{folder} holds none", verb)
    shards = open_shards(folder)
    left_out = chain.from_iterable(header.provenance.get("left_out", ()) for header in shards.headers)
    stored, records = {*shards.image_ids, *left_out}, data.records[set_name]
    missing = [record.id for record in records if record.id not in stored]
    if missing and not settings.data.skip_bad:  # which leaves no shard where it leaves out all its pictures
        lacks = f"{folder} lacks {len(missing):,} of {len(records):,}, the first is {missing[0]!r}"
        raise unmet(stage, f"shards of all pictures of set {set_name!r}", lacks, verb)
    if extra := sorted(set(shards.image_ids) - {record.id for record in records}):
        more = f"{folder} has {len(extra):,} more, such as {extra[0]!r}"
        raise unmet(stage, f"shards of the pictures of set {set_name!r} alone", more, verb)
    if difference := settings_difference(*_comparable(run, settings, set_name, shards)):
        raise unmet(stage, "shards by the run's settings", f"{folder} was made with {difference}", f"{verb} --redo")
    if stage == "refine" and set_name == settings.data.train_set:
        _check_objectness(settings, data, folder, shards)
    return shards


def _check_objectness(settings: Settings, data: RunData, folder: Path, shards: ShardSet) -> None:
    """Raise StageError if positive pictures lack the objectness that the settings ask for, which refinement alone uses.

    Those that cannot be read may lack it. Raises SettingsError if two sources measured it.
    """
    _ = shards.objectness
    if settings.objectness.source == NO_SOURCE or settings.data.skip_bad:
        return
    positives = positive_pictures(data.records[settings.data.train_set], data.classes)
    lacking = [image_id for shard in shards for image_id in unmeasured_pictures(shard) if image_id in positives]
    if lacking:
        lacks = f"{folder} lacks that of {len(lacking):,}, the first is {lacking[0]!r}"
        raise unmet("refine", "the objectness of all positive pictures", lacks, "extract")


def _comparable(
    run: RunFolder, settings: Settings, set_name: str, shards: ShardSet
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the recorded inputs of shards, and the inputs that settings and the training set's shards ask for."""
    train_set = settings.data.train_set
    from_files = settings.windows.method in (FILE, IMPORTED)  # which may be gone
    wanted = {
        "windows": {"method": settings.windows.method} if from_files else windows_provenance(settings.windows),
        "features": chosen_provenance(settings),
    }
    made_with = {part: {name: shards.provenance[part].get(name) for name in values} for part, values in wanted.items()}
    if set_name != train_set and run.has_shards(train_set):
        of_training = open_run_shards(run, settings, train_set)
        wanted["training_set"], made_with["training_set"] = of_training.provenance, shards.provenance
    return made_with, wanted
