"""Atomic writes of files and folders, locks, and reads that accept regular files only.

Windows has no fcntl, does not open folders, and lacks some flags: each has its alternative here.
"""

import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from lapsvm.errors import DataError, LapsvmError, MissingError, OptionError, WriteError
from lapsvm.names.outputs import LONGEST, cut

LARGEST = 2**34
"""Bytes of the largest file that is read whole: 16 GiB."""

SMALL_FILE = 2**28
"""Bytes of the largest file of settings, notes or figures that is read: 256 MiB."""

SUFFIX = ".partial"
_TEMPORARY = re.compile(rf"\.(?P<name>.+)\.[0-9a-f]{{8}}{re.escape(SUFFIX)}", re.DOTALL)

NOT_PARSED = (ValueError, RecursionError)
"""Errors of the JSON and TOML parsers: bad syntax, bad UTF-8, too long integers, too deep nesting."""

_HAS_FOLDER_DESCRIPTORS = hasattr(os, "O_DIRECTORY")
_LOCKED_BYTE = 2**30  # Windows locks bytes against reading too: one behind everything that a lock file says


def open_flags(*names: str) -> int:
    """Return the flags of `os.open` with these names, without those that the system does not have."""
    flags = 0
    for name in (*names, "O_BINARY"):  # Windows translates line ends otherwise
        flags |= getattr(os, name, 0)
    return flags


def lock_descriptor(descriptor: int) -> None:
    """Lock an open file for this process until it is closed; BlockingIOError or PermissionError if another has it.

    Nothing is locked on a system that has neither fcntl nor msvcrt.
    """
    try:
        import fcntl
    except ModuleNotFoundError:
        _lock_byte(descriptor)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock_byte(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)


