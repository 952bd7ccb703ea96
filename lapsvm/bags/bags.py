"""Bags: the windows of all images, in memory or over shards, and where each image begins and ends."""

import os
from collections.abc import Callable, Sequence
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
from lapsvm.bags.opening import open_folder
from lapsvm.bags.passes import Pass, plan
from lapsvm.bags.scoring import BestWindows, as_stored
from lapsvm.bags.selection import Chunk, Selection
from lapsvm.bags.stores.local import Store
from lapsvm.bags.stores.parts import MemoryPart
from lapsvm.bags.stores.reading import Reading, Visitor
from lapsvm.bags.totals import bag_means, copies, mean_norm, window_scores
from lapsvm.bfloat16 import type_name, widened
from lapsvm.cluster import Cluster
from lapsvm.errors import InputError, ShapeError


class Bags:
    """Images as bags of windows.

    The features are never copied, neither to another type nor to apply `scale`: that is folded into the weights.

    Parameters
    ----------
    features : (n_windows, d) float16, float32, float64 or `lapsvm.bfloat16.BFLOAT16`
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
        self._set(Store([MemoryPart(as_features(features))]), offsets, scale, threads)

    def _set(self, store: Store, offsets: ArrayLike, scale: ArrayLike | None, threads: int | None) -> None:
        """Take over a store and check everything else."""
        bounds = as_offsets(offsets, int(store.bounds[-1]))
        self._store, self._selection = store, Selection(bounds[:-1], bounds[1:])
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
        memory: int | str | None = None,
        verify: bool = False,
        transform: Callable[[Array], Array] | None = None,
        visit: Visitor | None = None,
        device: str = "cpu",
        cluster: Cluster | None = None,
    ) -> "Bags":
        """Return the bags of `split` in a run folder: its shards, by name, one after the other.

        As many shards as fit stay in memory; a pass reads the others from files. Every answer has the same bits.

        Parameters
        ----------
        run_folder : path
        split : str
        scale, threads
            As for `Bags`.
        memory : int or str, optional
            What the windows may take, in bytes or as a text such as "8G": those that stay, the blocks that are read
            ahead, and single windows that were used lately. By default 80 % of what the machine has left.
        verify : bool, default False
            Compare every shard's checksum, which reads all of it once.
        transform : callable, optional
            What features (m, d) of shards become when they are read; the type stays.
        visit : Visitor, optional
            Its `add` is given the features of every shard once, in order, transformed. With a cluster, workers give
            them to copies of it, which it is to `join`.
        device : "cpu", "cuda" or "auto", default "cpu"
            Where passes find winners: "cuda" keeps as many windows as fit on a GPU, "auto" if there is one and all fit.
        cluster : Cluster, optional
            Processes that hold the windows, of which this one holds none (see `lapsvm.cluster.open_cluster`). Each
            reads some shards, under the same path, and compares checksums. `memory` is then what those of one machine
            may take together; `transform` must be a function that they can import; the device is "cpu".

        Raises
        ------
        StageError
            If the folder has no shards of this split.
        OptionError
            If `memory` is no size.
        ShardError
            If a shard is damaged, or no worker can read it; later, if one in a file is gone or was cut short.
        ClusterError
            If no worker is left.
        """
        folder, reading = Path(run_folder, "shards", split), Reading(verify, transform, visit)
        store, sizes = open_folder(folder, memory, reading, device, cluster)
        bags = cls.__new__(cls)
        bags._set(store, np.append(0, np.cumsum(sizes)), scale, threads)
        return bags

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
        return self._view(self._selection.subset(chosen))

    def narrowed(self, index: ArrayLike, name: str = "index") -> "Bags":
        """Return these bags, bag i of its window index[i] alone, or of all where that is -1; errors call it `name`.

        Raises
        ------
        ShapeError
            If there is not one index per bag.
        InputError
            If an index is no whole number, below -1 or outside its bag.
        """
        return self._view(self._selection.narrowed(index, name))

    def subdivided(self, count: int) -> "Bags":
        """Return each bag cut into `count` bags of consecutive windows, nearly alike in size; nothing is copied.

        A bag of fewer windows becomes one bag per window. Where all windows of a part are excluded, none competes in
        it (`n_competing` is 0), and what `best` says of it means nothing. InputError if `count` is below 1.
        """
        return self._view(self._selection.subdivided(count))

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
        return self._view(self._selection.excluding(windows))

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
            return self._view(self._selection.first(count))
        return self.copied(self.top_mask(count, weights))

    def top_mask(self, count: int | Index, weights: ArrayLike) -> NDArray[np.bool_]:
        """Tell of every window (n_windows,) whether it is among the `count` best-scored of its bag.

        `count` is one number for all bags or (n_bags,); of equals the first are. An excluded window never is.
        """
        scores = np.split(self.score_windows(weights), self.offsets[1:-1])
        chosen = np.zeros(self.n_windows, dtype=np.bool_)
        for first, own, most in zip(self.offsets, scores, np.broadcast_to(count, self.n_bags), strict=False):
            best = np.argsort(-own, kind="stable")[:most]
            chosen[first + best[own[best] > -np.inf]] = True
        return chosen

    def copied(self, windows: NDArray[np.bool_]) -> "Bags":
        """Return bags of copies of the windows for which `windows` (n_windows,) is true; each bag must keep one."""
        features, offsets = copies(self._pass, windows)
        return type(self)(features, offsets, self.scale, threads=self.threads)

    def scaled(self, factor: ArrayLike) -> "Bags":
        """Return the same bags with their features multiplied by `factor`, one number or (d,); nothing is copied."""
        view = self._view(self._selection)
        view.scale = np.asarray(self.scale * as_scale(factor, self.dim))
        return view

    def _view(self, selection: Selection) -> "Bags":
        """Return other bags over the same store."""
        view = object.__new__(type(self))
        view._store, view._selection, view.scale, view.threads = self._store, selection, self.scale, self.threads
        return view

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return self._selection.n_bags

    @property
    def n_windows(self) -> int:
        """Number of windows of all bags."""
        return int(self.offsets[-1])

    @property
    def exact(self) -> bool:
        """Whether `best` tells near ties apart, scores that differ by less than float32's rounding; a GPU does not."""
        return self._store.device is None

    @property
    def n_competing(self) -> Index:
        """How many windows of each bag compete (n_bags,): all that are not excluded."""
        return self._selection.n_competing

    @property
    def dim(self) -> int:
        """Number of features of a window."""
        return self._store.dim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type in which the features are stored; see `lapsvm.bfloat16` for bfloat16."""
        return self._store.dtype

    @property
    def offsets(self) -> Index:
        """Where each bag begins in the order of `score_windows`, and the end (n_bags + 1,)."""
        return self._selection.offsets

    @cached_property
    def _chunks(self) -> tuple[Chunk, ...]:
        return plan(self._store, self._selection)

    @property
    def _pass(self) -> Pass:
        return Pass(self._store, self._selection, self._chunks, self.threads)

    def __len__(self) -> int:
        return self.n_bags

    def __repr__(self) -> str:
        return f"Bags({self.n_bags} bags, {self.n_windows} windows, {self.dim} features, {type_name(self.dtype)})"

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
            start, stop = self._selection.starts[key], self._selection.stops[key]
            return self._scaled(self._store.take(np.arange(start, stop)))
        if isinstance(key, tuple):  # scikit-learn writes X[indices, ...]
            key = key[0]
        return self.subset(key)

    def best(self, weights: ArrayLike) -> BestWindows:
        """Return the best window of every bag for each column of `weights`, (d,) or (d, k), in one pass.

        Returns
        -------
        BestWindows
            `index` and `score`, (n_bags,) or (n_bags, k): the first window of the highest float64 score, whatever else
            is asked; a GPU may take another of near ties (see `exact`). Overflow is a NotFiniteError.
        """
        folded = self._folded(weights)
        columns = folded[:, None] if folded.ndim == 1 else folded
        found = self._pass.best(columns)
        return found.column(0) if folded.ndim == 1 else found

    def score_windows(self, weights: ArrayLike) -> Float64:
        """Return the score (n_windows,) of every window, bag after bag, summed in float64."""
        return window_scores(self._pass, self._folded(weights, most=1))

    def rows(self, bags: ArrayLike, index: ArrayLike) -> Float64:
        """Return the scaled features (m, d), float64, of window index[i] of bag bags[i]."""
        return self._scaled(self._store.take(self._selection.rows(bags, index)))

    def stored_rows(self, bags: ArrayLike, index: ArrayLike) -> Array:
        """Return copies (m, d), as stored and without the scale, of window index[i] of bag bags[i]."""
        return self._store.take(self._selection.rows(bags, index))

    def weighted_sum(self, coefficients: ArrayLike, index: ArrayLike) -> Float64:
        """Return the float64 sum over bags of coefficients[i] times window index[i]; zero coefficients cost nothing."""
        return self.sum_rows(coefficients, np.arange(self.n_bags), index)

    def sum_rows(self, coefficients: ArrayLike, bags: ArrayLike, index: ArrayLike) -> Float64:
        """Return the float64 sum over i of coefficients[i] times window index[i] of bag bags[i]."""
        factors, rows = as_floats("coefficients", coefficients, ndim=1), self._selection.rows(bags, index)
        check_same_length("coefficients", factors, "index", rows)
        used, total = np.flatnonzero(factors), np.zeros(self.dim)
        _kernel.add_rows(*self._at_hand(rows[used]), factors[used], total)
        return np.asarray(total * self.scale)

    def score_rows(self, weights: ArrayLike, bags: ArrayLike, index: ArrayLike) -> Float64:
        """Return the score (m,) of window index[i] of bag bags[i], summed in float64."""
        folded = self._folded(weights, most=1)[None]
        features, rows = self._at_hand(self._selection.rows(bags, index))
        scores = np.empty((len(rows), 1))
        _kernel.row_scores(features, rows[:, None], folded, scores)
        return scores[:, 0]

    def means(self, bags: ArrayLike | None = None) -> Float64:
        """Return the mean (m, d), float64, of the scaled windows of each of these bags, by default of all."""
        chosen = self._selection if bags is None else self._selection.subset(self._selection.bags(bags))
        if not chosen.n_bags:
            return np.zeros((0, self.dim))
        return np.asarray(bag_means(self._store, chosen, self.threads) * self.scale)

    def mean_norm(self) -> float:
        """Return the mean Euclidean norm of the scaled windows."""
        return mean_norm(self._pass, np.ascontiguousarray(np.broadcast_to(self.scale, (self.dim,))))

    def _at_hand(self, rows: Index) -> tuple[Array, Index]:
        """Return an array, as kernels take it, and the places in it where these rows lie."""
        whole = self._store.whole
        return (as_stored(self._store.take(rows)), np.arange(len(rows))) if whole is None else (as_stored(whole), rows)

    def _scaled(self, features: Array) -> Float64:
        return np.asarray(widened(features).astype(np.float64) * self.scale)

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
