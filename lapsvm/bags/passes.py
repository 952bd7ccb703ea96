"""One pass over the bags of a store, chunk by chunk on several threads; one more thread prefetches files.

A chunk is some consecutive bags of one part. How bags are cut into chunks depends neither on the threads nor on the
work, and the answer to a chunk depends on that chunk alone, so the order of execution never changes an answer.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from threading import Lock
from typing import TypeVar

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags.requests import Answer, DeviceShare, Kernel, Means, PassQuery, Reader
from lapsvm.bags.scoring import Block
from lapsvm.bags.selection import Chunk, Selection
from lapsvm.bags.stores.local import Device, MeanCache, Store
from lapsvm.bags.stores.parts import Buffer

CHUNK_ROWS, CHUNK_BYTES = 8192, 16 << 20
"""A chunk ends with the bag in which it reaches this number of windows or bytes."""

T = TypeVar("T")

WORTH_THREADS = 4_000_000  # products; below, starting threads costs more than it saves
_MEANS = Lock()  # trainings that begin at the same time need the same means; one of them computes these
SPARE_BUFFERS = 2  # prefetched blocks while each thread works on one


def chunk_rows(row_bytes: int) -> int:
    """Return the number of windows of this size at which a chunk ends."""
    return max(1, min(CHUNK_ROWS, CHUNK_BYTES // row_bytes))


def split_into_chunks(store: Store, selection: Selection) -> tuple[Chunk, ...]:
    """Return chunks that cover all bags in order; one ends where the part changes, and when it is large enough."""
    enough = chunk_rows(store.dim * store.dtype.itemsize)
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

    def run(self, work: PassQuery, out: Answer | None = None) -> Answer:
        """Return the answer to `work` for all bags in order, in the arrays `out` if this process finds it."""
        if self.store.remote is not None:
            return self.store.remote.run(self.selection, work)
        offsets = work.offsets(self.selection)
        answer = out or work.allocate(int(offsets[-1]), self.store.dim, self.store.dtype)
        progress = _Progress(self, work, work.kernel(self.store.dtype), offsets, answer)
        if self.store.device is not None and work.on_devices:
            self._run_on_devices(self.store.device, progress)
        else:
            self._run_on_cpu(progress, ChunkQueue(self.store, self.chunks))
        return answer

    def _run_on_devices(self, device: Device, progress: "_Progress") -> None:
        """Have every device answer for the bags that it has; the processor those that none has or takes."""
        dealt = [self._held_by(share) for share in device.shares]
        held = {number for _, numbers in dealt for number in numbers}
        queue = ChunkQueue(self.store, [chunk for number, chunk in enumerate(self.chunks) if number not in held])
        with device.in_use(), ThreadPoolExecutor(len(dealt)) as pool:
            shares = zip(device.shares, dealt, strict=True)
            running = [pool.submit(progress.run_on_device, share, runs, queue) for share, (runs, _) in shares]
            try:
                self._run_on_cpu(progress, queue)
                for call in running:
                    call.result()
            finally:
                queue.clear()  # after an error

    def _held_by(self, share: DeviceShare) -> tuple[list[range], list[int]]:
        """Return runs of the bags whose windows lie on a device, and the numbers of their chunks."""
        firsts = np.array([chunk.first for chunk in self.chunks])
        after = np.maximum.reduceat(self.selection.stops, firsts) <= share.stop
        held = after & (np.minimum.reduceat(self.selection.starts, firsts) >= share.first)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], held, [False]]).astype(np.int8))).tolist()
        bounds = [*firsts.tolist(), self.selection.n_bags]
        runs = [range(bounds[first], bounds[last]) for first, last in zip(edges[::2], edges[1::2], strict=True)]
        return runs, np.flatnonzero(held).tolist()

    def _run_on_cpu(self, progress: "_Progress", queue: "ChunkQueue") -> None:
        """Compute on one thread, or on all where the work's products are worth it; the first error ends it."""
        worth = int(self.selection.offsets[-1]) * progress.work.products(self.store.dim) >= WORTH_THREADS
        threads = self.threads if worth else 1
        if queue.in_files:
            memory = self.store.prefetch_memory
            with memory.turn, ThreadPoolExecutor(1) as reader:
                buffers = memory.buffers(threads + SPARE_BUFFERS)
                threads = max(1, min(threads, len(buffers) - SPARE_BUFFERS))
                prefetcher = _Prefetcher(queue, self.read, reader, buffers)
                _parallel(lambda _: prefetcher.consume(progress.compute), range(threads), threads)
            return

        def compute_next(_: int) -> None:
            if (chunk := queue.first_in_memory()) is not None:
                progress.compute(chunk, self.read(chunk))

        _parallel(compute_next, range(len(queue.in_memory)), threads)

    def read(self, chunk: Chunk, buffer: Buffer | None = None) -> Block:
        """Return the windows of a chunk, in the buffer if they are read from a file."""
        rows, before = slice(chunk.first, chunk.last), self.store.bounds[chunk.part]
        starts, stops = self.selection.starts[rows] - before, self.selection.stops[rows] - before
        return self.store.parts[chunk.part].block(starts, stops, buffer)


