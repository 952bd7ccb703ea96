"""Bags: the windows of all images, in memory or in shards, and the bounds of each image."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Array, Float64, Index, as_array, as_floats, as_whole_numbers, check_count, check_same_length
from lapsvm.bags.checks import as_arrays, as_features, as_offsets, as_scale, as_threads, as_weights
from lapsvm.bags.opening import open_folder
from lapsvm.bags.passes import Pass, bag_means, split_into_chunks
from lapsvm.bags.requests import Best, Copies, Norms, Scores
from lapsvm.bags.scoring import BestWindows
from lapsvm.bags.selection import Chunk, Selection, top_mask
from lapsvm.bags.stores.local import Store, appended
from lapsvm.bags.stores.parts import Buffer, MemoryPart, ReadOptions, Visitor
from lapsvm.bfloat16 import type_name, widened
from lapsvm.cluster import Cluster
from lapsvm.errors import InputError, ShapeError


class Bags:
    """Images as bags of windows.

    Features are never copied or converted; `scale` is multiplied into the weights.

    Parameters
    ----------
    features : (n_windows, d) float16, float32, float64 or `lapsvm.bfloat16.BFLOAT16`
        The windows of bag 0, then those of bag 1, and so on; other types of number become float64.
    offsets : (n_bags + 1,) int
        Bag i holds the windows offsets[i] to offsets[i + 1] - 1, at least one; from 0 to n_windows.
    scale : None, float or (d,), default None
        Factor of all features, or of each.
    threads : int, optional
        Threads of a pass; by default the number of processors that this process may use.

    Raises
    ------
    ShapeError
        If the shapes do not fit, or a bag has no windows.
    NotFiniteError
        If a feature, or the scale, is NaN or infinite.
    """

    def __init__(
        self, features: ArrayLike, offsets: ArrayLike, scale: ArrayLike | None = None, *, threads: int | None = None
    ):
        self._set(Store([MemoryPart(as_features(features))]), offsets, scale, threads)

    def _set(self, store: Store, offsets: ArrayLike, scale: ArrayLike | None, threads: int | None) -> None:
        """Set the attributes after checking them."""
        bounds = as_offsets(offsets, int(store.bounds[-1]))
        self._store, self._selection = store, Selection(bounds[:-1], bounds[1:])
        self.scale = as_scale(scale, self.dim)
        self.threads = as_threads(threads)

    @classmethod
    def from_arrays(
        cls, arrays: Sequence[ArrayLike], scale: ArrayLike | None = None, *, threads: int | None = None
    ) -> "Bags":
        """Return bags of one (n_i, d) array per image, copied into one array."""
        checked = as_arrays(arrays)
        for i, array in enumerate(checked):
            if array.ndim != 2 or not len(array) or array.shape[1] != checked[0].shape[-1]:
                after = f" after {checked[0].shape} for bag 0" if i else ""
                raise ShapeError(
                    f"every bag must be an array of one or more windows with the same number of features, "
                    f"got shape {array.shape} for bag {i}{after}."
                )
        offsets = np.cumsum([0, *(len(array) for array in checked)])
        return cls(np.concatenate(checked), offsets, scale, threads=threads)

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
        """Return the bags of `split` in a run folder, from its shards in the order of their names.

        As many shards as fit are read into memory; a pass reads the others from files. Answers have the same bits.

        Parameters
        ----------
        run_folder : path
        split : str
        scale, threads
            As for `Bags`.
        memory : int or str, optional
            Limit for windows in memory, prefetched blocks and cached windows included, in bytes or as a text such as
            "8G"; by default 80 % of the machine's free memory.
        verify : bool, default False
            Whether to read every shard once and compare its checksum.
        transform : callable, optional
            Function applied to features (m, d) of shards when they are read; it keeps their type.
        visit : Visitor, optional
            For every shard a copy of it, made by `copy.deepcopy`, whose `add` receives the shard's transformed
            features, on a thread or on a worker of a cluster; its `join` merges the copies, in order.
        device : "cpu", "cuda" or "auto", default "cpu"
            Where passes find the best windows: "cuda" copies as many windows as fit to all GPUs, once, and the others
            in every pass, beside the processor; "auto" uses GPUs if there are any and all windows fit.
        cluster : Cluster, optional
            Processes that hold the windows instead of this one (see `lapsvm.cluster.open_cluster`). Each reads some
            shards, under the same path, and compares checksums. `memory` then limits all of one machine together;
            `transform` must be importable there; the device is "cpu".

        Raises
        ------
        StageError
            If the folder has no shards of `split`.
        OptionError
            If `memory` is no size.
        ShardError
            If a shard is damaged, or no worker can read it; later, if a shard's file is removed or cut short.
        ClusterError
            If no worker is left.
        """
        folder, reading = Path(run_folder, "shards", split), ReadOptions(verify, transform, visit)
        count = as_threads(threads)
        store, sizes = open_folder(folder, memory, reading, device, cluster, count)
        bags = cls.__new__(cls)
        bags._set(store, np.append(0, np.cumsum(sizes)), scale, count)
        return bags

    def subset(self, bag_indices: ArrayLike | slice) -> "Bags":
        """Return the bags of these indices, in this order, or of a mask (n_bags,); nothing is copied."""
        key: Any = bag_indices if isinstance(bag_indices, slice) else as_array("bag_indices", bag_indices)
        if isinstance(key, np.ndarray) and key.dtype != np.bool_:
            key = as_whole_numbers("bag_indices", key)
        try:
            chosen = np.arange(self.n_bags)[key]
        except IndexError as error:
            raise InputError(f"bag_indices must be those of {self.n_bags} bags; {error}.") from None
        if chosen.ndim != 1 or not len(chosen):
            raise ShapeError(f"bag_indices must choose one or more bags, got shape {chosen.shape}.")
        return self._view(self._selection.subset(chosen))

    def narrowed(self, index: ArrayLike, name: str = "index") -> "Bags":
        """Return these bags, bag i with its window index[i] alone, or all where that is -1; errors call `index` `name`.

        ShapeError if there is not one index per bag; InputError if one is no whole number, below -1 or outside its bag.
        """
        return self._view(self._selection.narrowed(index, name))

    def subdivided(self, count: int) -> "Bags":
        """Return each bag cut into `count` bags of consecutive windows; nothing is copied.

        Nearly equally many windows of each compete; a bag with fewer that do becomes one bag for each of these.
        InputError if `count` is below 1.
        """
        return self._view(self._selection.subdivided(count))

    def excluding(self, windows: ArrayLike) -> "Bags":
        """Return these bags with some windows excluded: they are never best, and their `score_windows` is -inf.

        Windows keep their numbers; nothing is copied. Windows excluded before stay excluded.

        Parameters
        ----------
        windows : (n_windows,) bool
            True for windows to exclude, in the order of `score_windows`.

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

        Without `weights` (d,) these are the first ones, a proposal method's best, and nothing is copied. With weights
        they are copies of the best-scored ones, the first of equal scores (T of A. Behl's thesis, section 4.1).
        InputError if `count` is no whole number of 1 or more.
        """
        check_count("count", count)
        if weights is None:
            return self._view(self._selection.first(count))
        return self.copied(top_mask(self.score_windows(weights), self.offsets, count))

    def copied(self, windows: NDArray[np.bool_], memory: Buffer | None = None) -> "Bags":
        """Return bags of copies of the windows of a mask (n_windows,), which must hold one or more of each bag.

        Copies in `memory` last until it is used again. The system clears every page that it hands out, which takes
        longer than the copy; memory that is used again has its pages.
        """
        chosen = Selection(self._selection.starts, self._selection.stops, ~windows)
        shape = int(chosen.n_competing.sum()), self.dim
        out = None if memory is None else (memory.array(shape, self.dtype),)
        (features,) = Pass(self._store, chosen, self._chunks, self.threads).run(Copies(), out)
        copies = type(self).__new__(type(self))  # their source is checked
        copies._set(Store([MemoryPart(features)]), Copies().offsets(chosen), self.scale, self.threads)
        return copies

    def appended(self, windows: Mapping[int, ArrayLike]) -> "Bags":
        """Return these bags, some with more windows at their end; of these bags alone the windows are copied.

        Parameters
        ----------
        windows : mapping of bag to (m, d)
            Features as they are stored, without the scale.

        Raises
        ------
        ShapeError
            If the features of a bag do not have shape (m, d).
        InputError
            If there is no such bag, or other processes hold the windows.
        """
        store, selection = appended(self._store, self._selection, windows)
        return self._view(selection, store)

    def scaled(self, factor: ArrayLike) -> "Bags":
        """Return the same bags with their features multiplied by `factor`, one number or (d,); nothing is copied."""
        return self._view(self._selection, scale=np.asarray(self.scale * as_scale(factor, self.dim)))

    def _view(self, selection: Selection, store: Store | None = None, scale: Float64 | None = None) -> "Bags":
        """Return the bags of another selection; what is not given is shared."""
        view = object.__new__(type(self))
        view._store, view._selection, view.threads = store or self._store, selection, self.threads
        view.scale = self.scale if scale is None else scale
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
    def n_competing(self) -> Index:
        """Number of windows of each bag that are not excluded (n_bags,)."""
        return self._selection.n_competing

    @property
    def on_device(self) -> bool:
        """Whether a GPU has all windows, so that it scores single ones, too, where many are asked for."""
        return self._store.device_of(self._selection.stops - 1) is not None

    @property
    def dim(self) -> int:
        """Number of features of a window."""
        return self._store.dim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type in which features are stored; see `lapsvm.bfloat16` for bfloat16."""
        return self._store.dtype

    @property
    def offsets(self) -> Index:
        """First window of each bag in the order of `score_windows`, and the end (n_bags + 1,)."""
        return self._selection.offsets

    @cached_property
    def _chunks(self) -> tuple[Chunk, ...]:
        return split_into_chunks(self._store, self._selection)

    @property
    def _pass(self) -> Pass:
        return Pass(self._store, self._selection, self._chunks, self.threads)

    def __len__(self) -> int:
        return self.n_bags

    def __repr__(self) -> str:
        return f"Bags({self.n_bags} bags, {self.n_windows} windows, {self.dim} features, {type_name(self.dtype)})"

    @property
    def shape(self) -> tuple[int]:
        """(n_bags,), so that scikit-learn's splitters accept bags."""
        return (self.n_bags,)

    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> Float64: ...

    @overload
    def __getitem__(self, key: ArrayLike | slice | tuple[Any, ...]) -> "Bags": ...

    def __getitem__(self, key: Any) -> "Float64 | Bags":
        """Return the scaled features (n_i, d) of one bag, float64; for an array, a mask or a slice a subset."""
        if isinstance(key, (int, np.integer)):
            start, stop = self._selection.starts[key], self._selection.stops[key]
            return self._scaled(self._store.take(np.arange(start, stop)))
        if isinstance(key, tuple):  # scikit-learn's X[indices, ...]
            key = key[0]
        return self.subset(key)

    def best(self, weights: ArrayLike) -> BestWindows:
        """Return the best window of every bag for each column of `weights`, (d,) or (d, k), in one pass.

        Returns
        -------
        BestWindows
            `index` and `score`, (n_bags,) or (n_bags, k): the first window of the highest float64 score, the same
            on every device. Overflow raises NotFiniteError.
        """
        folded = self._folded(weights)
        columns = folded[:, None] if folded.ndim == 1 else folded
        best = BestWindows(*self._pass.run(Best(columns)))
        return best.column(0) if folded.ndim == 1 else best

    def score_windows(self, weights: ArrayLike) -> Float64:
        """Return every window's score by `weights` (d,) or (d, k), bag after bag: (n_windows,) or (n_windows, k).

        Scores are summed in float64; that of an excluded window is -inf.
        """
        folded = self._folded(weights)
        (scores,) = self._pass.run(Scores(np.ascontiguousarray(np.atleast_2d(folded.T))))
        return scores[:, 0] if folded.ndim == 1 else scores

    def split_scores(self, weights: ArrayLike) -> list[Float64]:
        """Return the scores (n_i,) of each bag's windows by `weights` (d,)."""
        return np.split(self.score_windows(weights), self.offsets[1:-1])

    def rows(self, bags: ArrayLike, index: ArrayLike) -> Float64:
        """Return the scaled features (m, d), float64, of window index[i] of bag bags[i]."""
        return self._scaled(self._store.take(self._selection.rows(bags, index)))

    def stored_rows(self, bags: ArrayLike, index: ArrayLike) -> Array:
        """Return copies (m, d), as stored and without the scale, of window index[i] of bag bags[i]."""
        return self._store.take(self._selection.rows(bags, index))

    def weighted_sum(self, coefficients: ArrayLike, index: ArrayLike) -> Float64:
        """Return the float64 sum over bags of coefficients[i] times window index[i]; coefficients 0 cost nothing."""
        return self.sum_rows(coefficients, np.arange(self.n_bags), index)

    def sum_rows(self, coefficients: ArrayLike, bags: ArrayLike, index: ArrayLike) -> Float64:
        """Return the float64 sum over i of coefficients[i] times window index[i] of bag bags[i]."""
        return self.sum_at(coefficients, self.addresses(bags, index))

    def score_rows(self, weights: ArrayLike, bags: ArrayLike, index: ArrayLike) -> Float64:
        """Return the score (m,) of window index[i] of bag bags[i], summed in float64."""
        return self.score_at(weights, self.addresses(bags, index))

    def addresses(self, bags: ArrayLike, index: ArrayLike) -> Index:
        """Return the row in the store (m,) of window index[i] of bag bags[i], for `sum_at` and `score_at`."""
        return self._selection.rows(bags, index)

    def sum_at(self, coefficients: ArrayLike, addresses: Index) -> Float64:
        """Return the float64 sum over i of coefficients[i] times the window at addresses[i]."""
        factors, rows = as_floats("coefficients", coefficients, ndim=1), self._store.checked(addresses)
        check_same_length("coefficients", factors, "index", rows)
        used = np.flatnonzero(factors)
        return np.asarray(self._store.sum_rows(rows[used], factors[used]) * self.scale)

    def score_at(self, weights: ArrayLike, addresses: Index) -> Float64:
        """Return the score (m,) of the windows at these addresses, summed in float64."""
        return self._store.score_rows(self._store.checked(addresses), self._folded(weights, most=1))

    def means(self, bags: ArrayLike | None = None) -> Float64:
        """Return the mean (m, d), float64, of the scaled windows of each of these bags, by default of all."""
        chosen = self._selection if bags is None else self._selection.subset(self._selection.bags(bags))
        if not chosen.n_bags:
            return np.zeros((0, self.dim))
        return np.asarray(bag_means(self._store, chosen, self.threads) * self.scale)

    def keeping_means(self) -> AbstractContextManager[None]:
        """Return a context in which `means` are computed once, because nobody changes the features."""
        return self._store.keeping_means(self.n_bags)

    def mean_norm(self) -> float:
        """Return the mean Euclidean norm of the scaled windows."""
        (sums,) = self._pass.run(Norms(np.ascontiguousarray(np.broadcast_to(self.scale, (self.dim,)))))
        return float(sums.sum()) / self.n_windows

    def _scaled(self, features: Array) -> Float64:
        return np.asarray(widened(features).astype(np.float64) * self.scale)

    def _folded(self, weights: ArrayLike, most: int = 2) -> Float64:
        """Return checked, contiguous weights times the scale."""
        array = as_weights(weights, self.dim, most)
        scale = self.scale if array.ndim == 1 or self.scale.ndim == 0 else self.scale[:, None]
        return np.ascontiguousarray(array * scale)


def as_bags(bags: "Bags | Sequence[ArrayLike]") -> Bags:
    """Return `bags` itself, or bags made of a sequence of (n_i, d) arrays."""
    return bags if isinstance(bags, Bags) else Bags.from_arrays(bags)
