"""The dual of TopPush's squared hinge by accelerated projected gradient steps.

    maximise  -lam/2 |w|^2 + 1/m sum_i (alpha_i - alpha_i^2 / 4)   with   w = (alpha X+ - beta X-) / (lam m)

over alpha, beta >= 0 of equal sums: theorem 1 and algorithm 1 of Li, Jin and Zhou, NIPS 2014, but for three things. A
step is accepted by the quadratic upper bound at the projected point, which here is exact for the dual is quadratic.
The momentum starts again where it points uphill (O'Donoghue and Candes, Foundations of Computational Mathematics
2015). The gap to the primal value, which the products of a step give for nothing, decides when to stop.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from lapsvm._ext import toppush as _kernel
from lapsvm.arrays import Float64

_ROUNDING = 1e-12  # share of a step's length by which rounding may break the upper bound
_RELAX = 0.98  # per step, so that a bound that was needed once does not stay


class Dual(NamedTuple):
    """Dual variables.

    Attributes
    ----------
    alpha : (m,) float64
        Of the positives.
    beta : (k,) float64
        Of the negatives.
    """

    alpha: Float64
    beta: Float64


class DualSolution(NamedTuple):
    """What the steps found.

    Attributes
    ----------
    w : (d,) float64
        The weights of the dual variables.
    value : float
        Their dual value, a lower bound of the minimum.
    variables : Dual
    n_steps : int
    """

    w: Float64
    value: float
    variables: Dual
    n_steps: int


class _Point(NamedTuple):
    """Dual variables z, their weights w, and the scores of the rows: all linear in z."""

    z: Float64
    w: Float64
    scores: Float64

    def beyond(self, last: "_Point", share: float) -> "_Point":
        """Return the point that lies beyond this one, seen from the last one, by this share of the way."""
        return _Point(*(mine + share * (mine - its) for mine, its in zip(self, last, strict=True)))


class _Problem:
    """The rows X+ and -X-, and the two values at a point."""

    def __init__(self, positives: Any, negatives: Any, lam: float):
        stack = sparse.vstack if sparse.issparse(positives) else np.vstack
        self.rows = stack([positives, -negatives])
        self.columns = self.rows.T
        self.m, self.lam = positives.shape[0], lam

    def at(self, z: Float64) -> _Point:
        """Return the point of these dual variables."""
        w = np.asarray(self.columns @ z) / (self.lam * self.m)
        return _Point(z, w, np.asarray(self.rows @ w))

    def dual(self, point: _Point) -> float:
        """Return the dual value."""
        alpha = point.z[: self.m]
        return -0.5 * self.lam * float(point.w @ point.w) + float(np.mean(alpha - 0.25 * alpha**2))

    def primal(self, point: _Point) -> float:
        """Return the primal value over these rows."""
        margins = -point.scores[self.m :].min() - point.scores[: self.m]
        return 0.5 * self.lam * float(point.w @ point.w) + float(np.mean(np.maximum(1.0 + margins, 0.0) ** 2))

    def step(self, ahead: _Point, smoothness: float) -> tuple[_Point, float]:
        """Return the projected gradient step from `ahead`, and the smoothness at which its upper bound held."""
        slope = ahead.scores.copy()
        slope[: self.m] += 0.5 * ahead.z[: self.m] - 1.0
        while True:
            z = ahead.z - slope / smoothness
            _kernel.balance(z[: self.m], z[self.m :])
            new = self.at(z)
            bend, length = self._bend(new, ahead)
            if bend <= smoothness * (1 + _ROUNDING) * length or length <= _ROUNDING**2 * float(z @ z):
                return new, smoothness
            smoothness = max(1.25 * smoothness, min(2.0 * smoothness, bend / length))

    def _bend(self, new: _Point, ahead: _Point) -> tuple[float, float]:
        """Return the second-order term of the dual along a step, and the squared length of the step."""
        z, w = new.z - ahead.z, new.w - ahead.w
        return self.lam * self.m * float(w @ w) + 0.5 * float(z[: self.m] @ z[: self.m]), float(z @ z)


def accelerated_dual(
    positives: Any, negatives: Any, lam: float, tol: float, start: Dual | None = None, *, max_steps: int = 5000
) -> DualSolution:
    """Solve TopPush's dual for the squared hinge.

    Parameters
    ----------
    positives : (m, d) array or sparse matrix, float64
    negatives : (k, d) array or sparse matrix, float64
    lam : float
        Weight of the regulariser, > 0.
    tol : float
        Relative gap between the primal and the dual value at which to stop.
    start : Dual, optional
        Feasible dual variables; zeros by default.
    max_steps : int, default 5000

    Returns
    -------
    DualSolution
        The point of the highest dual value.
    """
    problem = _Problem(positives, negatives, lam)
    now = problem.at(np.zeros(problem.rows.shape[0]) if start is None else np.concatenate(start))
    last, best, dual, primal = now, now, problem.dual(now), problem.primal(now)
    smoothness, momentum, steps = 0.5, 1.0, 0
    while primal - dual > tol * primal and steps < max_steps:
        following = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        ahead = now.beyond(last, (momentum - 1) / following)
        new, smoothness = problem.step(ahead, smoothness)
        uphill = float((ahead.z - new.z) @ (new.z - now.z)) > 0
        momentum, smoothness, steps = 1.0 if uphill else following, _RELAX * smoothness, steps + 1
        last, now = now, new
        primal = min(primal, problem.primal(now))
        if (value := problem.dual(now)) > dual:
            best, dual = now, value
    return DualSolution(best.w, dual, Dual(best.z[: problem.m], best.z[problem.m :]), steps)
