"""Maps that stay on a device of torch's: windows are pooled there, and only their numbers travel back.

The sums are those of the processor's kernel (`cython_ext/pooling.pyx`), float64 too: a window's mean is a weighted sum
of at most 16 sums over rectangles, and what rounding may explain is 0. So means of the same map differ from the
kernel's by float32's last digit alone.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeGuard

import numpy as np

from lapsvm.arrays import Array, Float32, Float64, Index
from lapsvm.features.extractors.networks import Network

CHANNELS = 256
"""Channels whose sums are on the device at once."""

_ROUNDING = 2.0**-50  # of the terms of a mean, for each row and column that a sum may cross


class DeviceMap:
    """The map of a picture on a device; `lapsvm.features.extractors.maps.pooling` takes it in place of an array.

    Parameters
    ----------
    torch : module
    cells : torch.Tensor of shape (channels, rows, columns)
    running : callable
        Returns the context in which the device computes; an argument says for what, should its memory run out.
    """

    def __init__(self, torch: Any, cells: Any, running: Callable[[str], AbstractContextManager[None]]) -> None:
        self._torch, self._cells, self._running = torch, cells, running

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, rows and columns."""
        return tuple(self._cells.shape)

    @property
    def nbytes(self) -> int:
        """Memory on the device."""
        return int(self._cells.nbytes)

    def mixed_means(self, groups: Float64, mixes: Float64) -> Float32:
        """Return the mixed means (n, o * channels), as the kernel does."""
        with self._computing(groups):
            parts = [mixed.float() for mixed in self._mixed(groups, mixes)]
            return np.asarray(self._torch.cat(parts, dim=2).flatten(1).cpu().numpy())

    def squared_lengths(self, groups: Float64, mixes: Float64) -> Float64:
        """Return the squared lengths (n, o), as the kernel does."""
        with self._computing(groups):
            parts = [mixed.square().sum(dim=2) for mixed in self._mixed(groups, mixes)]
            return np.asarray(self._torch.stack(parts).sum(dim=0).cpu().numpy())

    def times(self, components: Float32) -> "DeviceMap":
        """Return the map with the channels' products with components (channels, k), float64."""
        with self._running("a map"):
            factors = self._there(components.T.astype(np.float64))
            return DeviceMap(self._torch, self._torch.tensordot(factors, self._cells.double(), 1), self._running)

    def _computing(self, groups: Float64) -> AbstractContextManager[None]:
        return self._running(f"{len(groups)} windows")

    def _there(self, array: Array) -> Any:
        return self._torch.from_numpy(np.ascontiguousarray(array)).to(self._cells.device)

    def _mixed(self, groups: Float64, mixes: Float64) -> Iterator[Any]:
        """Yield the mixed means (n, o, channels), float64, of some channels after others."""
        rows, columns = self.shape[1:]
        n, m = groups.shape[:2]
        offsets, weights = map(self._there, window_terms(groups.reshape(-1, 4), rows, columns))
        there = self._there(mixes)
        rounding = there.abs().sum(dim=2) * ((rows + columns + 16) * _ROUNDING)
        for cells in self._cells.double().split(CHANNELS):
            means = self._weighted(_integrated(self._torch, cells), offsets, weights).reshape(n, m, len(cells))
            mixed = sum(there[:, :, i, None] * means[:, None, i] for i in range(m))
            bound = rounding[:, :, None] * cells.abs().sum(dim=(1, 2))
            yield self._torch.where((mixed.abs() <= bound) & bound.isfinite(), 0.0, mixed)

    def _weighted(self, sums: Any, offsets: Any, weights: Any) -> Any:
        """Return weighted sums (n, channels) of rows of `sums`."""
        if not len(offsets):
            return sums.new_zeros(0, sums.shape[1])
        bags = self._torch.nn.functional.embedding_bag
        return bags(offsets, sums, mode="sum", per_sample_weights=weights)


def _integrated(torch: Any, cells: Any) -> Any:
    """Return the sums ((rows + 1) * (columns + 1), channels) over the rectangles that begin at the origin."""
    sums = torch.nn.functional.pad(cells.cumsum(dim=2).cumsum(dim=1), (1, 0, 1, 0))
    return sums.flatten(1).T.contiguous()


def window_terms(windows: Float64, rows: int, columns: int) -> tuple[Index, Float64]:
    """Return the weighted sums over rectangles of which each window's mean consists.

    Parameters
    ----------
    windows : ndarray of shape (n, 4), float64
        x1, y1, x2, y2 in cells; clipped to the map.
    rows, columns : int

    Returns
    -------
    offsets : ndarray of shape (n, 16), int64
        That of the rectangle up to row i and column j is i * (columns + 1) + j.
    weights : ndarray of shape (n, 16), float64
        All 0 for a window without area.
    """
    down, down_weights = _edges(windows[:, 1], windows[:, 3], rows)
    across, across_weights = _edges(windows[:, 0], windows[:, 2], columns)
    offsets = down[:, :, None] * (columns + 1) + across[:, None]
    weights = down_weights[:, :, None] * across_weights[:, None]
    return offsets.reshape(-1, 16), weights.reshape(-1, 16)


def _edges(low: Float64, high: Float64, size: int) -> tuple[Index, Float64]:
    """Return the ends along one axis of the sums that means need, and their weights, both (n, 4).

    A cell's weight is its share of the window, that of a sum the difference of the shares of the cells on both sides.
    """
    low, high = np.maximum(low, 0.0), np.minimum(high, float(size))
    exists = high > low
    first = np.minimum(np.floor(low), size - 1.0)
    last = np.maximum(np.ceil(high) - 1.0, first)
    length, is_one_cell = np.where(exists, high - low, 1.0), first == last
    with np.errstate(over="ignore"):  # of lengths far below a cell, whose share is 1
        first_share = np.where(is_one_cell, 1.0, (first + 1 - low) / length)
        last_share = np.where(is_one_cell, 0.0, (high - last) / length)
        inner = np.where(last > first + 1, 1 / length, last_share)
    ends = np.stack([first, first + 1, last, last + 1], axis=1).astype(np.int64)
    weights = np.stack([-first_share, first_share - inner, inner - last_share, last_share], axis=1)
    return ends, np.where(exists[:, None], weights, 0.0)


class KeepingNetwork(Network, Protocol):
    """A network whose maps may stay on its device."""

    keeps_maps: bool

    def run_kept(self, batch: Float32) -> dict[str, Any]:
        """Return every output as a tensor on the device, for a batch of shape (1, 3, h, w)."""

    def kept_map(self, cells: Any) -> DeviceMap | None:
        """Return the map of a tensor (channels, rows, columns) on the device. None if it is not finite."""


def keeps_maps(network: Network) -> TypeGuard[KeepingNetwork]:
    """Return whether the maps of a network stay on its device."""
    return getattr(network, "keeps_maps", False)
