"""Files in a data folder that a reader ignores, counted by kind."""

import os
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

HIDDEN, BARE, UNNAMED = "hidden", "without a suffix", "pictures in no row of the table"


def count_ignored(root: Path, suffixes: frozenset[str], depth: int) -> dict[str, int]:
    """Return kind -> number of files in a folder that are no pictures, the most frequent kind first.

    Parameters
    ----------
    root : Path
    suffixes : frozenset of str
        Suffixes of pictures, in lower case.
    depth : int
        Levels of subfolders that are read. Links are followed, hidden folders are not read.

    Returns
    -------
    dict of str to int
        A kind is a suffix in lower case, "hidden" (files and folders whose name starts with a dot) or "without a
        suffix".
    """
    counts = Counter(kind for kind in _kinds(root, depth) if kind not in suffixes)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def count_unnamed(root: Path, named: Collection[Path], suffixes: frozenset[str]) -> dict[str, int]:
    """Return the number of pictures below a folder that a table does not name, as {kind: number}; {} for none.

    Parameters
    ----------
    root : Path
    named : collection of Path
        The pictures that the table names.
    suffixes : frozenset of str
        Suffixes of pictures, in lower case.
    """
    known = {os.path.normpath(path) for path in named}
    count = sum(
        _kind(name) in suffixes and os.path.normpath(os.path.join(folder, name)) not in known
        for folder, _, names in os.walk(root)
        for name in names
    )
    return {UNNAMED: count} if count else {}


def _kind(name: str) -> str:
    """Return the kind of a file by its name."""
    return HIDDEN if name.startswith(".") else os.path.splitext(name)[1].lower() or BARE


def _kinds(folder: Path, depth: int) -> Iterator[str]:
    """Yield the kind of each file, and "hidden" for each hidden folder."""
    for entry in os.scandir(folder):
        if entry.name.startswith(".") or not entry.is_dir():
            yield _kind(entry.name)
        elif depth:
            yield from _kinds(Path(entry.path), depth - 1)
