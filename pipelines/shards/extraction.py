"""Stage 1: pictures become shards of windows and their features."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from lapsvm.catalog import ImageRecord, pixel_hash
from lapsvm.errors import ImageError, SettingsError
from lapsvm.features import (
    Extractor,
    PictureWindows,
    ShardHeader,
    assemble_shard,
    check_settings,
    read_header,
    shard_name,
    write_shard,
)
from lapsvm.files import write_atomically

from ..run.context import RunContext
from ..run.settings import Settings
from .extractors import network_settings
from .integrity import ShardJob, done_unless_damaged
from .prefetch import Writer, prefetched
from .windows import pixels_unless_bad, window_boxes, windows_provenance

IMAGES_PER_SHARD = 16
AHEAD = 2  # pictures begun per thread before the first is taken: a slow one need not hold up the others


def provenance(settings: Settings, extractor: Extractor) -> dict[str, Any]:
    """Return what decides the numbers in a shard, without paths or times."""
    windows = windows_provenance(settings.windows) | {"seed": settings.seed}
    features = {"extractor": extractor.describe(), "dtype": settings.features.dtype}
    return {"windows": windows, "features": features | {"networks": network_settings(settings.features)}}


class SetExtraction:
    """The shards of one set: which are done, which are to do, and doing them.

    Parameters
    ----------
    folder : Path
    records : list of ImageRecord
    settings : Settings
    extractor : Extractor
    redo : bool, default False
        Make all shards again.
    source : Path or None, default None
        A folder of shards of another run, which are taken where this one has none.
    """

    def __init__(
        self,
        folder: Path,
        records: Sequence[ImageRecord],
        settings: Settings,
        extractor: Extractor,
        redo: bool = False,
        source: Path | None = None,
    ) -> None:
        self.folder, self.records, self.settings, self.extractor = folder, list(records), settings, extractor
        self.redo, self.source = redo, source
        self.provenance = provenance(settings, extractor)
        self.jobs = [
            (self.folder / shard_name(start // IMAGES_PER_SHARD), self.records[start : start + IMAGES_PER_SHARD])
            for start in range(0, len(self.records), IMAGES_PER_SHARD)
        ]

    def old(self) -> list[Path]:
        """Return all shards that are there."""
        return sorted(self.folder.glob("*.safetensors"))

    def to_take(self, wanted: Sequence[ShardJob]) -> list[tuple[Path, Path]]:
        """Return (shard of the other run, shard of this run) for those that this run takes, if not made again."""
        made = {path for path, _ in wanted}
        return [(now, path) for path, _ in self.jobs if path not in made and (now := self.now(path)) != path]

    def to_do(self) -> list[ShardJob]:
        """Return the shards that are not there yet, or damaged; nothing is written.

        Raises
        ------
        SettingsError
            If a shard was made from other pictures or with other settings.
        """
        strangers = sorted(set(self.old()) - {path for path, _ in self.jobs})
        if strangers and not self.redo:
            raise SettingsError(f"{strangers[0]} belongs to another list of pictures; use another --out, or --redo.")
        return [(path, records) for path, records in self.jobs if not self._is_done(path, records)]

    def now(self, path: Path) -> Path:
        """Return the file that a shard is in before extraction: its own, or that of the run whose shards are taken."""
        taken = None if self.source is None or (path.exists() and not self.redo) else self.source / path.name
        return taken if taken is not None and taken.is_file() else path

    def _is_done(self, path: Path, records: Sequence[ImageRecord]) -> bool:
        """Tell whether a shard is whole and ours; one with left-out pictures is ours only under --skip-bad."""
        now = self.now(path)
        if self.redo and now == path:
            return False
        return done_unless_damaged(now, partial(self._is_ours, records=records))

    def _is_ours(self, header: ShardHeader, records: Sequence[ImageRecord]) -> bool:
        """Tell whether a shard holds what is wanted of it; SettingsError if it is another's."""
        left_out = header.provenance.get("left_out", [])
        check_settings(header, self.provenance)
        if sorted([*header.image_ids, *left_out]) != sorted(record.id for record in records):
            raise SettingsError(f"{header.path} was made from other pictures; use another --out, or --redo.")
        return not left_out or self.settings.data.skip_bad

    def left_out(self) -> list[str]:
        """Return the ids of the pictures that the finished shards lack."""
        there = {image_id for path, _ in self.jobs for image_id in read_header(path).image_ids}
        return [record.id for record in self.records if record.id not in there]

    def measure(self, record: ImageRecord) -> PictureWindows | None:
        """Read a picture, propose windows and extract their features; None if it is to be left out."""
        pixels = pixels_unless_bad(record, self.settings.data.skip_bad)
        if pixels is None:
            return None
        boxes = window_boxes(pixels, self.settings.windows, self.settings.seed, record.id)
        height, width = pixels.shape[:2]
        return PictureWindows(record.id, boxes, self.extractor(pixels, boxes), pixel_hash(pixels), (height, width))

    def store(self, path: Path, records: Sequence[ImageRecord], measured: Sequence[PictureWindows | None]) -> None:
        """Write the shard of some pictures.

        Raises
        ------
        ImageError
            If all of them are left out.
        """
        good = [picture for picture in measured if picture is not None]
        if not good:
            raise ImageError(f"no picture of {records[0].id} to {records[-1].id} can be read; look at --root.")
        left_out = [record.id for record, picture in zip(records, measured, strict=True) if picture is None]
        stored = self.provenance | ({"left_out": left_out} if left_out else {})
        write_shard(path, assemble_shard(good, stored, self.settings.features.dtype))


def take(source: Path, path: Path) -> None:
    """Make a file of one run one of another: the same file where the disk can do that, else a copy."""
    try:
        path.hardlink_to(source)
    except OSError:
        write_atomically(path, source.read_bytes())


def _extract_set(
    context: RunContext, work: SetExtraction, jobs: Sequence[ShardJob], title: str, counts: dict[str, Any]
) -> None:
    """Make some shards of one set.

    A thread takes a picture through all of it, decoding, proposing, the network and pooling, and the next picture,
    of whichever shard, without waiting for the others; a further thread writes. The libraries below get one thread
    each, so the numbers are the same for any number of threads here.
    """
    pictures = [record for _, records in jobs for record in records]
    counts |= {"nothing_to_do": not jobs, "pictures": len(pictures), "windows": 0}
    with (
        context.reporter.bar(title, len(pictures), "pictures") as bar,
        threadpool_limits(1),
        ThreadPoolExecutor(1) as writing,
        ThreadPoolExecutor(context.threads) as pool,
        closing(prefetched(pool, work.measure, pictures, AHEAD * context.threads)) as results,
    ):
        writer = Writer(writing)
        for path, records in jobs:
            measured = []
            for _, picture in islice(results, len(records)):
                measured.append(picture)
                bar.step(windows=0 if picture is None else len(picture.boxes))
            counts["windows"] += sum(len(picture.boxes) for picture in measured if picture is not None)
            writer.write(partial(work.store, path, records, measured))
        writer.finish()