@dataclass(frozen=True)
class _Progress:
    """The work of a pass, and the arrays of its answer."""

    plan: Pass
    work: PassQuery
    kernel: Kernel
    offsets: Index
    answer: Answer

    def compute(self, chunk: Chunk, block: Block) -> None:
        """Answer for a chunk."""
        out = self._rows(chunk.first, chunk.last)
        self.work.write(self.kernel, block, _excluded(self.plan.selection, chunk), out)
        self._cache(chunk, block, out)

    def run_on_device(self, share: DeviceShare, runs: Sequence[range], queue: "ChunkQueue") -> None:
        """Have a device answer for runs of bags that it has, then for chunks of the queue, if such work travels."""
        held, streamed = self.work.on_device(share)
        for bags, rows in held(self.plan.selection, runs):
            self._receive(bags.start, bags.stop, rows)
        if not queue or streamed is None:
            return
        take = partial(queue.last, self.plan.selection.offsets)
        for chunk, block, rows in streamed(self.plan.selection, take, self.plan.read):
            self._receive(chunk.first, chunk.last, rows)
            self._cache(chunk, block, rows)

    def _rows(self, first: int, last: int) -> Answer:
        """Return the part of the answer for the bags first .. last - 1."""
        return tuple(array[self.offsets[first] : self.offsets[last]] for array in self.answer)

    def _receive(self, first: int, last: int, rows: Answer) -> None:
        for array, values in zip(self._rows(first, last), rows, strict=True):
            array[:] = values

    def _cache(self, chunk: Chunk, block: Block, answer: Answer) -> None:
        """Cache the windows of a chunk in a file that callers take next."""
        store, selection = self.plan.store, self.plan.selection
        index = None if store.parts[chunk.part].resident else self.work.wanted_next(answer)
        if index is None:
            return
        starts = selection.starts[chunk.first : chunk.last, None]
        rows, first = np.unique(index + starts, return_index=True)
        store.cache(chunk.part, rows, block.features[(index + block.starts[:, None]).reshape(-1)[first]])


def bag_means(store: Store, selection: Selection, threads: int) -> Float64:
    """Return the mean (n_bags, d) of all windows of each bag, excluded ones included.

    A store that caches means reads each bag once.
    """
    bags = list(zip(selection.starts.tolist(), selection.stops.tolist(), strict=True))
    with _MEANS:
        known = MeanCache(store.dim) if store.means is None else store.means
        missing = [index for index, bag in enumerate(bags) if bag not in known.rows]
        if missing:
            chosen = Selection(selection.starts[missing], selection.stops[missing])
            (means,) = Pass(store, chosen, split_into_chunks(store, chosen), threads).run(Means())
            known.add([bags[index] for index in missing], means)
        vectors = known.vectors
    return np.asarray(vectors[[known.rows[bag] for bag in bags]])


