"""TopPush over a working set of negatives, by Newton steps.

    minimise  lam/2 |w|^2 + 1/m sum_i l(t - w.x+_i)   over (w, t)   with   t >= w.x-_j for each negative j of the set

The sum is smooth, so a Newton step is a quadratic program in (w, t). Its dual has a variable beta_j >= 0 per negative,
few of which are positive at the solution; `solve_simplex_qp` solves it by active-set steps. A backtracking line search
on the objective ensures a decrease. The derivatives of the loss after a step and beta are dual variables of the problem
(theorem 1 of Li, Jin and Zhou, NIPS 2014), so that each step also gives a lower bound. Near the minimum the bound
converges quadratically, like the step.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular

from lapsvm.arrays import Float64
from lapsvm.optim.certificate import allowed_gap
from lapsvm.optim.margins import Margin
from lapsvm.optim.simplex_qp import solve_simplex_qp

_DAMPING = 1e-8  # maximum addition to the second derivative of the loss, which bounds the step where the loss is flat
_DAMPING_SHARE = 1e-3  # maximum weight of this addition relative to the regulariser
_RIDGE = 4.0  # relative ridge of the diagonal, times rounding and rows, so that the Cholesky factor exists
_MAX_STEPS = 200  # about ten suffice unless rounding dominates
_BETA_TOTAL = 4.0  # sum of beta and its slack: below the objective at w = 0 the mean derivative is at most 2
_QP_SHARE = 0.01  # tolerance of a step's quadratic program as a share of the allowed gap
_SUFFICIENT_DECREASE = 0.1  # Armijo's constant of the line search
_MIN_STEP_LENGTH = 1e-8


class _Point(NamedTuple):
    """Weights, the scores of the positives and of the negatives, and the objective of the working set."""

    w: Float64
    positives: Float64
    negatives: Float64
    objective: float

    @property
    def z(self) -> Float64:
        """The arguments of the loss: the highest negative score minus each positive score."""
        return np.asarray(self.negatives.max() - self.positives)


class _Model(NamedTuple):
    """The quadratic model at a point: derivatives of the loss, gradient in (w, t) and the Hessian's Cholesky factor."""

    first: Float64
    second: Float64
    gradient: Float64
    factor: Float64


class _Step(NamedTuple):
    """A step in w and in the positives' z, its predicted decrease, and its dual variables."""

    w: Float64
    z: Float64
    predicted: float
    beta: Float64


