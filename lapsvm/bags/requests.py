"""The kinds of work that a pass does for every bag; each is a function of one block of windows.

Work that devices can do says how: for bags that lie on a device, and for chunks that travel to it.

A query is plain data, so it can be pickled and sent to the process that holds the windows; it knows neither files nor
threads. Its kernel takes bags in memory and returns, for each bag in order, some rows of one or more arrays. A pass
concatenates the answers to all blocks.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from lapsvm._ext import bags as _kernel
from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags.scoring import Block, PackedWeights, as_stored, best_in
from lapsvm.bags.selection import Chunk, Mask, Selection, rows_of, runs_of
from lapsvm.bags.stores.parts import Buffer

Answer = tuple[Array, ...]
Kernel = Callable[[Block, Mask | None], Answer]
Taker = Callable[[int], Sequence[Chunk]]
"""Returns chunks of about this number of windows that nobody has computed; none at the end."""
Reader = Callable[[Chunk, Buffer | None], Block]
"""Returns the windows of a chunk, in the buffer if they are read from a file."""
Held = Callable[[Selection, Sequence[range]], Iterator[tuple[range, Answer]]]
Streamed = Callable[[Selection, Taker, Reader], Iterator[tuple[Chunk, Block, Answer]]]


class DeviceShare(Protocol):
    """One device with copies of windows first .. stop - 1 of a store."""

    first: int

    @property
    def stop(self) -> int:
        """The end of the windows."""

    def prepared(self, weights: Float64) -> Any:
        """Return the columns of `weights` (d, k) on the device."""

    def best(self, selection: Selection, runs: Sequence[range], columns: Any) -> Iterator[tuple[range, Answer]]:
        """Yield runs of bags that lie here with the best window (n, k) of each bag, and its score."""

    def means(self, selection: Selection, runs: Sequence[range]) -> Iterator[tuple[range, Answer]]:
        """Yield runs of bags that lie here with the mean (n, d) of the windows of each."""

    def streamed(
        self, selection: Selection, take: Taker, read: Reader, columns: Any
    ) -> Iterator[tuple[Chunk, Block, Answer]]:
        """Yield other chunks, which are copied here, with their windows in memory and the best of each bag."""


class DeviceWork(NamedTuple):
    """Work of one device: its answers for bags that lie there, and for chunks that travel there (None: none do)."""

    held: Held
    streamed: Streamed | None


class PassQuery(ABC):
    """A computation for every bag; by default one row per bag, for one product per feature of each window.

    Attributes
    ----------
    on_devices : bool
        Whether devices can do it, too.
    """

    on_devices: ClassVar[bool] = False

    def products(self, dim: int) -> int:
        """Return the number of products per window."""
        return dim

    def offsets(self, selection: Selection) -> Index:
        """Return where the rows of each bag begin in the answer, and their end (n_bags + 1,)."""
        return np.arange(selection.n_bags + 1)

    @abstractmethod
    def allocate(self, count: int, dim: int, dtype: np.dtype[Any]) -> Answer:
        """Return empty arrays of `count` rows, for a store of `dim` features of type `dtype`."""

    def kernel(self, dtype: np.dtype[Any]) -> Kernel:  # noqa: ARG002 - for work that prepares itself
        """Return the function that maps a block of this type, and the mask of its excluded windows, to the answer."""
        return self.answer

    def answer(self, block: Block, excluded: Mask | None) -> Answer:
        """Return the answer for a block."""
        raise NotImplementedError

    def write(self, kernel: Kernel, block: Block, excluded: Mask | None, out: Answer) -> None:
        """Write the answer for a block to arrays."""
        for array, values in zip(out, kernel(block, excluded), strict=True):
            array[:] = values

    def wanted_next(self, answer: Answer) -> Index | None:  # noqa: ARG002
        """Return the windows of each bag that callers take after the pass. None if they take none."""
        return None

    def on_device(self, device: DeviceShare) -> DeviceWork:
        """Return the work of a device."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Best(PassQuery):
    """The best window of each bag for the columns of `weights` (d, k), whose scale is folded in: index and score."""

    weights: Float64
    on_devices = True

    def products(self, dim: int) -> int:
        """Return the number of products per window."""
        return dim * int(self.weights.shape[1])

    def allocate(self, count: int, dim: int, dtype: np.dtype[Any]) -> Answer:  # noqa: ARG002
        """Return arrays of window indices and scores."""
        shape = count, self.weights.shape[1]
        return np.empty(shape, dtype=np.intp), np.empty(shape)

    def kernel(self, dtype: np.dtype[Any]) -> Kernel:
        """Return `best_in` for these weights."""
        packed = PackedWeights.of(self.weights, dtype)
        return lambda block, excluded: tuple(best_in(block, packed, excluded))

    def wanted_next(self, answer: Answer) -> Index | None:
        """Return the best windows."""
        return answer[0]

    def on_device(self, device: DeviceShare) -> DeviceWork:
        """Return the search of a device, with the weights on it."""
        columns = device.prepared(self.weights)
        return DeviceWork(partial(device.best, columns=columns), partial(device.streamed, columns=columns))


