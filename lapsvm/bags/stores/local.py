"""All windows of a set, part after part: one array, or arrays and files of which each holds consecutive windows."""

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any, Protocol

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags.requests import Answer, Work
from lapsvm.bags.selection import Chunk, Selection
from lapsvm.bags.stores.parts import MemoryPart, Part


class RemoteWindows(Protocol):
    """Other processes that hold the windows of a store and answer for them."""

    def ask(self, selection: Selection, work: Work) -> Answer:
        """Return the answers of all bags to some work."""
        ...

    def take(self, rows: Index) -> Array:
        """Return copies of rows (m, d), in their order."""
        ...


class Device(Protocol):
    """A device beside the processor that holds copies of windows and finds winners among them."""

    def holds(self, part: int, stop: int) -> bool:
        """Tell whether it has the rows of a part before `stop`."""
        ...

    def winners(
        self, selection: Selection, bounds: Index, chunks: Sequence[Chunk], weights: Float64
    ) -> Iterator[tuple[Chunk, Index]]:
        """Yield chunks of bags, with the best window (n, k) of each bag for the columns of `weights`."""
        ...

    def rows(self, part: int, rows: Index) -> Array:
        """Return copies of rows of a part, as stored."""
        ...


class Store:
    """Windows by their number in the whole set; rows of parts that lie in files are kept a while once they were used.

    Parameters
    ----------
    parts : sequence of Part, at least one
        In order, of one type and number of features.
    kept_rows : int, default 0
        How many single rows of parts in files are kept at most.
    remembering : bool, default False
        Whether means of bags are remembered, by first row and end: every class begins with those of all bags. Not for
        an array that its owner may change.
    remote : RemoteWindows, optional
        Who answers for the windows, if this process does not hold them.

    Attributes
    ----------
    device : Device or None
        Where passes find the winners of some windows.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        kept_rows: int = 0,
        *,
        remembering: bool = False,
        remote: RemoteWindows | None = None,
    ):
        self.parts, self.remote = tuple(parts), remote
        self.device: Device | None = None
        self.means: dict[tuple[int, int], Float64] | None = {} if remembering else None
        self.bounds: Index = np.cumsum([0, *(part.n_rows for part in self.parts)]).astype(np.intp)
        self._kept = _KeptRows(int(self.bounds[-1]), kept_rows) if kept_rows else None

    @property
    def dim(self) -> int:
        """Number of features of a window."""
        return self.parts[0].dim

    @property
    def dtype(self) -> np.dtype[Any]:
        """How features are stored."""
        return self.parts[0].dtype

    @property
    def whole(self) -> Array | None:
        """The one array that holds all windows, if there is one."""
        return self.parts[0].features if len(self.parts) == 1 and isinstance(self.parts[0], MemoryPart) else None

    def part_of(self, rows: Index) -> Index:
        """Return the part of each row."""
        return np.searchsorted(self.bounds, rows, side="right") - 1

    def take(self, rows: Index) -> Array:
        """Return copies of rows (m, d), in their order."""
        found = np.empty((len(rows), self.dim), dtype=self.dtype)
        missing = np.arange(len(rows)) if self._kept is None else self._kept.give(rows, found)
        if self.remote is not None and len(missing):
            found[missing] = self.remote.take(rows[missing])
            if self._kept is not None:
                self._kept.keep(rows[missing], found[missing])
            return found
        for part, places in self._by_part(rows[missing]):
            own = rows[missing][places]
            features = self.parts[part].take(own - self.bounds[part])
            found[missing[places]] = features
            self.keep(part, own, features)
        return found

    def keep(self, part: int, rows: Index, features: Array) -> None:
        """Keep copies of these rows a while if their part lies in a file, for they may be asked for again."""
        if self._kept is not None and not self.parts[part].resident:
            self._kept.keep(rows, features)

    def _by_part(self, rows: Index) -> Iterator[tuple[int, Index]]:
        """Yield each part that holds some of the rows, with their places."""
        owners = self.part_of(rows)
        for part in np.unique(owners).tolist():
            yield part, np.flatnonzero(owners == part)


class _KeptRows:
    """Copies of the rows that came last, up to a number; the oldest give way."""

    def __init__(self, n_rows: int, capacity: int):
        self._slot = np.full(n_rows, -1, dtype=np.int32)
        self._row = np.full(min(capacity, n_rows), -1, dtype=np.intp)
        self._features: Array | None = None
        self._next, self._lock = 0, Lock()

    def give(self, rows: Index, out: Array) -> Index:
        """Copy the rows that are here into their places of `out`; return the places of the others."""
        with self._lock:
            slots = self._slot[rows]
            here = slots >= 0
            if self._features is not None:
                out[here] = self._features[slots[here]]
            return np.flatnonzero(~here)

    def keep(self, rows: Index, features: Array) -> None:
        """Copy rows that are not here yet."""
        with self._lock:
            if self._features is None:
                self._features = np.empty((len(self._row), features.shape[1]), dtype=features.dtype)
            rows, first = np.unique(rows, return_index=True)
            new = np.flatnonzero(self._slot[rows] < 0)[: len(self._row)]
            places = (self._next + np.arange(len(new))) % len(self._row)
            before = self._row[places]
            self._slot[before[before >= 0]] = -1
            self._row[places], self._slot[rows[new]] = rows[new], places
            self._features[places] = features[first[new]]
            self._next = (self._next + len(new)) % len(self._row)
