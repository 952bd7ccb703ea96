"""How well maps of numbers find the pixels of objects: pixel AUROC, PRO, and pointing by the map.

PRO is the area under the per-region overlap: P. Bergmann, M. Fauser, D. Sattlegger and C. Steger, "Uninformed
students: student-teacher anomaly detection with discriminative latent embeddings" (CVPR 2020). Every region counts the
same, however large it is, where AUROC counts pixels.

Values are counted as float32, each by itself as long as there are at most 2^20 different ones of a kind. Then bins of
neighbouring float32 numbers become twice as wide until they are as few, so that the memory does not depend on the
number of pictures.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Float64, as_floats, check_finite
from lapsvm.errors import InputError, ShapeError
from lapsvm.pictures.masks import Mask, mask_labels

Keys = NDArray[np.uint32]
PRO_LIMIT = 0.3
"""The largest share of false pixels up to which PRO is computed."""
MOST_BINS = 1 << 20
WAITING = 1 << 21
"""Pixels that are collected before they are counted, so that sorting takes little time."""


class PixelCounts:
    """Counts of pixels by their value, over pictures of one kind of object.

    `add` takes a picture at a time. All pictures share one scale of values.
    """

    def __init__(self) -> None:
        self._others, self._inside = _Bins(), _Bins()
        self._overlaps = _Bins()  # of the pixels in regions, each weighted by one over its region's size
        self.n_regions = 0

    def add(self, values: ArrayLike, mask: ArrayLike) -> None:
        """Count the pixels of a picture.

        Parameters
        ----------
        values : array-like of shape (h, w)
            The larger, the likelier a pixel is of an object; taken as float32.
        mask : array-like of shape (h, w), bool
            The pixels of objects. Those that touch each other are one region.

        Raises
        ------
        ShapeError, NotFiniteError, InputError
            If the arrays do not fit, a value is not finite, or the mask is not of bool.
        """
        keys, inside = _keys(values), _checked_mask(mask)
        if keys.shape != inside.shape:
            raise ShapeError(f"values and mask must have one shape, got {keys.shape} and {inside.shape}.")
        self._others.add(keys[~inside])
        if not inside.any():
            return
        n_regions, regions = mask_labels(inside)
        labels = regions[inside]
        weights = 1 / np.bincount(labels)[labels]
        self._inside.add(keys[inside])
        self._overlaps.add(keys[inside], weights)
        self.n_regions += n_regions

    @property
    def auroc(self) -> float | None:
        """The share of pairs of an object's pixel and another one in the right order; None without such a pair."""
        return self._area(self._inside, 1.0)

    @property
    def pro(self) -> float | None:
        """The mean share of a region above a threshold, over those that up to 30 % of the other pixels exceed.

        None without a region or another pixel.
        """
        return self._area(self._overlaps, PRO_LIMIT)

    def _area(self, counts: "_Bins", limit: float) -> float | None:
        """Return the mean height of the curve of two cumulated shares, of `counts` over other pixels up to `limit`."""
        shift = max(counts.counted(), self._others.counted())
        (above, n_above), (below, n_below) = counts.at(shift), self._others.at(shift)
        if not len(above) or not len(below):
            return None
        used = np.union1d(above, below)[::-1]
        true, false = (_shares(used, *bins) for bins in ((above, n_above), (below, n_below)))
        return float(_area_below(false, true, limit) / limit)


