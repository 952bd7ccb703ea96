"""Files that are there whole or not at all."""

import os
from pathlib import Path

STALE_SUFFIX = ".partial"


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write `data` to a temporary name beside `path`, sync it, and rename it.

    A reader sees the old file or the new one, never a part, even after a power cut. When writing fails (a full disk,
    for instance) the temporary file is removed and the old file stays.

    Parameters
    ----------
    path : str or Path
        Its folder must be there.
    data : bytes

    Raises
    ------
    OSError
        As the system gives it.
    """
    path = Path(path)
    partial = path.with_name(path.name + STALE_SUFFIX)
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def remove_stale(folder: str | Path) -> None:
    """Remove the temporary files that a killed run left in `folder`."""
    for partial in Path(folder).glob(f"*{STALE_SUFFIX}"):
        partial.unlink()


def _sync_folder(folder: Path) -> None:
    """Make a rename last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
