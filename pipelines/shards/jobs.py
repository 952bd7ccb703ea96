"""The shards of one set: which of them have to be made, and making them on threads."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from lapsvm.catalog import ImageRecord
from lapsvm.errors import ImageError, LapsvmError, MissingError, SettingsError, ShardError
from lapsvm.features import (
    PictureWindows,
    ShardHeader,
    ShardSet,
    assemble_shard,
    check_settings,
    read_header,
    read_shard,
    write_shard,
)
from lapsvm.files import write_atomically

from ..run.progress import Reporter
from .objectness import NO_OBJECTNESS, ObjectnessRequest, measure_stored
from .placement import Placement, ShardJob, placed, write_kept
from .prefetch import on_threads, prefetched

Picture = TypeVar("Picture", bound=PictureWindows)
Check = Callable[[Path], object]
FileCheck = tuple[Path, Check]
check_shard: Check = partial(read_shard, mapped=True)  # every byte is read, none is kept


class ShardJobs(Generic[Picture]):
    """The shards of one set. Subclasses define `measure`, which turns a picture into its windows.

    The shards must have been made with the settings of `provenance`; they may lack unreadable pictures if `skip_bad`.
    `redo` makes all of them again. Shards that `folder` lacks are copied from the folder `source` of another run.
    When the set changes, its stored pictures stay in their shards, and new ones get new shards. A shard that loses
    pictures is written again with the features that it has; made again if `keeps` is False. One that lacks numbers of
    the request `objectness` is written again with these.
    """

    keeps = False

    def __init__(
        self, folder: Path, records: Sequence[ImageRecord], provenance: dict[str, Any], dtype: str, skip_bad: bool,
        redo: bool = False, source: Path | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.records, self.provenance, self.dtype = folder, list(records), provenance, dtype
        self.skip_bad, self.redo, self.source = skip_bad, redo, source
        self.placement: Placement = placed(folder, self.records, {}, {})
        self.objectness: ObjectnessRequest = NO_OBJECTNESS
        self.unmeasured: list[ShardJob] = []

    @property
    def jobs(self) -> list[ShardJob]:
        """Each shard and its pictures; once `to_do` has read the headers of the shards that are there, as these are."""
        return self.placement.jobs

    def measure(self, record: ImageRecord) -> Picture | None:
        """Return the windows of a picture and their features; None if the picture is left out."""
        raise NotImplementedError

    def check_content(self, header: ShardHeader, threads: int) -> None:
        """Raise SettingsError if a shard's windows come from other content than there is now."""

    def picture_provenance(self, pictures: Sequence[Picture]) -> dict[str, Any]:  # noqa: ARG002 - for subclasses
        """Return the provenance entries for the pictures of a shard."""
        return {}

    def renames(self, headers: Mapping[Path, ShardHeader], reporter: Reporter, threads: int) -> dict[str, str]:
        """Return the id of each stored picture that is gone -> the id that it has now; here no picture is known."""
        del headers, reporter, threads  # for subclasses
        return {}

    def existing(self) -> list[Path]:
        """Return the shards that the folder holds."""
        return sorted(self.folder.glob("*.safetensors"))

    def to_do(self, reporter: Reporter, title: str, threads: int) -> list[ShardJob]:
        """Return the shards that are missing or damaged. Every byte of the others is read; nothing is written.

        Then `unmeasured` has those of the others that lack objectness, or have it of another source, each with the
        pictures to measure.

        Raises SettingsError if no picture of the set is stored, or a shard was made from other content or settings.
        """
        headers = self._headers()
        self.placement = placed(self.folder, self.records, headers, self.renames(headers, reporter, threads))
        finished = {self._current(path): path for path, _ in self.jobs if self._is_finished(path, threads)}
        for file, _ in failed_checks(reporter, title, [(file, check_shard) for file in finished], threads):
            reporter.say(f"shard {file} is damaged; it is made again")
            del finished[file]
        self.unmeasured = list(self._unmeasured(finished))
        return [job for job in self.jobs if job[0] not in finished.values()]

    def _unmeasured(self, finished: Mapping[Path, Path]) -> Iterator[ShardJob]:
        """Yield the shards of `unmeasured`; `finished` maps the file that holds a shard now to its path."""
        members = dict(self.jobs)
        for file, path in finished.items() if self.objectness.source is not None else ():
            shard = read_shard(file, mapped=True, verify=False)
            lacking = self.objectness.unmeasured(shard, self.placement.names.get(path, {}))
            if lacking is not None:
                yield path, [record for record in members[path] if record.id in lacking]

    def measure_stored(self, job: ShardJob) -> None:
        """Write one of the shards of `unmeasured`, which must be in the folder by now; see `objectness`."""
        measure_stored(*job, self.objectness, self.skip_bad)

    def stale(self) -> list[Path]:
        """Return the shards of the folder that are not needed: all if they are made again."""
        jobs = () if self.redo else {path for path, _ in self.jobs}
        return [path for path in self.existing() if path not in jobs]

    def carried_over(self, to_do: Sequence[ShardJob]) -> list[Path]:
        """Return the shards that are written from finished ones: copies, and those that lose or rename pictures."""
        copied = {path for path in self.placement.stored if self._current(path) != path}
        return sorted((copied | self.placement.names.keys()) - {path for path, _ in to_do})

    def carry_over(self, path: Path) -> None:
        """Write one of the shards of `carried_over`."""
        current, names = self._current(path), self.placement.names.get(path)
        if names is None:
            copy_shard(current, path)
        else:
            write_kept(current, path, names)

    def store(self, path: Path, records: Sequence[ImageRecord], measured: Sequence[Picture | None]) -> None:
        """Write the shard of some pictures; ImageError if all of them are left out."""
        pictures = [picture for picture in measured if picture is not None]
        if not pictures:
            raise ImageError(f"no picture of {records[0].id} to {records[-1].id} can be read; look at --root.")
        missing = [record.id for record, picture in zip(records, measured, strict=True) if picture is None]
        stored = self.provenance | self.picture_provenance(pictures) | ({"left_out": missing} if missing else {})
        write_shard(path, assemble_shard(pictures, stored, self.dtype))

    def _headers(self) -> dict[Path, ShardHeader]:
        """Return the readable shards, by their path in the folder: own ones first, then those that may be copied."""
        own = [] if self.redo else self.existing()
        others = [] if self.source is None else [self.folder / path.name for path in self.source.glob("*.safetensors")]
        headers = {}
        for path in dict.fromkeys([*own, *sorted(others)]):
            with suppress(ShardError):
                headers[path] = read_header(self._current(path))
        return headers

    def _current(self, path: Path) -> Path:
        """Return the file that holds a shard now: that of this run, or the one that is copied."""
        copied = None if self.source is None or (path.exists() and not self.redo) else self.source / path.name
        return copied if copied is not None and copied.is_file() else path

    def _is_finished(self, path: Path, threads: int) -> bool:
        """Return whether the header of a shard is readable and fits the job; SettingsError if a valid one does not."""
        file = self._current(path)
        if path not in self.placement.stored:
            return False
        try:
            return self._fits(path, read_header(file), threads)
        except ShardError:
            return False
        except SettingsError:
            if damage(file, check_shard):
                return False
            raise

    def _fits(self, path: Path, header: ShardHeader, threads: int) -> bool:
        """Return whether a shard serves a job; one with pictures left out does so only under --skip-bad."""
        is_copied = header.path.parent == self.source
        advice = "leave out --shards-from" if is_copied else "use another --out, or --redo"
        check_settings(header, self.provenance, advice)
        if header.provenance.get("left_out") and not self.skip_bad:
            return False
        if path in self.placement.names and not self.keeps:
            return False
        self.check_content(header, threads)
        return True


