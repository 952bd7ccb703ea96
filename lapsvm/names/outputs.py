"""Names of files that are made from the names of other files: short enough, allowed on every system, and different."""

import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain, count
from pathlib import PurePath

from lapsvm.names.matching import folded

LONGEST = 255
"""Bytes of the longest name of a file."""

_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])\s*(\..*)?", re.IGNORECASE | re.DOTALL)
_NOT_ALLOWED = re.compile(r'[<>:"|?*\\/\x00-\x1f]')  # in names of Windows, and of the disks that it shares


def allowed(name: str) -> str:
    """Return a name that every system takes, with "_" for signs, before a device's name, and for a last dot."""
    name = _NOT_ALLOWED.sub("_", name)
    if name.endswith((".", " ")):
        name = name[:-1] + "_"
    return f"_{name}" if _RESERVED.fullmatch(name) else name or "_"


def cut(name: str, most: int) -> str:
    """Return the longest beginning of a name, of whole letters, within a number of bytes."""
    n_letters = min(len(name), most)
    while n_bytes(name[:n_letters]) > most:
        n_letters -= 1
    return name[:n_letters]


def n_bytes(name: str) -> int:
    """Return how many bytes a name has on disk, also one that no disk takes."""
    try:
        return len(os.fsencode(name))
    except UnicodeEncodeError:
        return len(name.encode("utf-8", "surrogatepass"))


class OutputNames:
    """Names that are made one after the other, no two of which any system takes for the same."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def new(self, path: PurePath, suffixes: Sequence[str]) -> list[PurePath]:
        """Return the paths of a group of files that has not been named yet: a path, a number if needed, and a suffix.

        Parameters
        ----------
        path : PurePath
            Relative, without suffix.
        suffixes : sequence of str
            One for each file of the group.
        """
        folders = [cut(allowed(folder), LONGEST) for folder in path.parts[:-1]]
        room = LONGEST - max(map(n_bytes, suffixes))
        for stem in _numbered(path.name, room):
            paths = [PurePath(*folders, stem + suffix) for suffix in suffixes]
            keys = {folded(str(path)) for path in paths}
            if self._taken.isdisjoint(keys):
                break
        self._taken |= keys
        return paths


def _numbered(name: str, room: int) -> Iterator[str]:
    """Yield a name within a number of bytes, then name-2, name-3 and so on."""
    for number in chain([""], (f"-{number}" for number in count(2))):
        yield cut(allowed(name), room - len(number)) + number
