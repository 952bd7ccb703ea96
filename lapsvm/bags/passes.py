"""One pass over the bags of a store, chunk by chunk on several threads; one more thread reads files ahead.

A chunk is some consecutive bags of one part. How bags are cut into chunks depends neither on the threads nor on the
work, and the answer to a chunk depends on that chunk alone, so the order of execution never changes an answer.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from queue import Empty, Queue
from threading import Lock, Thread
from typing import TypeVar

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags.requests import Answer, Best, PassQuery
from lapsvm.bags.scoring import BestWindows, Block, row_scores
from lapsvm.bags.selection import Chunk, Selection
from lapsvm.bags.stores.local import Device, Store
from lapsvm.bags.stores.parts import Buffer

CHUNK_ROWS, CHUNK_BYTES = 4096, 8 << 20
"""A chunk ends with the bag in which it reaches this number of windows or bytes."""

T = TypeVar("T")

WORTH_THREADS = 4_000_000  # products; below, starting threads costs more than it saves
_SPARE_BUFFERS = 2  # blocks that are read ahead while each thread works on one


def split_into_chunks(store: Store, selection: Selection) -> tuple[Chunk, ...]:
    """Return chunks that cover all bags in order; one ends where the part changes, and when it is large enough."""
    enough = max(1, min(CHUNK_ROWS, CHUNK_BYTES // (store.dim * store.dtype.itemsize)))
    owners, ends = store.part_of(selection.starts), selection.offsets[1:]
    runs = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), selection.n_bags]
    chunks = []
    for first, last in pairwise(runs):
        while first < last:
            full = int(np.searchsorted(ends, selection.offsets[first] + enough)) + 1
            chunks.append(Chunk(int(owners[first]), first, min(full, last)))
            first = chunks[-1].last  # noqa: PLW2901
    return tuple(chunks)


@dataclass(frozen=True)
class Pass:
    """Visits every bag of a selection once."""

    store: Store
    selection: Selection
    chunks: tuple[Chunk, ...]
    threads: int

    def best(self, weights: Float64) -> BestWindows:
        """Return the best window per bag for the columns of `weights` (d, k), whose scale is folded in."""
        return BestWindows(*self.run(Best(weights)))

    def run(self, work: PassQuery) -> Answer:
        """Return the answer to `work`: that of all bags, in order."""
        if self.store.remote is not None:
            return self.store.remote.run(self.selection, work)
        offsets, kernel = work.offsets(self.selection), work.kernel(self.store.dtype)
        answer = work.allocate(int(offsets[-1]), self.store.dim, self.store.dtype)

        def write(chunk: Chunk, rows: Answer) -> None:
            for array, values in zip(answer, rows, strict=True):
                array[offsets[chunk.first] : offsets[chunk.last]] = values

        def compute(chunk: Chunk, block: Block) -> None:
            rows = kernel(block, _excluded(self.selection, chunk))
            write(chunk, rows)
            if isinstance(work, Best) and not self.store.parts[chunk.part].resident:
                self._cache_best(chunk, block, rows[0])

        device = self.store.device
        if device is not None and isinstance(work, Best):
            with ThreadPoolExecutor(1) as pool:  # waits for the device while others compute
                held = self._held_by(device)
                running = pool.submit(self._run_on_device, device, held, work.weights, write)
                self._run_on_cpu(compute, [chunk for chunk in self.chunks if chunk not in held], work)
                running.result()
        else:
            self._run_on_cpu(compute, self.chunks, work)
        return answer

    def _held_by(self, device: Device) -> frozenset[Chunk]:
        """Return the chunks whose windows lie on a device."""
        stops = np.maximum.reduceat(self.selection.stops, [chunk.first for chunk in self.chunks])
        ends = (stops - self.store.bounds[[chunk.part for chunk in self.chunks]]).tolist()
        return frozenset(chunk for chunk, end in zip(self.chunks, ends, strict=True) if device.holds(chunk.part, end))

    def _run_on_device(
        self, device: Device, chunks: frozenset[Chunk], weights: Float64, write: Callable[[Chunk, Answer], None]
    ) -> None:
        """Find the best windows of chunks on the device; the processor sums their scores, as it does for all others."""
        for chunk, index in device.best(self.selection, self.store.bounds, sorted(chunks), weights):
            rows, inverse = np.unique(
                index + self.selection.starts[chunk.first : chunk.last, None], return_inverse=True
            )
            features = device.rows(chunk.part, rows - self.store.bounds[chunk.part])
            self.store.cache(chunk.part, rows, features)
            write(chunk, (index, row_scores(features, inverse.reshape(index.shape), weights)))

    def _run_on_cpu(self, compute: Callable[[Chunk, Block], None], chunks: Sequence[Chunk], work: PassQuery) -> None:
        """Compute on one thread, or on all where the work's products are worth it."""
        worth = int(self.selection.offsets[-1]) * work.products(self.store.dim) >= WORTH_THREADS
        run_chunks(self.store, self.selection, chunks, compute, self.threads if worth else 1)

    def _cache_best(self, chunk: Chunk, block: Block, index: Index) -> None:
        """Cache the best windows of a chunk that was read from a file, because callers take these next."""
        starts = self.selection.starts[chunk.first : chunk.last, None]
        rows, first = np.unique(index + starts, return_index=True)
        self.store.cache(chunk.part, rows, block.features[(index + block.starts[:, None]).reshape(-1)[first]])


