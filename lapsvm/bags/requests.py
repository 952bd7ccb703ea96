"""What can be asked of every bag of a selection: each kind of work is a function of one block of windows.

Work knows neither files nor threads nor the rest of the store, and travels to whoever holds the windows: it is plain
data. `answer` gets bags in memory and tells of each bag, in order, some rows of one or more arrays; a pass puts the
answers to all blocks behind each other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lapsvm._ext import bags as _kernel
from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags.scoring import Block, Question, as_stored, best_in
from lapsvm.bags.selection import Mask, Selection, rows_of, runs_of

Answer = tuple[Array, ...]
Answering = Callable[[Block, Mask | None], Answer]


class Work(Protocol):
    """What a pass asks of every bag."""

    def products(self, dim: int) -> int:
        """Return how many products it costs for each window."""
        ...

    def places(self, selection: Selection) -> Index:
        """Return where the answer of each bag begins, and the end (n_bags + 1,)."""
        ...

    def room(self, count: int, dim: int, dtype: np.dtype[Any]) -> Answer:
        """Return arrays for so many rows of answers, of a store of this kind."""
        ...

    def answering(self, dtype: np.dtype[Any]) -> Answering:
        """Return what answers for a block of this type, and for which of its windows do not compete."""
        ...


@dataclass(frozen=True, eq=False)
class Best:
    """The best window of each bag for the columns of `weights` (d, k), whose scale is folded in: index and score."""

    weights: Float64

    def products(self, dim: int) -> int:
        """Return how many products it costs for each window."""
        return dim * int(self.weights.shape[1])

    def places(self, selection: Selection) -> Index:
        """Return one row for each bag."""
        return np.arange(selection.n_bags + 1)

    def room(self, count: int, dim: int, dtype: np.dtype[Any]) -> Answer:  # noqa: ARG002
        """Return arrays of windows and scores."""
        shape = count, self.weights.shape[1]
        return np.empty(shape, dtype=np.intp), np.empty(shape)

    def answering(self, dtype: np.dtype[Any]) -> Answering:
        """Return `best_in` for these weights."""
        question = Question.of(self.weights, dtype)
        return lambda block, excluded: tuple(best_in(block, question, excluded))


@dataclass(frozen=True, eq=False)
class Scores:
    """The score of every window, -inf where it does not compete."""

    weights: Float64

    def products(self, dim: int) -> int:
        """Return how many products it costs for each window."""
        return dim

    def places(self, selection: Selection) -> Index:
        """Return one row for each window."""
        return selection.offsets

    def room(self, count: int, dim: int, dtype: np.dtype[Any]) -> Answer:  # noqa: ARG002
        """Return an array of scores."""
        return (np.empty(count),)

    def answering(self, dtype: np.dtype[Any]) -> Answering:  # noqa: ARG002
        """Return what scores windows."""
        return self._scores

    def _scores(self, block: Block, excluded: Mask | None) -> Answer:
        scores = np.empty(int((block.stops - block.starts).sum()))
        place = 0
        for start, stop in zip(*runs_of(block.starts, block.stops), strict=True):
            rows = as_stored(block.features[start:stop])
            _kernel.all_scores(rows, self.weights, scores[place : place + len(rows)])
            place += len(rows)
        if excluded is not None:
            scores[excluded] = -np.inf
        return (scores,)


@dataclass(frozen=True, eq=False)
class Means:
    """The mean of the windows of each bag, without the scale, whether they compete or not."""

    def products(self, dim: int) -> int:
        """Return how many products it costs for each window."""
        return dim

    def places(self, selection: Selection) -> Index:
        """Return one row for each bag."""
        return np.arange(selection.n_bags + 1)

    def room(self, count: int, dim: int, dtype: np.dtype[Any]) -> Answer:  # noqa: ARG002
        """Return an array of means."""
        return (np.empty((count, dim)),)

    def answering(self, dtype: np.dtype[Any]) -> Answering:  # noqa: ARG002
        """Return what takes means."""
        return self._means

    @staticmethod
    def _means(block: Block, _: Mask | None) -> Answer:
        means, stored = np.zeros((len(block.starts), block.features.shape[1])), as_stored(block.features)
        for mean, start, stop in zip(means, block.starts, block.stops, strict=True):
            rows = np.arange(start, stop)
            _kernel.add_rows(stored, rows, np.full(len(rows), 1 / len(rows)), mean)
        return (means,)


@dataclass(frozen=True, eq=False)
class Norms:
    """The sum over each bag of its windows' Euclidean norms times `scale` (d,)."""

    scale: Float64

    def products(self, dim: int) -> int:
        """Return how many products it costs for each window."""
        return dim

    def places(self, selection: Selection) -> Index:
        """Return one row for each bag."""
        return np.arange(selection.n_bags + 1)

    def room(self, count: int, dim: int, dtype: np.dtype[Any]) -> Answer:  # noqa: ARG002
        """Return an array of sums."""
        return (np.empty(count),)

    def answering(self, dtype: np.dtype[Any]) -> Answering:  # noqa: ARG002
        """Return what sums norms."""
        return self._norms

    def _norms(self, block: Block, _: Mask | None) -> Answer:
        sums = np.empty(len(block.starts))
        _kernel.sums_of_norms(as_stored(block.features), block.starts, block.stops, self.scale, sums)
        return (sums,)


@dataclass(frozen=True, eq=False)
class Copies:
    """The windows that compete, as they are stored."""

    def products(self, dim: int) -> int:
        """Return how many products it costs for each window."""
        return dim

    def places(self, selection: Selection) -> Index:
        """Return one row for each window that competes."""
        return np.append(0, np.cumsum(selection.n_competing)).astype(np.intp)

    def room(self, count: int, dim: int, dtype: np.dtype[Any]) -> Answer:
        """Return an array of windows."""
        return (np.empty((count, dim), dtype=dtype),)

    def answering(self, dtype: np.dtype[Any]) -> Answering:  # noqa: ARG002
        """Return what copies windows."""
        return self._copies

    @staticmethod
    def _copies(block: Block, excluded: Mask | None) -> Answer:
        rows = rows_of(block.starts, block.stops)
        return (block.features[rows if excluded is None else rows[~excluded]],)
