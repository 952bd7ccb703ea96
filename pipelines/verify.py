"""Whether the files of a run are what was written: every byte of shards, models and the projection is read."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from lapsvm.catalog import ImageRecord, pixel_hash
from lapsvm.detection import Detector
from lapsvm.errors import ImageError, LapsvmError, MissingError, SettingsError, ShardError
from lapsvm.features import ShardHeader, load_projection, read_header, read_shard

from .labels import open_run_data
from .progress import Reporter
from .run_files import is_of_another_program
from .run_folder import RunFolder

Check = Callable[[Path], object]
Job = tuple[Path, Check]
ShardJob = tuple[Path, list[ImageRecord]]
whole_shard: Check = partial(read_shard, mapped=True)  # every byte is read, and none is kept


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
    with run.held("lapsvm verify"):
        wrong = failing(reporter, "verify", jobs, threads)
        if pictures:
            rest = list(_picture_checks(run, {path for path, _ in wrong}))
            wrong += failing(reporter, "verify pictures", rest, threads)
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


def failing(reporter: Reporter, title: str, jobs: Sequence[Job], threads: int) -> list[tuple[Path, str]]:
    """Return the files that fail their check, each with what is wrong."""
    with reporter.bar(title, len(jobs), "files") as bar, ThreadPoolExecutor(threads) as pool:
        try:
            return list(_failures(pool.map(lambda job: damage(*job), jobs), jobs, bar.step))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def done_unless_damaged(path: Path, is_ours: Callable[[ShardHeader], bool]) -> bool:
    """Tell whether a shard is there and ours by its header.

    Raises
    ------
    SettingsError
        If `is_ours` does, unless what it found to differ is damage.
    """
    if not path.exists():
        return False
    try:
        return is_ours(read_header(path))
    except ShardError:
        return False
    except SettingsError:
        if damage(path, whole_shard):
            return False
        raise


def with_damaged(
    reporter: Reporter, title: str, all_jobs: Sequence[ShardJob], to_do: Sequence[ShardJob], threads: int
) -> list[ShardJob]:
    """Return what is to do, and the shards that are there but whose content is not what was written."""
    wanted = {path for path, _ in to_do}
    checks = [(path, whole_shard) for path, _ in all_jobs if path not in wanted]
    for path, _ in failing(reporter, title, checks, threads):
        reporter.say(f"shard {path} is damaged; it is made again")
        wanted.add(path)
    return [job for job in all_jobs if job[0] in wanted]


def _failures(
    reasons: Iterable[str | None], jobs: Sequence[Job], step: Callable[[], None]
) -> Iterator[tuple[Path, str]]:
    """Yield the files for which there is a reason."""
    for (path, _), reason in zip(jobs, reasons, strict=True):
        step()
        if reason is not None:
            yield path, reason


def damage(path: Path, check: Check) -> str | None:
    """Return what is wrong with a file; a picture that cannot be read says nothing about it, and is raised."""
    try:
        check(path)
    except (ImageError, MissingError):
        raise
    except LapsvmError as error:
        return str(error)
    return None


def _checks(run: RunFolder) -> Iterator[Job]:
    """Yield every file of the run that has a checksum, with what reads it."""
    for path in _shards(run):
        yield path, whole_shard
    if run.projection.is_file():
        yield run.projection, load_projection
    for folder in (run.first_models, run.models):
        for path in sorted(folder.glob("*.safetensors")):
            if run.files.lists(path):
                yield path, Detector.load


def _shards(run: RunFolder) -> list[Path]:
    """Return the shards of all sets that lapsvm wrote."""
    return [path for path in sorted(run.path.glob("shards/*/*.safetensors")) if run.files.lists(path)]


def _picture_checks(run: RunFolder, damaged: set[Path]) -> Iterator[Job]:
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
