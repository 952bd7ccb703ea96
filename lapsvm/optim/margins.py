"""The convex, rising losses l(z) of TopPush, with their derivatives and conjugates."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, xlogy

from lapsvm.arrays import Float64


class Margin(NamedTuple):
    """A loss l(z), elementwise.

    Attributes
    ----------
    value, slope, bend : callable
        l, its first and its second derivative (where it has a kink in the slope, that of the steeper side).
    conjugate : callable
        sup over z of (alpha z - l(z)), for alpha in [0, `steepest`].
    steepest : float
        The least upper bound of the slope.
    unbounded : callable, optional
        The loss itself, where `value` continues it by a line.
    """

    value: Callable[[Float64], Float64]
    slope: Callable[[Float64], Float64]
    bend: Callable[[Float64], Float64]
    conjugate: Callable[[Float64], Float64]
    steepest: float
    unbounded: Callable[[Float64], Float64] | None = None

    def mean(self, z: Float64) -> float:
        """Return the mean of the loss itself; the largest float64 where it overflows."""
        if self.unbounded is None:
            return float(np.mean(self.value(z)))
        with np.errstate(over="ignore"):
            return min(float(np.mean(self.unbounded(z))), float(np.finfo(float).max))


SQUARED_HINGE = Margin(
    lambda z: np.maximum(1.0 + z, 0.0) ** 2,
    lambda z: 2.0 * np.maximum(1.0 + z, 0.0),
    lambda z: np.where(z >= -1.0, 2.0, 0.0),
    lambda a: 0.25 * a**2 - a,
    np.inf,
)

LOGISTIC = Margin(
    lambda z: np.logaddexp(0.0, z),
    lambda z: np.asarray(expit(z)),
    lambda z: np.asarray(expit(z) * expit(-z)),
    lambda a: np.asarray(xlogy(a, a) + xlogy(1.0 - a, 1.0 - a)),
    1.0,
)


def exponential(m: int) -> Margin:
    """Return the exponential for `m` positives.

    It is continued by its tangent above z = log(m) + 1, so that nothing overflows. Where the objective is at most that
    of w = 0, which is 1, no positive has z > log(m): there, and at the minimum, nothing changes. Elsewhere `value` is
    below the exponential, and `Margin.mean` is the exponential's own.
    """
    top = float(np.log(m)) + 1.0
    return Margin(
        lambda z: np.exp(np.minimum(z, top)) * (1.0 + np.maximum(z - top, 0.0)),
        lambda z: np.exp(np.minimum(z, top)),
        lambda z: np.where(z < top, np.exp(np.minimum(z, top)), 0.0),
        lambda a: np.asarray(xlogy(a, a) - a),
        float(np.exp(top)),
        np.exp,
    )


def margin(loss: str, m: int) -> Margin:
    """Return a loss by name for `m` positives."""
    return {"squared_hinge": SQUARED_HINGE, "logistic": LOGISTIC, "exponential": exponential(m)}[loss]
