"""Opening shards as a store: as many as fit are read into one array, the others stay in their files."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lapsvm.arrays import Index
from lapsvm.bags.scoring import aligned_empty
from lapsvm.bags.stores.gpu import use_device
from lapsvm.bags.stores.local import Store
from lapsvm.bags.stores.memory import as_bytes
from lapsvm.bags.stores.parts import FilePart, MemoryPart, Part, ReadOptions, check_finite, transformed
from lapsvm.bags.stores.remote import open_remote_store
from lapsvm.cluster import Cluster
from lapsvm.errors import StageError
from lapsvm.features import ShardSet, open_shards

_CACHE_SHARE = 8  # one part in 8 of the memory caches single windows that were used lately
PREFETCH_BYTES = 64 << 20  # blocks that are read ahead, at most a few chunks
INDEX_BYTES = 4  # per window, for its slot in the cache


def open_folder(
    folder: Path, memory: int | str | None, reading: ReadOptions, device: str, cluster: Cluster | None
) -> tuple[Store, Index]:
    """Return a store of the shards in a folder, held here or by a cluster, and the number of each picture's windows.

    Raises
    ------
    StageError
        If there are no shards.
    OptionError
        If `memory` is no size, or there is no such device.
    ShardError, NotFiniteError, ClusterError
        As for `open_store` and `open_remote_store`.
    """
    limit = as_bytes(memory)
    if not any(folder.glob("*.safetensors")):
        raise StageError(f"{folder} must hold shards, which `extract` writes, got none.")
    if cluster is not None:
        shards = open_shards(os.path.abspath(folder))
        return open_remote_store(shards, None if memory is None else limit, reading, cluster)
    store, sizes = open_store(open_shards(folder), limit, reading)
    use_device(store, device)
    return store, sizes


def open_store(shards: ShardSet, memory: int | None, reading: ReadOptions) -> tuple[Store, Index]:
    """Return a store of shards and the number of each picture's windows; memory None keeps all windows in memory.

    Raises
    ------
    ShardError
        If a shard is damaged.
    NotFiniteError
        If a feature of a shard that is read is NaN or infinite.
    """
    files = [FilePart.of_shard(header, reading.transform) for header in shards.headers]
    resident, cached_rows = _budget(files, memory)
    n_rows = sum(part.n_rows for part in files[:resident])
    features = aligned_empty((n_rows, files[0].dim), files[0].dtype)
    sizes, end = [], 0
    for index, part in enumerate(files):
        shard = shards.read(index, verify=reading.verify)
        sizes.append(np.diff(shard.offsets))
        if index >= resident and reading.visit is None:
            continue  # it stays in its file
        rows = transformed(reading.transform, shard.features)
        if index < resident:
            features[end : end + part.n_rows] = rows
            rows, end = features[end : end + part.n_rows], end + part.n_rows
        check_finite(rows, part.path)
        if reading.visit is not None:
            reading.visit.add(rows)
    parts: list[Part] = [MemoryPart(features)] if resident else []
    counts = np.concatenate(sizes)
    return Store([*parts, *files[resident:]], cached_rows, sizes=counts), counts


def _budget(files: Sequence[FilePart], memory: int | None) -> tuple[int, int]:
    """Return how many shards, the first ones, are read into memory, and how many rows of the others are cached."""
    row = files[0].dim * files[0].dtype.itemsize
    ends = np.cumsum([part.n_rows for part in files])
    if memory is None or ends[-1] * row <= memory:
        return len(files), 0
    cache = memory // _CACHE_SHARE
    left = memory - cache - PREFETCH_BYTES - int(ends[-1]) * INDEX_BYTES
    return int(np.searchsorted(ends * row, left, side="right")), max(1, cache // row)
