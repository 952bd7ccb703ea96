"""The windows of a set, part after part: one array, or arrays and files of which each holds consecutive windows."""

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags.requests import Answer, PassQuery
from lapsvm.bags.selection import Chunk, Selection
from lapsvm.bags.stores.parts import MemoryPart, Part
from lapsvm.bfloat16 import narrowed, widened
from lapsvm.errors import InputError, ShapeError


class RemoteWindows(Protocol):
    """Other processes that hold the windows of a store."""

    def run(self, selection: Selection, work: PassQuery) -> Answer:
        """Return the answer to `work`, that of all bags in order."""

    def take(self, rows: Index) -> Array:
        """Return copies (m, d) of rows, in their order."""


class Device(Protocol):
    """A device with copies of windows that finds the best among them."""

    def holds(self, part: int, stop: int) -> bool:
        """Return whether the device has the rows of a part before `stop`."""

    def best(
        self, selection: Selection, bounds: Index, chunks: Sequence[Chunk], weights: Float64
    ) -> Iterator[tuple[Chunk, Index]]:
        """Yield chunks of bags, with the best window (n, k) of each bag for the columns of `weights`."""

    def rows(self, part: int, rows: Index) -> Array:
        """Return copies of rows of a part, as stored."""


class Store:
    """Windows by their number in the whole set.

    Parameters
    ----------
    parts : sequence of Part, at least one
        In order, of one type and number of features.
    cached_rows : int, default 0
        Most rows of parts in files of which copies stay in memory; the oldest copies are replaced.
    sizes : (n,) array of int, optional
        Windows of each bag. With them, means of bags are cached, because the training of every class begins with them,
        if they take at most an eighth of the memory of the windows. Not for an array that its owner may change.
    remote : RemoteWindows, optional
        The processes that hold the windows, if this one does not.

    Attributes
    ----------
    device : Device or None
        The device on which passes find the best of some windows.
    means : dict or None
        Cached means (d,) of bags, by first row and end; None without a cache.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        cached_rows: int = 0,
        *,
        sizes: Index | None = None,
        remote: RemoteWindows | None = None,
    ):
        self.parts, self.remote = tuple(parts), remote
        self.device: Device | None = None
        caches_means = sizes is not None and 8 * len(sizes) * self.dtype.itemsize <= int(sizes.sum())
        self.means: dict[tuple[int, int], Float64] | None = {} if caches_means else None
        self.bounds: Index = np.cumsum([0, *(part.n_rows for part in self.parts)]).astype(np.intp)
        self._row_cache = _RowCache(int(self.bounds[-1]), cached_rows) if cached_rows else None

    @property
    def dim(self) -> int:
        """Number of features of a window."""
        return self.parts[0].dim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type in which features are stored."""
        return self.parts[0].dtype

    @property
    def array(self) -> Array | None:
        """The one array that holds all windows, if there is one."""
        return self.parts[0].features if len(self.parts) == 1 and isinstance(self.parts[0], MemoryPart) else None

    def part_of(self, rows: Index) -> Index:
        """Return the part of each row."""
        return np.searchsorted(self.bounds, rows, side="right") - 1

    def take(self, rows: Index) -> Array:
        """Return copies (m, d) of rows, in their order."""
        only = self._only_part(rows)
        if only is not None and self.parts[only].resident:
            return self.parts[only].take(rows - self.bounds[only])
        copies = np.empty((len(rows), self.dim), dtype=self.dtype)
        missing = np.arange(len(rows)) if self._row_cache is None else self._row_cache.get(rows, copies)
        if self.remote is not None and len(missing):
            copies[missing] = self.remote.take(rows[missing])
            if self._row_cache is not None:
                self._row_cache.add(rows[missing], copies[missing])
            return copies
        owners = self.part_of(rows[missing])
        for part in np.unique(owners).tolist():
            positions = missing[owners == part]
            copies[positions] = features = self.parts[part].take(rows[positions] - self.bounds[part])
            self.cache(part, rows[positions], features)
        return copies

    def cache(self, part: int, rows: Index, features: Array) -> None:
        """Cache copies of these rows if their part lies in a file."""
        if self._row_cache is not None and not self.parts[part].resident:
            self._row_cache.add(rows, features)

    def _only_part(self, rows: Index) -> int | None:
        """Return the part that holds all of these rows; None if there are several, or no rows."""
        if not len(rows):
            return None
        first, last = self.part_of(np.array([rows.min(), rows.max()])).tolist()
        return first if first == last else None


