"""Bags in memory: the windows of all images in one array, and where each image begins and ends."""

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm._ext import bags as _kernel
from lapsvm.arrays import (
    Array,
    Float64,
    Index,
    as_floats,
    as_numbers,
    as_whole_numbers,
    check_count,
    check_finite,
    check_same_length,
)
from lapsvm.bags.checks import as_features, as_offsets, as_parts, as_scale, available_threads
from lapsvm.bags.scoring import (
    BLOCK_NUMBERS,
    BestWindows,
    Layout,
    as_stored,
    best_windows,
    plan,
    window_scores,
)
from lapsvm.errors import InputError, ShapeError, StageError


class Bags:
    """Images as bags of windows.

    The features are never copied, neither to another type nor to apply `scale`: that is folded into the weights.

    Parameters
    ----------
    features : (n_windows, d) float16, float32 or float64
        The windows of bag 0, then those of bag 1, ...; other types of number become float64.
    offsets : (n_bags + 1,) int
        Bag i holds the windows offsets[i] to offsets[i + 1] - 1; from 0 to n_windows, every bag at least one.
    scale : None, float or (d,), default None
        What every feature is multiplied with, all together or one by one.
    threads : int, optional
        Threads of a pass; by default as many as this process may use.

    Raises
    ------
    ShapeError
        If the shapes do not fit, or a bag has no windows.
    NotFiniteError
        If a feature, or the scale, is NaN or infinite.
    """

    def __init__(
        self,
        features: ArrayLike,
        offsets: ArrayLike,
        scale: ArrayLike | None = None,
        *,
        threads: int | None = None,
    ):
        self._features = as_features(features)
        bounds = as_offsets(offsets, len(self._features))
        self._starts, self._stops = bounds[:-1], bounds[1:]
        self._excluded: NDArray[np.bool_] | None = None
        self.scale = as_scale(scale, self.dim)
        self.threads = available_threads() if threads is None else check_count("threads", threads)

    @classmethod
    def from_arrays(
        cls, arrays: Sequence[ArrayLike], scale: ArrayLike | None = None, *, threads: int | None = None
    ) -> "Bags":
        """Return bags made of one (n_i, d) array per image; they are copied into one array."""
        parts = as_parts(arrays)
        for i, part in enumerate(parts):
            if part.ndim != 2 or not len(part) or part.shape[1] != parts[0].shape[-1]:
                raise ShapeError(
                    f"every bag must be an array of one or more windows with the same number of features, "
                    f"got shape {part.shape} for bag {i} after {parts[0].shape} for bag 0."
                )
        offsets = np.cumsum([0, *(len(part) for part in parts)])
        return cls(np.concatenate(parts), offsets, scale, threads=threads)

    @classmethod
    def open(
        cls,
        run_folder: str | os.PathLike[str],
        split: str,
        scale: ArrayLike | None = None,
        *,
        threads: int | None = None,
    ) -> "Bags":
        """Return the bags of `split` in a run folder: its shards, by name, one after the other, held in memory.

        Raises
        ------
        StageError
            If the folder has no shards of this split.
        """
        from lapsvm.features import open_shards

        folder = Path(run_folder, "shards", split)
        if not any(folder.glob("*.safetensors")):
            raise StageError(f"{folder} must hold shards, which `extract` writes, got none.")
        shards = open_shards(folder)
        features = np.empty((shards.n_windows, shards.dim), dtype=shards.dtype)
        counts, end = [], 0
        for shard in shards:
            features[end : end + len(shard.features)] = shard.features
            counts.append(np.diff(shard.offsets))
            end += len(shard.features)
        return cls(features, np.append(0, np.cumsum(np.concatenate(counts))), scale, threads=threads)

    def subset(self, bag_indices: ArrayLike | slice) -> "Bags":
        """Return these bags, in this order, over the same features (nothing is copied); a mask (n_bags,) works too."""
        places: Any = bag_indices if isinstance(bag_indices, slice) else np.asarray(bag_indices)
        if isinstance(places, np.ndarray) and places.dtype != np.bool_:
            places = as_whole_numbers("bag_indices", places)
        try:
            chosen = np.arange(self.n_bags)[places]
        except IndexError as error:
            raise InputError(f"bag_indices must be those of {self.n_bags} bags; {error}.") from None
        if chosen.ndim != 1 or not len(chosen):
            raise ShapeError(f"bag_indices must choose one or more bags, got shape {chosen.shape}.")
        return self._view(self._starts[chosen], self._stops[chosen], self.offsets[chosen])

    def narrowed(self, index: ArrayLike, name: str = "index") -> "Bags":
        """Return these bags, of which bag i has only its window index[i], or all where that is -1; nothing is copied.

        Errors call the index by its `name`.

        Raises
        ------
        ShapeError
            If there is not one index per bag.
        InputError
            If an index is no whole number, below -1 or outside its bag.
        """
        chosen, sizes = as_whole_numbers(name, index), self._stops - self._starts
        if chosen.shape != (self.n_bags,):
            raise ShapeError(f"{name} must have one window per bag, got shape {chosen.shape} for {self.n_bags} bags.")
        wrong = np.flatnonzero((chosen < -1) | (chosen >= sizes))
        if len(wrong):
            raise InputError(
                f"{name} must be -1 or a window inside its bag, got {chosen[wrong[0]]} for bag {wrong[0]} of "
                f"{sizes[wrong[0]]} windows."
            )
        before = np.maximum(chosen, 0)
        starts = self._starts + before
        return self._view(starts, np.where(chosen < 0, self._stops, starts + 1), self.offsets[:-1] + before)

    def parts(self, count: int) -> "Bags":
        """Return each bag cut into `count` bags of consecutive windows, nearly alike in size; nothing is copied.

        A bag of fewer windows becomes one bag per window. Where all windows of a part are excluded, none competes in
        it (`n_competing` is 0), and what `best` says of it means nothing.

        Raises
        ------
        InputError
            If `count` is no whole number of 1 or more.
        """
        sizes = self._stops - self._starts
        counts = np.minimum(sizes, check_count("count", count))
        owners = np.repeat(np.arange(self.n_bags), counts)
        number = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        begin, end = (place * sizes[owners] // counts[owners] for place in (number, number + 1))
        first = self._starts[owners]
        return self._view(first + begin, first + end, self.offsets[:-1][owners] + begin)

    def excluding(self, windows: ArrayLike) -> "Bags":
        """Return these bags, of whose windows some do not compete: they are never best, and `score_windows` is -inf.

        Windows keep their numbers; nothing is copied. What was excluded before still is.

        Parameters
        ----------
        windows : (n_windows,) bool
            True for those that are excluded, in the order of `score_windows`.

        Raises
        ------
        ShapeError
            If there is not one value per window, or a bag has no window left.
        InputError
            If the values are not true or false.
        """
        excluded = np.asarray(windows)
        if excluded.dtype != np.bool_:
            raise InputError(f"windows must be true or false, got {excluded.dtype}.")
        if excluded.shape != (self.n_windows,):
            raise ShapeError(f"windows must be one per window, {self.n_windows}, got shape {excluded.shape}.")
        excluded = excluded if self._excluded is None else excluded | self._excluded
        empty = np.flatnonzero(np.logical_and.reduceat(excluded, self.offsets[:-1]))
        if len(empty):
            raise ShapeError(f"every bag must keep one or more windows, got none for bag {empty[0]}.")
        view = self._view(self._starts, self._stops, self.offsets[:-1])
        view._excluded = excluded
        return view

    def kept(self, count: int, weights: ArrayLike | None = None) -> "Bags":
        """Return these bags with at most `count` windows each, in their order.

        Without `weights` (d,) the first ones are kept, which are a proposal method's best, and nothing is copied. With
        them those are kept, and copied, that score best, of equals the first (T of A. Behl's thesis, section 4.1).

        Raises
        ------
        InputError
            If `count` is no whole number of 1 or more.
        """
        check_count("count", count)
        if weights is None:
            stops = np.minimum(self._stops, self._starts + count)
            return self._view(self._starts, stops, self.offsets[:-1])
        return self.taken(self.best_of_each(count, weights))

    def best_of_each(self, count: int | Index, weights: ArrayLike) -> NDArray[np.bool_]:
        """Tell of every window (n_windows,) whether it is among the `count` best-scored of its bag.

        `count` is one number for all bags or (n_bags,); of equals the first are. An excluded window never is.
        """
        scores = np.split(self.score_windows(weights), self.offsets[1:-1])
        chosen = np.zeros(self.n_windows, dtype=np.bool_)
        for first, own, most in zip(self.offsets, scores, np.broadcast_to(count, self.n_bags), strict=False):
            best = np.argsort(-own, kind="stable")[:most]
            chosen[first + best[own[best] > -np.inf]] = True
        return chosen

    def taken(self, windows: NDArray[np.bool_]) -> "Bags":
        """Return bags of copies of the windows for which `windows` (n_windows,) is true; each bag must keep one."""
        sizes = np.diff(self.offsets)
        rows = np.repeat(self._starts - self.offsets[:-1], sizes) + np.arange(self.n_windows)
        offsets = np.append(0, np.add.reduceat(windows, self.offsets[:-1], dtype=np.intp).cumsum())
        return type(self)(self._features[rows[windows]], offsets, self.scale, threads=self.threads)

    def scaled(self, factor: ArrayLike) -> "Bags":
        """Return the same bags with their features multiplied by `factor`, one number or (d,); nothing is copied."""
        view = self._view(self._starts, self._stops, self.offsets[:-1])
        view.scale = np.asarray(self.scale * as_scale(factor, self.dim))
        return view

    def _view(self, starts: Index, stops: Index, first: Index) -> "Bags":
        """Return bags over the same store, `first` telling which window here is the first of each."""
        view = object.__new__(type(self))
        view._features, view.scale, view.threads = self._features, self.scale, self.threads
        view._starts, view._stops, view._excluded = starts, stops, None
        if self._excluded is not None:
            sizes = stops - starts
            places = np.repeat(first - np.append(0, np.cumsum(sizes)[:-1]), sizes) + np.arange(sizes.sum())
            view._excluded = self._excluded[places]
        return view

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self._starts)

    @property
    def n_windows(self) -> int:
        """Number of windows of all bags."""
        return int(self.offsets[-1])

    @property
    def n_competing(self) -> Index:
        """How many windows of each bag compete (n_bags,): all that are not excluded."""
        sizes = np.diff(self.offsets)
        return (
            sizes if self._excluded is None else sizes - np.add.reduceat(self._excluded, self.offsets[:-1], dtype=int)
        )

    @property
    def dim(self) -> int:
        """Number of features of a window."""
        return int(self._features.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type in which the features are stored."""
        return self._features.dtype

    @cached_property
    def offsets(self) -> Index:
        """Where each bag begins in the order of `score_windows`, and the end (n_bags + 1,)."""
        return np.append(0, np.cumsum(self._stops - self._starts)).astype(np.intp)

    @cached_property
    def _layout(self) -> Layout:
        return plan(self._starts, self._stops)

    def __len__(self) -> int:
        return self.n_bags

    def __repr__(self) -> str:
        return f"Bags({self.n_bags} bags, {self.n_windows} windows, {self.dim} features, {self.dtype})"

    @property
    def shape(self) -> tuple[int]:
        """(n_bags,), so that scikit-learn's splitters index bags like any samples."""
        return (self.n_bags,)

    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> Float64: ...

    @overload
    def __getitem__(self, key: ArrayLike | slice | tuple[Any, ...]) -> "Bags": ...

    def __getitem__(self, key: Any) -> "Float64 | Bags":
        """Return the scaled features (n_i, d) of one bag, float64, or, for an array, a mask or a slice, a subset."""
        if isinstance(key, (int, np.integer)):
            return self._scaled(self._features[self._starts[key] : self._stops[key]])
        if isinstance(key, tuple):  # scikit-learn writes X[indices, ...]
            key = key[0]
        return self.subset(key)

    def best(self, weights: ArrayLike, *, block_numbers: int = BLOCK_NUMBERS) -> BestWindows:
        """Return the best window of every bag for each weight vector, in one pass over the features.

        Parameters
        ----------
        weights : (d,) or (d, k)
            One weight vector, or one per column.
        block_numbers : int, optional
            Numbers in the blocks that are scored at once.

        Returns
        -------
        BestWindows
            `index` and `score`, (n_bags,) for one vector or (n_bags, k). Windows compete with scores summed in
            float32 (float64 where the features are); the score returned is the winner's, summed in float64.
        """
        folded = self._folded(weights)
        columns = folded[:, None] if folded.ndim == 1 else folded
        found = best_windows(self._features, self._layout, columns, self.threads, block_numbers, self._excluded)
        return found.column(0) if folded.ndim == 1 else found

    def score_windows(self, weights: ArrayLike) -> Float64:
        """Return the score (n_windows,) of every window, bag after bag, summed in float64."""
        scores = window_scores(self._features, self._layout, self._folded(weights, most=1), self.threads)
        if self._excluded is not None:
            scores[self._excluded] = -np.inf
        return scores

    def rows(self, bags: ArrayLike, index: ArrayLike) -> Float64:
        """Return the scaled features (m, d), float64, of window index[i] of bag bags[i]."""
        return self._scaled(self._features[self._rows(bags, index)])

    def stored_rows(self, bags: ArrayLike, index: ArrayLike) -> Array:
        """Return copies (m, d), as stored and without the scale, of window index[i] of bag bags[i]."""
        return np.asarray(self._features[self._rows(bags, index)])

    def weighted_sum(self, coefficients: ArrayLike, index: ArrayLike) -> Float64:
        """Return the float64 sum over bags of coefficients[i] times window index[i]; zero coefficients cost nothing."""
        return self.sum_rows(coefficients, np.arange(self.n_bags), index)

    def sum_rows(self, coefficients: ArrayLike, bags: ArrayLike, index: ArrayLike) -> Float64:
        """Return the float64 sum over i of coefficients[i] times window index[i] of bag bags[i]."""
        factors, rows = as_floats("coefficients", coefficients, ndim=1), self._rows(bags, index)
        check_same_length("coefficients", factors, "index", rows)
        used, total = np.flatnonzero(factors), np.zeros(self.dim)
        _kernel.add_rows(as_stored(self._features), rows[used], factors[used], total)
        return np.asarray(total * self.scale)

    def score_rows(self, weights: ArrayLike, bags: ArrayLike, index: ArrayLike) -> Float64:
        """Return the score (m,) of window index[i] of bag bags[i], summed in float64."""
        folded = self._folded(weights, most=1)[None]
        rows = self._rows(bags, index)[:, None]
        scores = np.empty((len(rows), 1))
        _kernel.row_scores(as_stored(self._features), rows, folded, scores)
        return scores[:, 0]

    def means(self, bags: ArrayLike | None = None) -> Float64:
        """Return the mean (m, d), float64, of the scaled windows of each of these bags, by default of all."""
        chosen = np.arange(self.n_bags) if bags is None else self._bags(bags)
        means = np.zeros((len(chosen), self.dim))
        for mean, start, stop in zip(means, self._starts[chosen], self._stops[chosen], strict=True):
            rows = np.arange(start, stop)
            _kernel.add_rows(as_stored(self._features), rows, np.full(len(rows), 1 / len(rows)), mean)
        return np.asarray(means * self.scale)

    def mean_norm(self) -> float:
        """Return the mean Euclidean norm of the scaled windows."""
        scale = np.ascontiguousarray(np.broadcast_to(self.scale, (self.dim,)))
        parts = (self._features[chunk.start : chunk.stop] for chunk in self._layout.chunks)
        return sum(_kernel.sum_of_norms(as_stored(part), scale) for part in parts) / self.n_windows

    def _bags(self, bags: ArrayLike) -> Index:
        """Return checked places of bags."""
        chosen = as_whole_numbers("bags", bags)
        if ((chosen < 0) | (chosen >= self.n_bags)).any():
            wrong = chosen[(chosen < 0) | (chosen >= self.n_bags)][0]
            raise InputError(f"bags must be from 0 to {self.n_bags - 1}, got {wrong}.")
        return chosen

    def _rows(self, bags: ArrayLike, index: ArrayLike) -> Index:
        """Return places in the store; a window outside its bag is refused, for the kernels do not look."""
        owners, windows = self._bags(bags), as_whole_numbers("index", index)
        check_same_length("bags", owners, "index", windows)
        starts, stops = self._starts[owners], self._stops[owners]
        rows = starts + windows
        if ((windows < 0) | (rows >= stops)).any():
            wrong = int(np.argmax((windows < 0) | (rows >= stops)))
            raise InputError(
                f"a window's index must lie inside its bag, got {windows[wrong]} for a bag of "
                f"{stops[wrong] - starts[wrong]} windows."
            )
        return rows

    def _scaled(self, features: Array) -> Float64:
        return np.asarray(features.astype(np.float64) * self.scale)

    def _folded(self, weights: ArrayLike, most: int = 2) -> Float64:
        """Return checked weights with the scale multiplied in, contiguous."""
        array = as_numbers("weights", weights)
        if array.ndim not in range(1, most + 1) or len(array) != self.dim:
            raise ShapeError(f"weights must have {self.dim} rows, one per feature, got shape {array.shape}.")
        check_finite("weights", array)
        scale = self.scale if array.ndim == 1 or self.scale.ndim == 0 else self.scale[:, None]
        return np.ascontiguousarray(array * scale)


def as_bags(bags: "Bags | Sequence[ArrayLike]") -> Bags:
    """Return `bags` itself, or bags made of a sequence of (n_i, d) arrays."""
    return bags if isinstance(bags, Bags) else Bags.from_arrays(bags)