def open_regular(path: str | Path, what: str, most: int = LARGEST) -> BinaryIO:
    """Open a regular file, or a link to one, for reading bytes.

    Named pipes, whose opening blocks until another process writes, and devices are refused.

    Parameters
    ----------
    path : str or Path
    what : str
        Name of the file's kind in error messages, for instance "picture".
    most : int, default 16 GiB
        Bytes of the largest file that is opened.

    Returns
    -------
    binary file

    Raises
    ------
    MissingError
        If the file does not exist, is not a regular file, or cannot be opened.
    DataError
        If it is larger than `most`.
    """
    try:
        descriptor = os.open(path, open_flags("O_RDONLY", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC"))
    except (FileNotFoundError, NotADirectoryError):
        end = ": the link leads to nothing" if os.path.islink(path) else ""
        raise MissingError(f"{what} {path} is not there{end}.") from None
    except (OSError, ValueError) as error:  # ValueError: an invalid file name
        reason = error.strerror if isinstance(error, OSError) else error
        raise MissingError(f"{what} {path} cannot be opened: {reason}.") from None
    try:
        _check_status(os.fstat(descriptor), path, what, most)
    except LapsvmError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _check_status(status: os.stat_result, path: str | Path, what: str, most: int) -> None:
    """Raise MissingError unless an open file is a regular one, DataError if it is too large."""
    if not stat.S_ISREG(status.st_mode):
        actual = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe, a socket or a device"
        raise MissingError(f"{what} {path} cannot be read: it must be a regular file, got {actual}.")
    if status.st_size > most:
        raise DataError(f"{what} {path} must have at most {most:,} bytes, got {status.st_size:,}.")


def check_regular(path: str | Path, what: str, most: int = LARGEST) -> None:
    """Raise the error of `open_regular`, if it has one: for libraries that open files by their names."""
    open_regular(path, what, most).close()


def read_regular(path: str | Path, what: str, most: int = LARGEST) -> bytes:
    """Return the content of a regular file, without later bytes of another process (see `open_regular`).

    Raises
    ------
    MissingError, DataError
        As `open_regular`, or if reading fails or there is not enough memory.
    """
    try:
        with open_regular(path, what, most) as file:
            return file.read(os.fstat(file.fileno()).st_size)
    except MissingError:
        raise
    except OSError as error:
        raise MissingError(f"{what} {path} cannot be read: {error.strerror or error}.") from None
    except MemoryError:
        raise DataError(f"{what} {path} must fit into the memory.") from None


def is_named(path: str | Path) -> bool:
    """Return whether a name exists, including broken links: an optional file must be absent, not broken."""
    return os.path.lexists(path)


def write_atomically(path: str | Path, *content: bytes | memoryview) -> None:
    """Write a file under a temporary name, sync it, and rename it.

    The temporary file is ``.<name>.<random>.partial`` in the same folder. After an error it is removed and an older
    file of the name is unchanged. Only a killed process leaves a temporary file (see `remove_stale`).

    Parameters
    ----------
    path : str or Path
        Its folder must exist.
    *content : bytes-like
        Parts of the file, one after the other.

    Raises
    ------
    MissingError
        If the folder does not exist.
    WriteError
        If the system fails to write, for instance because the disk is full.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise MissingError(f"folder {path.parent} is not there, so {path.name} cannot be written.")
    temporary = temporary_name(path)
    try:
        with temporary.open("xb") as file:
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync(path.parent)
    except (OSError, ValueError) as error:  # ValueError: an invalid file name
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise WriteError(f"file {path} could not be written: {reason}.") from error
    finally:
        with suppress(OSError, ValueError):  # the name may be too long
            temporary.unlink(missing_ok=True)


def make_folder(path: Path) -> list[Path]:
    """Make a folder and its missing parents, and wait until their names are on disk.

    What a folder holds is lost with its name, however well its files were synced.

    Returns
    -------
    list of Path
        The new folders, the innermost first.

    Raises
    ------
    OSError
        If the system refuses.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for made in reversed(missing):
        sync(made.parent)
    return missing


def unshare(path: Path) -> None:
    """Replace a file that has other names by a copy of its own, before it is written in place.

    Copies of a folder by hard links (``cp -l``, ``rsync --link-dest``) share their files; what is replaced as a whole
    changes one of them alone in any case. A missing file and a symbolic link stay.

    Raises
    ------
    MissingError, DataError, WriteError
        If it cannot be copied.
    """
    with suppress(FileNotFoundError):
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            write_atomically(path, read_regular(path, "file"))


def temporary_name(path: Path) -> Path:
    """Return a new temporary name for a path, in its folder, that `remove_stale` recognises."""
    return path.parent / f".{_begun(path.name)}.{token_hex(4)}{SUFFIX}"


def _begun(name: str) -> str:
    """Return the part of a name that its temporary names have."""
    return cut(name, LONGEST - len(f"..{8 * '0'}{SUFFIX}"))


def is_temporary(name: str) -> bool:
    """Return whether a file name is a temporary name of `write_atomically`."""
    return _TEMPORARY.fullmatch(name) is not None


def remove_stale(folder: str | Path, is_ours: Callable[[str], bool] | None = None) -> list[Path]:
    """Remove the temporary files of killed processes from a folder.

    Parameters
    ----------
    folder : str or Path
        No other process may write to it. The folder may be missing.
    is_ours : callable, optional
        Receives the final name of a temporary file and returns whether to remove it. By default all temporary files of
        `write_atomically` are removed; links and folders never are.

    Returns
    -------
    list of Path
        The removed files, sorted.
    """
    stale = []
    for path in sorted(Path(folder).glob(f".*{SUFFIX}")):
        name = _final_name(path.name)
        if name and (is_ours is None or is_ours(name)) and path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)
            stale.append(path)
    return stale


def _final_name(name: str) -> str:
    """Return the name that a temporary name, or one of a temporary file's, stands for. "" for any other name."""
    match = _TEMPORARY.fullmatch(name)
    return "" if match is None else _final_name(match["name"]) or match["name"]


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` when the block ends without an error.

    The temporary folder is ``.<name>.<random>.partial`` in the same parent folder. Its files are synced before it is
    renamed. After an error or interruption it is removed and `path` is unchanged. The temporary folder of a killed
    process is removed by the next call for the same `path`.

    Parameters
    ----------
    path : str or Path
        A folder that is empty or does not exist; missing parents are created.

    Yields
    ------
    Path

    Raises
    ------
    OptionError
        If `path` is a file, or a folder that is not empty.
    WriteError
        If the system fails to write, for instance because the disk is full.
    """
    path = Path(path).resolve()
    check_vacant(path)
    try:
        make_folder(path.parent)
        _remove_abandoned(path)
        with _temporary_folder(path) as temporary:
            yield temporary
            _sync_tree(temporary)
            _replace_folder(temporary, path)
            sync(path.parent)
    except OSError as error:
        if isinstance(error, LapsvmError):
            raise
        raise WriteError(f"folder {path} could not be written: {error.strerror or error}.") from error


def _replace_folder(temporary: Path, path: Path) -> None:
    """Rename a folder to a name that is free, or an empty folder's; Windows renames over no folder."""
    if not _HAS_FOLDER_DESCRIPTORS and path.is_dir():
        path.rmdir()
    os.replace(temporary, path)


def check_vacant(path: Path) -> None:
    """Raise OptionError unless `new_folder` may take this name: for callers with much to do before."""
    if path.is_dir() and any(path.iterdir()):
        raise OptionError(f"folder {path} must be empty or not exist, got a folder with files in it.")
    if path.exists() and not path.is_dir():
        raise OptionError(f"folder {path} must be empty or not exist, got a file of that name.")


@contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    """Yield a locked temporary folder for `path`, and remove it at the end if it still exists."""
    temporary = temporary_name(path)
    temporary.mkdir()
    try:
        with _folder_descriptor(temporary) as descriptor:
            if descriptor is not None:
                lock_descriptor(descriptor)
            yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_abandoned(path: Path) -> None:
    """Remove the temporary folders for `path` that no living process has locked; none where folders have no locks."""
    for temporary in path.parent.iterdir():
        if _final_name(temporary.name) != _begun(path.name) or temporary.is_symlink() or not temporary.is_dir():
            continue
        with _folder_descriptor(temporary) as descriptor, suppress(BlockingIOError):
            if descriptor is not None:
                lock_descriptor(descriptor)
                shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _folder_descriptor(path: Path) -> Iterator[int | None]:
    """Yield the descriptor of a folder. None where the system opens no folders."""
    descriptor = os.open(path, os.O_RDONLY) if _HAS_FOLDER_DESCRIPTORS else None
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _sync_tree(folder: Path) -> None:
    """Wait until every file and name below a folder is on disk; links are not followed."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            if not path.is_symlink():
                sync(path)
        sync(Path(parent))


def sync(path: Path) -> None:
    """Wait until a folder's names, or a file's content, are on disk; Windows does so for files open to write alone."""
    if not _HAS_FOLDER_DESCRIPTORS and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY if _HAS_FOLDER_DESCRIPTORS else os.O_RDWR)
    try:
        os.fsync(descriptor)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(descriptor)
