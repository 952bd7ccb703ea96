"""Files in a data folder that a reader ignores, counted by kind."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HIDDEN, BARE = "hidden", "without a suffix"


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


def _kinds(folder: Path, depth: int) -> Iterator[str]:
    """Yield the kind of each file, and "hidden" for each hidden folder."""
    for entry in os.scandir(folder):
        if entry.name.startswith("."):
            yield HIDDEN
        elif not entry.is_dir():
            yield os.path.splitext(entry.name)[1].lower() or BARE
        elif depth:
            yield from _kinds(Path(entry.path), depth - 1)
