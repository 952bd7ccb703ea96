"""Which pictures show the same: copies, versions of one original, and pictures whose names mean one object."""

import re
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lapsvm.arrays import Index
from lapsvm.catalog import ImageRecord
from lapsvm.names.matching import EXPORTED
from lapsvm.names.patterns import found_in

BEFORE_LAST = r"([^/]+)[-_ .]\w+$"
"""What stands before the last sign in a picture's name: "part01" of "good/part01-3"."""
_NUMBER_OF_ONE = re.compile(r"\d{1,2}|[^\W\d_]{1,6}")
Groups = Index | None
"""The group (n,) of every picture; None where each is on its own."""
_LEAST_OBJECTS, MOST_OF_ONE = 10, 12


def picture_groups(records: Sequence[ImageRecord], hashes: Sequence[str], *expressions: str) -> Index:
    """Return the group (n,) of every picture, which has the number of its first picture.

    Pictures are in one group if a chain of pictures joins them, each the same as the next: by its pixels, as a version
    that Roboflow made of the same original, or by the same match of an expression in its name.

    Parameters
    ----------
    records : sequence of n ImageRecord
    hashes : sequence of n str
        The hashes of their pixels, "" where one is not known.
    expressions : str
        Regular expressions. The first group of a match counts, or all of it; a picture without one is on its own.

    Raises
    ------
    OptionError
        If an expression is none, or takes too long.
    """
    objects = [object_names(records, expression) for expression in expressions if expression]
    first = dict[Hashable, int]()
    joined = [
        (first.setdefault(key, row), row)
        for row, (record, digest) in enumerate(zip(records, hashes, strict=True))
        for key in _keys(record, digest, [names[row] for names in objects])
    ]
    rows, others = np.array(joined, dtype=np.intp).reshape(-1, 2).T
    graph = coo_array((np.ones(len(joined), dtype=bool), (rows, others)), shape=(len(records), len(records)))
    _, labels = connected_components(graph, directed=False)
    _, starts = np.unique(labels, return_index=True)
    return np.asarray(starts[labels], dtype=np.intp)


def _keys(record: ImageRecord, digest: str, names: Sequence[str]) -> Iterator[Hashable]:
    """Yield the keys by which pictures are grouped; `names` are the names of its object, by expression."""
    if digest:
        yield "pixels", digest
    if original := original_of(record):
        yield "original", original
    for number, name in enumerate(names):
        if name:
            yield number, name


def looks_grouped(records: Sequence[ImageRecord]) -> list[str]:
    """Return the names of one object's pictures, where names look as if several pictures show one object; else [].

    Such a name ends in a sign and a short number or word behind another number ("part01-3", "7_left"). Half of the
    pictures must share what stands before it, in at least 10 groups of 12 or fewer on average: years, folds and
    numbered classes make larger ones.
    """
    groups: dict[str, list[str]] = {}
    for record in records:
        name = re.search(BEFORE_LAST, record.id)
        if name and re.search(r"\d", name[1]) and _NUMBER_OF_ONE.fullmatch(record.id, name.end(1) + 1):
            groups.setdefault(name[1], []).append(record.id)
    several = [names for names in groups.values() if len(names) > 1]
    n_pictures = sum(map(len, several))
    if len(several) < _LEAST_OBJECTS or n_pictures > MOST_OF_ONE * len(several) or 2 * n_pictures < len(records):
        return []
    return several[0]


def object_names(records: Sequence[ImageRecord], expression: str) -> list[str]:
    """Return the match of an expression in the name of each picture: its first group, or all of it; "" for none."""
    return found_in(expression, [record.id for record in records], "option --group (data.group)")


def original_of(record: ImageRecord) -> tuple[str, str] | None:
    """Return the part of a name that all versions by Roboflow share; None for a picture that is no version.

    In folders of classes equal names of originals are usual, so the name of the folder counts.
    """
    stem = record.path.stem
    return (record.path.parent.name, EXPORTED.sub("", stem)) if EXPORTED.search(stem) else None


def n_groups(groups: Index | None, chosen: NDArray[np.bool_]) -> int:
    """Return how many groups the chosen ones of n pictures are in; without groups each is one."""
    return int(np.count_nonzero(chosen)) if groups is None else len(np.unique(groups[chosen]))
