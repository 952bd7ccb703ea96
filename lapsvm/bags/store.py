"""Bags in memory: the windows of all images in one array, and where each image begins and ends."""

import os
from collections.abc import Sequence
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from lapsvm._ext import bags as _kernel
from lapsvm.arrays import Array, Float64, Index, check_finite
from lapsvm.bags.scoring import (
    BLOCK_NUMBERS,
    BestWindows,
    Layout,
    as_stored,
    best_windows,
    plan,
    window_scores,
)
from lapsvm.errors import InputError, NotFiniteError, ShapeError, StageError

_STORED = (np.float16, np.float32, np.float64)


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
        self._features = _as_features(features)
        bounds = _as_offsets(offsets, len(self._features))
        self._starts, self._stops = bounds[:-1], bounds[1:]
        self.scale = _as_scale(scale, self.dim)
        self.threads = _available_threads() if threads is None else threads

    @classmethod
    def from_arrays(
        cls, arrays: Sequence[ArrayLike], scale: ArrayLike | None = None, *, threads: int | None = None
    ) -> "Bags":
        """Return bags made of one (n_i, d) array per image; they are copied into one array."""
        parts = [np.asarray(array) for array in arrays]
        if not parts:
            raise ShapeError("bags must be one or more, got 0.")
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
        places = bag_indices if isinstance(bag_indices, slice) else np.asarray(bag_indices)
        chosen = np.arange(self.n_bags)[places]
        if chosen.ndim != 1 or not len(chosen):
            raise ShapeError(f"bag_indices must choose one or more bags, got shape {chosen.shape}.")
        return self._view(self._starts[chosen], self._stops[chosen], self.scale)

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
        chosen, sizes = np.asarray(index), self._stops - self._starts
        if chosen.shape != (self.n_bags,):
            raise ShapeError(f"{name} must have one window per bag, got shape {chosen.shape} for {self.n_bags} bags.")
        if chosen.dtype.kind not in "iu":
            raise InputError(f"{name} must be whole numbers, got {chosen.dtype}.")
        wrong = np.flatnonzero((chosen < -1) | (chosen >= sizes))
        if len(wrong):
            raise InputError(
                f"{name} must be -1 or a window inside its bag, got {chosen[wrong[0]]} for bag {wrong[0]} of "
                f"{sizes[wrong[0]]} windows."
            )
        starts = self._starts + np.maximum(chosen, 0)
        return self._view(starts, np.where(chosen < 0, self._stops, starts + 1), self.scale)

    def kept(self, count: int, weights: ArrayLike | None = None) -> "Bags":
        """Return these bags with at most `count` windows each, in their order.

        Without `weights` (d,) the first ones are kept, which are a proposal method's best, and nothing is copied. With
        them those are kept, and copied, that score best, of equals the first (T of A. Behl's thesis, section 4.1).

        Raises
        ------
        InputError
            If `count` is no whole number of 1 or more.
        """
        if not (isinstance(count, Integral) and count >= 1):
            raise InputError(f"count must be a whole number of 1 or more, got {count!r}.")
        if weights is None:
            return self._view(self._starts, np.minimum(self._stops, self._starts + count), self.scale)
        scores = np.split(self.score_windows(weights), self.offsets[1:-1])
        chosen = [np.sort(np.argsort(-own, kind="stable")[:count]) for own in scores]
        rows = np.concatenate([start + own for start, own in zip(self._starts, chosen, strict=True)])
        offsets = np.append(0, np.cumsum([len(own) for own in chosen]))
        return type(self)(self._features[rows], offsets, self.scale, threads=self.threads)

    def scaled(self, factor: ArrayLike) -> "Bags":
        """Return the same bags with their features multiplied by `factor`, one number or (d,); nothing is copied."""
        return self._view(self._starts, self._stops, np.asarray(self.scale * _as_scale(factor, self.dim)))

    def _view(self, starts: Index, stops: Index, scale: Float64) -> "Bags":
        view = object.__new__(type(self))
        view._features, view.threads = self._features, self.threads
        view._starts, view._stops, view.scale = starts, stops, scale
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
        found = best_windows(self._features, self._layout, columns, self.threads, block_numbers)
        return found.column(0) if folded.ndim == 1 else found

    def score_windows(self, weights: ArrayLike) -> Float64:
        """Return the score (n_windows,) of every window, bag after bag, summed in float64."""
        return window_scores(self._features, self._layout, self._folded(weights, most=1), self.threads)

    def rows(self, bags: ArrayLike, index: ArrayLike) -> Float64:
        """Return the scaled features (m, d), float64, of window index[i] of bag bags[i]."""
        return self._scaled(self._features[self._rows(np.asarray(bags), np.asarray(index))])

    def weighted_sum(self, coefficients: ArrayLike, index: ArrayLike) -> Float64:
        """Return the float64 sum over bags of coefficients[i] times window index[i]; zero coefficients cost nothing."""
        return self.sum_rows(coefficients, np.arange(self.n_bags), index)

    def sum_rows(self, coefficients: ArrayLike, bags: ArrayLike, index: ArrayLike) -> Float64:
        """Return the float64 sum over i of coefficients[i] times window index[i] of bag bags[i]."""
        factors = np.asarray(coefficients, dtype=np.float64)
        used = np.flatnonzero(factors)
        total = np.zeros(self.dim)
        rows = self._rows(np.asarray(bags)[used], np.asarray(index)[used])
        _kernel.add_rows(as_stored(self._features), rows, factors[used], total)
        return np.asarray(total * self.scale)

    def score_rows(self, weights: ArrayLike, bags: ArrayLike, index: ArrayLike) -> Float64:
        """Return the score (m,) of window index[i] of bag bags[i], summed in float64."""
        folded = self._folded(weights, most=1)[None]
        rows = self._rows(np.asarray(bags), np.asarray(index))[:, None]
        scores = np.empty((len(rows), 1))
        _kernel.row_scores(as_stored(self._features), rows, folded, scores)
        return scores[:, 0]

    def means(self, bags: ArrayLike | None = None) -> Float64:
        """Return the mean (m, d), float64, of the scaled windows of each of these bags, by default of all."""
        chosen = np.arange(self.n_bags) if bags is None else np.asarray(bags)
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

    def _rows(self, bags: Index, index: Index) -> Index:
        """Return places in the store; a window outside its bag is refused, for the kernels do not look."""
        starts, stops = self._starts[bags], self._stops[bags]
        rows = starts + index
        if ((index < 0) | (rows >= stops)).any():
            wrong = int(np.argmax((index < 0) | (rows >= stops)))
            raise InputError(
                f"a window's index must lie inside its bag, got {index[wrong]} for a bag of "
                f"{stops[wrong] - starts[wrong]} windows."
            )
        return rows.astype(np.intp)

    def _scaled(self, features: Array) -> Float64:
        return np.asarray(features.astype(np.float64) * self.scale)

    def _folded(self, weights: ArrayLike, most: int = 2) -> Float64:
        """Return checked weights with the scale multiplied in, contiguous."""
        array = np.asarray(weights, dtype=np.float64)
        if array.ndim not in range(1, most + 1) or len(array) != self.dim:
            raise ShapeError(f"weights must have {self.dim} rows, one per feature, got shape {array.shape}.")
        check_finite("weights", array)
        scale = self.scale if array.ndim == 1 or self.scale.ndim == 0 else self.scale[:, None]
        return np.ascontiguousarray(array * scale)


