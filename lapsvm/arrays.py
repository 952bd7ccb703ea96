"""Checks of arguments, with one clear sentence for every broken rule."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sized
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.errors import InputError, LapsvmError, NotFiniteError, OptionError, ShapeError

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Index = NDArray[np.intp]
Array = NDArray[Any]


def as_array(name: str, values: Any, what: str = "an array of numbers") -> Array:
    """Return `values` as an array of any type; `what` they must be is for the message.

    Raises
    ------
    InputError
        If they are ragged, or a tensor that is part of a graph or on another device.
    """
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"{name} must be {what}; {reason}.") from None


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
    array = as_numbers(name, values)
    if array.ndim != ndim:
        raise ShapeError(f"{name} must have {ndim} dimension(s), got shape {array.shape}.")
    check_finite(name, array)
    return array


def as_numbers(name: str, values: ArrayLike) -> Float64:
    """Return `values` as a float64 array of any shape.

    Raises
    ------
    InputError
        If they are not real numbers; strings are refused even if they spell numbers.
    """
    if values is None:
        raise InputError(f"{name} must be numbers, got None.")
    array = as_array(name, values, "numbers")
    if array.dtype.kind not in "biufO":
        raise InputError(f"{name} must be numbers, got {array.dtype}.")
    if array.dtype.kind == "O" and any(isinstance(value, str | bytes) for value in array.ravel().tolist()):
        raise InputError(f"{name} must be numbers, got strings among them.")
    try:
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be numbers; {str(error).rstrip('.')}.") from None


def as_flags(name: str, values: ArrayLike) -> NDArray[np.bool_]:
    """Return `values` as a boolean array of one dimension; numbers must be 0 or 1.

    Raises
    ------
    ShapeError, NotFiniteError, InputError
        If they are not flags.
    """
    numbers = as_floats(name, values, ndim=1)
    if not np.isin(numbers, (0, 1)).all():
        raise InputError(f"{name} must be True or False, got {numbers[~np.isin(numbers, (0, 1))][0]:g}.")
    return np.asarray(numbers, dtype=np.bool_)


def as_whole_numbers(name: str, values: ArrayLike) -> Index:
    """Return a copy of `values` as an intp array of one dimension, which the caller cannot change later.

    Raises
    ------
    ShapeError
        If the number of dimensions differs.
    InputError
        If the values do not have an integer type, or exceed 64 bits.
    """
    array = as_array(name, values, "whole numbers")
    if array.dtype.kind not in "iu" and array.size:
        raise InputError(f"{name} must be whole numbers, got {array.dtype}.")
    if array.ndim != 1:
        raise ShapeError(f"{name} must have 1 dimension(s), got shape {array.shape}.")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.intp).max:
        raise InputError(f"{name} must be at most {np.iinfo(np.intp).max}, got {array.max()}.")
    return array.astype(np.intp)


def as_groups(groups: ArrayLike | None, n: int) -> tuple[Index, Index]:
    """Return the group of each of n pictures, 0 .. G - 1, and the sizes (G,) of the groups.

    Without groups each picture is on its own.

    Raises
    ------
    ShapeError, InputError
        As `as_whole_numbers`, or unless every picture has a group.
    """
    numbers = as_whole_numbers("groups", np.arange(n) if groups is None else groups)
    if len(numbers) != n:
        raise ShapeError(f"groups must have one entry per picture, {n:,}, got {len(numbers):,}.")
    _, group, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    return group, sizes


def check_finite(name: str, array: Array) -> None:
    """Raise NotFiniteError with the first index unless every entry of `array` is finite."""
    finite = np.isfinite(array)
    if not finite.all():
        index = tuple(int(i) for i in np.unravel_index(int(np.argmin(finite)), array.shape))
        shown = index if len(index) > 1 else index[0]
        raise NotFiniteError(f"{name} must be finite, got {array[index]} at index {shown}.")


def is_binary(labels: Array) -> bool:
    """Return whether all labels are -1, 0 or 1."""
    if labels.dtype.kind == "b" or not labels.size:
        return True
    if not (labels.min() >= -1 and labels.max() <= 1):  # also for NaN
        return False
    return labels.dtype.kind != "f" or bool((labels == labels.astype(np.int8)).all())


def check_binary(name: str, labels: Array) -> None:
    """Raise InputError with the first label that is not -1, 0 or 1."""
    if not is_binary(labels):
        wrong = labels[(labels != 0) & (labels != 1) & (labels != -1)]
        raise InputError(f"{name} must be binary, 0 or 1, or -1 and 1, got {wrong[0]:g}.")


def check_same_length(first_name: str, first: Sized, second_name: str, second: Sized) -> None:
    """Raise ShapeError unless both have the same number of rows."""
    if len(first) != len(second):
        raise ShapeError(
            f"{first_name} and {second_name} must have the same length, got {len(first)} and {len(second)}."
        )


def as_number(name: str, value: Any) -> float:
    """Return `value` as a float, infinite if it is too large for one. Raises InputError if it is no number."""
    try:
        if not isinstance(value, str | bytes):
            return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    except (TypeError, ValueError, RuntimeError):
        pass
    raise InputError(f"{name} must be a number, got {value!r}.")


def is_optional_number(value: object) -> bool:
    """Return whether a value, of a file for instance, is None or a finite int or float."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < np.inf)


def check_positive(name: str, value: Any) -> float:
    """Return `value` as a float if it is a finite number > 0, else raise InputError."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    number = as_number(name, value) if is_number else np.nan
    if not 0 < number < np.inf:
        got = repr(value) if not is_number else value if np.isfinite(number) else number
        raise InputError(f"{name} must be a finite number greater than 0, got {got}.")
    return number


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return `value` as an int if it is a whole number of at least `least`, else raise InputError."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise InputError(f"{name} must be a whole number of {least} or more, got {value!r}.")
    return int(value)


def check_switch(name: str, value: Any) -> bool:
    """Return `value` as a bool if it is True or False, else raise InputError."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_choice(name: str, value: object, choices: Collection[object]) -> None:
    """Raise OptionError unless the value is one of the choices."""
    if value not in choices:
        raise OptionError(f"{name} must be one of {', '.join(map(str, choices))}, got {value!r}.")


def check_known(what: str, name: object, known: Collection[str]) -> None:
    """Raise OptionError, which says `what` is not known, unless its name is one of the known ones."""
    if name not in known:
        raise OptionError(f"{what} is not known; choose from {', '.join(known)}.")


def check_distinct(names: Iterable[Hashable], rule: str, error: type[LapsvmError] = InputError) -> None:
    """Raise the error, with the rule, for the first name that is there more than once."""
    for name, count in Counter(names).items():
        if count > 1:
            raise error(f"{rule}, got {name!r} twice.")
