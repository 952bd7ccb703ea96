"""Which shards are damaged: every byte is read and compared with the checksum."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from lapsvm.catalog import ImageRecord
from lapsvm.errors import ImageError, LapsvmError, MissingError, SettingsError, ShardError
from lapsvm.features import ShardHeader, read_header, read_shard

from ..run.progress import Reporter

Check = Callable[[Path], object]
FileCheck = tuple[Path, Check]
ShardJob = tuple[Path, list[ImageRecord]]
check_shard: Check = partial(read_shard, mapped=True)  # every byte is read, and none is kept


def failed_checks(reporter: Reporter, title: str, jobs: Sequence[FileCheck], threads: int) -> list[tuple[Path, str]]:
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
        if damage(path, check_shard):
            return False
        raise


def with_damaged(
    reporter: Reporter, title: str, all_jobs: Sequence[ShardJob], to_do: Sequence[ShardJob], threads: int
) -> list[ShardJob]:
    """Return what is to do, and the shards that are there but whose content is not what was written."""
    wanted = {path for path, _ in to_do}
    checks = [(path, check_shard) for path, _ in all_jobs if path not in wanted]
    for path, _ in failed_checks(reporter, title, checks, threads):
        reporter.say(f"shard {path} is damaged; it is made again")
        wanted.add(path)
    return [job for job in all_jobs if job[0] in wanted]


def _failures(
    reasons: Iterable[str | None], jobs: Sequence[FileCheck], step: Callable[[], None]
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
