"""Opening shards as a store: as many as fit are read into one array, the others stay in their files."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from lapsvm.arrays import Array, Index
from lapsvm.bags.passes import SPARE_BUFFERS, chunk_rows
from lapsvm.bags.scoring import aligned_empty
from lapsvm.bags.stores.gpu import use_device
from lapsvm.bags.stores.local import Store
from lapsvm.bags.stores.memory import as_bytes
from lapsvm.bags.stores.parts import (
    FilePart,
    MemoryPart,
    Part,
    PrefetchMemory,
    ReadOptions,
    Visitor,
    check_finite,
    transformed,
)
from lapsvm.bags.stores.remote import open_remote_store
from lapsvm.cluster import Cluster
from lapsvm.errors import StageError
from lapsvm.features import ShardSet, open_shards

_CACHE_SHARE = 8  # one part in 8 of the memory caches single windows that were used lately
INDEX_BYTES = 4  # per window, for its slot in the cache
_TRANSIENT_SHARE = 8  # one part in 8 of the memory at least is for shards while they are opened
_PREFETCH_SHARE = 4  # one part in 4 at most is for prefetched blocks

T = TypeVar("T")


def open_folder(
    folder: Path, memory: int | str | None, reading: ReadOptions, device: str, cluster: Cluster | None, threads: int
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
    store, sizes = open_store(open_shards(folder), limit, reading, threads)
    use_device(store, device)
    return store, sizes


def open_store(shards: ShardSet, memory: int | None, reading: ReadOptions, threads: int = 1) -> tuple[Store, Index]:
    """Return a store of shards and the number of each picture's windows; memory None keeps all windows in memory.

    Every shard is read, checked and visited on a thread of its own; the visitor's copies are merged in order.

    Raises
    ------
    ShardError
        If a shard is damaged.
    NotFiniteError
        If a feature of a shard that is read is NaN or infinite.
    """
    files = [FilePart.of_shard(header, reading.transform) for header in shards.headers]
    blocks, block_bytes = prefetched_blocks(files, memory, threads)
    resident, cached_rows = _budget(files, memory, blocks * block_bytes)
    ends = np.cumsum([0, *(file.n_rows for file in files[:resident])])
    features = aligned_empty((int(ends[-1]), files[0].dim), files[0].dtype)
    sizes: list[Index] = []
    untouched = replace(reading, visit=deepcopy(reading.visit))  # that of the caller gains windows in the meantime

    def read(index: int) -> tuple[Index, Visitor | None]:
        kept = features[ends[index] : ends[index + 1]] if index < resident else None
        return _read_shard(shards, index, untouched, kept)

    for counts, visitor in _mapped(read, len(files), _opening_threads(files, memory, features.nbytes, threads)):
        sizes.append(counts)
        if reading.visit is not None and visitor is not None:
            reading.visit.join(visitor)
    parts: list[Part] = [MemoryPart(features)] if resident else []
    counts = np.concatenate(sizes)
    return Store([*parts, *files[resident:]], cached_rows, sizes=counts, prefetch_memory=PrefetchMemory(blocks)), counts


def _read_shard(shards: ShardSet, index: int, reading: ReadOptions, kept: Array | None) -> tuple[Index, Visitor | None]:
    """Return the number of each picture's windows and the visitor's copy; write the features to `kept`, if given.

    A shard that stays in its file is read as a whole only for a visitor.
    """
    shard, visitor = shards.read(index, verify=reading.verify), deepcopy(reading.visit)
    if kept is None and visitor is None:
        return np.diff(shard.offsets), None
    rows = transformed(reading.transform, shard.features)
    if kept is not None:
        kept[:] = rows
        rows = kept
    check_finite(rows, shards.headers[index].path)
    if visitor is not None:
        visitor.add(rows)
    return np.diff(shard.offsets), visitor


def _mapped(function: Callable[[int], T], count: int, threads: int) -> Iterator[T]:
    """Yield the function's results for 0 .. count - 1, in order; the first error ends it."""
    if min(threads, count) == 1:
        yield from map(function, range(count))
        return
    pool = ThreadPoolExecutor(min(threads, count))
    try:
        yield from pool.map(function, range(count))
    finally:
        pool.shutdown(cancel_futures=True)


def _opening_threads(files: Sequence[FilePart], memory: int | None, resident_bytes: int, threads: int) -> int:
    """Return how many shards are opened at the same time: each is in memory as stored and as bags see it."""
    if memory is None:
        return threads
    largest = max(file.n_rows * _transient_bytes(file) for file in files)
    return max(1, min(threads, max(memory // _TRANSIENT_SHARE, memory - resident_bytes) // largest))


def _transient_bytes(file: FilePart) -> int:
    """Return the bytes of a window while it is read: as stored and, if that differs, as bags see it."""
    seen = 0 if file.transform is None else file.dim
    return (file.shape[1] + seen) * file.dtype.itemsize


def prefetched_blocks(files: Sequence[FilePart], memory: int | None, threads: int) -> tuple[int, int]:
    """Return how many blocks passes may prefetch, and the bytes of one."""
    first, n_rows = files[0], sum(file.n_rows for file in files)
    size = min(chunk_rows(first.dim * first.dtype.itemsize), n_rows) * _transient_bytes(first)
    wanted = threads + SPARE_BUFFERS
    return wanted if memory is None else min(wanted, max(1 + SPARE_BUFFERS, memory // _PREFETCH_SHARE // size)), size


def _budget(files: Sequence[FilePart], memory: int | None, prefetched: int) -> tuple[int, int]:
    """Return how many shards, the first ones, are read into memory, and how many rows of the others are cached."""
    row = files[0].dim * files[0].dtype.itemsize
    ends = np.cumsum([file.n_rows for file in files])
    if memory is None or ends[-1] * row <= memory:
        return len(files), 0
    cache = memory // _CACHE_SHARE
    left = memory - cache - prefetched - int(ends[-1]) * INDEX_BYTES
    return int(np.searchsorted(ends * row, left, side="right")), max(1, cache // row)
