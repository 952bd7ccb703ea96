"""Which files of a folder this program wrote: no other file is ever replaced or removed.

The folder holds a list of them, ``.lapsvm-files``: a first line that names the format, then one JSON string per line,
a path relative to the folder. A path is listed before its file is written, so a killed process leaves no file that the
list lacks. A file behind a symbolic link inside the folder is never replaced or removed, listed or not.
"""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath

from lapsvm.errors import SettingsError
from lapsvm.files import is_temporary, remove_stale, write_atomically

MARKER = ".lapsvm-files"
TABLES_MARKER = ".lapsvm-tables"  # in folders that hold tables of ours among anybody's files, and may be no run folder
HEADER = "lapsvm files 1"


class OwnedFiles:
    """The files of one folder that this program wrote.

    Parameters
    ----------
    folder : str or Path
    adopted : callable, optional
        Returns the files that count as written by this program where there is no list, or a damaged one.
    marker : str, default ".lapsvm-files"
        Name of the list.
    """

    def __init__(self, folder: str | Path, adopted: Callable[[], Iterable[Path]] = tuple, marker: str = MARKER) -> None:
        self.folder = Path(folder)
        self.marker = self.folder / marker
        self._adopted = adopted
        self._known: set[str] | None = None

    @property
    def is_marked(self) -> bool:
        """Whether the folder holds a list."""
        return self._stored() is not None

    def lists(self, path: Path) -> bool:
        """Return whether this program wrote a file, or was about to."""
        return self._name(path) in self._names()

    def owns(self, path: Path) -> bool:
        """Return whether a file is there that this program wrote, with no link on the way to it."""
        return self.lists(path) and path.is_file() and not self._is_linked(path)

    def check(self, paths: Iterable[Path]) -> None:
        """Raise unless every path is free, or holds a file that this program wrote.

        Raises
        ------
        SettingsError
            Naming the first file that is in the way.
        """
        for path in paths:
            if os.path.lexists(path) and not self.owns(path):
                raise SettingsError(f"{path} {self._reason(path)}, so it is not replaced; move it away.")

    def claim(self, paths: Iterable[Path]) -> None:
        """List files that are about to be written, and make their folders.

        Raises
        ------
        SettingsError
            If one is there that this program did not write. Nothing is listed then.
        WriteError
            If the list cannot be written.
        """
        wanted = list(paths)
        self.check(wanted)
        new = {self._name(path) for path in wanted} - self._names()
        for parent in dict.fromkeys(path.parent for path in wanted):
            parent.mkdir(parents=True, exist_ok=True)
        if new or (wanted and not self.is_marked):
            self._store(self._names() | new)

    def remove(self, paths: Iterable[Path]) -> list[Path]:
        """Remove files that this program wrote; others stay. Return what was removed; the list keeps its names."""
        owned = [path for path in paths if self.owns(path)]
        for path in owned:
            path.unlink(missing_ok=True)
        return owned

    def remove_stale(self) -> None:
        """Remove the temporary files that a killed process left beside the files of the list, or in their place."""
        names = self._names() | {self.marker.name}
        for folder in {(self.folder / name).parent for name in names}:
            if not self._is_linked(folder):
                remove_stale(folder, lambda name, folder=folder: self._name(folder / name) in names)

    def _names(self) -> set[str]:
        """Return the paths of the list, relative to the folder."""
        if self._known is None:
            stored = self._stored()
            self._known = {self._name(path) for path in self._adopted()} if stored is None else stored
        return self._known

    def _stored(self) -> set[str] | None:
        """Return what the list holds; None where there is none that is whole."""
        if self.marker.is_symlink() or not self.marker.is_file():
            return None
        try:
            header, *lines = self.marker.read_text(encoding="ascii").splitlines()
            names = [json.loads(line) for line in lines]
        except (ValueError, RecursionError):  # no text, no first line, or no JSON
            return None
        whole = header == HEADER and all(isinstance(name, str) and _is_inside(name) for name in names)
        return set(names) if whole else None

    def _store(self, names: set[str]) -> None:
        """Write the list, whole or not at all."""
        lines = [HEADER, *(json.dumps(name) for name in sorted(names))]
        write_atomically(self.marker, "".join(f"{line}\n" for line in lines).encode("ascii"))
        self._known = set(names)

    def _name(self, path: Path) -> str:
        """Return how the list names a file."""
        return path.relative_to(self.folder).as_posix()

    def _is_linked(self, path: Path) -> bool:
        """Return whether a path, or a folder between it and the owned folder, is a symbolic link."""
        parts = path.relative_to(self.folder).parts
        return any(self.folder.joinpath(*parts[: count + 1]).is_symlink() for count in range(len(parts)))

    def _reason(self, path: Path) -> str:
        """Return why a path may not be written."""
        if self._is_linked(path):
            return "is a symbolic link, or lies behind one"
        return "is a folder" if path.is_dir() else "was not written by lapsvm"


def _is_inside(name: str) -> bool:
    """Return whether a relative path stays in its folder, whoever wrote the list."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def is_leftover_list(name: str) -> bool:
    """Return whether a file name is that of a list which a killed process left half written."""
    return is_temporary(name) and name.startswith(f".{MARKER}.")


def table_files(
    folder: Path, name: str, key: str, suffixes: Sequence[str] = (".md",), *, write: bool = True
) -> list[Path]:
    """Return the files of a table, NAME.json first, once it is sure that they replace none of another program.

    Parameters
    ----------
    folder : Path
        May hold anything else.
    name : str
    key : str
        Entry of NAME.json by which tables are known that older versions wrote without a list.
    suffixes : sequence of str
        Of the files beside NAME.json.
    write : bool, default True
        Make the folder, and list the files as about to be written; if not, check only.

    Raises
    ------
    SettingsError
        If a file of these names is there that this program did not write.
    """
    paths = [folder / f"{name}{suffix}" for suffix in (".json", *suffixes)]
    files = OwnedFiles(folder, lambda: paths if _has_key(paths[0], key) else (), TABLES_MARKER)
    files.check(paths)
    if write:
        files.claim(paths)
    return paths


def _has_key(path: Path, key: str) -> bool:
    """Return whether a file holds a JSON object with an entry."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and key in content
