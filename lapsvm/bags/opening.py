"""From shards to a store: as many as fit stay in memory, in one array, the others in their files."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lapsvm.arrays import Index
from lapsvm.bags.scoring import aligned_empty
from lapsvm.bags.stores.gpu import place
from lapsvm.bags.stores.local import Store
from lapsvm.bags.stores.memory import as_bytes
from lapsvm.bags.stores.parts import FilePart, MemoryPart, Part
from lapsvm.bags.stores.reading import Reading, check_finite, file_part
from lapsvm.bags.stores.remote import open_remote_store
from lapsvm.cluster import Cluster
from lapsvm.errors import StageError
from lapsvm.features import ShardSet, open_shards

_KEPT_SHARE = 8  # a part of the memory in so many is for single windows that were used lately
_ROOM = 64 << 20  # bytes of the blocks that wait to be worked on, at most a few chunks
_BOOKS = 4  # bytes of a window's place among the rows that are kept


def open_folder(
    folder: Path, memory: int | str | None, reading: Reading, device: str, cluster: Cluster | None
) -> tuple[Store, Index]:
    """Return the windows of a folder of shards, held here or by a cluster, and the number of each picture's windows.

    Raises
    ------
    StageError
        If there are no shards.
    OptionError
        If `memory` is no size, or the device is not there.
    ShardError, NotFiniteError, ClusterError
        As `open_store` and `open_remote_store`.
    """
    limit = as_bytes(memory)
    if not any(folder.glob("*.safetensors")):
        raise StageError(f"{folder} must hold shards, which `extract` writes, got none.")
    if cluster is not None:
        whole = Path(os.path.abspath(folder))
        return open_remote_store(open_shards(whole), None if memory is None else limit, reading, cluster)
    store, sizes = open_store(open_shards(folder), limit, reading)
    place(store, device)
    return store, sizes


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


def _budget(files: Sequence[FilePart], memory: int | None) -> tuple[int, int]:
    """Return how many shards, the first ones, stay in memory, and how many rows of the others are kept."""
    row = files[0].dim * files[0].dtype.itemsize
    ends = np.cumsum([part.n_rows for part in files])
    if memory is None or ends[-1] * row <= memory:
        return len(files), 0
    kept = memory // _KEPT_SHARE
    left = memory - kept - _ROOM - int(ends[-1]) * _BOOKS
    return int(np.searchsorted(ends * row, left, side="right")), max(1, kept // row)
