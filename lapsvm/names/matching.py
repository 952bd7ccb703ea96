"""Which of some names another name means: the form of accents, the case of letters and separators do not count."""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Generic, TypeVar
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

from lapsvm.names.kinds import SUFFIX_WORDS, is_system_name

Parts = tuple[str, ...]
T = TypeVar("T")

EXPORTED = re.compile(rf"_(?:{SUFFIX_WORDS})\.rf\.\w+(?:\.\w+)?$", re.IGNORECASE)
"""What Roboflow puts behind the name of a picture of which it makes a version."""

_UPLOADED = re.compile(r"^(?:.*[/\\])?[0-9a-f]{8}-(?=[^/\\]+$)", re.IGNORECASE)
"""What Label Studio puts before the name of a file that it was given, in a folder of its own."""


def composed(name: str) -> str:
    """Return a name with its accents in one form (Unicode's NFC)."""
    return normalize("NFC", name)


def folded(name: str) -> str:
    """Return a name with one form of accents and one case of letters."""
    return composed(composed(name).casefold())


def with_slashes(name: str) -> str:
    """Return a path with "/" between its folders, as Windows does not write it."""
    return name.replace("\\", "/")


def path_parts(name: str) -> Parts:
    """Return the parts of a path of any system, without a root, in one form of accents."""
    return tuple(folder for folder in with_slashes(composed(name)).split("/") if folder not in ("", "."))


def with_originals(names: Iterable[str]) -> tuple[str, ...]:
    """Return names, and behind them those that the files may have had before other programs took them in.

    These quote a name as in an address, put eight digits and a hyphen before it, or a suffix and a hash behind it.
    """
    given = tuple(names)
    plain = [unquote(name) for name in given]
    return tuple(dict.fromkeys((*given, *plain, *(EXPORTED.sub("", _UPLOADED.sub("", name)) for name in plain))))


def name_in_address(address: str) -> str:
    """Return the path of a picture in an address of Label Studio: its field "d", or else the address's own path."""
    parts = urlsplit(address)
    fields = dict(field.partition("=")[::2] for field in parts.query.split("&"))
    return unquote(fields.get("d", parts.path))  # "+" is a letter of a name here


_FORMS: tuple[Callable[[str], str], ...] = (str, composed, folded)


class NameIndex(Generic[T]):
    """Values by name, of which several may have one.

    A name means the values of the same name; if there are none, those of the name in the other form of its accents; if
    there are none either, those of a name that differs in the case of its letters alone, as on systems where it does
    not count.

    Parameters
    ----------
    entries : iterable of (name, value)
    """

    def __init__(self, entries: Iterable[tuple[str, T]]) -> None:
        self._levels: list[dict[str, list[T]]] = [defaultdict(list) for _ in _FORMS]
        for name, value in entries:
            for level, form in zip(self._levels, _FORMS, strict=True):
                level[form(name)].append(value)

    def meant(self, name: str) -> list[T]:
        """Return the values that a name means, in the order of the entries."""
        meanings = (level.get(form(name)) for level, form in zip(self._levels, _FORMS, strict=True))
        return next((values for values in meanings if values), [])


def common_folders(name: Sequence[str], path: Sequence[str]) -> tuple[int, int]:
    """Return how many folders above two files are the same, counted from the file upwards: in any case, and exactly."""
    pairs = list(zip(reversed(name[:-1]), reversed(path[:-1]), strict=False))
    alike = sum(1 for _ in takewhile(lambda pair: folded(pair[0]) == folded(pair[1]), pairs))
    return alike, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class FilesOnDisk:
    """Files by their paths, also by paths that write the names otherwise than the disk has them.

    A name with other accents (NFC, NFD), of other case, or quoted as in an address is found where it means one file.
    Every folder is read once.
    """

    def __init__(self) -> None:
        self._names: dict[Path, frozenset[str]] = {}
        self._indexes: dict[Path, NameIndex[str]] = {}

    def find(self, path: Path) -> Path:
        """Return the path as the disk has it; unchanged where there is no such file."""
        if path == path.parent or path.name in self._listed(path.parent):
            return path
        folder = path.parent if self._listed(path.parent) else self.find(path.parent)
        if folder not in self._indexes:
            self._indexes[folder] = NameIndex((name, name) for name in self._listed(folder))
        index = self._indexes[folder]
        names = index.meant(path.name) or index.meant(unquote(path.name))
        return folder / names[0] if len(names) == 1 else path

    def has(self, path: Path) -> bool:
        """Return whether there is a file or folder of exactly this path, also a broken link."""
        return path.name in self._listed(path.parent)

    def _listed(self, folder: Path) -> frozenset[str]:
        """Return the names in a folder; none if it is not there, or cannot be read."""
        if folder not in self._names:
            try:
                self._names[folder] = frozenset(os.listdir(folder))
            except (OSError, ValueError):
                self._names[folder] = frozenset()
        return self._names[folder]


def files_of_users(folder: Path, pattern: str) -> list[Path]:
    """Return the files and folders of users below a folder that match a pattern, sorted."""
    paths = sorted(folder.rglob(pattern))
    return [path for path in paths if not any(map(is_system_name, path.relative_to(folder).parts))]
