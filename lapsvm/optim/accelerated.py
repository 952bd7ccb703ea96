"""The dual of TopPush's squared hinge by accelerated projected gradient steps.

    maximise  -lam/2 |w|^2 + 1/m sum_i (alpha_i - alpha_i^2 / 4)   with   w = (alpha X+ - beta X-) / (lam m)

over alpha, beta >= 0 of equal sums: theorem 1 and algorithm 1 of Li, Jin and Zhou, NIPS 2014, with three changes. The
quadratic upper bound at the projected point decides whether a step is accepted; it is exact because the dual is
quadratic. The momentum restarts when it points away from the optimum (O'Donoghue and Candes, Foundations of
Computational Mathematics 2015). The duality gap, which needs no further products, is the stopping criterion.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from lapsvm._ext import toppush as _kernel
from lapsvm.arrays import Float64

_ROUNDING = 1e-12  # relative tolerance of the upper bound
_SMOOTHNESS_DECAY = 0.98  # per step, so that the step length can grow again


class DualSolution(NamedTuple):
    """Result of the dual steps.

    Attributes
    ----------
    w : (d,) float64
        The weights of the dual variables.
    value : float
        Their dual value, a lower bound of the minimum.
    variables : (m + k,) float64
        The dual variables alpha of the positives and beta of the negatives.
    n_steps : int
    """

    w: Float64
    value: float
    variables: Float64
    n_steps: int


class _Point(NamedTuple):
    """Dual variables z, the weights w and the scores of the rows; w and the scores are linear in z."""

    z: Float64
    w: Float64
    scores: Float64

    def extrapolate(self, previous: "_Point", momentum: float) -> "_Point":
        """Return this point plus `momentum` times the step from the previous point."""
        return _Point(*(new + momentum * (new - old) for new, old in zip(self, previous, strict=True)))


class _Problem:
    """The rows X+ and -X-, and the primal and dual values."""

    def __init__(self, positives: Any, negatives: Any, lam: float):
        stack = sparse.vstack if sparse.issparse(positives) else np.vstack
        self.rows = stack([positives, -negatives])
        self.columns = self.rows.T
        self.m, self.lam = positives.shape[0], lam

    def evaluate(self, z: Float64) -> _Point:
        """Return the weights and scores of dual variables."""
        w = np.asarray(self.columns @ z) / (self.lam * self.m)
        return _Point(z, w, np.asarray(self.rows @ w))

    def dual(self, point: _Point) -> float:
        """Return the dual value."""
        alpha = point.z[: self.m]
        return -0.5 * self.lam * float(point.w @ point.w) + float(np.mean(alpha - 0.25 * alpha**2))

    def primal(self, point: _Point) -> float:
        """Return the primal value of the working set."""
        margins = -point.scores[self.m :].min() - point.scores[: self.m]
        return 0.5 * self.lam * float(point.w @ point.w) + float(np.mean(np.maximum(1.0 + margins, 0.0) ** 2))

    def step(self, start: _Point, smoothness: float) -> tuple[_Point, float]:
        """Return the projected gradient step from `start`, and the smoothness for which its upper bound holds."""
        gradient = start.scores.copy()
        gradient[: self.m] += 0.5 * start.z[: self.m] - 1.0
        while True:
            z = start.z - gradient / smoothness
            _kernel.project(z[: self.m], z[self.m :])
            new = self.evaluate(z)
            curvature, length = self._curvature(new, start)
            if curvature <= smoothness * (1 + _ROUNDING) * length or length <= _ROUNDING**2 * float(z @ z):
                return new, smoothness
            smoothness = max(1.25 * smoothness, min(2.0 * smoothness, curvature / length))

    def _curvature(self, new: _Point, start: _Point) -> tuple[float, float]:
        """Return the second-order term of the dual along a step, and the squared length of the step."""
        z, w = new.z - start.z, new.w - start.w
        return self.lam * self.m * float(w @ w) + 0.5 * float(z[: self.m] @ z[: self.m]), float(z @ z)


def accelerated_dual(
    positives: Any, negatives: Any, lam: float, tol: float, start: Float64 | None = None, *, max_steps: int = 5000
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
    start : (m + k,) float64, optional
        Feasible dual variables; zeros by default.
    max_steps : int, default 5000

    Returns
    -------
    DualSolution
        The point with the highest dual value.
    """
    problem = _Problem(positives, negatives, lam)
    current = problem.evaluate(np.zeros(problem.rows.shape[0]) if start is None else start)
    previous, best, dual, primal = current, current, problem.dual(current), problem.primal(current)
    smoothness, momentum, steps = 0.5, 1.0, 0
    while primal - dual > tol * primal and steps < max_steps:
        next_momentum = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        extrapolated = current.extrapolate(previous, (momentum - 1) / next_momentum)
        new, smoothness = problem.step(extrapolated, smoothness)
        restart = float((extrapolated.z - new.z) @ (new.z - current.z)) > 0
        momentum, smoothness, steps = 1.0 if restart else next_momentum, _SMOOTHNESS_DECAY * smoothness, steps + 1
        previous, current = current, new
        primal = min(primal, problem.primal(current))
        if (value := problem.dual(current)) > dual:
            best, dual = current, value
    return DualSolution(best.w, dual, best.z, steps)
