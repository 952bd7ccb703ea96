"""The user's cache folder: what can be made again, kept from one run to the next."""

import errno
import os
import stat
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from lapsvm.errors import LapsvmError, WriteError
from lapsvm.files import read_regular, write_atomically

VARIABLE = "LAPSVM_CACHE"
FULL = (errno.ENOSPC, errno.EDQUOT)
_MOST = 2**28  # bytes of a file
SYSTEM = 0  # the user that owns what administrators share


def cached(name: str, digest: str, make: Callable[[], bytes]) -> bytes:
    """Return the content of a file of the cache; it is made where it is not there, or damaged.

    Several processes may do that at once: each writes the whole file under a temporary name and renames it.

    Parameters
    ----------
    name : str
        Of the file.
    digest : str
        SHA-256 of the content, which is checked before it is used.
    make : callable
        Makes the content. Content with another digest is returned, but not kept.

    Raises
    ------
    WriteError
        If the file cannot be written, for instance because the disk is full.
    """
    for folder in _folders():
        content = _content_of(folder / name)
        if content is not None and sha256(content).hexdigest() == digest:
            return content
    content = make()
    if sha256(content).hexdigest() == digest:
        _keep(name, content)
    return content


def _folders() -> list[Path]:
    """Return the folders that may be the cache, the preferred one first.

    Where the environment has ``LAPSVM_CACHE``, that is the only one. Else there are the user's cache folder, and a
    folder of this user among the temporary ones, for homes that cannot be written.
    """
    named = os.environ.get(VARIABLE)
    return [Path(named)] if named else [*_in_home(), _temporary()]


def _in_home() -> list[Path]:
    """Return the user's cache folder; a relative XDG_CACHE_HOME does not count, and some users have no home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return [(Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "lapsvm"]
    except RuntimeError:
        return []


def _temporary() -> Path:
    """Return this user's folder among the temporary ones."""
    return Path(tempfile.gettempdir()) / f"lapsvm-{_user()}"


def _user() -> int:
    """Return the number of this user; Windows gives every file the system's, and each user temporary ones alone."""
    return os.getuid() if hasattr(os, "getuid") else SYSTEM


def _content_of(path: Path) -> bytes | None:
    """Return what a file holds; None if it cannot be read, or another user could replace it."""
    try:
        _check_owner(path.parent)
        return read_regular(path, "cache file", _MOST)
    except (OSError, LapsvmError):
        return None


def _keep(name: str, content: bytes) -> None:
    """Write a file into the first folder that can be written; a disk that is full is not tried to be got around.

    Raises
    ------
    WriteError
        If there is no such folder; it tells what is wrong with the preferred one.
    """
    problems = []
    for folder in _folders():
        try:
            _make_folder(folder)
            write_atomically(folder / name, content)
            return
        except OSError as error:
            reason = error.__cause__ if isinstance(error.__cause__, OSError) else error
            problems.append(f"{folder}: {reason.strerror or reason}")
            if reason.errno in FULL:
                break
    raise WriteError(
        f"cache file {name} could not be kept in {problems[0]}; set the environment variable {VARIABLE} to another "
        "folder."
    )


def _make_folder(folder: Path) -> None:
    """Make a folder if it is not there.

    Raises
    ------
    OSError
        If it cannot be made, or is another user's.
    """
    folder.mkdir(mode=0o700 if folder == _temporary() else 0o777, parents=True, exist_ok=True)
    _check_owner(folder)


def _check_owner(folder: Path) -> None:
    """Raise OSError unless a folder belongs to this user or the system's; the temporary one must be no link either."""
    found = folder.lstat() if folder == _temporary() else folder.stat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (_user(), SYSTEM):
        raise PermissionError(errno.EPERM, "belongs to another user", str(folder))
