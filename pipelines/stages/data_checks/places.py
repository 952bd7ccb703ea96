"""The options that tell a later stage where files are now: the data, if they have moved, and boxes for evaluation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lapsvm.errors import MissingError
from lapsvm.features import open_shards

from ...run.context import RunContext
from ...run.settings import Settings

RELOCATABLE = ("data.root", "data.boxes")


def check_places(context: RunContext, old: Settings, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the new places among the settings that a command line gives.

    Parameters
    ----------
    context : RunContext
    old : Settings
        Of the run folder.
    values : mapping of dotted setting to value

    Returns
    -------
    dict of dotted setting to path

    Raises
    ------
    MissingError
        If the boxes are not there, or a picture of the run is not in the new folder of the data.
    """
    before = old.flat()
    new = {name: values[name] for name in RELOCATABLE if values.get(name, before[name]) != before[name]}
    boxes = new.get("data.boxes")
    if boxes and not Path(boxes).exists():
        raise MissingError(f"boxes {boxes} are not there; --boxes names a COCO file or a folder of VOC files.")
    made_again = context.redo and context.stages[0] in ("extract", "import")
    if "data.root" in new and before["data.root"] and not made_again:
        _check_pictures(context)
    return new


def record_places(context: RunContext, old: Settings, new: Mapping[str, str]) -> None:
    """Write the new places into ``run.toml``, whose other settings stay."""
    if new:
        context.run.save_settings(old.with_values(new), context.command_line)


def _check_pictures(context: RunContext) -> None:
    """Raise MissingError if a picture of the run's shards is not in the data set."""
    for set_name, records in context.data.records.items():
        folder = context.run.shards(set_name)
        ids = {record.id for record in records}
        stored = open_shards(folder).image_ids if any(folder.glob("*.safetensors")) else ()
        missing = [image_id for image_id in stored if image_id not in ids]
        if missing:
            raise MissingError(
                f"data folder {context.settings.data.root} must have the pictures of the run, but lacks "
                f"{len(missing):,} of set {set_name!r}, such as {missing[0]!r}; use another --out for other pictures."
            )
