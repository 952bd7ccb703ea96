"""How well maps of numbers find the pixels of objects: pixel AUROC, PRO, and pointing by the map.

PRO is the area under the per-region overlap: P. Bergmann, M. Fauser, D. Sattlegger and C. Steger, "Uninformed
students: student-teacher anomaly detection with discriminative latent embeddings" (CVPR 2020). Every region counts the
same, however large it is, where AUROC counts pixels.

Values are counted in 2^20 bins: their 12 leading bits as float32. So the memory does not depend on the number of
pictures, and values whose relative difference is below 2^-12 may count as equal.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Float64, as_floats, check_finite
from lapsvm.errors import InputError, ShapeError
from lapsvm.pictures.masks import Mask, mask_regions

PRO_LIMIT = 0.3
"""The largest share of false pixels up to which PRO is computed."""
_BITS = 20
_BINS = 1 << _BITS


class PixelCounts:
    """Counts of pixels by their value, over pictures of one kind of object.

    `add` takes a picture at a time. All pictures share one scale of values.
    """

    def __init__(self) -> None:
        self._others = np.zeros(_BINS, np.int64)
        self._inside = np.zeros(_BINS, np.int64)
        self._overlaps = np.zeros(_BINS)  # of the pixels in regions, each weighted by one over its region's size
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
        bins, inside = _bins(values), _checked_mask(mask)
        if bins.shape != inside.shape:
            raise ShapeError(f"values and mask must have one shape, got {bins.shape} and {inside.shape}.")
        self._others += np.bincount(bins[~inside], minlength=_BINS)
        if not inside.any():
            return
        regions, boxes = mask_regions(inside)
        labels = regions[inside]
        weights = 1 / np.bincount(labels)[labels]
        self._inside += np.bincount(bins[inside], minlength=_BINS)
        self._overlaps += np.bincount(bins[inside], weights, _BINS)
        self.n_regions += len(boxes)

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

    def _area(self, counts: NDArray[np.number], limit: float) -> float | None:
        """Return the mean height of the curve of two cumulated shares, of `counts` over other pixels up to `limit`."""
        total, others = counts.sum(), self._others.sum()
        if not total or not others:
            return None
        used = np.flatnonzero((counts > 0) | (self._others > 0))[::-1]
        false = np.append(0.0, self._others[used].cumsum() / others)
        true = np.append(0.0, counts[used].cumsum() / total)
        return float(_area_below(false, true, limit) / limit)


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


def _bins(values: ArrayLike) -> NDArray[np.intp]:
    """Return the bin of each value: the larger the value, the larger or equal its number."""
    numbers = np.asarray(values, np.float32)
    if numbers.ndim != 2:
        raise ShapeError(f"values must have shape (h, w), got {numbers.shape}.")
    check_finite("values", numbers)
    bits = (numbers + np.float32(0)).view(np.uint32)  # -0 becomes 0
    ordered = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    return np.asarray(ordered >> np.uint32(32 - _BITS), np.intp)


def _checked_mask(mask: ArrayLike) -> Mask:
    """Return a mask; InputError unless it is of bool."""
    pixels = np.asarray(mask)
    if pixels.dtype != np.bool_:
        raise InputError(f"a mask must be of bool, got {pixels.dtype}.")
    return pixels
