"""Which folders are run folders, which of their files lapsvm wrote, and whether they overlap the data."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from lapsvm.detection.detector import FORMAT
from lapsvm.errors import OptionError, SettingsError
from lapsvm.model_files import stored_format

from .folder_lock import LOCK, is_lock
from .ownership import MARKER, OwnedFiles, is_leftover_list
from .settings import DataSettings

GENERATED = "data"  # the folder inside a run that the data set "digits" may be generated in
GENERATED_SETTINGS = "digits.toml"


def is_of_another_program(path: Path) -> bool:
    """Return whether a file in a folder of models is a valid file of another format, not a damaged detector."""
    kind = stored_format(path) if path.parent.name in ("models", "first") else None
    return kind is not None and kind != FORMAT


def check_is_run(folder: Path, files: OwnedFiles) -> None:
    """Raise SettingsError unless a folder is new, empty or a run folder; OptionError if it is a file."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise OptionError(f"option --out must name a folder, got the file {folder}.")
    if files.is_marked:
        return
    others = sorted(path for path in folder.iterdir() if not _is_leftover(path))
    if others:
        raise SettingsError(
            f"folder {folder} must be new, empty or a run folder to be used as --out, but holds {others[0]} and no "
            f"valid {MARKER}, the list of lapsvm's files in a run."
        )


def _is_leftover(path: Path) -> bool:
    """Return whether a command that was killed before it listed its first file may have left this path."""
    if path.is_symlink():
        return False
    if path.is_dir():
        partial = re.fullmatch(rf"\.{GENERATED}\.[0-9a-f]{{8}}\.partial", path.name) is not None
        return partial or (path.name == GENERATED and (path / GENERATED_SETTINGS).is_file())
    if path.name == LOCK:
        return is_lock(path)
    return is_leftover_list(path.name)


def check_apart(out: Path, data: DataSettings) -> None:
    """Raise OptionError if an output folder overlaps the root of a data set, links resolved.

    The folder ``data`` of the run itself may hold generated digits.
    """
    is_generated = data.name == "digits" and Path(data.root).resolve() == (out / GENERATED).resolve()
    if data.root and not is_generated:
        check_folders_apart(out, [Path(data.root)])


def check_outside(out: Path, data: DataSettings) -> None:
    """Raise OptionError if an output folder lies in the root of a data set, links resolved."""
    if data.root and _contains(Path(data.root).resolve(), out.resolve()):
        raise OptionError(f"option --out must not lie in the folder of the data {data.root}, got {out}.")


def check_folders_apart(out: Path, folders: Iterable[Path]) -> None:
    """Raise OptionError if an output folder lies in a folder of the data, or contains one."""
    output = out.resolve()
    for folder in folders:
        root = folder.resolve()
        if _contains(root, output):
            raise OptionError(f"option --out must not lie in the folder of the data {folder}, got {out}.")
        if _contains(output, root):
            raise OptionError(f"the data must not lie in the output folder, got {folder} in --out {out}.")


def _contains(outer: Path, inner: Path) -> bool:
    """Return whether a resolved path is `outer` or lies in it, also under other names of the same folder."""
    if outer == inner or outer in inner.parents:
        return True
    return outer.is_dir() and any(path.is_dir() and os.path.samefile(path, outer) for path in (inner, *inner.parents))