def as_bags(bags: "Bags | Sequence[ArrayLike]") -> Bags:
    """Return `bags` itself, or bags made of a sequence of (n_i, d) arrays."""
    return bags if isinstance(bags, Bags) else Bags.from_arrays(bags)


def _available_threads() -> int:
    """Return how many processors this process may use; macOS and Windows tell only how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _as_features(features: ArrayLike) -> Array:
    array = np.asarray(features)
    if array.dtype not in _STORED:
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise InputError(f"features must be numbers, got {array.dtype}.") from None
    array = np.ascontiguousarray(array)
    if array.ndim != 2 or not array.shape[1]:
        raise ShapeError(f"features must have shape (n_windows, d) with d >= 1, got {array.shape}.")
    row = _kernel.first_broken_row(as_stored(array))
    if row >= 0:
        raise NotFiniteError(f"features must be finite, got {_first_broken(array[row])} in window {row}.")
    return array


def _first_broken(row: Array) -> float:
    return float(row[~np.isfinite(row)][0])


def _as_offsets(offsets: ArrayLike, n_windows: int) -> Index:
    given = np.asarray(offsets)
    bounds = given.astype(np.intp)
    if given.ndim != 1 or len(given) < 2 or not np.array_equal(given, bounds):
        raise ShapeError(f"offsets must be n_bags + 1 >= 2 whole numbers, got shape {given.shape} of {given.dtype}.")
    if bounds[0] != 0 or bounds[-1] != n_windows:
        raise ShapeError(f"offsets must run from 0 to {n_windows}, got {bounds[0]} to {bounds[-1]}.")
    if (np.diff(bounds) < 1).any():
        bag = int(np.argmax(np.diff(bounds) < 1))
        raise ShapeError(f"every bag must have one or more windows, got {bounds[bag + 1] - bounds[bag]} for bag {bag}.")
    return bounds


def _as_scale(scale: ArrayLike | None, dim: int) -> Float64:
    array = np.asarray(1.0 if scale is None else scale, dtype=np.float64)
    if array.shape not in ((), (dim,)):
        raise ShapeError(f"scale must be one number or {dim}, got shape {array.shape}.")
    check_finite("scale", np.atleast_1d(array))
    return array
