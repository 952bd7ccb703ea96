"""Files and folders that are whole or absent: a reader never meets one that is half written."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from lapsvm.errors import LapsvmError, MissingError, OptionError, WriteError

SUFFIX = ".partial"


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
    temporary = path.parent / f".{path.name}.{token_hex(4)}{SUFFIX}"
    try:
        _write_and_sync(temporary, content)
        os.replace(temporary, path)
        _sync(path.parent)
    except OSError as error:
        raise WriteError(f"file {path} could not be written: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def remove_stale(folder: str | Path) -> list[Path]:
    """Remove the temporary files that a killed process left in a folder.

    Parameters
    ----------
    folder : str or Path
        No other process may be writing there. A folder that does not exist has nothing to remove.

    Returns
    -------
    list of Path
        What was removed, sorted.
    """
    stale = sorted(Path(folder).glob(f".*{SUFFIX}"))
    for path in stale:
        path.unlink(missing_ok=True)
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
    temporary = path.parent / f".{path.name}.{token_hex(4)}{SUFFIX}"
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
        if not (temporary.name.startswith(f".{path.name}.") and temporary.name.endswith(SUFFIX) and temporary.is_dir()):
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
