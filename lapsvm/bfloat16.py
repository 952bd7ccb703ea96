"""bfloat16 in NumPy, which has no such type: the upper halves of float32 numbers, held as bits that say what they are.

An array of `BFLOAT16` is cut, indexed, concatenated and mapped like any other, but nothing can be calculated with it by
mistake: it is widened first, exactly, or narrowed last, to the nearest (of two, the even one).
"""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

BFLOAT16 = np.dtype([("bfloat16", "<u2")])
"""16 bits of which 8 are exponent: the range of float32 with 2 to 3 digits."""

LARGEST = float(np.uint32(0x7F7F0000).view(np.float32))
"""The largest finite bfloat16."""


def type_name(dtype: DTypeLike) -> str:
    """Return the name of a type of features, "bfloat16" for `BFLOAT16`."""
    return "bfloat16" if np.dtype(dtype) == BFLOAT16 else np.dtype(dtype).name


def named_type(name: str) -> np.dtype[Any]:
    """Return the type of features of this name."""
    return BFLOAT16 if name == "bfloat16" else np.dtype(name)


def largest_number(name: str) -> float:
    """Return the largest finite number of the type of this name."""
    return LARGEST if name == "bfloat16" else float(np.finfo(name).max)


def widened(features: NDArray[Any]) -> NDArray[Any]:
    """Return `BFLOAT16` as float32, exactly, and arrays of other types as they are."""
    if features.dtype != BFLOAT16:
        return features
    return (np.ascontiguousarray(features).view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def narrowed(numbers: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """Return numbers in a type of features, each the nearest that it has; the input must fit, and be finite."""
    wanted = np.dtype(dtype)
    if wanted != BFLOAT16 or numbers.dtype == BFLOAT16:
        return numbers.astype(wanted, copy=False)
    bits = np.ascontiguousarray(numbers, dtype=np.float32).view(np.uint32)
    even = (bits >> 16) & 1
    return ((bits + (0x7FFF + even)) >> 16).astype(np.uint16).view(BFLOAT16)
