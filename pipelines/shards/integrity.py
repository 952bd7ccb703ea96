"""Which shards are damaged: every byte is read and compared with the checksum."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from lapsvm.errors import ImageError, LapsvmError, MissingError
from lapsvm.features import read_shard

from ..run.progress import Reporter
from .prefetch import on_threads

Check = Callable[[Path], object]
FileCheck = tuple[Path, Check]
check_shard: Check = partial(read_shard, mapped=True)  # every byte is read, none is kept


def failed_checks(reporter: Reporter, title: str, jobs: Sequence[FileCheck], threads: int) -> list[tuple[Path, str]]:
    """Return the files that fail their check, each with the reason."""
    with on_threads(reporter, title, lambda job: damage(*job), jobs, threads, "files") as (_, results):
        return [(path, reason) for (path, _), reason in results if reason is not None]


def damage(path: Path, check: Check) -> str | None:
    """Return what is wrong with a file, or None; a picture that cannot be read is raised: it does not decide."""
    try:
        check(path)
    except (ImageError, MissingError):
        raise
    except LapsvmError as error:
        return str(error)
    return None
