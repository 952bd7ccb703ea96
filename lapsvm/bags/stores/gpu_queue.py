"""The windows of one device, and a queue of others: while it scores some, the next ones are copied to it.

They travel from two buffers, which the device reads by itself, to two tiles of its memory. What is copied is what
nobody has computed yet, so the processor's threads and other devices take part in the same pass.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np

from lapsvm.arrays import Array, Index
from lapsvm.bags.requests import Reader, Taker
from lapsvm.bags.scoring import Block, as_stored
from lapsvm.bags.selection import Chunk, Selection, runs_of
from lapsvm.bags.stores.gpu_windows import Answer, Columns, DeviceWindows
from lapsvm.bags.stores.local import Store
from lapsvm.bags.stores.parts import Buffer, Part
from lapsvm.errors import DataError
from lapsvm.features.extractors.torch_running import load_torch

STREAM_BYTES = 64 << 20
"""Bytes of windows that travel at once."""

_COPY_BYTES = 64 << 20  # of the device's own windows, copied at once
_COPIERS = 4  # threads that fill a buffer; one is slower than the way to the device


class DeviceQueue(DeviceWindows):
    """One device: the windows first .. stop - 1 of a store, and the way of others to it.

    Parameters
    ----------
    store : Store
    device : str
        Torch's name of it; "cpu" works too, for tests.
    n_rows, first : int
        As for `DeviceWindows`, whose windows are copied at once.
    """

    def __init__(self, store: Store, device: str, n_rows: int, first: int):
        super().__init__(store, device, n_rows, first)
        self._most = max(1, STREAM_BYTES // (store.dim * store.dtype.itemsize))
        self._slots = _Slot(store, device), _Slot(store, device)
        with self.used():
            for held, before in zip(store.parts, store.bounds[:-1].tolist(), strict=True):
                self._copy(held, before)

    @property
    def stop(self) -> int:
        """The end of the device's windows."""
        return self.first + self.n_rows

    def streamed(
        self, selection: Selection, take: Taker, read: Reader, columns: Columns
    ) -> Iterator[tuple[Chunk, Block, Answer]]:
        """Yield chunks with their windows in memory, until the next one, and the best window of each bag.

        Parameters
        ----------
        selection : Selection
        take : callable
            Returns chunks of about this number of windows, which nobody else computes; none at the end.
        read : callable
            Returns the windows of a chunk, in a buffer or where they are.
        columns : Columns
            On the device.

        Raises
        ------
        DataError
            If the device lacks the memory for a chunk, or for one of its bags.
        NotFiniteError
            As `DeviceWindows.best`.
        """
        with ThreadPoolExecutor(1) as loader, ThreadPoolExecutor(_COPIERS) as copiers:

            def load(slot: _Slot) -> tuple[Sequence[Chunk], list[Block]]:
                chunks = take(self._most)
                return chunks, slot.load(selection, chunks, read, copiers) if chunks else []

            loading = loader.submit(load, self._slots[0])
            for slot, other in cycle((self._slots, self._slots[::-1])):
                chunks, blocks = loading.result()
                if not chunks:
                    return
                loading = loader.submit(load, other)
                yield from zip(chunks, blocks, slot.best(selection, chunks, columns), strict=True)

    def _copy(self, held: Part, before: int) -> None:
        """Copy the rows of a part that belong here; its first one is row `before` of the store."""
        step = max(1, _COPY_BYTES // (held.dim * held.dtype.itemsize))
        stop = min(held.n_rows, self.stop - before)
        for start in range(max(0, self.first - before), stop, step):
            rows = held.take(np.arange(start, min(start + step, stop)))
            self.write(before + start - self.first, rows)


class _Slot:
    """A tile of a device's memory, and the memory from which it is filled."""

    def __init__(self, store: Store, device: str):
        self._store, self._device = store, device
        self._torch = load_torch(f"device {device}")
        self._tile = DeviceWindows(store, device, 0)
        self._memory: Array = np.empty((0, store.dim), store.dtype)
        self._stream: Any = None

    def load(self, selection: Selection, chunks: Sequence[Chunk], read: Reader, copiers: Executor) -> list[Block]:
        """Copy the windows of chunks to the tile; return them in memory."""
        ends = np.cumsum([selection.offsets[chunk.last] - selection.offsets[chunk.first] for chunk in chunks])
        with self._used():
            self._enlarge(int(ends[-1]))
            filled = np.split(self._memory[: ends[-1]], ends[:-1])
            blocks = list(copiers.map(partial(_copied, read), chunks, filled))
            self._tile.write(0, self._memory[: ends[-1]])
            if self._stream is not None:
                self._stream.synchronize()
        return blocks

    def best(self, selection: Selection, chunks: Sequence[Chunk], columns: Columns) -> Iterator[Answer]:
        """Return the answer for each chunk in the tile."""
        bags = [np.arange(chunk.first, chunk.last) for chunk in chunks]
        there = selection.subset(np.concatenate(bags))
        ends = np.cumsum(there.sizes)
        packed = Selection(ends - there.sizes, ends, there.excluded)
        answers = [answer for _, answer in self._tile.best(packed, [range(packed.n_bags)], columns)]
        index, score = (np.concatenate(arrays) for arrays in zip(*answers, strict=True))
        cuts = np.cumsum([chunk.last - chunk.first for chunk in chunks])[:-1]
        return zip(np.split(index, cuts), np.split(score, cuts), strict=True)

    def _used(self) -> ExitStack:
        """Return the context of this thread's copies, which do not wait for what the device computes."""
        stack = self._tile.used()
        if self._device != "cpu":
            self._stream = self._stream or self._torch.cuda.Stream(self._device)
            stack.enter_context(self._torch.cuda.stream(self._stream))
        return stack

    def _enlarge(self, n_rows: int) -> None:
        """Make room for windows; a chunk may be larger than others, because a bag is."""
        if n_rows <= len(self._memory):
            return
        size = n_rows * self._store.dim * self._store.dtype.itemsize
        pinned = self._torch.empty(size, dtype=self._torch.uint8, pin_memory=self._device != "cpu")
        self._memory = Buffer(pinned.numpy()).array((n_rows, self._store.dim), self._store.dtype)
        self._tile = DeviceWindows(self._store, self._device, n_rows)
        if self._tile.n_rows < n_rows:
            raise DataError(
                f"device {self._device} must have memory for {n_rows} windows at once, got too little; set the "
                "parameter device to cpu."
            )


def _copied(read: Reader, chunk: Chunk, out: Array) -> Block:
    """Return the windows of a chunk in `out`, bag after bag."""
    block = read(chunk, Buffer(out))
    if block.features.ctypes.data != out.ctypes.data or block.features.shape != out.shape:
        _fill(out, block.features, *runs_of(block.starts, block.stops))
    sizes = block.stops - block.starts
    ends = np.cumsum(sizes)
    return Block(out, ends - sizes, ends)


def _fill(out: Array, features: Array, starts: Index, stops: Index) -> None:
    """Copy runs of rows."""
    target, source, first = as_stored(out), as_stored(features), 0
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        target[first : first + stop - start] = source[start:stop]
        first += stop - start
