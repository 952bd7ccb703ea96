"""The convex, increasing losses l(z) of TopPush, with their derivatives and conjugates."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, xlogy

from lapsvm.arrays import Float64


class Margin(NamedTuple):
    """A loss l(z), elementwise.

    Attributes
    ----------
    value, derivative, second_derivative : callable
        l and its derivatives; where the second derivative jumps, its larger one-sided value.
    conjugate : callable
        sup over z of (alpha z - l(z)), for alpha in [0, `max_derivative`].
    max_derivative : float
        The least upper bound of the derivative.
    unbounded : callable, optional
        The exact loss, if `value` continues it by a line.
    """

    value: Callable[[Float64], Float64]
    derivative: Callable[[Float64], Float64]
    second_derivative: Callable[[Float64], Float64]
    conjugate: Callable[[Float64], Float64]
    max_derivative: float
    unbounded: Callable[[Float64], Float64] | None = None

    def mean(self, z: Float64) -> float:
        """Return the mean of the exact loss, or the largest float64 if it overflows."""
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

    Above z = log(m) + 1 it continues along its tangent, to avoid overflow. Where the objective is at most 1, its value
    at w = 0, no positive has z > log(m); so the minimum does not change. At other w, `value` is below the exponential,
    and `Margin.mean` uses the exponential itself.
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
    """Return the loss of this name for `m` positives."""
    return {"squared_hinge": SQUARED_HINGE, "logistic": LOGISTIC, "exponential": exponential(m)}[loss]
