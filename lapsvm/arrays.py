"""Checks at the doors: one clear sentence for every array that breaks a rule."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.errors import InputError, NotFiniteError, ShapeError

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Index = NDArray[np.intp]
Array = NDArray[Any]


def as_floats(name: str, values: ArrayLike, ndim: int) -> Float64:
    """Return `values` as a float64 array of `ndim` dimensions, all finite.

    Raises
    ------
    ShapeError
        If the number of dimensions differs.
    InputError
        If the values are not numbers.
    NotFiniteError
        If one is NaN or infinite.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers; {error}.") from None
    if array.ndim != ndim:
        raise ShapeError(f"{name} must have {ndim} dimension(s), got shape {array.shape}.")
    check_finite(name, array)
    return array


def check_finite(name: str, array: Array) -> None:
    """Raise NotFiniteError, with the first place, unless every entry of `array` is finite."""
    finite = np.isfinite(array)
    if not finite.all():
        place = tuple(int(i) for i in np.unravel_index(int(np.argmin(finite)), array.shape))
        where = place if len(place) > 1 else place[0]
        raise NotFiniteError(f"{name} must be finite, got {array[place]} at index {where}.")


def check_same_length(first_name: str, first: Array, second_name: str, second: Array) -> None:
    """Raise ShapeError unless both arrays have as many rows."""
    if len(first) != len(second):
        raise ShapeError(
            f"{first_name} and {second_name} must have the same length, got {len(first)} and {len(second)}."
        )


def check_positive(name: str, value: float) -> float:
    """Return `value` as a float if it is a finite number > 0, else raise InputError."""
    number = float(value)
    if not (np.isfinite(number) and number > 0):
        raise InputError(f"{name} must be a finite number greater than 0, got {value}.")
    return number
