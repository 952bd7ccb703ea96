"""TopPush over a working set of negatives, by Newton steps.

    minimise  lam/2 |w|^2 + 1/m sum_i l(t - w.x+_i)   over (w, t)   with   t >= w.x-_j for each negative j of the set

The sum is smooth, so a step is a quadratic program in (w, t). Its dual has a variable beta_j >= 0 per negative, of
which few are positive at the solution: a small problem for the active-set steps of `solve_simplex_qp`. A line search
on the objective itself makes a step safe. The slopes of the loss after a step and beta are dual variables of the
problem (theorem 1 of Li, Jin and Zhou, NIPS 2014), so each step ends with a lower bound; near the minimum it is as good
as the step, whose error is squared each time.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular

from lapsvm.arrays import Float64
from lapsvm.optim.margins import Margin
from lapsvm.optim.simplex_qp import solve_simplex_qp

MISSED_GAIN = 0.02
"""Share of the gain over w = 0 that may be missed."""

NO_GAIN = 1e-6
"""Of the tolerance: with less to be gained over w = 0, w = 0 is the minimum."""

_FLAT = 1e-8  # most that is added to the second derivative of the loss, so that a step has a length where it is flat
_FLAT_SHARE = 1e-3  # of the regulariser: what that may weigh beside it
_RIDGE = 4.0  # times rounding and rows, of each diagonal entry: so the factor exists; it vanishes with the step
_MOST_STEPS = 200  # far from all floors a solution takes some ten
_ROOM = 4.0  # beta's sum and its slack: where the objective is below that of w = 0, the slopes' mean is at most 2
_QP_SHARE = 0.01  # of the allowed gap: how exactly a step's program is solved
_BROUGHT = 0.1  # share of the promised decrease that a step must bring
_SHORTEST = 1e-8


class _Point(NamedTuple):
    """Weights, the scores of the positives and of the negatives, and the objective over these rows."""

    w: Float64
    near: Float64
    far: Float64
    objective: float

    @property
    def z(self) -> Float64:
        """What the loss is taken of."""
        return np.asarray(self.far.max() - self.near)


class _Model(NamedTuple):
    """The quadratic model at a point: the derivatives in (w, t), the second one as its lower factor."""

    slopes: Float64
    bends: Float64
    gradient: Float64
    factor: Float64


class _Step(NamedTuple):
    """A step in w and in the positives' z, the decrease it promises, and its dual variables."""

    w: Float64
    z: Float64
    promised: float
    beta: Float64