def run_chunks(
    store: Store, selection: Selection, chunks: Sequence[Chunk], compute: Callable[[Chunk, Block], None], threads: int
) -> None:
    """Call `compute` with every chunk and its bags in memory, on `threads` threads; the first error ends it."""

    def read(chunk: Chunk, buffer: Buffer | None = None) -> Block:
        rows = slice(chunk.first, chunk.last)
        before = store.bounds[chunk.part]
        return store.parts[chunk.part].block(selection.starts[rows] - before, selection.stops[rows] - before, buffer)

    resident = [chunk for chunk in chunks if store.parts[chunk.part].resident]
    if len(resident) == len(chunks):
        _parallel(lambda chunk: compute(chunk, read(chunk)), resident, threads)
        return
    in_files = [chunk for chunk in chunks if not store.parts[chunk.part].resident]
    prefetcher = _Prefetcher(resident, in_files, read, threads)
    try:
        _parallel(lambda _: prefetcher.consume(compute), range(threads), threads)
    finally:
        prefetcher.stop()


def _parallel(function: Callable[[T], None], items: Iterable[T], threads: int) -> None:
    """Call `function` for every item, on `threads` threads."""
    if threads == 1:
        for item in items:
            function(item)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(function, items):
            pass


class _Prefetcher:
    """Chunks for several threads: those that a reader thread has read, and, while it reads, those in memory."""

    def __init__(
        self,
        resident: Sequence[Chunk],
        in_files: Sequence[Chunk],
        read: Callable[[Chunk, Buffer | None], Block],
        threads: int,
    ):
        self._resident, self._read_block = list(reversed(resident)), read
        self._free: Queue[Buffer | None] = Queue()
        self._ready: Queue[tuple[Chunk, Block, Buffer] | BaseException | None] = Queue()
        self._lock, self._ended = Lock(), False
        for _ in range(threads + _SPARE_BUFFERS):
            self._free.put(Buffer())
        self._reader = Thread(target=self._read_all, args=(in_files,), name="lapsvm-prefetch", daemon=True)
        self._reader.start()

    def consume(self, compute: Callable[[Chunk, Block], None]) -> None:
        """Call `compute` with the next chunk until none is left."""
        try:
            while (item := self._next()) is not None:
                chunk, block, buffer = item
                compute(chunk, block)
                if buffer is not None:
                    self._free.put(buffer)
        except BaseException:
            self._cancel()
            raise

    def stop(self) -> None:
        """End the reader."""
        self._cancel()
        self._reader.join()

    def _cancel(self) -> None:
        """Let the other threads and the reader end after their present chunk.

        The reader is stopped first: `_next` holds the lock while it waits for the reader's next item.
        """
        self._ended = True
        self._free.put(None)
        with self._lock:
            self._resident = []

    def _next(self) -> tuple[Chunk, Block, Buffer | None] | None:
        with self._lock:
            while True:
                try:
                    item = self._ready.get(block=not self._resident and not self._ended)
                except Empty:
                    if not self._resident:
                        return None
                    chunk = self._resident.pop()
                    return chunk, self._read_block(chunk, None), None
                if isinstance(item, BaseException):
                    raise item
                if item is not None:
                    return item
                self._ended = True

    def _read_all(self, chunks: Sequence[Chunk]) -> None:
        """Read one chunk after the other, each into the next free buffer."""
        try:
            for chunk in chunks:
                buffer = self._free.get()
                if buffer is None or self._ended:
                    return
                self._ready.put((chunk, self._read_block(chunk, buffer), buffer))
        except BaseException as error:  # noqa: BLE001 - the consumer raises it
            self._ready.put(error)
        finally:
            self._ready.put(None)


def _excluded(selection: Selection, chunk: Chunk) -> Array | None:
    """Return the mask of the windows of a chunk that do not compete, or None."""
    if selection.excluded is None:
        return None
    return selection.excluded[selection.offsets[chunk.first] : selection.offsets[chunk.last]]
