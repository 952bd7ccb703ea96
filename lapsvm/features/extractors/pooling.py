"""The mean of a feature map over each window, exact for a map that is constant inside its cells.

The share of a cell in a window is the product of its shares along the two axes; so the shares of all windows are one
matrix, and its product with the map pools every window at once.
"""

from collections.abc import Sequence

import numpy as np

from lapsvm.arrays import Array, Float32, Float64

Grids = Sequence[tuple[int, int]]

_ROWS = 4096  # windows at a time: bounds the memory of the shares
ENLARGED = 1.8  # sides of the window with its surroundings, in sides of the window
FULL_RING = 0.5  # share of the enlarged window from which on a ring counts fully
_THIN = 1e-4  # a smaller share is a difference of rounded sums, not a ring


def pool_windows(feature_map: Array, windows: Float64) -> Float32:
    """Return the mean of a map over each window.

    Parameters
    ----------
    feature_map : ndarray of shape (channels, rows, columns), float32
    windows : ndarray of shape (n, 4), float64
        x1, y1, x2, y2 in cells of the map, inside it.

    Returns
    -------
    ndarray of shape (n, channels), float32
        Zeros for a window without area.
    """
    channels, rows, columns = feature_map.shape
    cells = np.ascontiguousarray(feature_map.reshape(channels, rows * columns).T, dtype=np.float32)
    pooled = np.empty((len(windows), channels), dtype=np.float32)
    for start in range(0, len(windows), _ROWS):
        part = slice(start, start + _ROWS)
        np.matmul(cell_shares(windows[part], rows, columns), cells, out=pooled[part])
    return pooled


def pool_cells(feature_map: Array, windows: Float64, grids: Grids) -> Float32:
    """Return the means of a map over the cells of each window.

    Parameters
    ----------
    feature_map : ndarray of shape (channels, rows, columns), float32
    windows : ndarray of shape (n, 4), float64
        x1, y1, x2, y2 in cells of the map, inside it.
    grids : sequence of (int, int)
        Rows and columns into which a window is cut evenly; several are done one after the other.

    Returns
    -------
    ndarray of shape (n, k * channels), float32
        k is the number of cells of all grids. All channels of one cell, then those of the next: grid by grid, row by
        row, from left to right. Zeros for a window without area.
    """
    cells = np.concatenate([_cut(windows, rows, columns) for rows, columns in grids], axis=1)
    return pool_windows(feature_map, cells.reshape(-1, 4)).reshape(len(windows), cells.shape[1] * len(feature_map))


def _cut(windows: Float64, rows: int, columns: int) -> Float64:
    """Return the cells of one grid of each window, (n, rows * columns, 4)."""
    across = windows[:, :1] + (windows[:, 2:3] - windows[:, :1]) * (np.arange(columns + 1) / columns)
    down = windows[:, 1:2] + (windows[:, 3:] - windows[:, 1:2]) * (np.arange(rows + 1) / rows)
    across[:, -1], down[:, -1] = windows[:, 2], windows[:, 3]  # not a rounding beyond the window, hence the map
    shape = len(windows), rows, columns
    edges = (across[:, None, :-1], down[:, :-1, None], across[:, None, 1:], down[:, 1:, None])
    return np.stack([np.broadcast_to(edge, shape) for edge in edges], axis=-1).reshape(len(windows), rows * columns, 4)


def pool_rings(feature_map: Array, windows: Float64, inside: Float32) -> tuple[Float32, Float32]:
    """Return the mean of a map over each window's surroundings, and how much of them there is.

    The surroundings are what lies in the window enlarged `ENLARGED` times about its centre, as far as the map goes,
    and not in the window.

    Parameters
    ----------
    feature_map : ndarray of shape (channels, rows, columns), float32
    windows : ndarray of shape (n, 4), float64
        x1, y1, x2, y2 in cells of the map, inside it.
    inside : ndarray of shape (n, channels), float32
        What `pool_windows` gives.

    Returns
    -------
    means : ndarray of shape (n, channels), float32
        Zeros where there are no surroundings, as for the whole map.
    weights : ndarray of shape (n,), float32
        From 0, no surroundings, to 1, at least `FULL_RING` of the enlarged window.
    """
    rows, columns = feature_map.shape[1:]
    enlarged = enlarge(windows, rows, columns)
    inner, outer = _areas(windows)[:, None], _areas(enlarged)[:, None]
    ring = outer - inner
    sums = pool_windows(feature_map, enlarged) * outer - inside * inner
    means = np.divide(sums, ring, out=np.zeros_like(sums), where=ring > _THIN * outer)
    weights = np.divide(ring, FULL_RING * outer, out=np.zeros_like(ring), where=outer > 0)
    return means.astype(np.float32), np.minimum(weights, 1.0)[:, 0].astype(np.float32)


def enlarge(windows: Float64, rows: int, columns: int) -> Float64:
    """Return the windows (n, 4) enlarged about their centres, cut to the map."""
    centres, halves = (windows[:, :2] + windows[:, 2:]) / 2, (windows[:, 2:] - windows[:, :2]) * (ENLARGED / 2)
    return np.concatenate([np.maximum(centres - halves, 0), np.minimum(centres + halves, [columns, rows])], axis=1)


def _areas(windows: Float64) -> Float64:
    """Return the areas (n,)."""
    return np.asarray((windows[:, 2] - windows[:, 0]) * (windows[:, 3] - windows[:, 1]))


def cell_shares(windows: Float64, rows: int, columns: int) -> Float32:
    """Return each cell's share in each window, float32 of shape (n, rows * columns).

    A window's shares sum to 1; to 0 if it has no area.
    """
    across = _axis_shares(windows[:, 0], windows[:, 2], columns)
    down = _axis_shares(windows[:, 1], windows[:, 3], rows)
    return np.asarray((down[:, :, None] * across[:, None, :]).reshape(len(windows), rows * columns))


def _axis_shares(low: Float64, high: Float64, size: int) -> Float32:
    """Return the share of each cell of one axis in each stretch, (n, size)."""
    cells, low, high = np.arange(size), low[:, None], high[:, None]
    covered = np.maximum(np.minimum(high, cells + 1.0) - np.maximum(low, cells), 0.0)
    length = np.broadcast_to(high - low, covered.shape)
    shares = np.divide(covered, length, out=np.zeros_like(covered), where=length > 0)
    return np.asarray(shares.astype(np.float32))
