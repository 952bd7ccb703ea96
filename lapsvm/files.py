"""Files that are whole or absent: a reader never meets one that is half written."""

import os
from pathlib import Path
from secrets import token_hex

from lapsvm.errors import MissingError, WriteError

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
