"""Files that are whole or absent: a reader never meets one that is half written, and never waits for a pipe."""

import os
import stat
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from lapsvm.errors import MissingError, WriteError

SUFFIX = ".partial"

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
    temporary = path.parent / f".{path.name}.{token_hex(4)}{SUFFIX}"
    try:
        _write_and_sync(temporary, content)
        os.replace(temporary, path)
        _sync_folder(path.parent)
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


def _write_and_sync(path: Path, content: bytes | memoryview) -> None:
    """Write a new file and wait until it is on the disk."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Wait until a new name in a folder is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
