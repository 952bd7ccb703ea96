"""Stage 1, done elsewhere: windows and features in other programs' files become shards."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from lapsvm.arrays import Array, Float64
from lapsvm.bfloat16 import largest_number
from lapsvm.catalog import ImageRecord, pixel_hash
from lapsvm.errors import ExternalFileError, ImageError, OptionError, SettingsError
from lapsvm.features import (
    ExternalWindows,
    PictureWindows,
    ShardHeader,
    assemble_shard,
    check_settings,
    open_shards,
    shard_name,
    write_shard,
)

from ..run.context import RunContext
from ..run.dataset import content_hash
from ..run.progress import Bar
from ..run.settings import IMPORTED, FeatureSettings
from .annotated import annotated_boxes, equal_sentences
from .external import Counts, Sources, fitted
from .extractors import network_settings
from .integrity import ShardJob, done_unless_damaged, with_damaged
from .windows import pixels_unless_bad

IMAGES_PER_SHARD = 16
Imported = tuple[PictureWindows, str, Counts]


class SetImport:
    """The shards of one set: which are done, which are to do, and doing them.

    Parameters
    ----------
    context : RunContext
    set_name : str
    sources : Sources
    first : ExternalWindows
        Some windows; all have as many features as these.
    """

    def __init__(self, context: RunContext, set_name: str, sources: Sources, first: ExternalWindows) -> None:
        self.context, self.set_name, self.sources, self.first = context, set_name, sources, first
        self.folder, self.records = context.run.shards(set_name), context.data.records[set_name]
        self.dtype = context.settings.features.dtype
        self.provenance = _provenance(sources, _dim(first), self.dtype)
        drops = context.settings.windows.source.drop_equal
        self.annotated: dict[str, Float64] = annotated_boxes(context, set_name) if drops else {}
        if drops and not self.annotated:
            raise OptionError(f"option --drop-equal-boxes needs the boxes of set {set_name!r}, which has none.")
        starts = range(0, len(self.records), IMAGES_PER_SHARD)
        self.jobs = [
            (self.folder / shard_name(place), list(self.records[start : start + IMAGES_PER_SHARD]))
            for place, start in enumerate(starts)
        ]

    def old(self) -> list[Path]:
        """Return all shards that are there."""
        return sorted(self.folder.glob("*.safetensors"))

    def wanted(self) -> list[ShardJob]:
        """Return the shards that are not there yet, or damaged; those that are there are compared with the files.

        Nothing is written.

        Raises
        ------
        SettingsError
            If a shard was made from other pictures, with other settings, or from other content.
        """
        if self.context.redo:
            return self.jobs
        strangers = sorted(set(self.old()) - {path for path, _ in self.jobs})
        if strangers:
            raise SettingsError(f"{strangers[0]} belongs to another list of pictures; use another --out, or --redo.")
        with ThreadPoolExecutor(self.context.threads) as pool:
            jobs = [job for job in self.jobs if not self._is_done(*job, pool)]
        title = f"check {self.set_name}"
        return with_damaged(self.context.reporter, title, self.jobs, jobs, self.context.threads)

    def _is_done(self, path: Path, records: Sequence[ImageRecord], pool: ThreadPoolExecutor) -> bool:
        """Tell whether a shard is whole and ours."""
        return done_unless_damaged(path, partial(self._is_ours, records=records, pool=pool))

    def _is_ours(self, header: ShardHeader, records: Sequence[ImageRecord], pool: ThreadPoolExecutor) -> bool:
        """Tell whether a shard holds what is wanted of it; SettingsError if it is another's."""
        check_settings(header, self.provenance)
        left_out = header.provenance.get("left_out", [])
        if sorted([*header.image_ids, *left_out]) != sorted(record.id for record in records):
            raise SettingsError(f"{header.path} was made from other pictures; use another --out, or --redo.")
        if left_out and not self.context.settings.data.skip_bad:
            return False
        hashes = pool.map(lambda image_id: self.sources.read(image_id)[0].content_hash, header.image_ids)
        if content_of(header) != content_hash(*hashes):
            raise SettingsError(
                f"shard {header.path} was made from other content than {self.sources.named()} has now; "
                "use another --out, or --redo."
            )
        return True

    def make_all(self, jobs: Sequence[ShardJob], counts: dict[str, Any]) -> None:
        """Make some shards; a picture a thread."""
        pictures = sum(len(records) for _, records in jobs)
        counts |= {"nothing_to_do": not jobs, "pictures": pictures, "windows": 0}
        with (
            self.context.reporter.bar(f"import {self.set_name}", pictures, "pictures") as bar,
            threadpool_limits(1),
            ThreadPoolExecutor(self.context.threads) as pool,
        ):
            for path, records in jobs:
                try:
                    counts["windows"] += self._make(path, records, pool, bar)
                except BaseException:
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise

    def _make(self, path: Path, records: Sequence[ImageRecord], pool: ThreadPoolExecutor, bar: Bar) -> int:
        """Make one shard and return how many windows it holds."""
        good: list[Imported] = []
        left_out = []
        for record, one in zip(records, pool.map(self._picture, records), strict=True):
            bar.step(windows=0 if one is None else len(one[0].boxes))
            if one is None:
                left_out.append(record.id)
            else:
                good.append(one)
        if not good:
            raise ImageError(f"no picture of {records[0].id} to {records[-1].id} can be read; look at --root.")
        imported = {"content": content_hash(*(content for _, content, _ in good)), **_summed(one for _, _, one in good)}
        stored = self.provenance | {"imported": imported} | ({"left_out": left_out} if left_out else {})
        shard = assemble_shard([picture for picture, _, _ in good], stored, self.dtype)
        write_shard(path, shard)
        return len(shard.boxes)

    def _picture(self, record: ImageRecord) -> Imported | None:
        """Return the windows of a picture, the hash of what its file holds, and what became of them."""
        pixels = pixels_unless_bad(record, self.context.settings.data.skip_bad)
        if pixels is None:
            return None
        found, convention = self.sources.read(record.id)
        if _dim(found) != _dim(self.first):
            raise ExternalFileError(
                f"{found.where}: a window must have {_dim(self.first)} features as in {self.first.where}, "
                f"got {_dim(found)}."
            )
        size = pixels.shape[0], pixels.shape[1]
        source, annotated = self.sources.settings, self.annotated.get(record.id, np.empty((0, 4)))
        own = fitted(found, convention, size, source.clip, annotated)
        features = _fitting(found, self.dtype)[own.rows]
        picture = PictureWindows(record.id, own.boxes, features, pixel_hash(pixels), size)
        return picture, found.content_hash, own.counts

    def told(self) -> Iterator[str]:
        """Yield what became of the windows, in sentences."""
        shards = open_shards(self.folder)
        counts = imported_counts(shards.headers).sentence()
        yield (
            f"{self.set_name}: {shards.n_images:,} pictures, {shards.n_windows:,} windows of {shards.dim:,} features"
            + (f"; {counts}" if counts else "")
        )
        there = set(shards.image_ids)
        for record in self.records:
            if record.id not in there:
                yield f"picture {record.id} is left out: it cannot be read whole"
        yield from equal_sentences(self.context, self.set_name, "--drop-equal-boxes leaves it out")


