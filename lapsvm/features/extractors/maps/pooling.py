"""The mean of a feature map over each window, exact for a map that is constant inside its cells.

The kernel sums the map over every rectangle that begins at its origin. The mean over a window is a weighted sum of at
most 16 of these sums, whatever the size of the window and of the map.

Pooling is linear: a product of the map with some components gives, pooled, the product of the pooled map with them. So
a map is projected once, instead of every window; only the windows' lengths need all channels (`window_lengths`,
`window_and_ring_lengths`).

A map is an array, or stays on a device, which then does what the kernel does (`DeviceMap`).
"""

import numpy as np

from lapsvm._ext import pooling as _kernel
from lapsvm.arrays import Array, Float32, Float64
from lapsvm.features.extractors.maps.on_device import DeviceMap

Map = Array | DeviceMap

ENLARGED = 1.8  # sides of the window with its context, in sides of the window
FULL_RING = 0.5  # share of the enlarged window from which on a ring counts fully
_THIN = 1e-4  # a smaller share is a difference of rounded sums, not a ring


def pool_windows(feature_map: Map, windows: Float64) -> Float32:
    """Return the mean of a map over each window.

    Parameters
    ----------
    feature_map : ndarray of shape (channels, rows, columns), float32, or DeviceMap
    windows : ndarray of shape (n, 4), float64
        x1, y1, x2, y2 in cells of the map, finite; clipped to it.

    Returns
    -------
    ndarray of shape (n, channels), float32
        Zeros for a window without area.
    """
    return _mixed_means(feature_map, *_alone(windows))


def window_lengths(feature_map: Map, windows: Float64) -> Float64:
    """Return the lengths (n,) of the rows that `pool_windows` gives."""
    return np.asarray(np.sqrt(_squared_lengths(feature_map, *_alone(windows))[:, 0]))


def pool_rings(feature_map: Map, windows: Float64) -> tuple[Float32, Float32]:
    """Return the mean of a map over each window's context, and how much of it there is.

    The context is what lies in the window enlarged `ENLARGED` times about its centre, as far as the map goes,
    and not in the window.

    Parameters
    ----------
    feature_map : ndarray of shape (channels, rows, columns), float32, or DeviceMap
    windows : ndarray of shape (n, 4), float64
        x1, y1, x2, y2 in cells of the map, inside it.

    Returns
    -------
    means : ndarray of shape (n, channels), float32
        Zeros where there is no context, as for the whole map.
    weights : ndarray of shape (n,), float32
        From 0, no context, to 1, at least `FULL_RING` of the enlarged window.
    """
    groups, shares, weights = ring_windows(windows, *feature_map.shape[1:])
    return _mixed_means(feature_map, groups, shares[:, None]), weights


def window_and_ring_lengths(feature_map: Map, windows: Float64) -> tuple[Float64, Float64]:
    """Return the lengths (n,) of the means that `pool_windows` gives, and of those that `pool_rings` gives."""
    groups, shares, _ = ring_windows(windows, *feature_map.shape[1:])
    squares = _squared_lengths(feature_map, groups, _both(shares))
    return np.sqrt(squares[:, 0]), np.sqrt(squares[:, 1])


def pool_windows_and_rings(feature_map: Map, windows: Float64, inside: Float64, around: Float64) -> Float32:
    """Return the means over each window and over its context, each times a factor.

    Parameters
    ----------
    feature_map : ndarray of shape (channels, rows, columns), float32, or DeviceMap
    windows : ndarray of shape (n, 4), float64
        x1, y1, x2, y2 in cells of the map, inside it.
    inside : ndarray of shape (n,), float64
        Factors of what `pool_windows` gives.
    around : ndarray of shape (n,), float64
        Factors of what `pool_rings` gives, multiplied by its weights.

    Returns
    -------
    ndarray of shape (n, 2 * channels), float32
        All channels of the window, then those of its context.
    """
    groups, shares, weights = ring_windows(windows, *feature_map.shape[1:])
    factors = np.stack([inside, around * weights], axis=1)
    return _mixed_means(feature_map, groups, _both(shares) * factors[:, :, None])


def projected_map(feature_map: Map, components: Float32) -> Map:
    """Return the products (k, rows, columns) of a map's channels with components (channels, k)."""
    if isinstance(feature_map, DeviceMap):
        return feature_map.times(components)
    return np.asarray(np.tensordot(components.T, feature_map, 1))


def _both(shares: Float64) -> Float64:
    """Return the mixes (n, 2, 2) of enlarged windows and windows that give the windows, and rings with some shares."""
    return np.stack([np.broadcast_to([0.0, 1.0], shares.shape), shares], axis=1)


def ring_windows(windows: Float64, rows: int, columns: int) -> tuple[Float64, Float64, Float32]:
    """Return the windows of which rings are the differences (n, 2, 4), their shares (n, 2), and the rings' weights.

    The mean over a ring is the sum of the two windows' means times their shares; see `pool_rings`.
    """
    enlarged = enlarge(windows, rows, columns)
    inner, outer = _areas(windows), _areas(enlarged)
    ring = outer - inner
    shares = np.stack([outer, -inner], axis=1)
    shares = np.divide(shares, ring[:, None], out=np.zeros_like(shares), where=(ring > _THIN * outer)[:, None])
    weights = np.divide(ring, FULL_RING * outer, out=np.zeros_like(ring), where=outer > 0)
    return np.stack([enlarged, windows], axis=1), shares, np.minimum(weights, 1.0).astype(np.float32)


def enlarge(windows: Float64, rows: int, columns: int) -> Float64:
    """Return the windows (n, 4) enlarged about their centres, cut to the map."""
    centres, reach = (windows[:, :2] + windows[:, 2:]) / 2, (windows[:, 2:] - windows[:, :2]) * (ENLARGED / 2)
    return np.concatenate([np.maximum(centres - reach, 0), np.minimum(centres + reach, [columns, rows])], axis=1)


def _areas(windows: Float64) -> Float64:
    """Return the areas (n,)."""
    return np.asarray((windows[:, 2] - windows[:, 0]) * (windows[:, 3] - windows[:, 1]))


def _alone(windows: Float64) -> tuple[Float64, Float64]:
    """Return windows as groups of one, each of weight 1."""
    return windows[:, None], np.ones((len(windows), 1, 1))


def _mixed_means(feature_map: Map, groups: Float64, mixes: Float64) -> Float32:
    """Return mixed means over groups of windows (see `lapsvm._ext.pooling`)."""
    if isinstance(feature_map, DeviceMap):
        return feature_map.mixed_means(groups, mixes)
    return _kernel.mixed_means(*_checked(feature_map, groups, mixes))


def _squared_lengths(feature_map: Map, groups: Float64, mixes: Float64) -> Float64:
    """Return the squared lengths of mixed means."""
    if isinstance(feature_map, DeviceMap):
        return feature_map.squared_lengths(groups, mixes)
    return _kernel.squared_lengths(*_checked(feature_map, groups, mixes))


def _checked(feature_map: Array, groups: Float64, mixes: Float64) -> tuple[Float32, Float64, Float64]:
    """Return a map and groups of windows as the kernel takes them."""
    cells = np.ascontiguousarray(feature_map, dtype=np.float32)
    return cells, np.ascontiguousarray(groups, dtype=np.float64), np.ascontiguousarray(mixes, dtype=np.float64)
