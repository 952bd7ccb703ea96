"""Features of windows from a map that learns: the extractors' pooling as torch operators."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64, as_floats, check_switch
from lapsvm.errors import InputError, ShapeError
from lapsvm.features.extractors.pooling import ring_windows

Tensor = torch.Tensor


class WindowPooling(torch.nn.Module):
    """The exact mean of a map over each window, with what surrounds it subtracted or appended.

    The features of the extractors ``efficientnet_lite0``, ``onnx:`` and ``torch:`` for one map without cells
    (`lapsvm.features.extractors.pooled_network`), with gradients to the map. Means are linear in the map: a window is a
    row of weights of the map's cells.

    Parameters
    ----------
    contrast : float, optional
        Share of the features of a window's surroundings that is subtracted from its own, in [0, 1]; by default .5, and
        0 with `beside`.
    beside : bool, default=False
        Whether the features of the surroundings are appended instead: twice as many features.
    normalise : bool, default=True
        Whether the features of window and surroundings are divided by their length.

    Raises
    ------
    InputError
        If an option breaks its rule.
    """

    def __init__(self, contrast: float | None = None, *, beside: bool = False, normalise: bool = True) -> None:
        super().__init__()
        self.beside, self.normalise = check_switch("beside", beside), check_switch("normalise", normalise)
        self.contrast = float(as_floats("contrast", (0.0 if beside else 0.5) if contrast is None else contrast, 0))
        if not 0 <= self.contrast <= 1:
            raise InputError(f"contrast must lie in [0, 1], got {self.contrast:g}.")
        if self.beside and self.contrast:
            raise InputError(f"contrast must be 0 where beside keeps both parts, got {self.contrast:g}.")

    def forward(self, feature_map: Tensor, windows: ArrayLike) -> Tensor:
        """Return the features of windows.

        Parameters
        ----------
        feature_map : (channels, rows, columns) float
        windows : (n, 4) float
            x1, y1, x2, y2 as shares of the picture's width and height, in [0, 1].

        Returns
        -------
        tensor of shape (n, channels), or (n, 2 channels) with `beside`
            Zeros for a window without area.
        """
        means = self._means(feature_map, windows)
        values = means.weights @ means.cells
        return self._combined(torch.nn.functional.normalize(values) if self.normalise else values, means)

    def scores(self, feature_map: Tensor, windows: ArrayLike, weight: Tensor) -> Tensor:
        """Return the products (n, k) of the windows' features with weights (k, d), without forming the features.

        A window's score follows from the map's product with the weights. Where that is cheaper, the length of its
        features follows from the inner products of the map's cells.

        Parameters
        ----------
        feature_map, windows
            As in `forward`.
        weight : (k, channels), or (k, 2 channels) with `beside`
        """
        means = self._means(feature_map, windows)
        n_features = len(feature_map) * (2 if self.beside else 1)
        if weight.ndim != 2 or weight.shape[1] != n_features:
            raise ShapeError(f"weight must have shape (k, {n_features}), got {tuple(weight.shape)}.")
        halves = torch.split(weight, len(feature_map), dim=1)
        parts = torch.split(means.weights, means.n_windows)
        products = [part @ (means.cells @ halves[k % len(halves)].T) for k, part in enumerate(parts)]
        values = torch.cat(products)
        combined = self._combined(values * _inverse_lengths(means) if self.normalise else values, means)
        return combined.reshape(means.n_windows, 1 + self.beside, len(weight)).sum(dim=1)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return f"contrast={self.contrast:g}, beside={self.beside}, normalise={self.normalise}"

    def _means(self, feature_map: Tensor, windows: ArrayLike) -> "_Means":
        """Return the windows, and their surroundings behind them, as weighted means of the map's cells."""
        if feature_map.ndim != 3:
            raise ShapeError(f"feature_map must have shape (channels, rows, columns), got {tuple(feature_map.shape)}.")
        rows, columns = feature_map.shape[1:]
        positions = _checked(windows) * np.array([columns, rows, columns, rows])
        cells, inside = feature_map.flatten(1).T, _weights(positions, rows, columns)
        if not (self.beside or self.contrast > 0):
            return _Means(cells, torch.from_numpy(inside).to(feature_map), None)
        groups, shares, counts = ring_windows(positions, rows, columns)
        ring = shares[:, :1] * _weights(groups[:, 0], rows, columns) + shares[:, 1:] * inside
        weights = torch.from_numpy(np.concatenate([inside, ring])).to(feature_map)
        return _Means(cells, weights, torch.from_numpy(counts).to(feature_map)[:, None])

    def _combined(self, values: Tensor, means: "_Means") -> Tensor:
        """Return the windows' values with those of their surroundings, which count by how much of them there is."""
        if means.counts is None:
            return values
        own, around = values.chunk(2)
        around = around * means.counts
        return torch.cat([own, around], dim=1) if self.beside else own - self.contrast * around


class _Means(NamedTuple):
    """Means of a map's cells (cells, channels): their weights (m, cells), and how much the surroundings count (n, 1).

    The surroundings' means follow those of the n windows; counts is None where there are none.
    """

    cells: Tensor
    weights: Tensor
    counts: Tensor | None

    @property
    def n_windows(self) -> int:
        """Return the number of windows."""
        return len(self.weights) if self.counts is None else len(self.counts)


def _inverse_lengths(means: _Means) -> Tensor:
    """Return 1 over the length of each mean, (m, 1); 0 for 0."""
    cells, weights = means.cells, means.weights
    if len(cells) * (cells.shape[1] + len(weights)) < len(weights) * cells.shape[1]:
        squares = (weights @ (cells @ cells.T) * weights).sum(dim=1, keepdim=True)
    else:
        squares = (weights @ cells).square().sum(dim=1, keepdim=True)
    positive = squares > 0
    return torch.where(positive, torch.where(positive, squares, 1).rsqrt(), 0)


def _weights(windows: Float64, rows: int, columns: int) -> Float64:
    """Return the share of each cell in each window's area, (n, rows * columns); 0 for a window without area."""
    down = _overlaps(windows[:, 1], windows[:, 3], rows)
    across = _overlaps(windows[:, 0], windows[:, 2], columns)
    areas = down.sum(axis=1) * across.sum(axis=1)
    down = np.divide(down, areas[:, None], out=np.zeros_like(down), where=(areas > 0)[:, None])
    return np.asarray((down[:, :, None] * across[:, None, :]).reshape(len(windows), rows * columns))


def _overlaps(first: Float64, last: Float64, n: int) -> Float64:
    """Return how far each interval reaches into each of n cells of length 1, (m, n)."""
    cells = np.arange(n)
    return np.asarray(np.maximum(np.minimum(last[:, None], cells + 1) - np.maximum(first[:, None], cells), 0.0))


def _checked(windows: ArrayLike) -> Float64:
    """Return relative windows (n, 4)."""
    array = as_floats("windows", windows, 2)
    if array.shape[1] != 4:
        raise ShapeError(f"windows must have shape (n, 4), got {array.shape}.")
    outside = array[(array < 0) | (array > 1)]
    if len(outside):
        raise InputError(f"windows must lie in the unit square, got {outside[0]:g}.")
    return array
