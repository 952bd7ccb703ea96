"""The list of files that this program wrote in a folder: it replaces and removes no others, and keeps out of the data.

The list ``.lapsvm-files`` has a first line that names the format, then one JSON string per line, a path relative to the
folder. A path is listed before its file is written, so a killed process leaves no unlisted file. A file behind a
symbolic link inside the folder is never replaced or removed.
"""

import json
import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from lapsvm.detection.detector import FORMAT
from lapsvm.errors import OptionError, SettingsError
from lapsvm.files import SMALL_FILE, is_temporary, make_folder, read_regular, remove_stale, sync, write_atomically
from lapsvm.model_files import stored_format

from ..settings.settings import DataSettings
from .folder_lock import LOCK, is_lock

MARKER = ".lapsvm-files"
TABLES_MARKER = ".lapsvm-tables"  # in folders that hold our tables among any files and need not be run folders
HEADER = "lapsvm files 1"
GENERATED = "data"  # the folder inside a run that the data set "digits" may be generated in
GENERATED_SETTINGS = "digits.toml"


class OwnedFiles:
    """The files of one folder that this program wrote, by the list `marker`; none where it is missing or damaged."""

    def __init__(self, folder: str | Path, marker: str = MARKER) -> None:
        self.folder = Path(folder)
        self.marker = self.folder / marker
        self._known: set[str] | None = None

    @property
    def is_marked(self) -> bool:
        """Whether the folder holds a list."""
        return self._stored() is not None

    def lists(self, path: Path) -> bool:
        """Return whether a file is listed, written or not."""
        return self._name(path) in self._names()

    def owns(self, path: Path) -> bool:
        """Return whether there is a listed file, not behind a symbolic link."""
        return self.lists(path) and path.is_file() and not self._is_linked(path)

    def check(self, paths: Iterable[Path]) -> None:
        """Raise SettingsError for the first path with a file that this program did not write."""
        for path in paths:
            if os.path.lexists(path) and not self.owns(path):
                raise SettingsError(f"{path} {self._reason(path)}, so it is not replaced; move it away.")

    def claim(self, paths: Iterable[Path]) -> None:
        """List files before they are written, and make their folders.

        Raises SettingsError, and lists nothing, if this program did not write one that exists; WriteError if the list
        cannot be written.
        """
        claimed = list(paths)
        self.check(claimed)
        new = {self._name(path) for path in claimed} - self._names()
        if new or (claimed and not self.is_marked):  # first: folders without the list would be another program's
            make_folder(self.folder)
            self._store(self._names() | new)
        for parent in dict.fromkeys(path.parent for path in claimed):
            make_folder(parent)

    def lost(self, *patterns: str) -> list[Path]:
        """Return the listed files that are not there, sorted, of those whose relative path matches a pattern."""
        names = (name for name in self._names() if any(fnmatchcase(name, pattern) for pattern in patterns))
        return sorted(path for name in names if not os.path.lexists(path := self.folder / name))

    def forget(self, paths: Iterable[Path]) -> None:
        """Take files that are not there off the list, because they belong to the folder no more."""
        if gone := {self._name(path) for path in paths if not os.path.lexists(path)} & self._names():
            self._store(self._names() - gone)

    def remove(self, paths: Iterable[Path]) -> list[Path]:
        """Remove the files that this program wrote, also from the disk, and return them; they stay listed.

        Else a power failure would bring back what a command said is gone, such as a damaged file.
        """
        owned = [path for path in paths if self.owns(path)]
        for path in owned:
            path.unlink(missing_ok=True)
        for folder in sorted({path.parent for path in owned}):
            sync(folder)
        return owned

    def remove_stale(self) -> None:
        """Remove the temporary files that a killed process left for listed files."""
        names = self._names() | {self.marker.name}
        for folder in {(self.folder / name).parent for name in names}:
            if not self._is_linked(folder):
                listed = {Path(name).name for name in names if (self.folder / name).parent == folder}
                remove_stale(folder, listed.__contains__)

    def _names(self) -> set[str]:
        """Return the listed paths, relative to the folder."""
        if self._known is None:
            self._known = self._stored() or set()
        return self._known

    def _stored(self) -> set[str] | None:
        """Return the content of the list; None if it is missing or damaged."""
        if self.marker.is_symlink() or not self.marker.is_file():
            return None
        try:
            header, *lines = read_regular(self.marker, "list", SMALL_FILE).decode("ascii").splitlines()
            names = [json.loads(line) for line in lines]
        except (OSError, ValueError, RecursionError):  # not text, no first line, or not JSON
            return None
        is_valid = header == HEADER and all(isinstance(name, str) and _is_inside(name) for name in names)
        return set(names) if is_valid else None

    def _store(self, names: set[str]) -> None:
        lines = [HEADER, *(json.dumps(name) for name in sorted(names))]
        write_atomically(self.marker, "".join(f"{line}\n" for line in lines).encode("ascii"))
        self._known = set(names)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _is_linked(self, path: Path) -> bool:
        """Return whether a path, or a folder between it and our folder, is a symbolic link."""
        parts = path.relative_to(self.folder).parts
        return any(self.folder.joinpath(*parts[: count + 1]).is_symlink() for count in range(len(parts)))

    def _reason(self, path: Path) -> str:
        if self._is_linked(path):
            return "is a symbolic link or lies behind one"
        return "is a folder" if path.is_dir() else "was not written by lapsvm"


def _is_inside(name: str) -> bool:
    """Return whether a relative path stays in its folder."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def table_files(folder: Path, name: str, suffixes: Sequence[str] = (".md",), *, write: bool = True) -> list[Path]:
    """Return the files of a table, NAME.json and those with `suffixes`, after listing them (`write`) or only checking.

    Raises SettingsError if this program did not write one that exists.
    """
    paths = [folder / f"{name}{suffix}" for suffix in (".json", *suffixes)]
    files = OwnedFiles(folder, TABLES_MARKER)
    (files.claim if write else files.check)(paths)
    return paths


def is_of_another_program(path: Path) -> bool:
    """Return whether a model's file in a folder of models is a valid one of another format, not a damaged detector."""
    is_model = path.suffix == ".safetensors" and path.parent.name in ("models", "first")
    kind = stored_format(path) if is_model else None
    return kind is not None and kind != FORMAT


def check_is_run(folder: Path, files: OwnedFiles) -> None:
    """Raise SettingsError unless a folder is new, empty or a run folder; OptionError if it is a file."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise OptionError(f"option --out must name a folder, got the file {folder}.")
    if files.is_marked:
        return
    if others := sorted(path for path in folder.iterdir() if not _is_leftover(path)):
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
    return is_temporary(path.name) and path.name.startswith(f".{MARKER}.")  # a list that was being written


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
