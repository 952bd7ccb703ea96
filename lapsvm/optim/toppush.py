"""TopPush: rank the positives above the highest negative, with a certificate.

    minimise  lam/2 |w|^2 + 1/m sum_i l(max_j w.x-_j - w.x+_i)          (Li, Jin and Zhou, NIPS 2014, problem 6)

Only the few negatives that compete for the maximum matter, so a working set of them is kept. The problem over the
working set is solved by Newton steps, which factor a matrix of the size of the features. Where these are many, it is
solved in the dual by the paper's accelerated projected gradient (squared hinge), or by cutting planes (logistic,
exponential: the conjugates of these have no bounded slope at 0, so a gradient step has no length). Its dual value
bounds the whole problem from below, for the dual variables of all other negatives may be 0. One pass over the samples
then gives the primal value and the negatives that are missing.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.blas import one_blas_thread
from lapsvm.optim.accelerated import Dual, accelerated_dual
from lapsvm.optim.bundle import Plane
from lapsvm.optim.certificate import relative_gap
from lapsvm.optim.cutting_plane import cutting_plane, run_with_oracle
from lapsvm.optim.margins import Margin, margin
from lapsvm.optim.toppush_newton import MISSED_GAIN, NO_GAIN, NewtonSteps

ENTERING = 256
"""Most negatives that enter the working set after a pass."""

NEWTON_DIM = {"squared_hinge": 500, "logistic": 2000, "exponential": 2000}
"""Most features for which Newton steps, which factor a matrix of that size, are faster than what else there is."""

_INNER_SHARE = 0.3  # of the allowed gap: how exactly the last working set is solved
_LOOSE_SHARE = 0.1  # of the last gap: how exactly the others are
_NOTHING = 1e-15  # relative gain over w = 0 that rounding may feign
_ROUNDING = 1e-15  # relative gap below which no step can tell
_SUMS = 1e-10  # relative rounding of the sums that the primal and the dual value are made of


class Rows(Protocol):
    """All samples."""

    def scores(self, w: Float64) -> Float64:
        """Return the score (n,) of every sample."""
        ...

    def take(self, places: Index) -> Any:
        """Return some rows as a float64 array or sparse matrix."""
        ...


class TopPushSolution(NamedTuple):
    """What was found.

    Attributes
    ----------
    w : (d,) float64
    scores : (n,) float64
        The samples' scores at `w`.
    objective : float
        The primal value at `w`.
    dual : float
        A lower bound of the minimum.
    gap : float
        (objective - dual) / |objective|.
    history : list of dict
        Per pass: step, objective (best so far), dual, gap, steps (of the inner solver), working_set.
    idle : bool
        Whether the minimum gains next to nothing over w = 0; where it gains no more than rounding, `w` is 0.
    converged : bool
    """

    w: Float64
    scores: Float64
    objective: float
    dual: float
    gap: float
    history: list[dict[str, Any]]
    idle: bool
    converged: bool


class _DualSteps:
    """The working set's problem in the dual, started from the last solution."""

    def __init__(self, lam: float, m: int, max_steps: int):
        self._lam, self._max_steps, self._alpha = lam, max_steps, np.zeros(m)
        self.beta = np.zeros(0)

    def solve(self, positives: Any, negatives: Any, tol: float) -> tuple[Float64, float, int]:
        """Return w, the dual value and the number of steps."""
        beta = np.append(self.beta, np.zeros(negatives.shape[0] - len(self.beta)))
        start = Dual(self._alpha, beta)
        found = accelerated_dual(positives, negatives, self._lam, tol, start, max_steps=self._max_steps)
        self._alpha, self.beta = found.variables
        return found.w, found.value, found.n_steps

    def forget(self) -> "np.typing.NDArray[np.bool_]":
        """Drop the negatives that the last solution does not use; return the mask of those kept."""
        kept = self.beta > 0
        self.beta = self.beta[kept]
        return np.asarray(kept)


class _Planes:
    """The working set's problem by cutting planes; a plane made of some negatives is valid for all."""

    def __init__(self, lam: float, loss: Margin, max_steps: int):
        self._lam, self._loss, self._max_steps = lam, loss, max_steps
        self._planes: list[Plane] = []
        self._start: Float64 | None = None
        self._size = 0

    def solve(self, positives: Any, negatives: Any, tol: float) -> tuple[Float64, float, int]:
        """Return w, the dual value and the number of calls."""

        def oracle(w: Float64) -> Plane:
            scores = np.asarray(negatives @ w)
            highest = int(np.argmax(scores))
            z = scores[highest] - np.asarray(positives @ w)
            slope = self._loss.slope(z) / len(z)
            row = negatives[[highest]]
            gradient = slope.sum() * np.asarray(row.T @ np.ones(1)) - np.asarray(positives.T @ slope)
            return Plane(gradient, float(np.mean(self._loss.value(z))) - float(gradient @ w))

        dim = positives.shape[1]
        steps = cutting_plane(
            dim, 1 / self._lam, tol, max_calls=self._max_steps, start=self._start, planes=self._planes
        )
        found = run_with_oracle(steps, oracle)
        self._planes, self._start, self._size = found.planes, found.w, negatives.shape[0]
        return found.w, self._lam * found.dual, found.n_calls

    def forget(self) -> "np.typing.NDArray[np.bool_]":
        """Keep all negatives: a plane does not say which others it has beaten."""
        return np.ones(self._size, dtype=bool)


