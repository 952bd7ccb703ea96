"""Windows that a person drew where the run has none, with features: a small shard beside those of the run.

The shard holds the drawn boxes of the present verdicts alone. A picture whose boxes and pixels are as they were keeps
its features, so unchanged verdicts compute nothing, and an interrupted command goes on with the next pictures.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from lapsvm.arrays import Float32, Float64
from lapsvm.catalog import ImageRecord
from lapsvm.detection.prepared import prepare_windows
from lapsvm.errors import LapsvmError, MissingError, SettingsError, ShardError
from lapsvm.features import (
    Extractor,
    PictureWindows,
    Projected,
    ShardSet,
    assemble_shard,
    read_shard,
    settings_difference,
    write_shard,
)
from lapsvm.features.extractors.extractor import open_sized_extractor

from ..run.context import RunContext
from ..run.settings import IMPORTED
from .extraction import chosen_provenance
from .prefetch import on_threads
from .projection import projection_of
from .windows import UnusableError, run_pixels

STORED_AT_ONCE = 32
"""Pictures after which the shard is written."""

Drawn = dict[str, PictureWindows]
"""Picture -> its drawn windows."""


def drawn_windows(context: RunContext, shards: ShardSet, wanted: Mapping[str, Float32]) -> Drawn:
    """Return windows of the training set's pictures with features; what is missing is computed and stored.

    Pictures are left out, in a sentence that says why, if they or the run's extractor cannot be read any more.

    Parameters
    ----------
    context : RunContext
    shards : ShardSet
        The training set's.
    wanted : mapping of picture to (m, 4), float32
        Boxes in pixels, inside the picture.
    """
    path = context.run.drawn_windows
    if not wanted:
        context.run.remove([path])
        return {}
    hashes = dict(zip(shards.image_ids, shards.pixel_hashes, strict=True))
    stored = _stored(context, shards)
    found = {name: one for name, one in stored.items() if name in wanted and _is_current(one, wanted[name], hashes)}
    missing = [name for name in wanted if name not in found]
    if missing:
        context.run.files.claim([path])
        for done, one in enumerate(_measured(context, shards, missing, wanted, hashes), start=1):
            found[one.image_id] = one
            if not done % STORED_AT_ONCE:
                _store(context, shards, found)
    if found and (missing or len(found) < len(stored)):
        _store(context, shards, found)
        found = _stored(context, shards)  # features as they are stored, now and later
    return found


def as_windows(boxes: Float64, size: tuple[int, int]) -> Float32:
    """Return drawn boxes (n, 4) as windows of a picture of this height and width: in whole pixels, none empty."""
    height, width = size
    limits = np.array([width, height, width, height])
    corners = np.clip(np.round(boxes), 0, limits)
    low = np.minimum(corners[:, :2], limits[:2] - 1)
    return np.column_stack([low, np.maximum(corners[:, 2:], low + 1)]).astype(np.float32)


def _stored(context: RunContext, shards: ShardSet) -> Drawn:
    """Return what the shard holds; nothing if it is not there, damaged, or was made by other settings."""
    path = context.run.drawn_windows
    try:
        shard = read_shard(path) if context.run.files.owns(path) else None
    except (MissingError, ShardError):
        return {}
    if shard is None or settings_difference(shard.provenance, shards.provenance):
        return {}
    return {picture.image_id: picture for picture in shard.pictures()}


def _is_current(stored: PictureWindows, boxes: Float32, hashes: Mapping[str, str]) -> bool:
    return stored.pixel_hash == hashes[stored.image_id] and np.array_equal(stored.boxes, boxes)


def _store(context: RunContext, shards: ShardSet, found: Drawn) -> None:
    """Write the shard, in the order of the run's pictures, so that equal verdicts give equal bytes."""
    pictures = [found[name] for name in shards.image_ids if name in found]
    write_shard(context.run.drawn_windows, assemble_shard(pictures, shards.provenance, shards.dtype))


def _measured(
    context: RunContext, shards: ShardSet, missing: Sequence[str], wanted: Mapping[str, Float32],
    hashes: Mapping[str, str],
) -> Iterator[PictureWindows]:  # fmt: skip
    """Yield the drawn windows of the pictures that can be read, and say which could not."""
    try:
        extractor = _extractor(context, shards)
    except LapsvmError as error:
        _say_lost(context, missing, str(error))
        return
    by_id = context.training_pictures
    records, lost = [by_id[name] for name in missing], {}

    def measure(record: ImageRecord) -> PictureWindows | str:
        digest = hashes[record.id]
        try:
            pixels = run_pixels(record, digest)
        except UnusableError as error:
            return str(error)
        picture = prepare_windows(pixels, wanted[record.id], context.settings.windows.max_side, extractor)
        return PictureWindows(record.id, picture.boxes, picture.features(), digest, picture.size)

    with on_threads(context.reporter, "drawn boxes", measure, records, context.threads) as (_, results):
        for record, one in results:
            if isinstance(one, str):
                lost[record.id] = one
            else:
                yield one
    if lost:
        _say_lost(context, list(lost), next(iter(lost.values())))


def _extractor(context: RunContext, shards: ShardSet) -> Extractor:
    """Return the extractor that made the shards; SettingsError if there is none, or it is another one now."""
    settings = context.settings
    if settings.windows.method == IMPORTED:
        raise SettingsError("the features of the run were imported.")
    whole = open_sized_extractor(
        settings.features.extractors, settings.features.networks, context.device, context.named
    )
    projection = projection_of(context.run, shards)
    extractor = whole if projection is None else Projected(whole, projection)
    made_with, now = shards.provenance["features"], chosen_provenance(settings) | {"extractor": extractor.describe()}
    if difference := settings_difference(made_with, now):
        raise SettingsError(f"the run's features were made with {difference}.")
    return extractor


def _say_lost(context: RunContext, pictures: Sequence[str], reason: str) -> None:
    context.reporter.say(
        f"refine: boxes drawn in {len(pictures)} pictures, such as {pictures[0]}, have no window and are taught by the "
        f"nearest ones: {reason}"
    )