class ChunkQueue:
    """Chunks that nobody has taken: processors take the first ones, devices the last ones.

    Attributes
    ----------
    in_memory, in_files : deque of Chunk
    """

    def __init__(self, store: Store, chunks: Iterable[Chunk]):
        self.in_memory: deque[Chunk] = deque()
        self.in_files: deque[Chunk] = deque()
        for chunk in chunks:
            (self.in_memory if store.parts[chunk.part].resident else self.in_files).append(chunk)

    def __bool__(self) -> bool:
        return bool(self.in_memory or self.in_files)

    def first_in_memory(self) -> Chunk | None:
        """Take the first chunk in memory."""
        return _popped(self.in_memory.popleft)

    def first_in_files(self) -> Chunk | None:
        """Take the first chunk in a file."""
        return _popped(self.in_files.popleft)

    def last(self, offsets: Index, windows: int) -> list[Chunk]:
        """Take the last chunks that hold about this number of windows, those in memory first."""
        taken: list[Chunk] = []
        while windows > 0 and (chunk := _popped(self.in_memory.pop) or _popped(self.in_files.pop)) is not None:
            taken.append(chunk)
            windows -= int(offsets[chunk.last] - offsets[chunk.first])
        return taken

    def clear(self) -> None:
        """Take all."""
        self.in_memory.clear()
        self.in_files.clear()


def _popped(pop: Callable[[], Chunk]) -> Chunk | None:
    """Return the next chunk. None if another thread was first."""
    try:
        return pop()
    except IndexError:
        return None


def _parallel(function: Callable[[T], None], items: Iterable[T], threads: int) -> None:
    """Call `function` for every item, on `threads` threads."""
    if threads == 1:
        for item in items:
            function(item)
        return
    calls = [_pool(threads).submit(function, item) for item in items]
    try:
        for call in calls:
            call.result()
    finally:
        for call in calls:
            call.cancel()
        wait(calls)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return the threads of all passes: hundreds of short ones use them, and several at a time share them."""
    return ThreadPoolExecutor(threads, "pass")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a fork has no threads


class _Prefetcher:
    """Chunks for several threads: those that a reader thread has read, and, while it reads, those in memory."""

    def __init__(self, queue: ChunkQueue, read: Reader, reader: Executor, buffers: Iterable[Buffer]):
        self._queue, self._read, self._reader, self._lock = queue, read, reader, Lock()
        self._prefetched: deque[tuple[Chunk, Future[Block], Buffer]] = deque()
        for buffer in buffers:
            self._read_into(buffer)

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
                self._queue.clear()
                while self._prefetched:
                    self._prefetched.pop()[1].cancel()
            raise

    def _read_into(self, buffer: Buffer) -> None:
        """Have the next chunk in a file read into a buffer that is free."""
        with self._lock:
            chunk = self._queue.first_in_files()
            if chunk is not None:
                self._prefetched.append((chunk, self._reader.submit(self._read, chunk, buffer), buffer))

    def _next(self) -> tuple[Chunk, Callable[[], Block], Buffer | None] | None:
        """Return a chunk, what gives its windows, and their buffer; a resident one while none from a file is ready."""
        with self._lock:
            is_read = bool(self._prefetched) and self._prefetched[0][1].done()
            if not is_read and (resident := self._queue.first_in_memory()) is not None:
                return resident, partial(self._read, resident, None), None
            if not self._prefetched:
                return None
            chunk, reading, buffer = self._prefetched.popleft()
            return chunk, reading.result, buffer


def _excluded(selection: Selection, chunk: Chunk) -> Array | None:
    """Return the mask of the windows of a chunk that do not compete, or None."""
    if selection.excluded is None:
        return None
    return selection.excluded[selection.offsets[chunk.first] : selection.offsets[chunk.last]]
