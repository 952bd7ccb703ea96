"""Whether the files of a run are what was written: every byte of shards, models and the projection is read."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from lapsvm.catalog import ImageRecord, pixel_hash
from lapsvm.detection import Detector
from lapsvm.errors import MissingError, ShardError
from lapsvm.features import load_projection, read_header

from ..run.dataset import open_run_data
from ..run.files import is_of_another_program
from ..run.folder import RunFolder
from ..run.progress import Reporter
from ..shards.integrity import FileCheck, check_shard, failed_checks


def verify_run(out: Path, *, pictures: bool, remove: bool, threads: int, quiet: bool) -> None:
    """Check every file of a run folder that carries a checksum.

    Parameters
    ----------
    out : Path
        The run folder.
    pictures : bool
        Decode the pictures of the data set, too, and compare them with those that the shards were made from.
    remove : bool
        Remove damaged files, and shards of pictures that are others now, so that the next run makes them again, and
        only them. Files that lapsvm did not write, and those behind links, stay.
    threads : int
    quiet : bool

    Raises
    ------
    MissingError
        If there is nothing to check.
    ImageError, MissingError
        If a picture that is to be compared cannot be read.
    ShardError
        If files are damaged, naming the first; the others are said before. Not if they were removed.
    """
    run, reporter = RunFolder(out), Reporter(quiet)
    jobs = list(_checks(run))
    if not jobs:
        raise MissingError(f"run folder {out} holds neither shards nor models.")
    removed = 0
    with run.lock("lapsvm verify"):
        wrong = failed_checks(reporter, "verify", jobs, threads)
        if pictures:
            rest = list(_picture_checks(run, {path for path, _ in wrong}))
            wrong += failed_checks(reporter, "verify pictures", rest, threads)
        for path, reason in wrong:
            removable = run.files.owns(path) and not is_of_another_program(path)
            reporter.say(f"{reason}{(' It is removed.' if removable else ' It stays.') if remove else ''}")
            if remove and removable:
                run.files.remove([path])
                removed += 1
    if len(wrong) > removed:
        kinds = "damaged, or made from other pictures" if pictures else "damaged"
        count = f"{len(wrong)} of {len(jobs)} files are {kinds}, the first is {wrong[0][0]}"
        raise ShardError(f"{count}; verify with --remove, then run again to have just these made anew.")
    reporter.say(f"{len(jobs) - len(wrong)} files are whole" + (f", {removed} removed." if removed else "."))


def _checks(run: RunFolder) -> Iterator[FileCheck]:
    """Yield every file of the run that has a checksum, with what reads it."""
    for path in _shards(run):
        yield path, check_shard
    if run.projection.is_file():
        yield run.projection, load_projection
    for folder in (run.first_models, run.models):
        for path in sorted(folder.glob("*.safetensors")):
            if run.files.lists(path):
                yield path, Detector.load


def _shards(run: RunFolder) -> list[Path]:
    """Return the shards of all sets that lapsvm wrote."""
    return [path for path in sorted(run.path.glob("shards/*/*.safetensors")) if run.files.lists(path)]


def _picture_checks(run: RunFolder, damaged: set[Path]) -> Iterator[FileCheck]:
    """Yield the whole shards, with what compares their pictures with those of the data set."""
    settings = run.require_settings("verify --pictures")
    sets = open_run_data(settings.data, settings.seed).records
    for path in _shards(run):
        if path not in damaged:
            yield path, partial(_compare, records={one.id: one for one in sets.get(path.parent.name, ())})


def _compare(path: Path, records: dict[str, ImageRecord]) -> None:
    """Raise ShardError unless a shard's pictures are what they were when it was made."""
    header = read_header(path)
    for image_id, stored in zip(header.image_ids, header.pixel_hashes, strict=True):
        if image_id not in records:
            raise ShardError(f"shard {path} holds picture {image_id}, which the data set does not have any more.")
        if pixel_hash(records[image_id].pixels()) != stored:
            raise ShardError(f"shard {path} was made from another picture {image_id} than the data set has now.")
