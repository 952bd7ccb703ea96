"""Which shards are damaged: every byte is read and compared with the checksum."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from lapsvm.errors import ImageError, LapsvmError, MissingError
from lapsvm.features import read_shard

from ..run.progress import Reporter

Check = Callable[[Path], object]
FileCheck = tuple[Path, Check]
check_shard: Check = partial(read_shard, mapped=True)  # every byte is read, none is kept


def failed_checks(reporter: Reporter, title: str, jobs: Sequence[FileCheck], threads: int) -> list[tuple[Path, str]]:
    """Return the files that fail their check, each with the reason."""
    with reporter.bar(title, len(jobs), "files") as bar, ThreadPoolExecutor(threads) as pool:
        try:
            return list(_failures(pool.map(lambda job: damage(*job), jobs), jobs, bar.step))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _failures(
    reasons: Iterable[str | None], jobs: Sequence[FileCheck], step: Callable[[], None]
) -> Iterator[tuple[Path, str]]:
    """Yield the files that have a reason."""
    for (path, _), reason in zip(jobs, reasons, strict=True):
        step()
        if reason is not None:
            yield path, reason


def damage(path: Path, check: Check) -> str | None:
    """Return what is wrong with a file, or None; a picture that cannot be read is raised: it does not decide."""
    try:
        check(path)
    except (ImageError, MissingError):
        raise
    except LapsvmError as error:
        return str(error)
    return None
