"""Checks of the arrays that bags are made of."""

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lapsvm._ext import bags as _kernel
from lapsvm.arrays import Array, Float64, Index, as_array, as_numbers, as_whole_numbers, check_count, check_finite
from lapsvm.bags.scoring import as_stored
from lapsvm.bfloat16 import BFLOAT16, widened
from lapsvm.errors import InputError, NotFiniteError, ShapeError

STORED = (np.float16, np.float32, np.float64, BFLOAT16)


def as_arrays(arrays: Any) -> list[Array]:
    """Return one array per bag."""
    if isinstance(arrays, str) or not hasattr(arrays, "__len__"):
        raise InputError(f"bags must be a sequence of arrays, got {arrays!r}.")
    if not len(arrays):
        raise ShapeError("bags must be one or more, got 0.")
    if any(hasattr(array, "toarray") for array in arrays):
        raise InputError("bags must be dense arrays, got a sparse one; its toarray() is dense.")
    return [array if isinstance(array, np.ndarray) else as_numbers("bags", array) for array in arrays]


def as_threads(threads: int | None) -> int:
    """Return the number of threads; None stands for the number of processors that this process may use.

    On macOS and Windows it is that of all processors.
    """
    if threads is not None:
        return check_count("threads", threads)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def as_features(features: ArrayLike) -> Array:
    """Return features (n_windows, d) as a contiguous, finite array of one of the stored types."""
    if isinstance(features, np.ndarray) and features.dtype.name == "bfloat16":  # of the package ml_dtypes
        features = np.ascontiguousarray(features).view(BFLOAT16)
    stored = isinstance(features, np.ndarray) and features.dtype in STORED
    array: Array = as_array("features", features) if stored else as_numbers("features", features)
    array = np.ascontiguousarray(array)
    if array.ndim != 2 or not array.shape[1]:
        raise ShapeError(f"features must have shape (n_windows, d) with d >= 1, got {array.shape}.")
    row = _kernel.first_broken_row(as_stored(array))
    if row >= 0:
        numbers = widened(array[row])
        raise NotFiniteError(f"features must be finite, got {numbers[~np.isfinite(numbers)][0]} in window {row}.")
    return array


def as_offsets(offsets: ArrayLike, n_windows: int) -> Index:
    """Return checked offsets (n_bags + 1,) that cut `n_windows` windows into bags, none empty."""
    bounds = as_whole_numbers("offsets", offsets)  # a copy, so that the caller cannot change it after the check
    bounds.flags.writeable = False
    if len(bounds) < 2:
        raise ShapeError(f"offsets must be n_bags + 1 >= 2 whole numbers, got {len(bounds)}.")
    if bounds[0] != 0 or bounds[-1] != n_windows:
        raise ShapeError(f"offsets must run from 0 to {n_windows}, got {bounds[0]} to {bounds[-1]}.")
    wrong = bounds[1:] <= bounds[:-1]  # compared, not subtracted: a difference of large numbers overflows
    if wrong.any():
        bag = int(np.argmax(wrong))
        size = int(bounds[bag + 1]) - int(bounds[bag])
        raise ShapeError(f"every bag must have one or more windows, got {size} for bag {bag}.")
    return bounds


def as_weights(weights: ArrayLike, dim: int, most: int) -> Array:
    """Return finite weights with `dim` rows and from 1 to `most` dimensions."""
    array = as_numbers("weights", weights)
    if array.ndim not in range(1, most + 1) or len(array) != dim:
        raise ShapeError(f"weights must have {dim} rows, one per feature, got shape {array.shape}.")
    check_finite("weights", array)
    return array


def as_scale(scale: ArrayLike | None, dim: int) -> Float64:
    """Return one factor for all features, or one for each; 1 by default."""
    array = as_numbers("scale", 1.0 if scale is None else scale)
    if array.shape not in ((), (dim,)):
        raise ShapeError(f"scale must be one number or {dim}, got shape {array.shape}.")
    check_finite("scale", np.atleast_1d(array))
    return array