def left_out(records: Sequence[ImageRecord], shards: ShardSet) -> list[str]:
    """Return the ids of the pictures of a set that are in none of its shards."""
    stored = set(shards.image_ids)
    return [record.id for record in records if record.id not in stored]


def copy_shard(source: Path, path: Path) -> None:
    """Link a shard of one run into another; copy it where the disk has no hard links."""
    try:
        path.hardlink_to(source)
    except OSError:
        write_atomically(path, source.read_bytes())


def make_shards(
    shards: ShardJobs[Picture], jobs: Sequence[ShardJob], title: str, counts: dict[str, Any], reporter: Reporter,
    threads: int,
) -> None:  # fmt: skip
    """Make some shards of one set.

    Each thread takes a picture through all steps, then the next picture of any shard; one more thread writes a shard
    while the next is made.
    """
    records = [record for _, members in jobs for record in members]
    counts |= {"nothing_to_do": not jobs, "pictures": len(records)}
    with (
        ThreadPoolExecutor(1) as writing,
        on_threads(reporter, title, shards.measure, records, threads) as (bar, results),
    ):

        def measured() -> Iterator[tuple[Path, list[ImageRecord], list[Picture | None]]]:
            for path, members in jobs:
                pictures = []
                for _, picture in islice(results, len(members)):
                    pictures.append(picture)
                    bar.step(0, windows=count_windows([picture]))
                if any(picture is not None for picture in pictures):  # otherwise all of them are left out
                    yield path, members, pictures

        for _ in prefetched(writing, lambda shard: shards.store(*shard), measured(), 2):
            pass
    counts["windows"] = bar.windows


def measure_shards(shards: ShardJobs[Picture], title: str, reporter: Reporter, threads: int) -> None:
    """Measure the objectness that some shards of one set lack; each thread takes a shard through all steps."""
    with on_threads(reporter, title, shards.measure_stored, shards.unmeasured, threads, "shards") as (_, results):
        for _ in results:
            pass


def count_windows(pictures: Sequence[PictureWindows | None]) -> int:
    """Return the number of windows of the pictures that are not left out."""
    return sum(np.shape(picture.boxes)[0] for picture in pictures if picture is not None)


def failed_checks(reporter: Reporter, title: str, jobs: Sequence[FileCheck], threads: int) -> list[tuple[Path, str]]:
    """Return the files that fail their check, each with the reason."""
    with on_threads(reporter, title, lambda job: damage(*job), jobs, threads, "files") as (_, results):
        return [(path, reason) for (path, _), reason in results if reason is not None]


def damage(path: Path, check: Check) -> str | None:
    """Return the reason why a file is damaged, or None. A picture that cannot be read is raised: it does not decide."""
    try:
        check(path)
    except (ImageError, MissingError):
        raise
    except LapsvmError as error:
        return str(error)
    return None
