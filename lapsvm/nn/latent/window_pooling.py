"""Features of windows from a map that learns: the extractors' pooling as torch operators."""

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
        if feature_map.ndim != 3:
            raise ShapeError(f"feature_map must have shape (channels, rows, columns), got {tuple(feature_map.shape)}.")
        rows, columns = feature_map.shape[1:]
        cells = _checked(windows) * np.array([columns, rows, columns, rows])
        sees_around = self.beside or self.contrast > 0
        inside = _weights(cells, rows, columns)
        if not sees_around:
            return self._features(feature_map, inside)
        groups, shares, counts = ring_windows(cells, rows, columns)
        ring = shares[:, :1] * _weights(groups[:, 0], rows, columns) + shares[:, 1:] * inside
        own, around = self._features(feature_map, np.concatenate([inside, ring])).chunk(2)
        around = around * torch.from_numpy(counts).to(around)[:, None]
        return torch.cat([own, around], dim=1) if self.beside else own - self.contrast * around

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return f"contrast={self.contrast:g}, beside={self.beside}, normalise={self.normalise}"

    def _features(self, feature_map: Tensor, weights: Float64) -> Tensor:
        """Return the weighted means of a map's cells, normalised if so chosen."""
        means = torch.from_numpy(weights).to(feature_map) @ feature_map.flatten(1).T
        return torch.nn.functional.normalize(means) if self.normalise else means


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
    return np.maximum(np.minimum(last[:, None], cells + 1) - np.maximum(first[:, None], cells), 0.0)


def _checked(windows: ArrayLike) -> Float64:
    """Return relative windows (n, 4)."""
    array = as_floats("windows", windows, 2)
    if array.shape[1] != 4:
        raise ShapeError(f"windows must have shape (n, 4), got {array.shape}.")
    outside = array[(array < 0) | (array > 1)]
    if len(outside):
        raise InputError(f"windows must lie in the unit square, got {outside[0]:g}.")
    return array
