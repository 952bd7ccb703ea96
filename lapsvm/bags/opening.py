"""From shards to a store: as many as fit stay in memory, in one array, the others in their files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from lapsvm._ext import bags as _kernel
from lapsvm.arrays import Array, Index
from lapsvm.bags.parts import FilePart, MemoryPart, Part, Transform
from lapsvm.bags.scoring import aligned_empty, as_stored
from lapsvm.bags.store import Store
from lapsvm.bfloat16 import named_type
from lapsvm.errors import NotFiniteError
from lapsvm.features import ShardHeader, ShardSet

_KEPT_SHARE = 8  # a part of the memory in so many is for single windows that were used lately
_ROOM = 64 << 20  # bytes of the blocks that wait to be worked on, at most a few chunks
_BOOKS = 4  # bytes of a window's place among the rows that are kept


class Visitor(Protocol):
    """What sees the features of every shard once, such as `lapsvm.features.BlockNorms`."""

    def add(self, features: Array) -> object:
        """See the features (m, d) of one shard."""
        ...

    def join(self, other: Self) -> object:
        """Take over what a copy of this one, as it was at the start, saw of the next shard."""
        ...


@dataclass(frozen=True)
class Reading:
    """What is done with a shard's features on the one occasion that the whole shard is read.

    Attributes
    ----------
    verify : bool
        Compare the checksum.
    transform : callable, optional
        What features (m, d as stored) become.
    visit : Visitor, optional
        Sees every shard's features, transformed, in order.
    """

    verify: bool = False
    transform: Transform | None = None
    visit: Visitor | None = None

    def given(self, features: Array) -> Array:
        """Return features as bags hold them."""
        return features if self.transform is None else np.ascontiguousarray(self.transform(features))


def open_store(shards: ShardSet, memory: int | None, reading: Reading) -> tuple[Store, Index]:
    """Return the windows of shards and the number of each picture's windows; None is memory for all.

    Raises
    ------
    ShardError
        If a shard is damaged.
    NotFiniteError
        If a feature of a shard that is read is NaN or infinite.
    """
    files = [file_part(header, reading.transform) for header in shards.headers]
    resident, kept_rows = _budget(files, memory)
    n_rows = sum(part.n_rows for part in files[:resident])
    features = aligned_empty((n_rows, files[0].dim), files[0].dtype)
    sizes, end = [], 0
    for index, part in enumerate(files):
        shard = shards.read(index, verify=reading.verify)
        sizes.append(np.diff(shard.offsets))
        if index >= resident and reading.visit is None:
            continue  # left in its file, whole and checked or not read at all
        own = reading.given(shard.features)
        if index < resident:
            features[end : end + part.n_rows] = own
            own, end = features[end : end + part.n_rows], end + part.n_rows
        check_finite(own, part.path)
        if reading.visit is not None:
            reading.visit.add(own)
    parts: list[Part] = [MemoryPart(features)] if resident else []
    counts = np.concatenate(sizes)
    remembering = 8 * len(counts) * files[0].dtype.itemsize <= int(counts.sum())  # means take an eighth of the windows
    return Store([*parts, *files[resident:]], kept_rows, remembering=remembering), counts


def file_part(header: ShardHeader, transform: Transform | None) -> FilePart:
    """Return a shard's features where they lie."""
    shape = (header.n_windows, header.dim)
    return FilePart(header.path, header.place, shape, named_type(header.dtype), transform)


def _budget(files: Sequence[FilePart], memory: int | None) -> tuple[int, int]:
    """Return how many shards, the first ones, stay in memory, and how many rows of the others are kept."""
    row = files[0].dim * files[0].dtype.itemsize
    ends = np.cumsum([part.n_rows for part in files])
    if memory is None or ends[-1] * row <= memory:
        return len(files), 0
    kept = memory // _KEPT_SHARE
    left = memory - kept - _ROOM - int(ends[-1]) * _BOOKS
    return int(np.searchsorted(ends * row, left, side="right")), max(1, kept // row)


def check_finite(features: Array, path: Path) -> None:
    """Raise NotFiniteError if a shard holds NaN or infinity."""
    row = _kernel.first_broken_row(as_stored(features)) if len(features) else -1
    if row >= 0:
        raise NotFiniteError(f"features must be finite, got NaN or infinity in window {row} of shard {path}.")
