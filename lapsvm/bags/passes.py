"""One pass over the bags of a store, chunk by chunk on several threads; one more thread reads files ahead.

A chunk is some consecutive bags of one part. How bags are cut into chunks depends neither on the threads nor on the
work, and the answer to a chunk depends on that chunk alone, so the order of execution never changes an answer.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from threading import Lock
from typing import TypeVar

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags.requests import Answer, Best, Means, PassQuery
from lapsvm.bags.scoring import Block, row_scores
from lapsvm.bags.selection import Chunk, Selection
from lapsvm.bags.stores.local import Device, Store
from lapsvm.bags.stores.parts import Buffer

CHUNK_ROWS, CHUNK_BYTES = 8192, 16 << 20
"""A chunk ends with the bag in which it reaches this number of windows or bytes."""

T = TypeVar("T")
Reader = Callable[[Chunk, Buffer | None], Block]

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
            starts = self.selection.starts[chunk.first : chunk.last, None]
            rows, inverse = np.unique(index + starts, return_inverse=True)
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


def bag_means(store: Store, selection: Selection, threads: int) -> Float64:
    """Return the mean (n_bags, d) of all windows of each bag, excluded ones included.

    A store that caches means reads each bag once.
    """
    bags = list(zip(selection.starts.tolist(), selection.stops.tolist(), strict=True))
    known = {} if store.means is None else store.means
    missing = [index for index, bag in enumerate(bags) if bag not in known]
    if missing:
        chosen = Selection(selection.starts[missing], selection.stops[missing])
        (means,) = Pass(store, chosen, split_into_chunks(store, chosen), threads).run(Means())
        known |= {bags[index]: mean for index, mean in zip(missing, means, strict=True)}
    return np.array([known[bag] for bag in bags])


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
    with ThreadPoolExecutor(1) as reader:
        prefetcher = _Prefetcher(resident, in_files, read, reader, threads)
        _parallel(lambda _: prefetcher.consume(compute), range(threads), threads)


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
        self, resident: Sequence[Chunk], in_files: Sequence[Chunk], read: Reader, reader: Executor, threads: int
    ):
        self._resident, self._in_files = list(reversed(resident)), iter(in_files)
        self._read, self._reader, self._lock = read, reader, Lock()
        self._ahead: deque[tuple[Chunk, Future[Block], Buffer]] = deque()
        for _ in range(threads + _SPARE_BUFFERS):
            self._read_into(Buffer())

    def consume(self, compute: Callable[[Chunk, Block], None]) -> None:
        """Call `compute` with the next chunk until none is left; an error ends all calls after their present chunk."""
        try:
            while (item := self._next()) is not None:
                chunk, block, buffer = item
                compute(chunk, block())
                if buffer is not None:
                    self._read_into(buffer)
        except BaseException:
            with self._lock:
                self._resident, self._in_files = [], iter(())
                while self._ahead:
                    self._ahead.pop()[1].cancel()
            raise

    def _read_into(self, buffer: Buffer) -> None:
        """Have the next chunk in a file read into a buffer that is free."""
        with self._lock:
            chunk = next(self._in_files, None)
            if chunk is not None:
                self._ahead.append((chunk, self._reader.submit(self._read, chunk, buffer), buffer))

    def _next(self) -> tuple[Chunk, Callable[[], Block], Buffer | None] | None:
        """Return a chunk, what gives its windows, and their buffer: one in memory only while none is read."""
        with self._lock:
            if self._ahead and (self._ahead[0][1].done() or not self._resident):
                chunk, reading, buffer = self._ahead.popleft()
                return chunk, reading.result, buffer
            if self._resident:
                chunk = self._resident.pop()
                return chunk, partial(self._read, chunk, None), None
            return None


def _excluded(selection: Selection, chunk: Chunk) -> Array | None:
    """Return the mask of the windows of a chunk that do not compete, or None."""
    if selection.excluded is None:
        return None
    return selection.excluded[selection.offsets[chunk.first] : selection.offsets[chunk.last]]
