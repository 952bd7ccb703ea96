"""Files and folders that are whole or absent: a reader never meets one that is half written, or waits for a pipe."""

import fcntl
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from lapsvm.errors import LapsvmError, MissingError, OptionError, WriteError

SUFFIX = ".partial"
_TEMPORARY = re.compile(rf"\.(?P<name>.+)\.[0-9a-f]{{8}}{re.escape(SUFFIX)}", re.DOTALL)

NOT_PARSED = (ValueError, RecursionError)
"""What the parsers of JSON and TOML raise: bad text, bad UTF-8, integers of too many digits, too deep a nesting."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: str | Path, what: str) -> BinaryIO:
    """Open a regular file, or a link to one, for reading bytes.

    A named pipe, which would wait until somebody writes to it, and a device are refused.

    Parameters
    ----------
    path : str or Path
    what : str
        What an error calls the file, for instance "picture".

    Returns
    -------
    binary file

    Raises
    ------
    MissingError
        If there is no such file, it is no regular file, or the system refuses to open it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        end = ": the link leads to nothing" if os.path.islink(path) else ""
        raise MissingError(f"{what} {path} is not there{end}.") from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = error.strerror if isinstance(error, OSError) else error
        raise MissingError(f"{what} {path} cannot be opened: {reason}.") from None
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        found = _KINDS.get(kind, "something else")
        raise MissingError(f"{what} {path} cannot be read: it must be a regular file, got {found}.")
    return os.fdopen(descriptor, "rb")


def read_regular(path: str | Path, what: str) -> bytes:
    """Return the content of a regular file; see `open_regular`.

    Raises
    ------
    MissingError
        As `open_regular`, or if the system fails to read it.
    """
    try:
        with open_regular(path, what) as file:
            return file.read()
    except MissingError:
        raise
    except OSError as error:
        raise MissingError(f"{what} {path} cannot be read: {error.strerror or error}.") from None


def is_named(path: str | Path) -> bool:
    """Return whether a name exists, be it a link that leads to nothing: what is optional must be absent, not broken."""
    return os.path.lexists(path)


def write_atomically(path: str | Path, content: bytes | memoryview) -> None:
    """Write a file under a temporary name, sync it, and only then give it its name.

    The temporary file lies in the same folder as ``.<name>.<random>.partial``. Whatever goes wrong, it is removed
    and an older file of that name stays as it was; only a killed process leaves one behind (see `remove_stale`).

    Parameters
    ----------
    path : str or Path
        In a folder that exists.
    content : bytes-like

    Raises
    ------
    MissingError
        If the folder does not exist.
    WriteError
        If the system refuses, for instance because the disk is full.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise MissingError(f"folder {path.parent} is not there, so {path.name} cannot be written.")
    temporary = temporary_name(path)
    try:
        _write_and_sync(temporary, content)
        os.replace(temporary, path)
        _sync(path.parent)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise WriteError(f"file {path} could not be written: {reason}.") from error
    finally:
        with suppress(OSError, ValueError):  # of a name that is too long
            temporary.unlink(missing_ok=True)


def temporary_name(path: Path) -> Path:
    """Return a new name beside a path under which its content may be written first; `remove_stale` knows it."""
    return path.parent / f".{path.name}.{token_hex(4)}{SUFFIX}"


def is_temporary(name: str) -> bool:
    """Return whether a file name is one that `write_atomically` writes under."""
    return _TEMPORARY.fullmatch(name) is not None


def remove_stale(folder: str | Path, is_ours: Callable[[str], bool] | None = None) -> list[Path]:
    """Remove the temporary files that a killed process left in a folder.

    Parameters
    ----------
    folder : str or Path
        No other process may be writing there. A folder that does not exist has nothing to remove.
    is_ours : callable, optional
        Gets the name that a temporary file would have been given; where it returns False, the file stays. By default
        all go whose names are those that `write_atomically` writes under; links and folders always stay.

    Returns
    -------
    list of Path
        What was removed, sorted.
    """
    stale = []
    for path in sorted(Path(folder).glob(f".*{SUFFIX}")):
        found = _TEMPORARY.fullmatch(path.name)
        if found and (is_ours is None or is_ours(found["name"])) and path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)
            stale.append(path)
    return stale


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` when the block ends without an error.

    The temporary folder lies beside `path` as ``.<name>.<random>.partial``. Its files are synced before it is renamed.
    After an error or an interruption it is removed, and `path` is as it was. A killed process leaves its temporary
    folder behind; the next call for the same `path` removes it.

    Parameters
    ----------
    path : str or Path
        A folder that is empty or does not exist; its parents are made.

    Yields
    ------
    Path

    Raises
    ------
    OptionError
        If `path` is a file, or a folder that is not empty.
    WriteError
        If the system refuses, for instance because the disk is full.
    """
    path = Path(path).resolve()
    _check_vacant(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path)
        with _temporary_folder(path) as temporary:
            yield temporary
            _sync_tree(temporary)
            os.replace(temporary, path)
            _sync(path.parent)
    except OSError as error:
        if isinstance(error, LapsvmError):
            raise
        raise WriteError(f"folder {path} could not be written: {error.strerror or error}.") from error


def _check_vacant(path: Path) -> None:
    """Raise OptionError unless a new folder may take this name."""
    if path.is_dir() and any(path.iterdir()):
        raise OptionError(f"folder {path} must be empty or not exist, got a folder with files in it.")
    if path.exists() and not path.is_dir():
        raise OptionError(f"folder {path} must be empty or not exist, got a file of that name.")


@contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    """Yield a locked folder beside `path`, removed at the end if it is still there."""
    temporary = temporary_name(path)
    temporary.mkdir()
    descriptor = os.open(temporary, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield temporary
    finally:
        os.close(descriptor)
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_abandoned(path: Path) -> None:
    """Remove the temporary folders for `path` whose process has ended: a living one holds the lock on its own."""
    for temporary in path.parent.iterdir():
        found = _TEMPORARY.fullmatch(temporary.name)
        if found is None or found["name"] != path.name or temporary.is_symlink() or not temporary.is_dir():
            continue
        descriptor = os.open(temporary, os.O_RDONLY)
        try:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(temporary, ignore_errors=True)
        finally:
            os.close(descriptor)


def _sync_tree(folder: Path) -> None:
    """Wait until every file and name below a folder is on the disk; what links lead to is left alone."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            if not path.is_symlink():
                _sync(path)
        _sync(Path(parent))


def _write_and_sync(path: Path, content: bytes | memoryview) -> None:
    """Write a new file and wait until it is on the disk."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    """Wait until a folder's names, or a file's content, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
