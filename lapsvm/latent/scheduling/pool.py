"""Copies of the candidate windows on which problems are trained between two passes over all windows.

The store may be larger than memory or lie on a disk. The candidates of all problems that share passes are copied from
it, as they are stored, into one array. A window that several problems request, as folds and values of C do, is copied
once; windows that no problem requests any more are evicted. Where a GPU has all windows, they stay where they are.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags import Bags, BestWindows
from lapsvm.latent.cccp.training import best_at_zero

S = TypeVar("S")
T = TypeVar("T")
MOST_BYTES = 2 << 30
BATCH_BYTES = 32 << 20  # windows that are copied at once
_MOST_SHARE = 0.5  # of all windows; with more of them, passes over all would cost less


@dataclass
class PassCounts:
    """The cost of training; counts of several calls add up.

    Attributes
    ----------
    passes : int
        Passes over all windows, each shared by all problems; not those that a log answered.
    vectors : int
        Weight vectors of these passes.
    bytes_read : int
        Bytes of features that were read by passes, by passes over positives alone, and to copy candidates.
    candidate_calls : int
        How often one problem's candidates were scored.
    candidate_bytes : int
        Bytes of candidates that this read.
    peak_candidate_bytes : int
        Most bytes of copies of candidates in memory at once.
    """

    passes: int = 0
    vectors: int = 0
    bytes_read: int = 0
    candidate_calls: int = 0
    candidate_bytes: int = 0
    peak_candidate_bytes: int = 0


@dataclass(frozen=True)
class PassAnswer(BestWindows):
    """Every bag's best window, and the best ones of its sections.

    Attributes
    ----------
    others : (n_bags, count) intp
        The best window of every section, best first; -1 where there are fewer.
    """

    others: Index


class WindowRequest(NamedTuple):
    """The windows that a problem requests, by their number among those of all bags."""

    needed: Index  # (m,)
    optional: Index  # (n, count), in each row the better ones first, -1 for none


class Pool:
    """The candidates of all problems.

    Parameters
    ----------
    bags : Bags
        The images.
    count : int
        Number of sections into which a pass cuts every bag, and whose best windows become candidates.
    most_bytes : int, default 2 GiB
        Limit for the copies, which never exceed half of the windows either. Beyond it each problem receives fewer
        optional windows; the needed ones are always copied.

    Attributes
    ----------
    bags : Bags
    n_competing : int
        Number of their windows that compete. Others change no answer, and so must decide nothing here.
    counts : PassCounts
        To which the cost of the candidates is added.
    """

    def __init__(self, bags: Bags, count: int, most_bytes: int = MOST_BYTES):
        self.bags, self._sections = bags, bags.subdivided(count)
        self.counts = PassCounts()
        self._first = self._sections.offsets[:-1]  # of each section, its first window among all
        self._owner = np.searchsorted(bags.offsets, self._first, side="right") - 1
        self._rank = np.arange(len(self._first)) - np.searchsorted(self._owner, self._owner)
        self.count = int(self._rank.max()) + 1  # most sections of a bag
        self.n_competing = int(bags.n_competing.sum())
        self._row_bytes = max(1, bags.dim * bags.dtype.itemsize)
        self._most = int(min(most_bytes // self._row_bytes, _MOST_SHARE * self.n_competing))
        self._requests: dict[Hashable, WindowRequest] = {}
        self._available: dict[Hashable, Index] = {}
        self._slots = np.full(bags.n_windows, -1, dtype=np.int32)
        self._rows = np.empty((0, bags.dim), dtype=bags.dtype)
        self._held = np.empty(0, dtype=np.intp)  # the window in each slot
        self._in_place = bags.on_device  # nothing is copied
        self._source = bags  # replaced once windows are copied
        self._counting = Lock()

    @property
    def n_rows(self) -> int:
        """Number of windows in the pool."""
        return len(self._held)

    def best(self, weights: Float64) -> list[PassAnswer]:
        """Return the answers of one pass over all windows, one for each column of `weights` (d, k)."""
        best = self._sections.best(weights)
        return self._mapped(lambda j: self._answer(best.column(j)), range(weights.shape[1]))

    def _answer(self, best: BestWindows) -> PassAnswer:
        """Return the best windows of the bags from their sections' best ones; the first of equal scores."""
        shape = self.bags.n_bags, self.count
        scores, windows = np.full(shape, -np.inf), np.full(shape, -1)
        scores[self._owner, self._rank] = best.score
        windows[self._owner, self._rank] = self._first - self.bags.offsets[self._owner] + best.index
        order = np.argsort(-scores, axis=1, kind="stable")
        others = np.take_along_axis(windows, order, axis=1)
        return PassAnswer(others[:, 0].copy(), scores[np.arange(len(scores)), order[:, 0]], others)

    @cached_property
    def at_zero(self) -> PassAnswer:
        """The answer at w = 0, where the first competing window of each section is best."""
        return self._answer(best_at_zero(self._sections))

    def request(self, owner: Hashable, request: WindowRequest) -> None:
        """Replace the request of `owner`, from the next `update` on."""
        self._requests[owner] = request

    def release(self, owner: Hashable) -> None:
        """Drop the request of `owner`."""
        self._requests.pop(owner, None)

    def available(self, owner: Hashable) -> Index:
        """Return the windows that `owner` may use, sorted."""
        return self._available.get(owner, np.empty(0, dtype=np.intp))

    def update(self) -> None:
        """Copy the requested windows that are missing, in place of those that are no longer requested."""
        most = max((request.optional.shape[1] for request in self._requests.values()), default=0)
        owners, requests = self._requests.keys(), self._requests.values()
        while True:
            available = self._mapped(partial(self._wanted, most), requests)
            self._available = dict(zip(owners, available, strict=True))
            windows = self._union(self._available.values())
            if len(windows) <= self._most or not most:
                break
            most //= 2
        if not self._in_place:
            self._replace(windows)
        self.counts.peak_candidate_bytes = max(self.counts.peak_candidate_bytes, self.n_rows * self._row_bytes)

    def _mapped(self, function: Callable[[T], S], items: Collection[T]) -> list[S]:
        """Return the function's results for all items, on the threads of passes where that can help."""
        count = min(self.bags.threads, len(items))
        if count <= 1:
            return [function(item) for item in items]
        with ThreadPoolExecutor(count) as threads:
            return list(threads.map(function, items))

    def _wanted(self, most: int, request: WindowRequest) -> Index:
        """Return the needed windows of a request, and of each row at most `most` others."""
        return self._union([request.needed, request.optional[:, :most].ravel()])

    def _union(self, arrays: Iterable[Index]) -> Index:
        """Return all distinct windows, sorted, without -1, by marks, which are faster than sorting."""
        marked = self._marks(arrays)
        marked[-1] = False
        return np.flatnonzero(marked)

    def _marks(self, arrays: Iterable[Index]) -> Array:
        """Return the mask (n_windows + 1,) of these windows, of which the last stands for -1."""
        marked = np.zeros(self.bags.n_windows + 1, dtype=np.bool_)
        for windows in arrays:
            marked[windows] = True
        return marked

    def _replace(self, windows: Index) -> None:
        """Hold these windows and no others."""
        kept = self._marks([windows])[self._held]
        new = windows[self._slots[windows] < 0]
        if kept.all() and not len(new):
            return
        self._slots[self._held[~kept]] = -1
        if len(windows) > len(self._rows):
            self._grow(max(len(windows), min(2 * len(windows), self._most)))
        # slots beyond the new number, and those of evicted windows, are emptied
        stay = kept & (np.arange(len(kept)) < len(windows))
        moved = self._held[kept & ~stay]
        slots = np.setdiff1d(np.arange(len(windows)), np.flatnonzero(stay), assume_unique=True)
        held = np.empty(len(windows), dtype=np.intp)
        held[: len(stay)][stay[: len(windows)]] = self._held[stay]
        self._rows[slots[: len(moved)]] = self._rows[self._slots[moved]]
        owners, free = np.searchsorted(self.bags.offsets, new, side="right") - 1, slots[len(moved) :]
        step = max(1, BATCH_BYTES // self._row_bytes)
        for batch in (slice(first, first + step) for first in range(0, len(new), step)):
            index = new[batch] - self.bags.offsets[owners[batch]]
            self._rows[free[batch]] = self.bags.stored_rows(owners[batch], index)
        held[slots] = np.append(moved, new)
        self._held, self._slots[held] = held, np.arange(len(held), dtype=np.int32)
        self.count_work(read_rows=len(new))
        if len(held):
            self._source = Bags(self._rows[: len(held)], [0, len(held)], self.bags.scale, threads=self.bags.threads)

    def _grow(self, rows: int) -> None:
        """Allocate memory for `rows` rows; pages are cleared, and taken, when they are written to first."""
        larger = np.empty((rows, self._rows.shape[1]), dtype=self._rows.dtype)
        larger[: len(self._held)] = self._rows[: len(self._held)]
        self._rows = larger

    def count_work(self, *, calls: int = 0, scored_rows: int = 0, read_rows: int = 0) -> None:
        """Add to the counts; safe to call from several threads."""
        with self._counting:
            self.counts.candidate_calls += calls
            self.counts.candidate_bytes += scored_rows * self._row_bytes
            self.counts.bytes_read += read_rows * self._row_bytes

    def addresses(self, windows: Index) -> Index:
        """Return where available windows lie (m,), until the next `update`."""
        if not self._in_place:
            return self._slots[windows].astype(np.intp)
        owners = np.searchsorted(self.bags.offsets, windows, side="right") - 1
        return self.bags.addresses(owners, windows - self.bags.offsets[owners])

    def scores(self, weights: ArrayLike, addresses: Index) -> Float64:
        """Return the score (m,) of the windows at these addresses, summed in float64."""
        self.count_work(scored_rows=len(addresses))
        return self._source.score_at(weights, addresses)

    def weighted_sum(self, coefficients: ArrayLike, addresses: Index) -> Float64:
        """Return the float64 sum of coefficients[i] times the window at addresses[i]."""
        return self._source.sum_at(coefficients, addresses)
