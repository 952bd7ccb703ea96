"""The lock of a run folder: one process at a time; errors name the process that has it."""

import errno
import fcntl
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lapsvm.errors import MissingError, SettingsError

LOCK = ".lock"
HOLDER = "process "  # the first word of the text in the lock file
_TEXT = 4096  # bytes of it that are read


@contextmanager
def locked(folder: Path, command: str) -> Iterator[None]:
    """Make a folder if it is missing, and lock it while the block runs.

    Afterwards the lock file has its former text, so that a refused command changes no byte; if the block fails before
    anything is written, the new folders are removed. Raises SettingsError if another process has the lock, MissingError
    if the folder cannot be made.
    """
    made = _make(folder)
    lock = _acquire(folder)
    before = os.pread(lock, _TEXT, 0)
    try:
        _write(lock, f"{HOLDER}{os.getpid()} on {platform.node()} ({command}, since {time.strftime('%F %T %z')})")
        yield
    except BaseException:
        _remove_if_unused(folder, made)
        raise
    finally:
        _write(lock, before.decode(errors="replace"))
        os.close(lock)


def _make(folder: Path) -> list[Path]:
    """Make a folder and return the new folders, the innermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MissingError(f"run folder {folder} cannot be made: {error.strerror}.") from None
    return missing


def _acquire(folder: Path) -> int:
    """Return the descriptor of the locked file, which still has its name."""
    path = folder / LOCK
    while True:
        lock = _open(path)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(lock), path.stat()):
                return lock
        except OSError:
            holder = os.pread(lock, _TEXT, 0).decode(errors="replace") or "another process"
            os.close(lock)
            raise SettingsError(f"run folder {folder} is in use by {holder}.") from None
        os.close(lock)  # another process, whose command was refused, removed the file


def _open(path: Path) -> int:
    """Open or make the lock file; a symbolic link is not followed."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise SettingsError(f"lock {path} must be a regular file, got a symbolic link.") from None
        raise


def _write(lock: int, text: str) -> None:
    with suppress(OSError):  # the next write reports a full disk
        os.ftruncate(lock, 0)
        os.pwrite(lock, text.encode(), 0)


def _remove_if_unused(folder: Path, made: list[Path]) -> None:
    """Remove new folders if they hold nothing but the lock."""
    with suppress(OSError):
        if folder in made and os.listdir(folder) == [LOCK]:
            (folder / LOCK).unlink()
            for path in made:
                path.rmdir()
