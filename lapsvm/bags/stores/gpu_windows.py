"""Windows on one torch device: their memory, and the answers to passes.

Windows compete with float32 sums, and all within their rounding of the best one, a proven bound, are scored in float64,
in the order in which processors sum (`gpu_kernels`, or `gpu_plain` where Triton is missing). The bound rests on how
tensor cores add (see `gpu_weights`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from os import environ
from typing import Any, NamedTuple

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags.scoring import best_of_bag, row_scores
from lapsvm.bags.selection import Selection
from lapsvm.bags.stores import gpu_plain
from lapsvm.bags.stores.gpu_weights import DeviceWeights
from lapsvm.bags.stores.local import Store
from lapsvm.bfloat16 import BFLOAT16
from lapsvm.errors import DataError
from lapsvm.features.extractors.torch_running import load_torch

TILE_BYTES = 1 << 28
"""Memory for what passes compute at once beside the windows."""

MOST_COLUMNS = 64
"""Most weight vectors that windows are multiplied by at once: more exceed a program's registers on any card, and its
memory on smaller ones."""

Answer = tuple[Index, Float64]

_ALIGNMENT = 16  # bytes at whose multiples rows begin
_CAPABILITY = (8, 0)  # the first with tensor cores for all types
_LAYOUTS = 16  # runs of bags that stay described on the device


def row_bytes(store: Store) -> int:
    """Return the bytes that a window takes on a device: its features, filled up, and its length."""
    return _stride(store) * store.dtype.itemsize + (8 if store.dtype == np.float64 else 4)


def _stride(store: Store) -> int:
    """Return the numbers from one row to the next."""
    size = store.dtype.itemsize
    return -(-store.dim * size // _ALIGNMENT) * _ALIGNMENT // size


def has_kernels(device: str) -> bool:
    """Return whether the kernels run on a device: Triton, a compiler for its launchers, and NVIDIA's tensor cores.

    Or Triton's interpreter, on a processor.
    """
    if find_spec("triton") is None:
        return False
    if not device.startswith("cuda"):
        return environ.get("TRITON_INTERPRET") == "1"
    return _can_launch(device)


@cache
def _can_launch(device: str) -> bool:
    torch = load_torch(f"device {device}")
    if torch.version.hip is not None or torch.cuda.get_device_capability(device) < _CAPABILITY:
        return False
    from lapsvm.bags.stores.gpu_kernels import try_kernel

    try:
        with torch.cuda.device(device):
            try_kernel(torch, device)
    except Exception:  # noqa: BLE001 - whatever Triton lacks, torch's operations do without it
        return False
    return True


class Columns(NamedTuple):
    """The columns of `weights` (d, k) on a device, in groups without those that are 0."""

    weights: Float64
    groups: list[Index]
    parts: list[DeviceWeights]

    @property
    def most(self) -> int:
        """The number of columns of the largest group."""
        return max(map(len, self.groups), default=0)

    @property
    def are_one_group(self) -> bool:
        """Whether all columns are in one group."""
        return len(self.groups) == 1 and len(self.groups[0]) == self.weights.shape[1]


class DeviceWindows:
    """Consecutive windows of a store on one torch device.

    Parameters
    ----------
    store : Store
    device : str
        Torch's name of it; "cpu" works too, for tests.
    n_rows : int
        Number of windows; fewer if the device lacks the memory.
    first : int, default 0
        The store's row of the first one.
    """

    def __init__(self, store: Store, device: str, n_rows: int, first: int = 0):
        self._torch = load_torch(f"device {device}")
        self.name, self.first = device, first
        self._dim, self._dtype, self._stride = store.dim, store.dtype, _stride(store)
        self._with_kernels = store.dtype != np.float64 and has_kernels(device)
        with self.used():
            self._held, self._lengths = self._empty(n_rows)
        self._local: Callable[[Selection], Selection] = lru_cache(_LAYOUTS)(self._moved)
        self._sections: Callable[[Selection, range], Any] = lru_cache(_LAYOUTS)(self._described)

    @property
    def n_rows(self) -> int:
        """How many windows there are."""
        return len(self._held)

    def used(self) -> ExitStack:
        """Return the context in which this thread uses the device."""
        with ExitStack() as stack:
            stack.enter_context(self._torch.inference_mode())
            if self.name != "cpu":
                stack.enter_context(self._torch.cuda.device(self.name))
            return stack.pop_all()

    def write(self, first: int, rows: Array) -> None:
        """Copy windows (n, d), as stored, to the rows from `first` on."""
        plain = np.ascontiguousarray(rows.view(np.int16) if self._dtype == BFLOAT16 else rows)
        held = self._held[first : first + len(rows), : self._dim]
        self._as_numpy_type(held).copy_(self._torch.from_numpy(plain), non_blocking=True)
        self._lengths[first : first + len(rows)] = gpu_plain.upper_lengths(self._torch, held)

    def prepared(self, weights: Float64) -> Columns:
        """Return the columns of `weights` (d, k) on the device, for `best`."""
        used = np.flatnonzero(weights.any(axis=0))
        groups = [used[first : first + MOST_COLUMNS] for first in range(0, len(used), MOST_COLUMNS)]
        with self.used():
            return Columns(weights, groups, [self._prepared(weights[:, group]) for group in groups])

    def best(self, selection: Selection, runs: Iterable[range], columns: Columns) -> Iterator[tuple[range, Answer]]:
        """Yield runs of bags with the best window (n, k) of each, and its score.

        Raises
        ------
        DataError
            If the device lacks the memory for one bag.
        NotFiniteError
            If no competing window of a bag has a finite score, because products with the weights overflow.
        """
        local = self._local(selection)
        with self.used():
            for bags in self._pieces(local, runs, columns.most):
                yield bags, self._best_of(local, bags, columns)

    def _best_of(self, local: Selection, bags: range, columns: Columns) -> Answer:
        """Return the best window (n, k) of some bags, and its score."""
        maxima = [self._in_memory(partial(self._first_maxima, local, group), bags) for group in columns.parts]
        answer = maxima[0] if columns.are_one_group else _of_no_weights(local, bags, columns.weights.shape[1])
        if not columns.are_one_group:
            for group, (index, score) in zip(columns.groups, maxima, strict=True):
                answer[0][:, group], answer[1][:, group] = index, score
        self._settle(local, bags, columns.weights, answer)
        return answer

    def means(self, selection: Selection, runs: Iterable[range]) -> Iterator[tuple[range, tuple[Float64]]]:
        """Yield runs of bags with the mean (n, d) of the windows of each, with the bits of a processor's."""
        local = self._local(selection)
        need = np.full(local.n_bags, 3 * 8 * self._dim)
        with self.used():
            for bags in (piece for run in runs for piece in _cut(run, need)):
                chosen = local.starts[bags.start : bags.stop], local.stops[bags.start : bags.stop]
                if self._with_kernels:
                    means = self._kernels.means(self._torch, self._held, self._dim, *chosen)
                else:
                    means = gpu_plain.means(self._torch, self._held[:, : self._dim], *chosen)
                yield bags, self._to_memory([means])

    def rows(self, rows: Index) -> Array:
        """Return copies of windows, as stored."""
        with self.used():
            chosen = self._held[self._there(rows), : self._dim]
            return np.asarray(self._to_memory([self._as_numpy_type(chosen)])[0].view(self._dtype))

    def scores(self, rows: Index, weights: Float64) -> Float64:
        """Return the float64 scores (m,) of windows by `weights` (d,), with the bits of a processor's."""
        torch = self._torch
        with self.used():
            there, vector = self._there(rows), torch.from_numpy(weights).to(self.name)
            if self._with_kernels:
                sums = self._kernels.score_rows(torch, self._held, there, vector)
            else:
                only = torch.zeros_like(there)
                sums = gpu_plain.float64_scores(torch, self._held[:, : self._dim], there, vector[None], only)
            scores: Float64 = self._to_memory([sums])[0]
        return scores

    def _there(self, rows: Index) -> Any:
        """Return rows of the store, by their place here, on the device."""
        return self._torch.from_numpy(rows - self.first).to(self.name)

    def _moved(self, selection: Selection) -> Selection:
        """Return a selection of the store as one of these windows."""
        if not self.first:
            return selection
        return Selection(selection.starts - self.first, selection.stops - self.first, selection.excluded)

    def _empty(self, n_rows: int) -> tuple[Any, Any]:
        """Return memory on the device for rows and their lengths; for fewer if it runs out."""
        torch = self._torch
        kind = torch.bfloat16 if self._dtype == BFLOAT16 else getattr(torch, self._dtype.name)
        wide = torch.float64 if kind == torch.float64 else torch.float32
        try:
            held = torch.zeros((n_rows, self._stride), dtype=kind, device=self.name)
            return held, torch.empty(n_rows, dtype=wide, device=self.name)
        except torch.OutOfMemoryError:  # less is free than the driver reported
            return self._empty(n_rows - n_rows // 8 - 1)

    def _as_numpy_type(self, rows: Any) -> Any:
        """Return rows with a type that NumPy knows: the bits of bfloat16 as int16."""
        return rows.view(self._torch.int16) if self._dtype == BFLOAT16 else rows

    def _prepared(self, weights: Float64) -> DeviceWeights:
        """Return weight vectors, none of which is 0, on the device."""
        if self._with_kernels:
            return DeviceWeights.of(weights, self._dtype).on(self._torch, self.name)
        kind = np.float64 if self._dtype == np.float64 else np.float32
        return DeviceWeights.plain(weights, kind).on(self._torch, self.name)

    @property
    def _kernels(self) -> Any:
        from lapsvm.bags.stores import gpu_kernels

        return gpu_kernels

    def _pieces(self, selection: Selection, runs: Iterable[range], k: int) -> Iterator[range]:
        """Yield the bags in as many runs as the memory for what is computed at once needs."""
        if self._with_kernels:
            need = self._kernels.bytes_of_bags(selection.sizes, k)
        else:
            need = gpu_plain.bytes_of_bags(selection.sizes, self._dim, k)
        for run in runs:
            yield from _cut(run, need)

    def _in_memory(self, compute: Callable[[range], Answer], bags: range) -> Answer:
        """Return the answer of `compute` for bags, which are halved until it fits into memory."""
        try:
            return compute(bags)
        except self._torch.OutOfMemoryError:
            if len(bags) == 1:
                raise DataError(
                    f"device {self.name} must have memory for the scores of one picture's windows, got too little; "
                    "set the parameter device to cpu."
                ) from None
        middle = len(bags) // 2
        answers = [self._in_memory(compute, half) for half in (bags[:middle], bags[middle:])]
        index, score = (np.concatenate(arrays) for arrays in zip(*answers, strict=True))
        return index, score

    def _first_maxima(self, selection: Selection, weights: DeviceWeights, bags: range) -> Answer:
        """Return the index, -1 where it is open, and the score of the best window of each bag."""
        if not self._with_kernels:
            return self._plain_maxima(selection, weights, bags)
        sections = self._sections(selection, bags)
        maxima = self._kernels.best_windows(self._torch, self._held, self._lengths, sections, weights)
        answer: Answer = self._to_memory(maxima)
        return answer

    def _plain_maxima(self, selection: Selection, weights: DeviceWeights, bags: range) -> Answer:
        maxima = gpu_plain.best_windows(self._torch, self._held, self._lengths, selection, bags, weights)
        answer: Answer = self._to_memory(maxima)
        return answer

    def _described(self, selection: Selection, bags: range) -> Any:
        """Return the sections of some bags on the device."""
        return self._kernels.Sections.of(selection, bags, self._torch, self.name)

    def _to_memory(self, arrays: Sequence[Any]) -> Any:
        """Return a device's arrays in this process's memory, through memory that the device writes to itself."""
        if self._held.device.type != "cpu":
            pinned = [self._torch.empty(array.shape, dtype=array.dtype, pin_memory=True) for array in arrays]
            arrays = [there.copy_(array) for there, array in zip(pinned, arrays, strict=True)]
        return tuple(np.asarray(array.numpy()) for array in arrays)

    def _settle(self, selection: Selection, bags: range, weights: Float64, answer: Answer) -> None:
        """Find best windows that are open: by float64 sums on the device, or as processors do where these overflow."""
        index, score = answer
        if not index.size or index.min() >= 0:
            return
        chosen = np.flatnonzero((index < 0).any(axis=1))
        if self._with_kernels:
            columns = np.flatnonzero((index < 0).any(axis=0))
            wide = DeviceWeights.plain(weights[:, columns], np.float64).on(self._torch, self.name)
            few = selection.subset(chosen + bags.start)
            for piece in _cut(range(len(chosen)), gpu_plain.bytes_of_bags(few.sizes, self._dim, len(columns))):
                places = np.ix_(chosen[piece], columns)
                index[places], score[places] = self._in_memory(partial(self._plain_maxima, few, wide), piece)
        for bag, q in zip(*np.nonzero(index < 0), strict=True):
            single = selection.subset(np.array([bags[bag]]))
            features = self.rows(self.first + np.arange(single.starts[0], single.stops[0]))
            index[bag, q] = best_of_bag(features, weights[:, q], single.excluded)
            score[bag, q] = row_scores(
                features, index[bag : bag + 1, q : q + 1].astype(np.intp), weights[:, q : q + 1]
            )[0, 0]


def _cut(bags: range, need: Index) -> Iterator[range]:
    """Yield runs of bags that need at most `TILE_BYTES` together, or are one bag."""
    ends = np.cumsum(need[bags.start : bags.stop])
    first = 0
    while first < len(bags):
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + TILE_BYTES, side="right")))
        yield bags[first:last]
        first = last


def _of_no_weights(selection: Selection, bags: range, k: int) -> Answer:
    """Return the answer for weights of 0: the first window of each bag that competes."""
    first = np.zeros(len(bags), dtype=np.intp)
    if selection.excluded is not None:
        offsets, sizes = selection.offsets[bags.start : bags.stop], selection.sizes[bags.start : bags.stop]
        competing = np.append(np.flatnonzero(~selection.excluded), len(selection.excluded))
        first_competing = competing[np.searchsorted(competing, offsets)] - offsets
        first = np.where(first_competing < sizes, first_competing, 0)
    return np.repeat(first[:, None], k, axis=1), np.zeros((len(bags), k))
