"""The windows of a set, part after part: one array, or arrays and files of which each holds consecutive windows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from lapsvm._ext import bags as _kernel
from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags.requests import Answer, DeviceShare, PassQuery
from lapsvm.bags.scoring import as_stored
from lapsvm.bags.selection import Selection
from lapsvm.bags.stores.parts import MemoryPart, Part, PrefetchMemory
from lapsvm.bfloat16 import narrowed, widened
from lapsvm.errors import InputError, ShapeError

WORTH_DEVICE = 1 << 20
"""Products of single windows' scores; a processor is done with fewer before a device has answered."""


class RemoteWindows(Protocol):
    """Other processes that hold the windows of a store."""

    def run(self, selection: Selection, work: PassQuery) -> Answer:
        """Return the answer to `work` for all bags in order."""

    def take(self, rows: Index) -> Array:
        """Return copies (m, d) of rows, in their order."""


class Device(Protocol):
    """Devices with copies of windows that find the best among them."""

    @property
    def shares(self) -> Sequence[DeviceShare]:
        """The windows of each device."""

    @property
    def n_rows(self) -> int:
        """How many windows the devices have, the store's first ones."""

    def rows(self, rows: Index) -> Array:
        """Return copies of rows that the devices have, as stored."""

    def scores(self, rows: Index, weights: Float64) -> Float64:
        """Return the float64 score (m,) of rows that the devices have by `weights` (d,), bit for bit a processor's."""

    def in_use(self) -> AbstractContextManager[None]:
        """Return the context of a pass."""


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
    prefetch_memory : PrefetchMemory, optional
        The memory into which passes read files; by default as many blocks as threads use.

    Attributes
    ----------
    device : Device or None
        The devices on which passes find the best of some windows.
    means : MeanCache or None
        Cached means of bags; None without a cache.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        cached_rows: int = 0,
        *,
        sizes: Index | None = None,
        remote: RemoteWindows | None = None,
        prefetch_memory: PrefetchMemory | None = None,
    ):
        self.parts, self.remote, self.prefetch_memory = tuple(parts), remote, prefetch_memory or PrefetchMemory()
        self.device: Device | None = None
        caches_means = sizes is not None and self._is_worth_means(len(sizes), int(sizes.sum()))
        self.means = MeanCache(self.dim) if caches_means else None
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

    def checked(self, rows: Index) -> Index:
        """Return these rows; InputError if there is none of this number, since kernels do not check."""
        if len(rows) and not 0 <= rows.min() <= rows.max() < self.bounds[-1]:
            raise InputError(f"addresses must be from 0 to {self.bounds[-1] - 1}, got {rows.min()} to {rows.max()}.")
        return rows

    def device_of(self, rows: Index) -> Device | None:
        """Return the devices if they have all of these rows."""
        device = self.device
        return device if device is not None and len(rows) and rows.max() < device.n_rows else None

    def take(self, rows: Index) -> Array:
        """Return copies (m, d) of rows, in their order."""
        only = self._only_part(rows)
        if only is not None and self.parts[only].resident:
            return self._rows_of(only, rows)
        device = self.device_of(rows)
        if device is not None:
            return device.rows(rows)
        copies = np.empty((len(rows), self.dim), dtype=self.dtype)
        missing = np.arange(len(rows)) if self._row_cache is None else self._row_cache.get(rows, copies)
        for chosen, take, is_slow in self._holders(rows[missing]):
            copies[missing[chosen]] = features = take(rows[missing[chosen]])
            if is_slow and self._row_cache is not None:
                self._row_cache.add(rows[missing[chosen]], features)
        return copies

    def _holders(self, rows: Index) -> Iterator[tuple[Index, Callable[[Index], Array], bool]]:
        """Yield the places of rows, what returns copies of these, and whether that is slow enough for the cache."""
        if self.remote is not None and len(rows):
            yield np.arange(len(rows)), self.remote.take, True
            return
        owners = self.part_of(rows)
        for part in np.unique(owners).tolist():
            chosen = np.flatnonzero(owners == part)
            resident = self.parts[part].resident
            device = None if resident else self.device_of(rows[chosen])
            if device is not None:
                yield chosen, device.rows, False
            else:
                yield chosen, partial(self._rows_of, part), not resident

    def _rows_of(self, part: int, rows: Index) -> Array:
        """Return copies of rows of a part."""
        return self.parts[part].take(rows - self.bounds[part])

    def score_rows(self, rows: Index, weights: Float64) -> Float64:
        """Return the float64 score (m,) of rows by `weights` (d,), on a device that has them if that is faster."""
        device = self.device_of(rows)
        if device is not None and (self.array is None or len(rows) * self.dim >= WORTH_DEVICE):
            return device.scores(rows, weights)
        features, places = self._in_memory(rows)
        scores = np.empty((len(rows), 1))
        _kernel.row_scores(features, places[:, None], weights[None], scores)
        return scores[:, 0]

    def sum_rows(self, rows: Index, coefficients: Float64) -> Float64:
        """Return the float64 sum (d,) of coefficients[i] times row rows[i], added in this order."""
        total = np.zeros(self.dim)
        _kernel.add_rows(*self._in_memory(rows), coefficients, total)
        return total

    def _in_memory(self, rows: Index) -> tuple[Array, Index]:
        """Return an array for the kernels that holds these rows, and their indices in it."""
        array = self.array
        return (as_stored(self.take(rows)), np.arange(len(rows))) if array is None else (as_stored(array), rows)

    def _is_worth_means(self, n_bags: int, n_windows: int) -> bool:
        """Return whether windows take much more memory than the means of their bags."""
        return 8 * n_bags * self.dtype.itemsize <= n_windows

    @contextmanager
    def keeping_means(self, n_bags: int) -> Iterator[None]:
        """Cache bag means while the store cannot change, if its windows take much more memory."""
        if self.means is not None or not self._is_worth_means(n_bags, int(self.bounds[-1])):
            yield
            return
        self.means = MeanCache(self.dim)
        try:
            yield
        finally:
            self.means = None

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
    larger = Store([*store.parts, MemoryPart(np.concatenate(copied))], prefetch_memory=store.prefetch_memory)
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


class MeanCache:
    """Means of bags.

    Attributes
    ----------
    rows : dict
        The row of each bag's mean, by the bag's first row and end.
    vectors : (n, d) float64
        The means.
    """

    def __init__(self, dim: int):
        self.rows: dict[tuple[int, int], int] = {}
        self.vectors: Float64 = np.empty((0, dim))

    def add(self, bags: Sequence[tuple[int, int]], means: Float64) -> None:
        """Add the means (m, d) of bags."""
        self.rows |= dict(zip(bags, range(len(self.vectors), len(self.vectors) + len(bags)), strict=True))
        self.vectors = np.concatenate([self.vectors, means])


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
