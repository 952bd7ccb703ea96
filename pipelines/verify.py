"""Whether the files of a run are what was written: every byte of shards, models and the projection is read."""

from collections.abc import Callable, Iterator
from pathlib import Path

from lapsvm.detection import Detector
from lapsvm.errors import LapsvmError, MissingError, ShardError
from lapsvm.features import load_projection, read_shard

from .progress import Reporter
from .run_folder import RunFolder

Check = Callable[[Path], object]


def verify_run(out: Path, remove: bool, quiet: bool) -> None:
    """Check every file of a run folder that carries a checksum.

    Parameters
    ----------
    out : Path
        The run folder.
    remove : bool
        Remove damaged files, so that the next run makes them again, and only them.
    quiet : bool

    Raises
    ------
    MissingError
        If there is nothing to check.
    ShardError
        If files are damaged, naming the first; the others are said before. Not if they were removed.
    """
    run, reporter = RunFolder(out), Reporter(quiet)
    jobs = list(_checks(run))
    if not jobs:
        raise MissingError(f"run folder {out} holds neither shards nor models.")
    damaged = []
    with run.held(), reporter.bar("verify", len(jobs)) as bar:
        for path, check in jobs:
            damaged += _damage(path, check)
            bar.step()
    for path, reason in damaged:
        reporter.say(f"{reason}{' It is removed.' if remove else ''}")
        if remove:
            path.unlink()
    if damaged and not remove:
        count = f"{len(damaged)} of {len(jobs)} files are damaged, the first is {damaged[0][0]}"
        raise ShardError(f"{count}; verify with --remove, then run again to have just these made anew.")
    reporter.say(f"{len(jobs) - len(damaged)} files are whole" + (f", {len(damaged)} removed." if damaged else "."))


def _checks(run: RunFolder) -> Iterator[tuple[Path, Check]]:
    """Yield every file that has a checksum, with what reads it."""
    for path in sorted(run.path.glob("shards/*/*.safetensors")):
        yield path, read_shard
    if run.projection.is_file():
        yield run.projection, load_projection
    for folder in (run.first_models, run.models):
        for path in sorted(folder.glob("*.safetensors")):
            yield path, Detector.load


def _damage(path: Path, check: Check) -> list[tuple[Path, str]]:
    """Return a file with what is wrong with it, if it is damaged."""
    try:
        check(path)
    except LapsvmError as error:
        return [(path, str(error))]
    return []
