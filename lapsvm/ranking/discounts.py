"""Discounts D(i) of NDCG: positive, non-increasing and convex, for ranks i = 1, 2, ...

Loss-augmented inference by independent ranks is correct for convex discounts only (Mohapatra et al., CVPR 2018,
supplement, section 6). The error for another discount names the rank at which convexity fails.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64, Index, as_floats, as_numbers
from lapsvm.errors import InputError, OptionError

# differences of two discounts are exact to a few units in the last place of D(1)
_ROUNDING = 16 * np.finfo(np.float64).eps
# a callable's first ranks are checked when the loss is created, the others when a ranking needs them
_FIRST_CHECK = 1024


Discount = Callable[[Index], Float64]
"""D at ranks, 1-based."""


def log_discount(ranks: Index) -> Float64:
    """Return D(i) = 1 / log2(1 + i), the usual discount."""
    return np.asarray(1.0 / np.log2(1.0 + ranks))


def reciprocal_discount(ranks: Index) -> Float64:
    """Return D(i) = 1 / i."""
    return np.asarray(1.0 / ranks)


class RankBiased:
    """D(i) = p^i: the probability that a reader who continues with probability `p` reaches rank i.

    Parameters
    ----------
    p : float
        Persistence, 0 < p < 1.

    Raises
    ------
    InputError
        If `p` is not between 0 and 1.
    """

    def __init__(self, p: float) -> None:
        if not 0 < p < 1:
            raise InputError(f"p of a rank-biased discount must be greater than 0 and less than 1, got {p}.")
        self.p = float(p)

    def __call__(self, ranks: Index) -> Float64:
        """Return p^i; high ranks underflow to 0."""
        return np.asarray(np.power(self.p, ranks))

    def __repr__(self) -> str:
        return f"RankBiased({self.p})"


class Tabulated:
    """A discount given as an array whose entry 0 is D(1); it is 0 beyond the end."""

    def __init__(self, values: ArrayLike) -> None:
        self.values = as_floats("discount", values, ndim=1).copy()
        self.values.flags.writeable = False  # checked once
        check_discount(np.append(self.values, [0.0, 0.0]))

    def __call__(self, ranks: Index) -> Float64:
        """Return the entries, and 0 beyond the last one."""
        inside = ranks <= len(self.values)
        discount = np.zeros(len(ranks))
        discount[inside] = self.values[ranks[inside] - 1]
        return discount

    def __repr__(self) -> str:
        return f"Tabulated(<{len(self.values)} values>)"


class CutOff:
    """D(i) - D(k + 1) up to rank `k`, then 0: a cut-off that keeps the discount convex.

    Setting D to 0 beyond `k` would introduce a step, which is not convex.
    """

    def __init__(self, discount: Discount, k: int) -> None:
        if k != int(k) or k < 1:
            raise InputError(f"k must be a whole number greater than 0, got {k}.")
        self.discount, self.k = discount, int(k)

    def __call__(self, ranks: Index) -> Float64:
        """Return the shifted discount."""
        last = self.discount(np.array([self.k + 1], dtype=np.intp))[0]
        shifted: Float64 = np.where(ranks <= self.k, self.discount(ranks) - last, 0.0)
        return np.maximum(shifted, 0.0)

    def __repr__(self) -> str:
        return f"CutOff({discount_name(self.discount)}, k={self.k})"


NAMED: dict[str, Discount] = {"log": log_discount, "reciprocal": reciprocal_discount}


def as_discount(discount: str | ArrayLike | Callable[[Index], ArrayLike], k: int | None) -> Discount:
    """Return the discount given by a name, an array or a callable, with cut-off `k` unless it is None.

    Raises
    ------
    OptionError
        If the name is unknown.
    InputError
        If the discount is not positive at 1, not finite, not non-increasing or not convex.
    """
    resolved = _by_kind(discount)
    if k is not None:
        resolved = CutOff(resolved, k)
    if not _is_convex(resolved):
        check_discount(_values(resolved, _FIRST_CHECK))
    return resolved


def tabulate(discount: Discount, n: int) -> Float64:
    """Return D(0..n) as a table whose entry 0 is unused (0), checked unless the discount is built in."""
    values = _values(discount, n)
    if not _is_convex(discount):
        check_discount(values)
    return np.concatenate([[0.0], values])


def check_discount(values: Float64) -> None:
    """Raise InputError, with the 1-based rank, unless D(1) > 0 and D is finite, non-increasing and convex."""
    if not np.isfinite(values).all():
        i = int(np.argmin(np.isfinite(values)))
        raise InputError(f"discount must be finite, got D({i + 1}) = {values[i]}.")
    if not values[0] > 0:
        raise InputError(f"discount must be greater than 0 at rank 1, got D(1) = {values[0]}.")
    slack = _ROUNDING * values[0]
    steps: Float64 = np.diff(values)
    if steps.max(initial=0.0) > slack:
        i = int(np.argmax(steps > slack)) + 1
        raise InputError(
            f"discount must be non-increasing, got D({i + 1}) = {values[i]:.6g} above D({i}) = {values[i - 1]:.6g}."
        )
    second: Float64 = np.diff(steps)
    if second.min(initial=0.0) < -slack:
        i = int(np.argmax(second < -slack)) + 2
        raise InputError(
            f"discount must be convex, but D({i - 1}) - 2 D({i}) + D({i + 1}) = {second[i - 2]:.6g} < 0 at index {i}."
        )


def _by_kind(discount: str | ArrayLike | Callable[[Index], ArrayLike]) -> Discount:
    """Return the discount without its cut-off."""
    if isinstance(discount, str):
        if discount not in NAMED:
            raise OptionError(f"discount must be one of {', '.join(NAMED)}, an array or a callable, got {discount!r}.")
        return NAMED[discount]
    if isinstance(discount, (RankBiased, Tabulated, CutOff)):
        return discount
    if not callable(discount):
        return Tabulated(discount)
    return next((known for known in NAMED.values() if known is discount), _Callable(discount))


class _Callable:
    """A user's callable, with a check of the shape of its results."""

    def __init__(self, function: Callable[[Index], ArrayLike]) -> None:
        self.function = function

    def __call__(self, ranks: Index) -> Float64:
        values = as_numbers("discount", np.asarray(self.function(ranks)))
        if values.shape != ranks.shape:
            raise InputError(
                f"discount must return one value per rank, got shape {values.shape} for {len(ranks)} ranks."
            )
        return values

    def __repr__(self) -> str:
        return discount_name(self.function)


def discount_name(discount: Callable[[Index], ArrayLike]) -> str:
    """Return the name of a function, without its address in memory, or the representation of another callable."""
    return getattr(discount, "__qualname__", None) or repr(discount)


def _is_convex(discount: Discount) -> bool:
    """Whether the discount is convex by its formula, or was checked completely when it was created."""
    return isinstance(discount, (RankBiased, Tabulated)) or any(discount is known for known in NAMED.values())


def _values(discount: Discount, n: int) -> Float64:
    """Return D(1..n)."""
    return discount(np.arange(1, n + 1))
