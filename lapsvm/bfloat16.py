"""Numbers of 16 bits: bfloat16 arrays for NumPy, which lacks the type, and rounding to either kind.

A bfloat16 is the upper 16 bits of a float32 number, in a structured dtype.

Arrays of `BFLOAT16` can be sliced, indexed, concatenated and memory-mapped. The structured dtype prevents arithmetic by
mistake: `widened` converts exactly to float32, and `narrowed` rounds to nearest, ties to even.
"""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lapsvm._ext import float16 as _kernel

BFLOAT16 = np.dtype([("bfloat16", "<u2")])
"""16 bits, 8 of them exponent: the range of float32 with 2 to 3 decimal digits."""

LARGEST = float(np.uint32(0x7F7F0000).view(np.float32))
"""The largest finite bfloat16."""


def type_name(dtype: DTypeLike) -> str:
    """Return the name of a dtype, "bfloat16" for `BFLOAT16`."""
    return "bfloat16" if np.dtype(dtype) == BFLOAT16 else np.dtype(dtype).name


def named_type(name: str) -> np.dtype[Any]:
    """Return the dtype of this name."""
    return BFLOAT16 if name == "bfloat16" else np.dtype(name)


def largest_number(name: str) -> float:
    """Return the largest finite number of the dtype of this name."""
    return LARGEST if name == "bfloat16" else float(np.finfo(name).max)


def widened(features: NDArray[Any]) -> NDArray[Any]:
    """Return `BFLOAT16` arrays as float32, exactly, and other arrays unchanged."""
    if features.dtype != BFLOAT16:
        return features
    return (np.ascontiguousarray(features).view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def narrowed(numbers: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """Round numbers to a dtype; the input must be finite and within its range."""
    target = np.dtype(dtype)
    if target == np.float16 and numbers.dtype == np.float32 and numbers.ndim == 2:
        rounded = np.empty(numbers.shape, target)
        return rounded if to_float16(numbers, rounded) else numbers.astype(target)
    if target != BFLOAT16 or numbers.dtype == BFLOAT16:
        return numbers.astype(target, copy=False)
    bits = np.ascontiguousarray(numbers, dtype=np.float32).view(np.uint32)
    even = (bits >> 16) & 1
    return ((bits + (0x7FFF + even)) >> 16).astype(np.uint16).view(BFLOAT16)


def to_float16(numbers: NDArray[np.float32], out: NDArray[np.float16]) -> bool:
    """Write numbers (n, d), rounded to float16, to contiguous rows.

    Returns
    -------
    bool
        Whether all numbers are finite and within the range of float16; otherwise some rows of `out` mean nothing.
    """
    return _kernel.from_float32(np.ascontiguousarray(numbers), out.view(np.uint16))


def as_float32(features: NDArray[Any]) -> NDArray[np.float32]:
    """Return stored features (n, d) as float32: exactly, if they are of 16 bits."""
    if features.dtype != np.float16:
        return widened(features).astype(np.float32, copy=False)
    singles = np.empty(features.shape, np.float32)
    _kernel.to_float32(np.ascontiguousarray(features).view(np.uint16), singles)
    return singles
