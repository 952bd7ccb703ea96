"""Pictures of a run compared with those that its shards were made from."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from lapsvm.catalog import ImageRecord, pixel_hash
from lapsvm.errors import ShardError
from lapsvm.features import read_header

from ..products.table import stored_files
from ..run.dataset import moved, open_run_data
from ..run.folder import RunFolder
from ..shards.jobs import FileCheck
from ..verdicts.taught import Taught


def picture_checks(run: RunFolder, root: str | None, damaged: set[Path]) -> Iterator[FileCheck]:
    """Yield the intact shards, with a function that compares their pictures with those of the data set."""
    settings = moved(run.require_settings("verify --pictures"), root)
    sets = open_run_data(settings.data, settings.seed, Taught.of(run).records, settings.train.folds).records
    for path, _ in stored_files(run, is_signed=True):
        if path.parent.parent == run.path / "shards" and path not in damaged:
            yield path, partial(_compare, records={record.id: record for record in sets.get(path.parent.name, ())})


def _compare(path: Path, records: dict[str, ImageRecord]) -> None:
    """Raise ShardError if a picture of a shard has changed or is missing."""
    header = read_header(path)
    for image_id, stored in zip(header.image_ids, header.pixel_hashes, strict=True):
        if image_id not in records:
            raise ShardError(f"shard {path} holds picture {image_id}, which the data set has no longer.")
        if pixel_hash(records[image_id].pixels()) != stored:
            raise ShardError(f"shard {path} was made from another picture {image_id} than the data set has now.")
