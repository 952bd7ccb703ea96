"""Weight vectors as a device compares windows with them, and how far its float32 sums may be off."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lapsvm.arrays import Array, Float64
from lapsvm.bfloat16 import BFLOAT16, narrowed, widened

STEP = 64
"""Features whose sum the tensor cores make alone, before it is added to the others."""

_LEAST_COLUMNS = 16  # of a product by tensor cores
_EXPONENT = {"float16": 15}  # the largest weight is below two to the power of this, else of 1


@dataclass(frozen=True)
class DeviceWeights:
    """Weight vectors, each scaled by a power of two so that its largest number lies in the range of the windows' type.

    Scores are compared in these scales. Of a device's arrays, all but `least` are tensors.

    Attributes
    ----------
    exact : (k, d) float64
        Unscaled.
    parts : (parts, columns, padded) float16, bfloat16 or float32
        Numbers whose sum over the parts is a weight, the largest first; zeros beyond k and d.
    rounding : (k,) float32
        Bound of the rounding error of one sum, for windows of length 1.
    least : float
        Bound of what underflow adds, for windows shorter than 1; longer ones have as many times more.
    """

    exact: Any
    parts: Any
    rounding: Any
    least: float

    @classmethod
    def of(cls, weights: Float64, dtype: DTypeLike) -> Self:
        """Split the columns of `weights` (d, k), of which none is 0, for tensor cores and windows of type `dtype`."""
        (d, k), columns, padded = weights.shape, _LEAST_COLUMNS, -(-len(weights) // STEP) * STEP
        while columns < k:
            columns *= 2
        scaled = _scaled(weights, np.dtype(dtype))
        filled = np.zeros((columns, padded))
        filled[:k, :d] = scaled.T
        gamma = _split_error(d, np.dtype(dtype)) + _tile_error(padded)
        return cls(np.ascontiguousarray(weights.T), _split(filled, np.dtype(dtype)), *_bounds(gamma, scaled, d))

    @classmethod
    def plain(cls, weights: Float64, dtype: DTypeLike) -> Self:
        """Scale the columns of `weights` (d, k), of which none is 0, for products of type `dtype` in any order."""
        kind, d = np.dtype(dtype), len(weights)
        scaled = _scaled(weights, kind)
        gamma = (d + 16) * float(np.finfo(kind).eps)
        return cls(np.ascontiguousarray(weights.T), scaled.T[None].astype(kind), *_bounds(gamma, scaled, d))

    def on(self, torch: Any, device: str) -> Self:
        """Return the same with tensors on a device."""
        parts = torch.from_numpy(self.parts.view(np.int16) if self.parts.dtype == BFLOAT16 else self.parts).to(device)
        return replace(
            self,
            exact=torch.from_numpy(self.exact).to(device),
            parts=parts.view(torch.bfloat16) if self.parts.dtype == BFLOAT16 else parts,
            rounding=torch.from_numpy(self.rounding).to(device),
        )


def _scaled(weights: Float64, dtype: np.dtype[Any]) -> Float64:
    """Return columns times powers of two, so that the largest number of each has the exponent of the type."""
    _, exponents = np.frexp(np.abs(weights).max(axis=0))
    return np.asarray(np.ldexp(weights, _EXPONENT.get(dtype.name, 1) - exponents))


def _bounds(gamma: float, scaled: Float64, d: int) -> tuple[NDArray[np.float32], float]:
    """Return `rounding`, rounded up, and `least`."""
    lengths = np.linalg.norm(scaled, axis=0)
    return (1.001 * gamma * lengths).astype(np.float32), 8 * d * float(np.finfo(np.float32).tiny)


def _split(scaled: Float64, dtype: np.dtype[Any]) -> Array:
    """Return the parts: two of float16, three of bfloat16, or the first 11 bits and the next ones of float32."""
    if dtype == np.float32:
        high = _first_bits(scaled.astype(np.float32))
        return np.stack([high, _first_bits((scaled - high).astype(np.float32))])
    parts, rest = [], scaled
    for _ in range(3 if dtype == BFLOAT16 else 2):
        parts.append(narrowed(rest.astype(np.float32), dtype))
        rest = rest - widened(parts[-1]).astype(np.float64)
    return np.stack(parts)


def _first_bits(numbers: Array) -> Array:
    """Return float32 numbers cut to the 11 bits of TF32."""
    return np.asarray((numbers.view(np.int32) & -8192).view(np.float32))


def _split_error(d: int, dtype: np.dtype[Any]) -> float:
    """Return the relative error of a sum because numbers are split.

    Two float16 numbers hold a weight but for 2^-22 of it or, where the second one is subnormal, 2^-25, which is 2^-39
    of the largest weight; three bfloat16 numbers but for 2^-24. Of float32 numbers two cuts of 11 bits leave 2^-20 of
    the window's, 2^-20 of the weight's, and the product of the second ones is left out, 2^-20.
    """
    if dtype == np.float32:
        return 3.1 * 2.0**-20
    return 2.0**-22 if dtype == BFLOAT16 else 2.0**-21 + float(np.sqrt(d)) * 2.0**-38


def _tile_error(padded: int) -> float:
    """Return the relative rounding of a sum by tensor cores.

    The products of 16-bit numbers are exact. Tensor cores add at least four of them at once to the sum: they align all
    with the largest and cut what lies below its last bit, so each number loses up to 2^-23 of the largest, which is at
    most sum |x_j w_j| (Fasi, Higham, Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ Computer
    Science, 2021). The smaller parts come first, when the sum is at most 2^-7 of that. The sums of the steps are added
    in float32, as is the margin.
    """
    cuts = 1.25 * STEP * (1 + 2.0**-5)
    return cuts * 2.0**-23 + (padded / STEP + 16) * 2.0**-24
