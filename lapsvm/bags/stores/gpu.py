"""Windows on GPUs, and the best among them; torch is imported lazily.

The devices hold copies, in their stored type, of as many windows as fit, the first ones first. Every pass returns what
a processor's pass returns, bit for bit (see `gpu_windows`). Other windows travel to the devices in every pass (see
`gpu_queue`), or the processor is faster.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags.stores.gpu_queue import DeviceQueue
from lapsvm.bags.stores.gpu_windows import has_kernels, row_bytes
from lapsvm.bags.stores.local import Store
from lapsvm.features.extractors.networks import NVIDIA
from lapsvm.features.extractors.torch_running import choose_device, load_torch

WORTH_BYTES = 1 << 30
"""Windows of fewer bytes stay with the processor, unless a GPU is asked for."""

_SHARE = 0.8  # of the free memory; the rest is for tiles and networks
# without one of them there is no GPU, and torch, slow to load, is not imported
_DRIVERS = (*NVIDIA, "/dev/kfd")


def use_device(store: Store, device: str) -> None:
    """Copy as many windows of a store to all GPUs as fit into their memory; passes then find their best ones there.

    What does not fit is copied again in every pass, as far as the processor's threads do not come first.

    Parameters
    ----------
    store : Store
    device : "cpu", "cuda" or "auto"
        "auto" uses GPUs if there are any and all windows fit, from 1 GiB of windows on: below, processors have made
        the passes before torch is imported. Without torch, and for a store that other processes hold, it means "cpu".

    Raises
    ------
    OptionError
        If the device is "cuda" and torch cannot use it.
    DependencyError
        If the device is "cuda" and torch is not installed.
    """
    size = int(store.bounds[-1]) * row_bytes(store)
    if device == "cpu" or store.remote is not None or (device == "auto" and (size < WORTH_BYTES or not may_have_gpu())):
        return
    if choose_device(device) == "cpu":
        return
    cards = free_memory(load_torch("device cuda"))
    if device == "cuda" or size <= sum(free for _, free in cards):
        store.device = GpuStore(store, cards)


def may_have_gpu() -> bool:
    """Return whether a GPU driver and torch are installed."""
    return any(Path(driver).exists() for driver in _DRIVERS) and find_spec("torch") is not None


def free_memory(torch: Any) -> list[tuple[str, int]]:
    """Return the name of every GPU that this process sees, and the bytes that windows may take there.

    GPUs without the kernels would hold up others that have them, and are left out.
    """
    names = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    names = list(filter(has_kernels, names)) or names
    torch.cuda.empty_cache()  # what networks had before
    return [(name, int(_SHARE * torch.cuda.mem_get_info(name)[0])) for name in names]


class GpuStore:
    """Copies of the first windows of a store on torch devices, and the way of the others to these.

    Parameters
    ----------
    store : Store
        Its windows are dealt to the devices in order.
    devices : sequence of (str, int), at least one
        Torch's name of each, and the most bytes of its copies; "cpu" works too, for tests. Each receives windows in
        proportion to its bytes.

    Attributes
    ----------
    shares : list of DeviceQueue
        The windows of each device.
    """

    def __init__(self, store: Store, devices: Sequence[tuple[str, int]]):
        self._dim, self._dtype, self._turn = store.dim, store.dtype, Lock()
        rooms = [limit // row_bytes(store) for _, limit in devices]
        self.shares: list[DeviceQueue] = []
        for number, (name, _) in enumerate(devices):
            left, room = int(store.bounds[-1]) - self.n_rows, sum(rooms[number:])
            n_rows = min(rooms[number], -(-left * rooms[number] // max(1, room)))
            self.shares.append(DeviceQueue(store, name, n_rows, self.n_rows))

    @property
    def n_rows(self) -> int:
        """How many windows the devices have, the store's first ones."""
        return self.shares[-1].stop if self.shares else 0

    def rows(self, rows: Index) -> Array:
        """Return copies of rows that the devices have, as stored."""
        copies = np.empty((len(rows), self._dim), self._dtype)
        for places, share in self._dealt(rows):
            copies[places] = share.rows(rows[places])
        return copies

    def scores(self, rows: Index, weights: Float64) -> Float64:
        """Return the float64 score (m,) of rows by `weights` (d,), with the bits of a processor's."""
        scores = np.empty(len(rows))
        for places, share in self._dealt(rows):
            scores[places] = share.scores(rows[places], weights)
        return scores

    def _dealt(self, rows: Index) -> Iterator[tuple[Any, DeviceQueue]]:
        """Yield the places of the rows that each device has."""
        if len(self.shares) == 1:
            yield slice(None), self.shares[0]
            return
        owners = np.searchsorted([share.stop for share in self.shares], rows, side="right")
        for number in np.unique(owners).tolist():
            yield np.flatnonzero(owners == number), self.shares[number]

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Serialise passes; disable TF32 meanwhile."""
        torch = load_torch("a GPU")
        with self._turn:
            before = torch.get_float32_matmul_precision()
            torch.set_float32_matmul_precision("highest")
            try:
                yield
            finally:
                torch.set_float32_matmul_precision(before)
