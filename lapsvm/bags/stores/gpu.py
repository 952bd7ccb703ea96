"""Windows on a GPU, and the best among them; the one file of this package that uses torch, which it imports lazily.

The device holds copies, in their stored type, of as many windows as fit, the first of each part first. It widens tiles
of them to float32, multiplies them with all weight vectors without TF32, and returns the index of the first maximum of
each bag. The processor sums the score of that window in float64, as for all others. The device adds float32 products in
another order than the processor, which may depend on the numbers of windows and weight vectors, and near ties are not
scored again. So rounding may break near ties differently, also from one set of weight vectors to another.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags.selection import Chunk, Selection, runs_of
from lapsvm.bags.stores.local import Store
from lapsvm.bfloat16 import BFLOAT16
from lapsvm.errors import DataError
from lapsvm.features.extractors.torch_network import choose_device, load_torch

TILE_BYTES = 1 << 28
"""Memory for the widened features and scores of one tile."""

_SHARE = 0.8  # of the free memory; the rest is for tiles and networks
# without one of them there is no GPU, and torch, slow to load, is not imported
_DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
_COPY_BYTES = 64 << 20  # copied to the device at once


def use_device(store: Store, device: str) -> None:
    """Copy as many windows of a store to a device as fit into its memory; passes then find their best ones there.

    Parameters
    ----------
    store : Store
    device : "cpu", "cuda" or "auto"
        "auto" uses a GPU if there is one and all windows fit. Without torch, and for a store that other processes
        hold, it means "cpu".

    Raises
    ------
    OptionError
        If the device is "cuda" and torch cannot use it.
    DependencyError
        If the device is "cuda" and torch is not installed.
    """
    if device == "cpu" or store.remote is not None or (device == "auto" and not may_have_gpu()):
        return
    if choose_device(device) == "cpu":
        return
    free = int(_SHARE * load_torch("device cuda").cuda.mem_get_info()[0])
    if device == "cuda" or int(store.bounds[-1]) * store.dim * store.dtype.itemsize <= free:
        store.device = GpuStore(store, "cuda", free)


def may_have_gpu() -> bool:
    """Return whether a GPU driver and torch are installed."""
    from importlib.util import find_spec

    return any(Path(driver).exists() for driver in _DRIVERS) and find_spec("torch") is not None


class GpuStore:
    """Copies of the first windows of a store's parts on a torch device.

    Parameters
    ----------
    store : Store
        Its parts are copied in order.
    device : str
        Torch's name of it; "cpu" works too, for tests.
    limit : int
        Most bytes of the copies; of a part that does not fit, the first rows are copied.
    """

    def __init__(self, store: Store, device: str, limit: int):
        self._torch = load_torch(f"device {device}")
        self._name, self._parts = device, store.parts
        self._dim, self._dtype, self._tile = store.dim, store.dtype, TILE_BYTES
        self._wide = self._torch.float64 if store.dtype == np.float64 else self._torch.float32
        self._held: list[Any] = []
        rows_left = limit // (store.dim * store.dtype.itemsize)
        for part in range(len(store.parts)):
            n_rows = min(store.parts[part].n_rows, rows_left)
            self._held.append(self._copied(part, n_rows))
            rows_left -= n_rows
            if len(self._held[-1]) < store.parts[part].n_rows:
                break

    def holds(self, part: int, stop: int) -> bool:
        """Return whether the device has the rows of a part before `stop`."""
        return part < len(self._held) and stop <= len(self._held[part])

    def best(
        self, selection: Selection, bounds: Index, chunks: Sequence[Chunk], weights: Float64
    ) -> Iterator[tuple[Chunk, Index]]:
        """Yield runs of bags with the best window (n, k) of each bag for the columns of `weights` (d, k).

        Raises
        ------
        DataError
            If the device lacks the memory for one bag.
        """
        with self._full_float32():
            columns = self._torch.from_numpy(weights).to(self._name, self._wide)
            for chunk in self._tiles(selection, chunks, weights.shape[1]):
                yield chunk, self._best_in_memory(selection, int(bounds[chunk.part]), chunk, columns)

    def rows(self, part: int, rows: Index) -> Array:
        """Return copies of rows of a part, as stored: from memory if the part is resident, else from the device."""
        if self._parts[part].resident:
            return self._parts[part].take(rows)
        chosen = self._held[part][self._torch.from_numpy(rows).to(self._name)]
        return np.asarray(self._as_numpy_type(chosen).cpu().numpy().view(self._dtype))

    def _copied(self, part: int, n_rows: int) -> Any:
        """Return a copy of the first rows of a part on the device; fewer if memory runs out."""
        torch = self._torch
        kind = torch.bfloat16 if self._dtype == BFLOAT16 else getattr(torch, self._dtype.name)
        try:
            held = torch.empty((n_rows, self._dim), dtype=kind, device=self._name)
        except torch.OutOfMemoryError:  # less is free than the driver reported
            return self._copied(part, n_rows // 2)
        step = max(1, _COPY_BYTES // (self._dim * self._dtype.itemsize))
        for start in range(0, n_rows, step):
            rows = self._parts[part].take(np.arange(start, min(start + step, n_rows)))
            plain = np.ascontiguousarray(rows.view(np.int16) if self._dtype == BFLOAT16 else rows)
            self._as_numpy_type(held)[start : start + step] = torch.from_numpy(plain).to(self._name)
        return held

    def _as_numpy_type(self, rows: Any) -> Any:
        """Return rows with a type that NumPy knows: the bits of bfloat16 as int16."""
        return rows.view(self._torch.int16) if self._dtype == BFLOAT16 else rows

    def _tiles(self, selection: Selection, chunks: Sequence[Chunk], columns: int) -> list[Chunk]:
        """Return the chunks, consecutive ones merged up to the size of a tile."""
        most = self._tile // ((self._dim + 3 * columns) * 8)
        tiles: list[Chunk] = []
        for chunk in chunks:
            first = tiles[-1].first if tiles else chunk.first
            rows = int(selection.offsets[chunk.last] - selection.offsets[first])
            if tiles and (tiles[-1].last, tiles[-1].part) == (chunk.first, chunk.part) and rows <= most:
                tiles[-1] = Chunk(chunk.part, first, chunk.last)
            else:
                tiles.append(chunk)
        return tiles

    def _best_in_memory(self, selection: Selection, before: int, chunk: Chunk, columns: Any) -> Index:
        """Return the first maximum of each bag for each column; halve the chunk until it fits into memory."""
        try:
            return self._first_maxima(selection, before, chunk, columns)
        except self._torch.OutOfMemoryError:
            middle = (chunk.first + chunk.last) // 2
            if middle == chunk.first:
                raise DataError(
                    f"device {self._name} must have memory for the scores of one picture's windows, got too little; "
                    "use --device cpu."
                ) from None
        halves = Chunk(chunk.part, chunk.first, middle), Chunk(chunk.part, middle, chunk.last)
        return np.concatenate([self._best_in_memory(selection, before, half, columns) for half in halves])

    def _first_maxima(self, selection: Selection, before: int, chunk: Chunk, columns: Any) -> Index:
        torch, bags = self._torch, slice(chunk.first, chunk.last)
        starts, sizes = selection.starts[bags] - before, selection.sizes[bags]
        scores = self._features(chunk.part, starts, starts + sizes).to(self._wide) @ columns
        scores = torch.nan_to_num_(scores, nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
        counts = torch.from_numpy(np.ascontiguousarray(sizes)).to(self._name)
        bag_numbers = torch.arange(len(sizes), device=self._name)
        owner = torch.repeat_interleave(bag_numbers, counts)[:, None].expand_as(scores)
        competing = self._competing(selection, chunk, scores)
        shape = len(sizes), columns.shape[1]
        lowest = torch.full(shape, -torch.inf, dtype=self._wide, device=self._name)
        best = lowest.scatter_reduce_(0, owner, scores, "amax")
        row = torch.arange(len(scores), device=self._name)[:, None]
        none = len(scores)
        row = torch.where((scores == best.gather(0, owner)) & competing, row, none)
        first = torch.full(shape, none, device=self._name).scatter_reduce_(0, owner, row, "amin")
        inside = first - (torch.cumsum(counts, 0) - counts)[:, None]
        index = torch.where(first == none, 0, inside)  # 0 for a bag in which no window competes
        return np.asarray(index.cpu().numpy(), dtype=np.intp)

    def _competing(self, selection: Selection, chunk: Chunk, scores: Any) -> Any:
        """Return which windows compete (n, 1), and set the scores of the others to -inf."""
        torch = self._torch
        if selection.excluded is None:
            return torch.ones((1, 1), dtype=torch.bool, device=self._name)
        rows = slice(int(selection.offsets[chunk.first]), int(selection.offsets[chunk.last]))
        excluded = torch.from_numpy(selection.excluded[rows].copy()).to(self._name)[:, None]
        scores.masked_fill_(excluded, -torch.inf)
        return ~excluded

    def _features(self, part: int, starts: Index, stops: Index) -> Any:
        """Return the windows of bags, bag after bag."""
        edges = zip(*(edge.tolist() for edge in runs_of(starts, stops)), strict=True)
        runs = [self._held[part][start:stop] for start, stop in edges]
        return runs[0] if len(runs) == 1 else self._torch.cat(runs)

    @contextmanager
    def _full_float32(self) -> Iterator[None]:
        """Multiply without TF32, whatever the precision of the process is."""
        torch = self._torch
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            with torch.inference_mode():
                yield
        finally:
            torch.set_float32_matmul_precision(before)