class NewtonSolver:
    """Solves the working set's problem by Newton steps, with warm starts.

    Parameters
    ----------
    lam : float
        Weight of the regulariser, > 0.
    loss : Margin
    max_steps : int
        Maximum number of Newton steps per solution, at most 200.
    """

    def __init__(self, lam: float, loss: Margin, max_steps: int):
        self._lam, self._loss, self._max_steps = lam, loss, min(max_steps, _MAX_STEPS)
        self._at_zero = float(loss.value(np.zeros(1))[0])
        self._w: Float64 | None = None
        self._positives: Any = None
        self._negatives: Float64 = np.zeros((0, 0))
        self._damping = _DAMPING
        self.beta = np.zeros(0)

    def solve(self, positives: Any, negatives: Any, tol: float) -> tuple[Float64, float, int]:
        """Return w, the dual value and the number of steps; the relative gap of the working set is at most `tol`.

        Unless w = 0 is the minimum, the gap is also a small share of the decrease from w = 0.
        """
        self._positives, self._negatives = positives, _dense(negatives)
        self._damping = min(_DAMPING, _DAMPING_SHARE * self._lam / max(_mean_square(positives), np.finfo(float).tiny))
        beta = np.append(self.beta, np.zeros(len(self._negatives) - len(self.beta)))
        point, dual, self.beta, steps = self._start(), -np.inf, beta, 0
        while steps < self._max_steps:
            allowed = allowed_gap(point.objective, dual, self._at_zero, tol)
            if point.objective - dual <= allowed:
                break
            model = self._model(point)
            step = self._step(point, model, beta, _QP_SHARE * allowed)
            beta, value, steps = step.beta, self._bound(model, point, step), steps + 1
            if value > dual:
                dual, self.beta = value, beta
            new = self._search(point, step)
            if new is None:
                break
            point = new
        self._w = point.w
        return point.w, dual, steps

    def _start(self) -> _Point:
        """Return the last solution, or w = 0 if that is better."""
        last = None if self._w is None else self._at(self._w)
        if last is None or last.objective > self._at_zero:
            return self._at(np.zeros(self._negatives.shape[1]))
        return last

    def _at(self, w: Float64) -> _Point:
        return self._point(w, np.asarray(self._positives @ w), self._negatives @ w)

    def _point(self, w: Float64, positives: Float64, negatives: Float64) -> _Point:
        loss = float(np.mean(self._loss.value(negatives.max() - positives)))
        return _Point(w, positives, negatives, 0.5 * self._lam * float(w @ w) + loss)

    def _model(self, point: _Point) -> _Model:
        """Return the quadratic model at a point."""
        first, second = self._loss.derivative(point.z), self._loss.second_derivative(point.z) + self._damping
        m, d = len(first), len(point.w)
        gradient = np.append(self._lam * point.w - np.asarray(self._positives.T @ first) / m, first.mean())
        hessian = np.empty((d + 1, d + 1))
        hessian[:d, :d] = _weighted_gram(self._positives, second / m)
        hessian[d, :d] = hessian[:d, d] = -np.asarray(self._positives.T @ second) / m
        hessian[d, d] = second.mean()
        diagonal = np.arange(d + 1)
        hessian[diagonal[:d], diagonal[:d]] += self._lam
        hessian[diagonal, diagonal] *= 1.0 + _RIDGE * (d + 1) * np.finfo(float).eps
        return _Model(first, second, gradient, cholesky(hessian, lower=True, overwrite_a=True, check_finite=False))

    def _step(self, point: _Point, model: _Model, beta: Float64, slack: float) -> _Step:
        """Return the step to the model's minimum subject to t >= every negative's score."""
        k = len(self._negatives)
        columns = np.zeros((len(model.gradient), k + 1))  # the last one is the slack: beta sums to at most _BETA_TOTAL
        columns[:-1, :k], columns[-1, :k] = -self._negatives.T, 1.0
        scaled = solve_triangular(model.factor, columns, lower=True, check_finite=False)
        scaled_gradient = solve_triangular(model.factor, model.gradient, lower=True, check_finite=False)
        slacks = np.append(point.negatives.max() - point.negatives, 0.0)
        start = np.append(beta, _BETA_TOTAL - beta.sum())
        linear = scaled.T @ scaled_gradient - slacks
        weights = solve_simplex_qp(scaled.T @ scaled, linear, _BETA_TOTAL, start=start, tol=slack).weights
        scaled_move = scaled @ weights - scaled_gradient
        move = solve_triangular(model.factor, scaled_move, lower=True, trans=1, check_finite=False)
        w, t = move[:-1], float(move[-1])
        predicted = -float(model.gradient @ move) - 0.5 * float(scaled_move @ scaled_move)
        return _Step(w, t - np.asarray(self._positives @ w), predicted, weights[:-1])

    def _bound(self, model: _Model, point: _Point, step: _Step) -> float:
        """Return the larger dual value: with the model's derivatives after the step, or with the loss's."""
        return max(
            self._dual(model.first + model.second * step.z, step.beta),
            self._dual(self._loss.derivative(point.z + step.z), step.beta),
        )

    def _dual(self, alpha: Float64, beta: Float64) -> float:
        """Return the dual value after making the variables feasible: clip alpha, scale beta to the same sum."""
        alpha = np.clip(alpha, 0.0, self._loss.max_derivative)
        share, total = float(alpha.mean()), float(beta.sum())
        if total <= 0:
            return -np.inf
        positive, negative = (
            np.asarray(self._positives.T @ alpha) / len(alpha),
            self._negatives.T @ (beta * (share / total)),
        )
        value = float(np.mean(self._loss.conjugate(alpha)))
        with np.errstate(over="ignore"):  # for lam near 0 the bound may be -inf
            return float(-0.5 * ((positive - negative) @ (positive - negative)) / self._lam - value)

    def _search(self, point: _Point, step: _Step) -> _Point | None:
        """Return a point along the step with sufficient decrease, or None if rounding prevents one."""
        positives, negatives = np.asarray(self._positives @ step.w), self._negatives @ step.w
        length = 1.0
        while length > _MIN_STEP_LENGTH:
            new = self._point(
                point.w + length * step.w, point.positives + length * positives, point.negatives + length * negatives
            )
            if new.objective <= point.objective - _SUFFICIENT_DECREASE * length * step.predicted:
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
    """Return the weighted sum of the rows' outer products."""
    if sparse.issparse(rows):
        return np.asarray((rows.T @ rows.multiply(weights[:, None]).tocsr()).toarray())
    scaled = rows * np.sqrt(weights)[:, None]
    return np.asarray(scaled.T @ scaled)
