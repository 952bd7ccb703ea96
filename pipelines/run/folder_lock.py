"""The lock of a run folder: one process at a time; errors name the process that has it.

A file of that name that this program did not write is refused and stays as it is. One that has other names too, as in a
copy of the folder by hard links, is replaced by a new file, so that each copy has a lock of its own.
"""

import errno
import os
import platform
import re
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from lapsvm.errors import LapsvmError, MissingError, SettingsError, WriteError
from lapsvm.files import lock_descriptor, make_folder, open_flags, open_regular, unshare

LOCK = ".lock"
_HOLDER = re.compile(rb"process \d+ on .*", re.DOTALL)
_BEGINNING = re.compile(rb"p?r?o?c?e?s?s?|process \d*( o?)?")  # as a power failure may leave it
_TEXT = 4096  # bytes of it that are read
_UNMADE = ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY")
_FLAGS, _READ_FLAGS = open_flags("O_RDWR", "O_CREAT", *_UNMADE), open_flags("O_RDONLY", *_UNMADE)
_DENIED = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def locked(folder: Path, command: str) -> Iterator[None]:
    """Make a folder if it is missing, and lock it while the block runs.

    Afterwards the lock file has its former text, so that a refused command changes no byte; if the block fails before
    anything is written, the new folders are removed. Raises SettingsError if another process has the lock, MissingError
    if the folder cannot be made.
    """
    made = _make(folder)
    lock = _acquire(folder)
    before = _text(lock)
    try:
        since = time.strftime("%Y-%m-%d %H:%M:%S %z")
        holder = f"process {os.getpid()} on {platform.node()} ({command}, since {since})"
        _write(lock, holder.encode())
        yield
    except BaseException:
        _remove_if_unused(folder, made)
        raise
    finally:
        _write(lock, before)
        os.close(lock)


@contextmanager
def locked_to_read(folder: Path, command: str) -> Iterator[None]:
    """Lock a folder, as `locked`, for a command that writes nothing there.

    Where this process must not write, it makes no lock; one that is there says whether somebody who may write does.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder, command))
        except WriteError as error:
            if not isinstance(error.__cause__, OSError) or error.__cause__.errno not in _DENIED:
                raise
            with suppress(OSError):  # a folder that was copied without its lock, or one that is not to be read
                lock = os.open(folder / LOCK, _READ_FLAGS)
                stack.callback(os.close, lock)
                _check_free(folder, lock)
        yield


def _check_free(folder: Path, lock: int) -> None:
    """Raise SettingsError if another process holds an open lock; otherwise lock it, if the system lets a reader."""
    try:
        lock_descriptor(lock)
    except BlockingIOError:
        raise SettingsError(f"run folder {folder} is in use by {_holder(lock)}.") from None


def _holder(lock: int) -> str:
    return _text(lock).decode(errors="replace") or "another process"


def _make(folder: Path) -> list[Path]:
    """Make a folder and return the new folders, the innermost first."""
    try:
        return make_folder(folder)
    except OSError as error:
        raise MissingError(f"run folder {folder} cannot be made: {error.strerror}.") from None


def _acquire(folder: Path) -> int:
    """Return the descriptor of the locked file, which still has its name."""
    path = folder / LOCK
    while True:
        lock = _open(path)
        try:
            lock_descriptor(lock)
            is_named = path.exists() and os.path.samestat(os.fstat(lock), path.stat())
        except OSError:
            holder = _holder(lock)
            linked = " This lock has other names, as in a copy by hard links: that copy may be the one in use."
            more = linked if os.fstat(lock).st_nlink > 1 else ""
            os.close(lock)
            raise SettingsError(f"run folder {folder} is in use by {holder}.{more}") from None
        if is_named and _is_ours(lock) and os.fstat(lock).st_nlink < 2:
            return lock
        try:
            if is_named and not _is_ours(lock):
                raise SettingsError(f"lock {path} was not written by lapsvm, so it is not replaced; move it away.")
            if is_named:
                unshare(path)  # while the old file is locked: a process that waits for it finds the new one
        finally:
            os.close(lock)  # if it has no name, another process replaced it, or removed it as its command was refused


def _open(path: Path) -> int:
    """Open or make the lock file; a symbolic link is not followed."""
    try:
        return os.open(path, _FLAGS, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise SettingsError(f"lock {path} must be a regular file, got a symbolic link.") from None
        raise WriteError(
            f"lock {path} cannot be opened: {error.strerror}; the run folder must be writable, or be copied first."
        ) from error


def is_lock(path: Path) -> bool:
    """Return whether a path is a lock file of this program that has no other name."""
    try:
        with open_regular(path, "lock") as file:
            return os.fstat(file.fileno()).st_nlink < 2 and _is_ours(file.fileno())
    except LapsvmError:
        return False


def _is_ours(lock: int) -> bool:
    """Return whether an open file is empty or says who holds it, cut short or not."""
    status = os.fstat(lock)
    if not stat.S_ISREG(status.st_mode) or status.st_size > _TEXT:
        return False
    text = _text(lock).rstrip(b"\0")
    return _HOLDER.fullmatch(text) is not None or _BEGINNING.fullmatch(text) is not None


def _text(lock: int) -> bytes:
    """Return the content of an open file; Windows has no pread."""
    os.lseek(lock, 0, os.SEEK_SET)
    return os.read(lock, _TEXT)


def _write(lock: int, text: bytes) -> None:
    with suppress(OSError):  # the next write reports a full disk
        os.ftruncate(lock, 0)
        os.lseek(lock, 0, os.SEEK_SET)
        os.write(lock, text)


def _remove_if_unused(folder: Path, made: list[Path]) -> None:
    """Remove new folders if they hold nothing but the lock."""
    with suppress(OSError):
        if folder in made and os.listdir(folder) == [LOCK]:
            (folder / LOCK).unlink()
            for path in made:
                path.rmdir()