@dataclass
class _Run:
    """The whole problem, and the best that is known of it."""

    rows: Rows
    positives: Index
    negatives: Index
    lam: float
    loss: Margin
    w: Float64
    scores: Float64
    best: float = np.inf  # with the loss as the solver continues it
    objective: float = np.inf  # with the loss itself
    dual: float = -np.inf
    rounding: float = 0.0
    working: Index = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """The relative gap."""
        return relative_gap(self.objective, self.dual, self.rounding) if self.history else 1.0

    def learn(self, w: Float64, dual: float, steps: int) -> Float64:
        """Take in a working set's solution; return all scores at it."""
        scores = self.rows.scores(w)
        z = scores[self.negatives].max() - scores[self.positives]
        size = self.lam * float(w @ w)
        objective = 0.5 * size + float(np.mean(self.loss.value(z)))
        if objective < self.best:
            self.best, self.w, self.scores = objective, w, scores
            self.objective = 0.5 * size + self.loss.mean(z)
            terms = self.at_zero + size + float(np.mean(self.loss.slope(z))) * float(np.abs(scores).max())
            self.rounding = _SUMS * terms
        self.dual = max(self.dual, dual)
        entry = {"step": len(self.history), "objective": self.objective, "dual": self.dual, "steps": steps}
        self.history.append(entry)
        entry |= {"gap": self.gap, "working_set": len(self.working)}
        return scores

    def done(self, tol: float) -> bool:
        """Whether the gap is small, and small beside what the minimum gains over w = 0 unless that is nothing."""
        small = self.best - self.dual <= MISSED_GAIN * (self.at_zero - self.dual)
        return self.gap <= tol and (small or self.idle(tol))

    def idle(self, tol: float) -> bool:
        """Whether the bound leaves nothing to be gained over w = 0."""
        return self.at_zero - self.dual <= NO_GAIN * tol * self.at_zero

    @property
    def at_zero(self) -> float:
        """Return the objective of w = 0."""
        return float(self.loss.value(np.zeros(1))[0])

    def missing(self, scores: Float64) -> bool:
        """Whether a negative outside the working set is the highest."""
        return bool(scores[self.negatives].max() > scores[self.working].max())

    def enter(self, scores: Float64) -> None:
        """Put the highest negatives into the working set."""
        ranked = scores[self.negatives]
        ranked[np.searchsorted(self.negatives, self.working)] = -np.inf
        count = min(ENTERING, len(ranked) - len(self.working))
        highest = np.argpartition(ranked, len(ranked) - count)[len(ranked) - count :]
        self.working = np.concatenate([self.working, self.negatives[np.sort(highest)]])


def top_push(
    rows: Rows,
    labels: Float64,
    lam: float,
    tol: float = 1e-4,
    loss: str = "squared_hinge",
    *,
    max_passes: int = 100,
    max_steps: int = 5000,
    newton_dim: int | None = None,
) -> TopPushSolution:
    """Minimise TopPush's objective.

    Parameters
    ----------
    rows : Rows
    labels : (n,) float64
        +1 or -1; both occur.
    lam : float
        Weight of the regulariser, > 0.
    tol : float, default 1e-4
        Relative duality gap at which to stop.
    loss : {"squared_hinge", "logistic", "exponential"}
    max_passes : int, default 100
        Most passes over all samples.
    max_steps : int, default 5000
        Most steps on one working set.
    newton_dim : int, optional
        Most features for which the working sets are solved by Newton steps; by default 500 for the squared hinge, 2000
        for the others.

    Returns
    -------
    TopPushSolution
    """
    positives, negatives = np.flatnonzero(labels > 0), np.flatnonzero(labels < 0)
    with one_blas_thread():
        near = rows.take(positives)
        w = _towards(near) - _towards(rows.take(negatives[:: len(negatives) // len(positives) + 1]))
        scores = rows.scores(w)
        run = _Run(rows, positives, negatives, lam, margin(loss, len(positives)), w, scores)
        inner = _inner(loss, run, max_steps, NEWTON_DIM[loss] if newton_dim is None else newton_dim)
        run.enter(scores)
        inner_tol = max(_INNER_SHARE * tol, _LOOSE_SHARE)
        for _ in range(max_passes):
            found, dual, steps = inner.solve(near, rows.take(run.working), inner_tol)
            scores = run.learn(found, dual, steps)
            if run.done(tol) or inner_tol < _ROUNDING:
                break
            missing = run.missing(scores)
            inner_tol = _next_tol(inner_tol, run.gap, missing, tol)
            if missing:
                run.working = run.working[inner.forget()]
                run.enter(scores)
    if run.idle(tol) and run.best >= run.at_zero * (1 - _NOTHING):
        # what is left is rounding, and a ranking by rounding would be a lie
        run.w, run.scores, run.best = np.zeros_like(run.w), np.zeros_like(run.scores), run.at_zero
        run.objective = run.at_zero
    return TopPushSolution(
        run.w, run.scores, run.objective, run.dual, run.gap, run.history, run.idle(tol), run.gap <= tol
    )


def _inner(loss: str, run: _Run, max_steps: int, newton_dim: int) -> NewtonSteps | _DualSteps | _Planes:
    """Return what solves the working sets."""
    if len(run.w) <= newton_dim:
        return NewtonSteps(run.lam, run.loss, max_steps)
    if loss == "squared_hinge":
        return _DualSteps(run.lam, len(run.positives), max_steps)
    return _Planes(run.lam, run.loss, max_steps)


def _next_tol(last: float, gap: float, missing: bool, tol: float) -> float:
    """Return how exactly to solve the next working set.

    Where nothing is missing, or the gap is small but not beside the gain, only the working set's own gap is left.
    """
    exact = _INNER_SHARE * tol
    if gap <= tol or (not missing and last <= exact):
        return 0.1 * last
    return max(exact, min(last, _LOOSE_SHARE * gap)) if missing else exact


def _towards(rows: Any) -> Float64:
    """Return the mean of the rows."""
    return np.asarray(rows.mean(axis=0)).ravel()