def content_of(header: ShardHeader) -> str:
    """Return the hash of the content that a shard was imported from; "" if it was extracted."""
    return str(header.provenance.get("imported", {}).get("content", ""))


def imported_counts(headers: Sequence[ShardHeader]) -> Counts:
    """Return what became of the windows of some shards; all 0 for extracted ones."""
    parts = [header.provenance.get("imported", {}) for header in headers]
    return Counts(**{name: sum(part.get(name, 0) for part in parts) for name in asdict(Counts())})


def imported_content(headers: Sequence[ShardHeader]) -> dict[str, str]:
    """Return what a model's provenance says of imported features; nothing of extracted ones."""
    contents = [content_of(header) for header in headers]
    return {"content": content_hash(*contents)} if any(contents) else {}


def _summed(counts: Iterator[Counts]) -> dict[str, int]:
    """Return the sum of the counts of pictures."""
    every = [asdict(one) for one in counts]
    return {name: sum(one[name] for one in every) for name in asdict(Counts())}


def _provenance(sources: Sources, dim: int, dtype: str) -> dict[str, Any]:
    """Return what imported shards of one run share, without paths."""
    settings = sources.settings
    windows = {
        "method": IMPORTED,
        "boxes": sources.conventions,
        "clip": settings.clip,
        "drop_equal": settings.drop_equal,
    }
    extractor = {"kind": IMPORTED, "version": 1, "blocks": [dim], "halves": [False]}
    features = {"extractor": extractor, "dtype": dtype, "networks": network_settings(FeatureSettings())}
    return {"windows": windows, "features": features}


def _features(found: ExternalWindows) -> Array:
    """Return the features of windows; ExternalFileError if there are none."""
    if found.features is None:
        raise ExternalFileError(f"{found.where} must hold features, got boxes alone.")
    return found.features


def _dim(found: ExternalWindows) -> int:
    """Return the number of features of a window."""
    return int(_features(found).shape[1])


def _fitting(found: ExternalWindows, dtype: str) -> Array:
    """Return features that fit the type in which they are stored; ExternalFileError if one does not."""
    features = _features(found)
    largest, limit = float(np.abs(features).max()), largest_number(dtype)
    if largest > limit:
        advice = "; give --dtype float32" if dtype == "float16" else ""
        raise ExternalFileError(
            f"{found.where}: features must be at most {limit:g} in size to fit {dtype}, got {largest:g}{advice}."
        )
    return features
