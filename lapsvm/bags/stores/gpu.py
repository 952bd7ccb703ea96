"""Windows on a GPU, and the winners among them: the one file of this room that knows torch, imported when it is used.

Copies of the first windows of a store's parts, as many as fit, lie on the device as they are stored. Tiles of them are
widened to float32 there and multiplied with the weight vectors of all that ask, without TF32; the first maximum of each
bag is found on the device, and only its number comes back. Its score is summed in float64 by the processor, as
everywhere. float32 sums are made in another order than the processor makes them, which may depend on how many windows
and weight vectors are multiplied at once, and near ties are not scored again. So where two windows are equal but for
float32's rounding, another one may win, here and beside other weight vectors.
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
"""Of widened features and scores that are worked on at once."""

_SHARE = 0.8  # of the memory that is free; the rest is for tiles and for networks
_DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")  # without one of them torch, slow to load, need not be asked
_COPIED = 64 << 20  # bytes that are taken to the device at once


def place(store: Store, device: str) -> None:
    """Let a device answer for as many windows of a store as fit into its memory.

    Parameters
    ----------
    store : Store
    device : "cpu", "cuda" or "auto"
        "auto" takes a GPU if there is one and all windows fit; without torch, or for a store that other processes
        hold, it is "cpu".

    Raises
    ------
    OptionError
        If "cuda" is asked for and torch cannot use it.
    DependencyError
        If "cuda" is asked for and torch is not installed.
    """
    if device == "cpu" or store.remote is not None or (device == "auto" and not _worth_asking()):
        return
    if choose_device(device) == "cpu":
        return
    free = int(_SHARE * load_torch("device cuda").cuda.mem_get_info()[0])
    if device == "cuda" or int(store.bounds[-1]) * store.dim * store.dtype.itemsize <= free:
        store.device = GpuStore(store, "cuda", free)


def _worth_asking() -> bool:
    """Tell whether there may be a GPU, and torch."""
    from importlib.util import find_spec

    return any(Path(driver).exists() for driver in _DRIVERS) and find_spec("torch") is not None


class GpuStore:
    """Copies of the first windows of a store's parts on a torch device.

    Parameters
    ----------
    store : Store
        Its parts are taken in order.
    device : str
        As torch calls it. "cpu" works, and is of no use but to tests.
    limit : int
        Bytes that the copies may take; of a part that does not fit, the first rows are taken.
    """

    def __init__(self, store: Store, device: str, limit: int):
        self._torch = load_torch(f"device {device}")
        self._name, self._parts = device, store.parts
        self._dim, self._dtype, self._tile = store.dim, store.dtype, TILE_BYTES
        self._wide = self._torch.float64 if store.dtype == np.float64 else self._torch.float32
        self._held: list[Any] = []
        room = limit // (store.dim * store.dtype.itemsize)
        for part in range(len(store.parts)):
            wanted = min(store.parts[part].n_rows, room)
            held = self._taken(part, wanted)
            self._held.append(held)
            room -= wanted
            if len(held) < store.parts[part].n_rows:
                break

    @property
    def n_rows(self) -> int:
        """Number of windows on the device."""
        return sum(len(held) for held in self._held)

    def holds(self, part: int, stop: int) -> bool:
        """Tell whether it has the rows of a part before `stop`."""
        return part < len(self._held) and stop <= len(self._held[part])

    def winners(
        self, selection: Selection, bounds: Index, chunks: Sequence[Chunk], weights: Float64
    ) -> Iterator[tuple[Chunk, Index]]:
        """Yield runs of bags with the best window (n, k) of each bag for the columns of `weights` (d, k).

        Raises
        ------
        DataError
            If the device has not even the memory for one bag.
        """
        with self._exactly():
            columns = self._torch.from_numpy(weights).to(self._name, self._wide)
            for chunk in self._tiles(selection, chunks, weights.shape[1]):
                yield chunk, self._best(selection, int(bounds[chunk.part]), chunk, columns)

    def rows(self, part: int, rows: Index) -> Array:
        """Return copies of rows of a part, as stored: from memory where it has them, else from the device."""
        if self._parts[part].resident:
            return self._parts[part].take(rows)
        chosen = self._held[part][self._torch.from_numpy(rows).to(self._name)]
        return np.asarray(self._plain(chosen).cpu().numpy().view(self._dtype))

    def _taken(self, part: int, n_rows: int) -> Any:
        """Return the first rows of a part on the device, or fewer where its memory ends."""
        torch = self._torch
        kind = torch.bfloat16 if self._dtype == BFLOAT16 else getattr(torch, self._dtype.name)
        try:
            held = torch.empty((n_rows, self._dim), dtype=kind, device=self._name)
        except torch.OutOfMemoryError:  # less is free than the system said
            return self._taken(part, n_rows // 2)
        step = max(1, _COPIED // (self._dim * self._dtype.itemsize))
        for start in range(0, n_rows, step):
            rows = self._parts[part].take(np.arange(start, min(start + step, n_rows)))
            plain = rows.view(np.int16) if self._dtype == BFLOAT16 else rows
            self._plain(held)[start : start + step] = torch.from_numpy(np.ascontiguousarray(plain)).to(self._name)
        return held

    def _plain(self, rows: Any) -> Any:
        """Return rows as a type that numpy has."""
        return rows.view(self._torch.int16) if self._dtype == BFLOAT16 else rows

    def _tiles(self, selection: Selection, chunks: Sequence[Chunk], columns: int) -> Iterator[Chunk]:
        """Yield the chunks, neighbours joined to as much as is worked on at once."""
        row = (self._dim + 3 * columns) * 8
        most = self._tile // row
        waiting: Chunk | None = None
        for chunk in chunks:
            first = chunk.first if waiting is None else waiting.first
            rows = int(selection.offsets[chunk.last] - selection.offsets[first])
            if waiting is not None and (waiting.last, waiting.part) == (chunk.first, chunk.part) and rows <= most:
                waiting = Chunk(chunk.part, first, chunk.last)
                continue
            if waiting is not None:
                yield waiting
            waiting = chunk
        if waiting is not None:
            yield waiting

    def _best(self, selection: Selection, before: int, chunk: Chunk, columns: Any) -> Index:
        """Return the first maximum of each bag for each column; halved until it fits into memory."""
        try:
            return self._first_maxima(selection, before, chunk, columns)
        except self._torch.OutOfMemoryError:
            middle = (chunk.first + chunk.last) // 2
            if middle == chunk.first:
                raise DataError(
                    f"device {self._name} must have memory for the scores of one picture's windows, got too little; "
                    "give --device cpu."
                ) from None
        halves = Chunk(chunk.part, chunk.first, middle), Chunk(chunk.part, middle, chunk.last)
        return np.concatenate([self._best(selection, before, half, columns) for half in halves])

    def _first_maxima(self, selection: Selection, before: int, chunk: Chunk, columns: Any) -> Index:
        torch, bags = self._torch, slice(chunk.first, chunk.last)
        starts, sizes = selection.starts[bags] - before, selection.sizes[bags]
        scores = self._features(chunk.part, starts, starts + sizes).to(self._wide) @ columns
        scores = torch.nan_to_num_(scores, nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
        on = torch.from_numpy(np.ascontiguousarray(sizes)).to(self._name)
        owner = torch.repeat_interleave(torch.arange(len(sizes), device=self._name), on)[:, None].expand_as(scores)
        competing = self._competing(selection, chunk, scores)
        shape = len(sizes), columns.shape[1]
        best = torch.full(shape, -torch.inf, dtype=self._wide, device=self._name).scatter_reduce_(
            0, owner, scores, "amax"
        )
        place = torch.arange(len(scores), device=self._name)[:, None]
        none = len(scores)
        place = torch.where((scores == best.gather(0, owner)) & competing, place, none)
        first = torch.full(shape, none, device=self._name).scatter_reduce_(0, owner, place, "amin")
        inside = first - (torch.cumsum(on, 0) - on)[:, None]
        found = torch.where(first == none, 0, inside)  # a bag of which nothing competes has no best window
        return np.asarray(found.cpu().numpy(), dtype=np.intp)

    def _competing(self, selection: Selection, chunk: Chunk, scores: Any) -> Any:
        """Return which windows compete (n, 1), those that do not scored -inf."""
        torch = self._torch
        if selection.excluded is None:
            return torch.ones((1, 1), dtype=torch.bool, device=self._name)
        rows = slice(int(selection.offsets[chunk.first]), int(selection.offsets[chunk.last]))
        excluded = torch.from_numpy(selection.excluded[rows].copy()).to(self._name)[:, None]
        scores.masked_fill_(excluded, -torch.inf)
        return ~excluded

    def _features(self, part: int, starts: Index, stops: Index) -> Any:
        """Return the windows of bags, one bag behind the other."""
        runs = [
            self._held[part][start:stop]
            for start, stop in zip(*map(np.ndarray.tolist, runs_of(starts, stops)), strict=True)
        ]
        return runs[0] if len(runs) == 1 else self._torch.cat(runs)

    @contextmanager
    def _exactly(self) -> Iterator[None]:
        """Multiply in float32 as it is, whatever the process has chosen for itself."""
        torch = self._torch
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            with torch.inference_mode():
                yield
        finally:
            torch.set_float32_matmul_precision(before)
