"""Copies of the windows that trainings work on between two passes over all windows.

The store may be larger than memory or lie on a disk; the candidates of all problems that share passes are copied out of
it once, as they are stored, into one array. Windows that several problems want, as folds and values of C do, are held
once. What no problem wants any more makes room.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64, Index
from lapsvm.bags import Bags, BestWindows

MOST_BYTES = 2 << 30
_MOST_SHARE = 0.5  # of all windows; with more of them, passes over all would cost less


@dataclass(frozen=True)
class PassAnswer(BestWindows):
    """Every bag's best window, and the best ones of its parts.

    Attributes
    ----------
    others : (n_bags, count) intp
        The best window of every part, best first; -1 where there are fewer.
    """

    others: Index


class WindowRequest(NamedTuple):
    """The windows that a problem wants to have at hand, by their number among those of all bags."""

    needed: Index  # (m,)
    spare: Index  # (n, count), in each row the better ones first, -1 for none


class Pool:
    """The candidates of all problems.

    Parameters
    ----------
    bags : Bags
        The images.
    count : int
        In how many parts a pass cuts every bag, whose best windows become candidates.
    most_bytes : int, default 2 GiB
        Memory for the copies, which are never more than half of the windows either. Where the wishes ask for more,
        each problem gets fewer of the windows that were not best; those that were are always copied.
    """

    def __init__(self, bags: Bags, count: int, most_bytes: int = MOST_BYTES):
        self._bags, self._parts = bags, bags.subdivided(count)
        self._first = self._parts.offsets[:-1]  # of each part, its first window among all
        self._owner = np.searchsorted(bags.offsets, self._first, side="right") - 1
        self._place = np.arange(len(self._first)) - np.searchsorted(self._owner, self._owner)
        self.count = int(self._place.max()) + 1  # most parts of a bag
        self._empty = self._parts.n_competing == 0
        row_bytes = max(1, bags.dim * bags.dtype.itemsize)
        self._most = int(min(most_bytes // row_bytes, _MOST_SHARE * bags.n_windows))
        self._wishes: dict[Hashable, WindowRequest] = {}
        self._granted: dict[Hashable, Index] = {}
        self._slots = np.full(bags.n_windows, -1, dtype=np.int32)
        self._rows = np.empty((0, bags.dim), dtype=bags.dtype)
        self._held = np.empty(0, dtype=np.intp)  # the window in each slot
        self._copies = bags.subset([0])  # replaced by the first windows that are held
        self._counting = Lock()
        self.calls = self.scored_rows = self.copied_rows = self.read_rows = 0

    @property
    def bags(self) -> Bags:
        """The images."""
        return self._bags

    @property
    def n_rows(self) -> int:
        """Number of windows that are held."""
        return len(self._held)

    def best(self, weights: Float64) -> list[PassAnswer]:
        """Return the answers of one pass over all windows, one for each column of `weights` (d, k)."""
        found = self._parts.best(weights)
        return [self._answer(found.column(j)) for j in range(weights.shape[1])]

    def _answer(self, found: BestWindows) -> PassAnswer:
        """Return what the parts' best windows say of the bags; of parts that score alike the first one wins."""
        shape = self._bags.n_bags, self.count
        scores, windows = np.full(shape, -np.inf), np.full(shape, -1)
        scores[self._owner, self._place] = np.where(self._empty, -np.inf, found.score)
        inside = self._first - self._bags.offsets[self._owner] + found.index
        windows[self._owner, self._place] = np.where(self._empty, -1, inside)
        order = np.argsort(-scores, axis=1, kind="stable")
        others = np.take_along_axis(windows, order, axis=1)
        return PassAnswer(others[:, 0].copy(), scores[np.arange(len(scores)), order[:, 0]], others)

    @cached_property
    def at_zero(self) -> PassAnswer:
        """The answer at w = 0, where of each part the first window that competes is best."""
        zeros = np.zeros(self._bags.dim)
        if np.array_equal(self._bags.n_competing, np.diff(self._bags.offsets)):
            return self._answer(BestWindows(np.zeros(len(self._first), dtype=np.intp), np.zeros(len(self._first))))
        return self.best(zeros[:, None])[0]

    def wish(self, owner: Hashable, wish: WindowRequest) -> None:
        """Note what `owner` wants from the next `renew` on."""
        self._wishes[owner] = wish

    def leave(self, owner: Hashable) -> None:
        """Forget what `owner` wanted."""
        self._wishes.pop(owner, None)

    def granted(self, owner: Hashable) -> Index:
        """Return the windows at hand for `owner`, in their order."""
        return self._granted.get(owner, np.empty(0, dtype=np.intp))

    def renew(self) -> None:
        """Copy the windows that are wished for and not there yet, in place of those that no one wants any more."""
        most = max((wish.spare.shape[1] for wish in self._wishes.values()), default=0)
        while True:
            self._granted = {owner: _joined(wish, most) for owner, wish in self._wishes.items()}
            wanted = _union(self._granted.values())
            if len(wanted) <= self._most or not most:
                break
            most //= 2
        self._hold(wanted)

    def _hold(self, wanted: Index) -> None:
        """Hold these windows alone."""
        kept = np.isin(self._held, wanted, assume_unique=True)
        new = wanted[self._slots[wanted] < 0]
        if kept.all() and not len(new):
            return
        self._slots[self._held[~kept]] = -1
        if len(wanted) > len(self._rows):
            self._grow(len(wanted))
        # windows in slots that will be no more, and those of no one, give way
        stay = kept & (np.arange(len(kept)) < len(wanted))
        moved = self._held[kept & ~stay]
        places = np.setdiff1d(np.arange(len(wanted)), np.flatnonzero(stay), assume_unique=True)
        held = np.empty(len(wanted), dtype=np.intp)
        held[: len(stay)][stay[: len(wanted)]] = self._held[stay]
        self._rows[places[: len(moved)]] = self._rows[self._slots[moved]]
        owners = np.searchsorted(self._bags.offsets, new, side="right") - 1
        self._rows[places[len(moved) :]] = self._bags.stored_rows(owners, new - self._bags.offsets[owners])
        held[places] = np.append(moved, new)
        self._held, self._slots[held] = held, np.arange(len(held), dtype=np.int32)
        self.copied_rows += len(new)
        if len(held):
            self._copies = Bags(self._rows[: len(held)], [0, len(held)], self._bags.scale, threads=self._bags.threads)

    def _grow(self, rows: int) -> None:
        """Make room for so many rows."""
        larger = np.empty((rows, self._rows.shape[1]), dtype=self._rows.dtype)
        larger[: len(self._held)] = self._rows[: len(self._held)]
        self._rows = larger

    def count_work(self, *, calls: int = 0, scored_rows: int = 0, read_rows: int = 0) -> None:
        """Add to the counts; trainings do so side by side."""
        with self._counting:
            self.calls, self.scored_rows = self.calls + calls, self.scored_rows + scored_rows
            self.read_rows += read_rows

    def scores(self, weights: ArrayLike, windows: Index) -> Float64:
        """Return the score (m,) of windows that are held, summed in float64."""
        self.count_work(scored_rows=len(windows))
        zeros = np.zeros(len(windows), dtype=np.intp)
        return self._copies.score_rows(weights, zeros, self._slots[windows].astype(np.intp))

    def weighted_sum(self, coefficients: ArrayLike, windows: Index) -> Float64:
        """Return the float64 sum of coefficients[i] times window i, of those that are held."""
        zeros = np.zeros(len(windows), dtype=np.intp)
        return self._copies.sum_rows(coefficients, zeros, self._slots[windows].astype(np.intp))


def _joined(wish: WindowRequest, most: int) -> Index:
    """Return the needed windows and `most` spare ones of each row, in their order."""
    return _union([wish.needed, wish.spare[:, :most].ravel()])


def _union(parts: Iterable[Index]) -> Index:
    """Return all windows once, in their order, without -1."""
    several = [*parts]
    windows = np.unique(np.concatenate(several)) if several else np.empty(0, dtype=np.intp)
    return np.asarray(windows[np.searchsorted(windows, 0) :], dtype=np.intp)