@dataclass(frozen=True, eq=False)
class Scores(PassQuery):
    """The score of every window for each row of `weights` (k, d), -inf where it does not compete."""

    weights: Float64

    def offsets(self, selection: Selection) -> Index:
        """Return the offsets of one row per window."""
        return selection.offsets

    def allocate(self, count: int, dim: int, dtype: np.dtype[Any]) -> Answer:  # noqa: ARG002
        """Return an array of scores."""
        return (np.empty((count, len(self.weights))),)

    def products(self, dim: int) -> int:
        """Return the number of products per window."""
        return dim * len(self.weights)

    def answer(self, block: Block, excluded: Mask | None) -> Answer:
        """Return the scores."""
        scores = np.empty((int((block.stops - block.starts).sum()), len(self.weights)))
        offset = 0
        for start, stop in zip(*runs_of(block.starts, block.stops), strict=True):
            rows = as_stored(block.features[start:stop])
            _kernel.all_scores(rows, self.weights, scores[offset : offset + len(rows)])
            offset += len(rows)
        if excluded is not None:
            scores[excluded] = -np.inf
        return (scores,)


@dataclass(frozen=True, eq=False)
class Means(PassQuery):
    """The mean of the windows of each bag, unscaled, whether they compete or not."""

    on_devices = True

    def on_device(self, device: DeviceShare) -> DeviceWork:
        """Return the means of a device; the processor adds up the other chunks."""
        return DeviceWork(device.means, None)

    def allocate(self, count: int, dim: int, dtype: np.dtype[Any]) -> Answer:  # noqa: ARG002
        """Return an array of means."""
        return (np.empty((count, dim)),)

    def answer(self, block: Block, excluded: Mask | None) -> Answer:  # noqa: ARG002
        """Return the means."""
        means, stored = np.zeros((len(block.starts), block.features.shape[1])), as_stored(block.features)
        for mean, start, stop in zip(means, block.starts, block.stops, strict=True):
            rows = np.arange(start, stop)
            _kernel.add_rows(stored, rows, np.full(len(rows), 1 / len(rows)), mean)
        return (means,)


@dataclass(frozen=True, eq=False)
class Norms(PassQuery):
    """The sum over each bag of its windows' Euclidean norms times `scale` (d,)."""

    scale: Float64

    def allocate(self, count: int, dim: int, dtype: np.dtype[Any]) -> Answer:  # noqa: ARG002
        """Return an array of sums."""
        return (np.empty(count),)

    def answer(self, block: Block, excluded: Mask | None) -> Answer:  # noqa: ARG002
        """Return the sums."""
        sums = np.empty(len(block.starts))
        _kernel.sums_of_norms(as_stored(block.features), block.starts, block.stops, self.scale, sums)
        return (sums,)


@dataclass(frozen=True, eq=False)
class Copies(PassQuery):
    """Copies of the windows that compete, as they are stored."""

    def offsets(self, selection: Selection) -> Index:
        """Return the offsets of one row per window that competes."""
        return np.append(0, np.cumsum(selection.n_competing)).astype(np.intp)

    def allocate(self, count: int, dim: int, dtype: np.dtype[Any]) -> Answer:
        """Return an array of windows."""
        return (np.empty((count, dim), dtype=dtype),)

    def write(self, kernel: Kernel, block: Block, excluded: Mask | None, out: Answer) -> None:  # noqa: ARG002
        """Write the copies, without memory of their own."""
        rows = rows_of(block.starts, block.stops)
        kept = rows if excluded is None else rows[~excluded]
        np.take(as_stored(block.features), kept, axis=0, out=as_stored(out[0]), mode="clip")  # "raise" copies once more