def appended(store: Store, selection: Selection, windows: Mapping[int, ArrayLike]) -> tuple[Store, Selection]:
    """Return a store and a selection in which bags have more windows (m, d) at their end.

    Raises
    ------
    ShapeError
        If the features of a bag do not have shape (m, d).
    InputError
        If there is no such bag, or other processes hold the windows.
    """
    if store.remote is not None:
        raise InputError("windows can only be appended to bags in this process, got bags that others hold.")
    bags = selection.bags(sorted(windows))
    if not len(bags):
        return store, selection
    new = {bag: _as_stored_rows(store, bag, windows[bag]) for bag in bags.tolist()}
    stored = {bag: store.take(np.arange(selection.starts[bag], selection.stops[bag])) for bag in new}
    copied = [np.concatenate([stored[bag], rows]) for bag, rows in new.items()]
    ends = store.bounds[-1] + np.cumsum([len(rows) for rows in copied])
    starts, stops = selection.starts.copy(), selection.stops.copy()
    starts[bags], stops[bags] = np.append(store.bounds[-1], ends[:-1]), ends
    larger = Store([*store.parts, MemoryPart(np.concatenate(copied))])
    larger.device = store.device
    return larger, Selection(starts, stops, _excluded(selection, {bag: len(rows) for bag, rows in new.items()}))


def _as_stored_rows(store: Store, bag: int, windows: ArrayLike) -> Array:
    rows = np.asarray(windows)
    if rows.ndim != 2 or rows.shape[1] != store.dim:
        raise ShapeError(f"windows of bag {bag} must have shape (m, {store.dim}), got {rows.shape}.")
    return rows if rows.dtype == store.dtype else narrowed(widened(rows), store.dtype)


def _excluded(selection: Selection, counts: Mapping[int, int]) -> Array | None:
    """Return the mask of excluded windows, in which new windows compete."""
    if selection.excluded is None:
        return None
    places = np.repeat(selection.offsets[1:][list(counts)], list(counts.values()))
    return np.insert(selection.excluded, places, False)


class _RowCache:
    """Copies of the rows added last, at most `capacity`; new ones replace the oldest."""

    def __init__(self, n_rows: int, capacity: int):
        self._slot = np.full(n_rows, -1, dtype=np.int32)
        self._row = np.full(min(capacity, n_rows), -1, dtype=np.intp)
        self._features: Array | None = None
        self._next, self._lock = 0, Lock()

    def get(self, rows: Index, out: Array) -> Index:
        """Write the cached rows to their positions in `out`; return the positions of the others."""
        with self._lock:
            slots = self._slot[rows]
            cached = slots >= 0
            if self._features is not None:
                out[cached] = self._features[slots[cached]]
            return np.flatnonzero(~cached)

    def add(self, rows: Index, features: Array) -> None:
        """Copy the rows that are not cached yet."""
        with self._lock:
            if self._features is None:
                self._features = np.empty((len(self._row), features.shape[1]), dtype=features.dtype)
            rows, first = np.unique(rows, return_index=True)
            new = np.flatnonzero(self._slot[rows] < 0)[: len(self._row)]
            slots = (self._next + np.arange(len(new))) % len(self._row)
            replaced = self._row[slots]
            self._slot[replaced[replaced >= 0]] = -1
            self._row[slots], self._slot[rows[new]] = rows[new], slots
            self._features[slots] = features[first[new]]
            self._next = (self._next + len(new)) % len(self._row)