class NewtonSteps:
    """The working set's problem, started from the last solution.

    Parameters
    ----------
    lam : float
        Weight of the regulariser, > 0.
    loss : Margin
    max_steps : int
        Most Newton steps per solution; 200 are never passed.
    """

    def __init__(self, lam: float, loss: Margin, max_steps: int):
        self._lam, self._loss, self._max_steps = lam, loss, min(max_steps, _MOST_STEPS)
        self._at_zero = float(loss.value(np.zeros(1))[0])
        self._w: Float64 | None = None
        self._positives: Any = None
        self._negatives: Float64 = np.zeros((0, 0))
        self._flat = _FLAT
        self.beta = np.zeros(0)

    def solve(self, positives: Any, negatives: Any, tol: float) -> tuple[Float64, float, int]:
        """Return w, the dual value and the number of steps; the relative gap over these rows is at most `tol`.

        Where w = 0 is not the minimum, the gap is also a small share of what the minimum gains over it.
        """
        self._positives, self._negatives = positives, _dense(negatives)
        self._flat = min(_FLAT, _FLAT_SHARE * self._lam / max(_mean_square(positives), np.finfo(float).tiny))
        beta = np.append(self.beta, np.zeros(len(self._negatives) - len(self.beta)))
        point, dual, self.beta, steps = self._start(), -np.inf, beta, 0
        while steps < self._max_steps and point.objective - dual > self._allowance(tol, point.objective, dual):
            model = self._model(point)
            step = self._step(point, model, beta, _QP_SHARE * self._allowance(tol, point.objective, dual))
            beta, value, steps = step.beta, self._bound(model, point, step), steps + 1
            if value > dual:
                dual, self.beta = value, beta
            new = self._search(point, step)
            if new is None:
                break
            point = new
        self._w = point.w
        return point.w, dual, steps

    def forget(self) -> "np.typing.NDArray[np.bool_]":
        """Drop the negatives that the last solution does not use; return the mask of those kept."""
        kept = self.beta > 0
        self.beta = self.beta[kept]
        return np.asarray(kept)

    def _allowance(self, tol: float, objective: float, dual: float) -> float:
        """Return the gap at which to stop; before a bound is known, what `tol` alone allows."""
        gain = self._at_zero - dual
        return min(tol * objective, max(MISSED_GAIN * gain, NO_GAIN * tol * objective))

    def _start(self) -> _Point:
        """Return the last solution, or w = 0 where that is better."""
        last = None if self._w is None else self._at(self._w)
        if last is None or last.objective > self._at_zero:
            return self._at(np.zeros(self._negatives.shape[1]))
        return last

    def _at(self, w: Float64) -> _Point:
        return self._point(w, np.asarray(self._positives @ w), self._negatives @ w)

    def _point(self, w: Float64, near: Float64, far: Float64) -> _Point:
        loss = float(np.mean(self._loss.value(far.max() - near)))
        return _Point(w, near, far, 0.5 * self._lam * float(w @ w) + loss)

    def _model(self, point: _Point) -> _Model:
        """Return the quadratic model at a point."""
        slopes, bends = self._loss.slope(point.z), self._loss.bend(point.z) + self._flat
        m, d = len(slopes), len(point.w)
        gradient = np.append(self._lam * point.w - np.asarray(self._positives.T @ slopes) / m, slopes.mean())
        second = np.empty((d + 1, d + 1))
        second[:d, :d] = _weighted_gram(self._positives, bends / m)
        second[d, :d] = second[:d, d] = -np.asarray(self._positives.T @ bends) / m
        second[d, d] = bends.mean()
        diagonal = np.arange(d + 1)
        second[diagonal[:d], diagonal[:d]] += self._lam
        second[diagonal, diagonal] *= 1.0 + _RIDGE * (d + 1) * np.finfo(float).eps
        return _Model(slopes, bends, gradient, cholesky(second, lower=True, overwrite_a=True, check_finite=False))

    def _step(self, point: _Point, model: _Model, beta: Float64, slack: float) -> _Step:
        """Return the step to the minimum of the model where t is at least every negative's score."""
        k = len(self._negatives)
        columns = np.zeros((len(model.gradient), k + 1))  # the last one is the slack: beta sums to at most _ROOM
        columns[:-1, :k], columns[-1, :k] = -self._negatives.T, 1.0
        half = solve_triangular(model.factor, columns, lower=True, check_finite=False)
        downhill = solve_triangular(model.factor, model.gradient, lower=True, check_finite=False)
        feasible = np.append(point.far.max() - point.far, 0.0)
        start = np.append(beta, _ROOM - beta.sum())
        found = solve_simplex_qp(half.T @ half, half.T @ downhill - feasible, _ROOM, start=start, tol=slack)
        reach = half @ found.weights - downhill
        move = solve_triangular(model.factor, reach, lower=True, trans=1, check_finite=False)
        w, t = move[:-1], float(move[-1])
        promised = -float(model.gradient @ move) - 0.5 * float(reach @ reach)
        return _Step(w, t - np.asarray(self._positives @ w), promised, found.weights[:-1])

    def _bound(self, model: _Model, point: _Point, step: _Step) -> float:
        """Return the better of two dual values: for the model's slopes after the step, and for the loss's own."""
        return max(
            self._dual(model.slopes + model.bends * step.z, step.beta),
            self._dual(self._loss.slope(point.z + step.z), step.beta),
        )

    def _dual(self, alpha: Float64, beta: Float64) -> float:
        """Return the dual value of the nearest feasible variables: alpha within its bounds, beta of the same sum."""
        alpha = np.clip(alpha, 0.0, self._loss.steepest)
        share, total = float(alpha.mean()), float(beta.sum())
        if total <= 0:
            return -np.inf
        near, far = np.asarray(self._positives.T @ alpha) / len(alpha), self._negatives.T @ (beta * (share / total))
        value = float(np.mean(self._loss.conjugate(alpha)))
        with np.errstate(over="ignore"):  # a lam near 0 leaves no bound
            return float(-0.5 * ((near - far) @ (near - far)) / self._lam - value)

    def _search(self, point: _Point, step: _Step) -> _Point | None:
        """Return a point on the way that brings enough of what the step promises, or None if rounding leaves none."""
        near, far = np.asarray(self._positives @ step.w), self._negatives @ step.w
        length = 1.0
        while length > _SHORTEST:
            new = self._point(point.w + length * step.w, point.near + length * near, point.far + length * far)
            if new.objective <= point.objective - _BROUGHT * length * step.promised:
                return new
            length *= 0.5
        return None


def _dense(rows: Any) -> Float64:
    """Return the rows as an array."""
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows)


def _mean_square(rows: Any) -> float:
    """Return the mean squared norm of the rows."""
    values = rows.data if sparse.issparse(rows) else rows.ravel()
    return float(np.dot(values, values)) / int(rows.shape[0])


def _weighted_gram(rows: Any, weights: Float64) -> Float64:
    """Return the sum of the rows' outer products."""
    if sparse.issparse(rows):
        return np.asarray((rows.T @ rows.multiply(weights[:, None]).tocsr()).toarray())
    scaled = rows * np.sqrt(weights)[:, None]
    return np.asarray(scaled.T @ scaled)
