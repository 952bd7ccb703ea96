"""Selections: the rows of a store that each bag holds, and the windows that do not compete."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Float64, Index, as_array, as_whole_numbers, check_count, check_same_length
from lapsvm.errors import InputError, ShapeError

Mask = NDArray[np.bool_]


@dataclass(frozen=True, order=True)
class Chunk:
    """Bags `first` to `last` - 1 of a selection, all in one part of a store."""

    part: int
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class Selection:
    """Bag i holds rows starts[i] to stops[i] - 1 of a store; `excluded` (n_windows,) masks excluded windows."""

    starts: Index
    stops: Index
    excluded: Mask | None = None

    @cached_property
    def sizes(self) -> Index:
        """Number of windows of each bag (n_bags,)."""
        return self.stops - self.starts

    @cached_property
    def offsets(self) -> Index:
        """Where each bag begins, bag after bag, and the end (n_bags + 1,)."""
        bounds = np.append(0, np.cumsum(self.sizes)).astype(np.intp)
        bounds.flags.writeable = False  # callers receive this array itself
        return bounds

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.starts)

    @property
    def n_competing(self) -> Index:
        """How many windows of each bag compete (n_bags,)."""
        if self.excluded is None:
            return self.sizes
        return np.asarray(self.sizes - np.add.reduceat(self.excluded, self.offsets[:-1], dtype=int))

    def subset(self, chosen: Index) -> "Selection":
        """Return these bags, in this order."""
        return self._cut(self.starts[chosen], self.stops[chosen], self.offsets[chosen])

    def narrowed(self, index: ArrayLike, name: str) -> "Selection":
        """Return bags in which bag i has only its window index[i], or all where that is -1."""
        chosen = as_whole_numbers(name, index)
        if chosen.shape != (self.n_bags,):
            raise ShapeError(f"{name} must have one window per bag, got shape {chosen.shape} for {self.n_bags} bags.")
        wrong = np.flatnonzero((chosen < -1) | (chosen >= self.sizes))
        if len(wrong):
            raise InputError(
                f"{name} must be -1 or a window inside its bag, got {chosen[wrong[0]]} for bag {wrong[0]} of "
                f"{self.sizes[wrong[0]]} windows."
            )
        before = np.maximum(chosen, 0)
        starts = self.starts + before
        return self._cut(starts, np.where(chosen < 0, self.stops, starts + 1), self.offsets[:-1] + before)

    def subdivided(self, count: int) -> "Selection":
        """Return each bag cut into `count` bags of consecutive windows, of which nearly equally many compete.

        What competes decides, so that windows that other selections need change nothing.
        """
        competing = self.n_competing
        counts = np.clip(competing, 1, min(check_count("count", count), int(self.offsets[-1])))
        owners = np.repeat(np.arange(self.n_bags), counts)
        number = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        windows = np.arange(self.offsets[-1]) if self.excluded is None else np.flatnonzero(~self.excluded)
        cuts = (np.cumsum(competing) - competing)[owners] + number * competing[owners] // counts[owners]
        first = self.offsets[:-1][owners]
        rows = self.starts[owners] - first  # a window's row less its number
        first[number > 0] = windows[cuts[number > 0]]
        end = np.append(first[1:], self.offsets[-1])  # the parts lie end to end
        return self._cut(rows + first, rows + end, first)

    def first(self, count: int) -> "Selection":
        """Return bags of the first `count` windows of each, a number that may exceed 64 bits."""
        sizes = np.minimum(self.sizes, min(count, int(self.offsets[-1])))
        return self._cut(self.starts, self.starts + sizes, self.offsets[:-1])

    def excluding(self, windows: ArrayLike) -> "Selection":
        """Return the same bags, with the windows of a mask (n_windows,) excluded in addition."""
        excluded, n_windows = as_array("windows", windows), int(self.offsets[-1])
        if excluded.dtype != np.bool_:
            raise InputError(f"windows must be true or false, got {excluded.dtype}.")
        if excluded.shape != (n_windows,):
            raise ShapeError(f"windows must be one per window, {n_windows}, got shape {excluded.shape}.")
        excluded = excluded.copy() if self.excluded is None else excluded | self.excluded
        empty = np.flatnonzero(np.logical_and.reduceat(excluded, self.offsets[:-1]))
        if len(empty):
            raise ShapeError(f"every bag must keep one or more windows, got none for bag {empty[0]}.")
        return Selection(self.starts, self.stops, excluded)

    def bags(self, bags: ArrayLike) -> Index:
        """Return checked indices of bags."""
        chosen = as_whole_numbers("bags", bags)
        wrong = (chosen < 0) | (chosen >= self.n_bags)
        if wrong.any():
            raise InputError(f"bags must be from 0 to {self.n_bags - 1}, got {chosen[wrong][0]}.")
        return chosen

    def rows(self, bags: ArrayLike, index: ArrayLike) -> Index:
        """Return the row of window index[i] of bag bags[i]; InputError if it is outside, since kernels do not check."""
        owners, windows = self.bags(bags), as_whole_numbers("index", index)
        check_same_length("bags", owners, "index", windows)
        wrong = (windows < 0) | (windows >= self.sizes[owners])
        if wrong.any():
            first = int(np.argmax(wrong))
            raise InputError(
                f"a window's index must lie inside its bag, got {windows[first]} for a bag of "
                f"{self.sizes[owners[first]]} windows."
            )
        return np.asarray(self.starts[owners] + windows)

    def _cut(self, starts: Index, stops: Index, first: Index) -> "Selection":
        """Return bags of rows starts[i] to stops[i] - 1, whose first window is window first[i] of this selection."""
        if self.excluded is None:
            return Selection(starts, stops)
        return Selection(starts, stops, self.excluded[rows_of(first, first + stops - starts)])


def rows_of(starts: Index, stops: Index) -> Index:
    """Return the rows of all windows of bags, bag after bag."""
    sizes = stops - starts
    return np.asarray(np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum()))


def runs_of(starts: Index, stops: Index) -> tuple[Index, Index]:
    """Return the starts and stops of maximal runs: intervals of which each begins where the previous one ends."""
    new = np.append(True, starts[1:] != stops[:-1])
    return starts[new], stops[np.append(np.flatnonzero(new)[1:] - 1, len(stops) - 1)]


def top_mask(scores: Float64, offsets: Index, count: int | Index) -> Mask:
    """Return the mask (n_windows,) of the `count` highest finite scores of each bag, the first of equal ones."""
    mask = np.zeros(len(scores), dtype=np.bool_)
    for first, bag_scores, most in zip(
        offsets, np.split(scores, offsets[1:-1]), np.broadcast_to(count, len(offsets) - 1), strict=False
    ):
        best = np.argsort(-bag_scores, kind="stable")[:most]
        mask[first + best[bag_scores[best] > -np.inf]] = True
    return mask
