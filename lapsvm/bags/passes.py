"""One pass over the bags of a store: chunk after chunk on some threads, the files read ahead by one more.

A chunk is consecutive bags of one part. The rule that cuts them knows neither threads nor what is asked, and every
chunk answers for itself, so no order of the work changes the answer.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from queue import Empty, Queue
from threading import Lock, Thread
from typing import TypeVar

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags.requests import Answer, Best, Work
from lapsvm.bags.scoring import BestWindows, Block, row_scores
from lapsvm.bags.selection import Chunk, Selection
from lapsvm.bags.stores.local import Store
from lapsvm.bags.stores.parts import Room

CHUNK_ROWS, CHUNK_BYTES = 4096, 8 << 20
"""Windows, or their bytes, after which a chunk ends, with the bag that they end in."""

T = TypeVar("T")

_WORTH_THREADS = 4_000_000  # products; below, starting threads costs more than it saves
_SPARE_ROOMS = 2  # blocks that wait while each thread works on one


def plan(store: Store, selection: Selection) -> tuple[Chunk, ...]:
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
    """Every bag of a selection is to be looked at once."""

    store: Store
    selection: Selection
    chunks: tuple[Chunk, ...]
    threads: int

    def best(self, weights: Float64) -> BestWindows:
        """Return the best window per bag for the columns of `weights` (d, k), whose scale is folded in."""
        return BestWindows(*self.ask(Best(weights)))

    def ask(self, work: Work) -> Answer:
        """Return the answers of all bags to some work, one behind the other."""
        if self.store.remote is not None:
            return self.store.remote.ask(self.selection, work)
        there = self._on_device(work)
        places, answering = work.places(self.selection), work.answering(self.store.dtype)
        found = work.room(int(places[-1]), self.store.dim, self.store.dtype)

        def put(chunk: Chunk, answer: Answer) -> None:
            for whole, own in zip(found, answer, strict=True):
                whole[places[chunk.first] : places[chunk.last]] = own

        def one(chunk: Chunk, block: Block) -> None:
            answer = answering(block, _excluded(self.selection, chunk))
            put(chunk, answer)
            if isinstance(work, Best) and not self.store.parts[chunk.part].resident:
                self._keep_best(chunk, block, answer[0])

        with _device_thread(bool(there)) as pool:
            ahead = pool.submit(self._answer_there, there, work, put) if pool is not None else None
            self._run(one, [chunk for chunk in self.chunks if chunk not in there], work.products(self.store.dim))
            if ahead is not None:
                ahead.result()
        return found

    def _on_device(self, work: Work) -> frozenset[Chunk]:
        """Return the chunks whose windows lie on another device than the processor, if that can do the work."""
        device = self.store.device
        if device is None or not isinstance(work, Best):
            return frozenset()
        stops = np.maximum.reduceat(self.selection.stops, [chunk.first for chunk in self.chunks])
        ends = (stops - self.store.bounds[[chunk.part for chunk in self.chunks]]).tolist()
        return frozenset(chunk for chunk, end in zip(self.chunks, ends, strict=True) if device.holds(chunk.part, end))

    def _answer_there(self, chunks: frozenset[Chunk], work: Work, put: Callable[[Chunk, Answer], None]) -> None:
        """Have the device find the winners of its chunks; their scores are summed by the processor, as elsewhere."""
        device = self.store.device
        if device is None or not isinstance(work, Best):
            return
        for chunk, index in device.winners(self.selection, self.store.bounds, sorted(chunks), work.weights):
            rows, again = np.unique(index + self.selection.starts[chunk.first : chunk.last, None], return_inverse=True)
            features = device.rows(chunk.part, rows - self.store.bounds[chunk.part])
            self.store.keep(chunk.part, rows, features)
            put(chunk, (index, row_scores(features, again.reshape(index.shape), work.weights)))

    def _keep_best(self, chunk: Chunk, block: Block, index: Index) -> None:
        """Keep the winners of a chunk that was read from a file: they are what is asked for next."""
        starts = self.selection.starts[chunk.first : chunk.last, None]
        rows, first = np.unique(index + starts, return_index=True)
        self.store.keep(chunk.part, rows, block.features[(index + block.starts[:, None]).reshape(-1)[first]])

    def _run(self, work: Callable[[Chunk, Block], None], chunks: Sequence[Chunk], products: int) -> None:
        """Work with as many threads as so many products for each window are worth."""
        worth = int(self.selection.offsets[-1]) * products >= _WORTH_THREADS
        run(self.store, self.selection, chunks, work, self.threads if worth else 1)


def _device_thread(wanted: bool) -> AbstractContextManager[ThreadPoolExecutor | None]:
    """Return a thread that waits for a device while others work, or none."""
    return ThreadPoolExecutor(1) if wanted else nullcontext()


def run(
    store: Store, selection: Selection, chunks: Sequence[Chunk], work: Callable[[Chunk, Block], None], threads: int
) -> None:
    """Do `work` for every chunk and its bags in memory, on so many threads; the first error ends it."""

    def block(chunk: Chunk, room: Room | None = None) -> Block:
        rows = slice(chunk.first, chunk.last)
        before = store.bounds[chunk.part]
        return store.parts[chunk.part].block(selection.starts[rows] - before, selection.stops[rows] - before, room)

    here = [chunk for chunk in chunks if store.parts[chunk.part].resident]
    if len(here) == len(chunks):
        _side_by_side(lambda chunk: work(chunk, block(chunk)), here, threads)
        return
    there = [chunk for chunk in chunks if not store.parts[chunk.part].resident]
    ahead = _Prefetcher(here, there, block, threads)
    try:
        _side_by_side(lambda _: ahead.work(work), range(threads), threads)
    finally:
        ahead.stop()


def _side_by_side(work: Callable[[T], None], jobs: Iterable[T], threads: int) -> None:
    """Do every job, on `threads` threads."""
    if threads == 1:
        for job in jobs:
            work(job)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, jobs):
            pass


class _Prefetcher:
    """Chunks to work on: those that a thread of its own has read, and, while it reads, those in memory."""

    def __init__(
        self, here: Sequence[Chunk], there: Sequence[Chunk], block: Callable[[Chunk, Room | None], Block], threads: int
    ):
        self._here, self._block = list(reversed(here)), block
        self._free: Queue[Room | None] = Queue()
        self._read: Queue[tuple[Chunk, Block, Room] | BaseException | None] = Queue()
        self._lock, self._ended = Lock(), False
        for _ in range(threads + _SPARE_ROOMS):
            self._free.put(Room())
        self._reader = Thread(target=self._read_all, args=(there,), name="lapsvm-read-ahead", daemon=True)
        self._reader.start()

    def work(self, work: Callable[[Chunk, Block], None]) -> None:
        """Work until there is nothing left."""
        try:
            while (job := self._next()) is not None:
                chunk, block, room = job
                work(chunk, block)
                if room is not None:
                    self._free.put(room)
        except BaseException:
            self._give_up()
            raise

    def stop(self) -> None:
        """End the reading."""
        self._give_up()
        self._reader.join()

    def _give_up(self) -> None:
        """Let the other threads and the reader end with their chunk.

        The reader is told first: `_next` holds the lock while it waits for what the reader puts.
        """
        self._ended = True
        self._free.put(None)
        with self._lock:
            self._here = []

    def _next(self) -> tuple[Chunk, Block, Room | None] | None:
        with self._lock:
            while True:
                try:
                    read = self._read.get(block=not self._here and not self._ended)
                except Empty:
                    if not self._here:
                        return None
                    chunk = self._here.pop()
                    return chunk, self._block(chunk, None), None
                if isinstance(read, BaseException):
                    raise read
                if read is not None:
                    return read
                self._ended = True

    def _read_all(self, chunks: Sequence[Chunk]) -> None:
        """Read one chunk after the other, whenever there is room."""
        try:
            for chunk in chunks:
                room = self._free.get()
                if room is None or self._ended:
                    return
                self._read.put((chunk, self._block(chunk, room), room))
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            self._read.put(error)
        finally:
            self._read.put(None)


def _excluded(selection: Selection, chunk: Chunk) -> Array | None:
    """Return which windows of a chunk do not compete."""
    if selection.excluded is None:
        return None
    return selection.excluded[selection.offsets[chunk.first] : selection.offsets[chunk.last]]