class _Bins:
    """Sums of weights by value, in bins of 2^shift neighbouring float32 numbers, as fine as `MOST_BINS` allow."""

    def __init__(self) -> None:
        self._keys, self._sums, self._shift = np.empty(0, np.uint32), np.empty(0), 0
        self._waiting: list[tuple[Keys, Float64 | None]] = []
        self._n_waiting = 0

    def add(self, keys: Keys, weights: Float64 | None = None) -> None:
        """Count values by their keys, each with its weight, 1 by default; all calls have weights, or none has."""
        self._waiting.append((keys, weights))
        self._n_waiting += len(keys)
        if self._n_waiting > WAITING:
            self.counted()

    def counted(self) -> int:
        """Count the waiting pixels, and return the shift."""
        if self._waiting:
            keys = np.concatenate([each for each, _ in self._waiting]) >> np.uint32(self._shift)
            weights = [each for _, each in self._waiting if each is not None]
            new_keys, new_sums = _summed(keys, np.concatenate(weights)) if weights else _counted(keys)
            self._waiting, self._n_waiting = [], 0
            joined = np.concatenate([self._keys, new_keys]), np.concatenate([self._sums, new_sums])
            self._keys, self._sums = _summed(*joined)
            while len(self._keys) > MOST_BINS:
                self._shift += 1
                self._keys, self._sums = _summed(self._keys >> np.uint32(1), self._sums)
        return self._shift

    def at(self, shift: int) -> tuple[Keys, Float64]:
        """Return the bins of a shift that is no smaller, and their sums."""
        return _summed(self._keys >> np.uint32(shift - self._shift), self._sums)


def _counted(keys: Keys) -> tuple[Keys, Float64]:
    """Return the keys, sorted, each once, and how often each is there; without an order of them, in half the time."""
    ordered = np.sort(keys)
    starts = _starts(ordered)
    return ordered[starts], np.diff(np.append(starts, len(ordered))).astype(np.float64)


def _summed(keys: Keys, sums: Float64) -> tuple[Keys, Float64]:
    """Return the keys, sorted, each once, and the sums of each; a stable sort joins two that are sorted fast."""
    if not len(keys):
        return keys, sums
    order = np.argsort(keys, kind="stable") if (keys[1:] < keys[:-1]).any() else slice(None)
    ordered = keys[order]
    starts = _starts(ordered)
    return ordered[starts], np.add.reduceat(sums[order], starts)


def _starts(ordered: Keys) -> NDArray[np.intp]:
    """Return the first index of each key among sorted ones."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])


def _shares(used: Keys, keys: Keys, sums: Float64) -> Float64:
    """Return the cumulated shares of sums by their keys, over those that are used, after a zero."""
    counts = np.zeros(len(used))
    counts[len(used) - 1 - np.searchsorted(used[::-1], keys)] = sums
    cumulated = counts.cumsum()
    return np.append(0.0, cumulated / cumulated[-1])


def _area_below(x: Float64, y: Float64, limit: float) -> float:
    """Return the area under a curve of straight lines, x not decreasing, up to x = `limit`, at most its last x."""
    end = float(np.interp(limit, x, y) if limit < x[-1] else y[-1])
    kept = int(np.searchsorted(x, limit, side="right"))
    return float(np.trapezoid(np.append(y[:kept], end), np.append(x[:kept], limit)))


def map_peak(values: ArrayLike) -> tuple[int, int]:
    """Return the row and column of the pixel in which a map (h, w) is largest.

    Of several it is the one nearest to their mean, so that of a flat top it is the middle.
    """
    numbers = as_floats("values", values, 2)
    if not numbers.size:
        raise InputError("a map must have a pixel, got none.")
    places = np.argwhere(numbers == numbers.max())
    row, column = places[np.square(places - places.mean(axis=0)).sum(axis=1).argmin()].tolist()
    return row, column


def _keys(values: ArrayLike) -> Keys:
    """Return whole numbers in the order of values, equal where these are equal as float32."""
    numbers = np.asarray(values, np.float32)
    if numbers.ndim != 2:
        raise ShapeError(f"values must have shape (h, w), got {numbers.shape}.")
    check_finite("values", numbers)
    bits = (numbers + np.float32(0)).view(np.uint32)  # -0 becomes 0
    return np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))


def _checked_mask(mask: ArrayLike) -> Mask:
    """Return a mask; InputError unless it is of bool."""
    pixels = np.asarray(mask)
    if pixels.dtype != np.bool_:
        raise InputError(f"a mask must be of bool, got {pixels.dtype}.")
    return pixels
