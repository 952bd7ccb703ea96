"""TopPush: rank the positives above the highest negative, with a certificate.

    minimise  lam/2 |w|^2 + 1/m sum_i l(max_j w.x-_j - w.x+_i)          (Li, Jin and Zhou, NIPS 2014, problem 6)

Only the few highest negatives matter, so the solver keeps a working set of negatives. Newton steps solve the problem
over the working set; they factor a matrix of the size of the features. For many features, the squared hinge uses the
paper's accelerated projected gradient in the dual. The logistic and exponential losses use cutting planes, because the
derivatives of their conjugates are unbounded at 0. The dual value of the working set bounds the full problem from below
(the dual variables of all other negatives are 0). One pass over the samples then gives the primal value and the
violated negatives.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.blas import one_blas_thread
from lapsvm.optim.accelerated import accelerated_dual
from lapsvm.optim.bundle import Plane
from lapsvm.optim.certificate import MISSED_GAIN, NO_GAIN, relative_gap
from lapsvm.optim.cutting_plane import cutting_plane, run_with_oracle
from lapsvm.optim.margins import Margin, margin
from lapsvm.optim.toppush_newton import NewtonSolver

ENTERING = 256
"""Maximum number of negatives that enter the working set after a pass."""

NEWTON_DIM = {"squared_hinge": 500, "logistic": 2000, "exponential": 2000}
"""Maximum number of features for which Newton steps are faster than the first-order methods."""

_INNER_SHARE = 0.3  # tolerance of the last working set as a share of the allowed gap
_LOOSE_SHARE = 0.1  # tolerance of the other working sets as a share of the last gap
_ZERO_GAIN = 1e-15  # relative decrease from w = 0 that may be rounding
_MIN_TOL = 1e-15  # smaller tolerances of a working set are below rounding
_SUM_ROUNDING = 1e-10  # relative rounding error of the sums in the primal and dual values


class Rows(Protocol):
    """All samples."""

    def scores(self, w: Float64) -> Float64:
        """Return the score (n,) of every sample."""

    def take(self, indices: Index) -> Any:
        """Return the rows with these indices as a float64 array or sparse matrix."""


class TopPushSolution(NamedTuple):
    """Result of `top_push`.

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
    zero_is_optimal : bool
        Whether w = 0 is optimal up to a tiny relative decrease; if that decrease is rounding, `w` is 0.
    converged : bool
    """

    w: Float64
    scores: Float64
    objective: float
    dual: float
    gap: float
    history: list[dict[str, Any]]
    zero_is_optimal: bool
    converged: bool


class _DualSolver:
    """Solves the working set's dual by accelerated gradient steps, with warm starts."""

    def __init__(self, lam: float, m: int, max_steps: int):
        self._lam, self._max_steps, self._alpha = lam, max_steps, np.zeros(m)
        self.beta = np.zeros(0)

    def solve(self, positives: Any, negatives: Any, tol: float) -> tuple[Float64, float, int]:
        """Return w, the dual value and the number of steps."""
        start = np.concatenate([self._alpha, self.beta, np.zeros(negatives.shape[0] - len(self.beta))])
        solution = accelerated_dual(positives, negatives, self._lam, tol, start, max_steps=self._max_steps)
        self._alpha, self.beta = np.split(solution.variables, [len(self._alpha)])
        return solution.w, solution.value, solution.n_steps


class _CuttingPlaneSolver:
    """Solves the working set's problem by cutting planes; planes of a subset of negatives are valid for all."""

    def __init__(self, lam: float, loss: Margin, max_steps: int):
        self._lam, self._loss, self._max_steps = lam, loss, max_steps
        self._planes: list[Plane] = []
        self._start: Float64 | None = None
        self.beta = np.zeros(0)

    def solve(self, positives: Any, negatives: Any, tol: float) -> tuple[Float64, float, int]:
        """Return w, the dual value and the number of calls."""

        def oracle(w: Float64) -> Plane:
            scores = np.asarray(negatives @ w)
            highest = int(np.argmax(scores))
            z = scores[highest] - np.asarray(positives @ w)
            derivative = self._loss.derivative(z) / len(z)
            row = negatives[[highest]]
            gradient = derivative.sum() * np.asarray(row.T @ np.ones(1)) - np.asarray(positives.T @ derivative)
            return Plane(gradient, float(np.mean(self._loss.value(z))) - float(gradient @ w))

        dim = positives.shape[1]
        steps = cutting_plane(
            dim, 1 / self._lam, tol, max_calls=self._max_steps, start=self._start, planes=self._planes
        )
        solution = run_with_oracle(steps, oracle)
        self._planes, self._start = solution.planes, solution.w
        self.beta = np.ones(negatives.shape[0])  # the planes do not show which negatives are inactive
        return solution.w, self._lam * solution.dual, solution.n_calls


@dataclass
class _FullProblem:
    """The problem over all negatives, its best solution and bounds, and the working set."""

    rows: Rows
    positives: Index
    negatives: Index
    lam: float
    loss: Margin
    w: Float64
    scores: Float64
    best: float = np.inf  # objective with the solver's continuation of the loss
    objective: float = np.inf  # objective with the exact loss
    dual: float = -np.inf
    rounding: float = 0.0
    working: Index = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """The relative gap."""
        return relative_gap(self.objective, self.dual, self.rounding) if self.history else 1.0

    def update(self, w: Float64, dual: float, steps: int) -> Float64:
        """Update the best solution and the bounds from a working set's solution; return all scores at `w`."""
        scores = self.rows.scores(w)
        z = scores[self.negatives].max() - scores[self.positives]
        size = self.lam * float(w @ w)
        objective = 0.5 * size + float(np.mean(self.loss.value(z)))
        if objective < self.best:
            self.best, self.w, self.scores = objective, w, scores
            self.objective = 0.5 * size + self.loss.mean(z)
            slope, largest = float(np.mean(self.loss.derivative(z))), float(np.abs(scores).max())
            self.rounding = _SUM_ROUNDING * (self.objective_at_zero + size + slope * largest)
        self.dual = max(self.dual, dual)
        entry = {"step": len(self.history), "objective": self.objective, "dual": self.dual, "steps": steps}
        self.history.append(entry)
        entry |= {"gap": self.gap, "working_set": len(self.working)}
        return scores

    def has_converged(self, tol: float) -> bool:
        """Whether the gap is small, also relative to the decrease from w = 0 unless w = 0 is optimal."""
        small = self.best - self.dual <= MISSED_GAIN * (self.objective_at_zero - self.dual)
        return self.gap <= tol and (small or self.zero_is_optimal(tol))

    def zero_is_optimal(self, tol: float) -> bool:
        """Whether the lower bound proves that w = 0 is optimal up to a tiny relative decrease."""
        return self.objective_at_zero - self.dual <= NO_GAIN * tol * self.objective_at_zero

    @property
    def objective_at_zero(self) -> float:
        """The objective at w = 0."""
        return float(self.loss.value(np.zeros(1))[0])

    def has_violated_negative(self, scores: Float64) -> bool:
        """Whether a negative outside the working set has the highest score."""
        return bool(scores[self.negatives].max() > scores[self.working].max())

    def extend_working_set(self, scores: Float64) -> None:
        """Add the highest negatives to the working set."""
        ranked = scores[self.negatives]
        ranked[np.searchsorted(self.negatives, self.working)] = -np.inf
        count = min(ENTERING, len(ranked) - len(self.working))
        highest = np.argpartition(ranked, len(ranked) - count)[len(ranked) - count :]
        self.working = np.concatenate([self.working, self.negatives[np.sort(highest)]])

    def reset_to_zero(self) -> None:
        """Replace the best solution by w = 0."""
        self.w, self.scores = np.zeros_like(self.w), np.zeros_like(self.scores)
        self.best = self.objective = self.objective_at_zero


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
        Maximum number of passes over all samples.
    max_steps : int, default 5000
        Maximum number of steps on one working set.
    newton_dim : int, optional
        Maximum number of features for which Newton steps solve the working sets; by default 500 for the squared hinge
        and 2000 for the other losses.

    Returns
    -------
    TopPushSolution
    """
    positives, negatives = np.flatnonzero(labels > 0), np.flatnonzero(labels < 0)
    with one_blas_thread():
        positive_rows = rows.take(positives)
        sampled_negatives = rows.take(negatives[:: len(negatives) // len(positives) + 1])
        w = _mean_row(positive_rows) - _mean_row(sampled_negatives)
        scores = rows.scores(w)
        problem = _FullProblem(rows, positives, negatives, lam, margin(loss, len(positives)), w, scores)
        solver = _working_set_solver(loss, problem, max_steps, NEWTON_DIM[loss] if newton_dim is None else newton_dim)
        problem.extend_working_set(scores)
        inner_tol = max(_INNER_SHARE * tol, _LOOSE_SHARE)
        for _ in range(max_passes):
            w, dual, steps = solver.solve(positive_rows, rows.take(problem.working), inner_tol)
            scores = problem.update(w, dual, steps)
            if problem.has_converged(tol) or inner_tol < _MIN_TOL:
                break
            violated = problem.has_violated_negative(scores)
            inner_tol = _next_tol(inner_tol, problem.gap, violated, tol)
            if violated:
                used = solver.beta > 0
                solver.beta, problem.working = solver.beta[used], problem.working[used]
                problem.extend_working_set(scores)
    is_zero_optimal = problem.zero_is_optimal(tol)
    if is_zero_optimal and problem.best >= problem.objective_at_zero * (1 - _ZERO_GAIN):
        problem.reset_to_zero()  # w holds rounding errors only, which must not decide a ranking
    return TopPushSolution(
        problem.w,
        problem.scores,
        problem.objective,
        problem.dual,
        problem.gap,
        problem.history,
        is_zero_optimal,
        problem.gap <= tol,
    )


def _working_set_solver(
    loss: str, problem: _FullProblem, max_steps: int, newton_dim: int
) -> NewtonSolver | _DualSolver | _CuttingPlaneSolver:
    """Return the solver of the working sets."""
    if len(problem.w) <= newton_dim:
        return NewtonSolver(problem.lam, problem.loss, max_steps)
    if loss == "squared_hinge":
        return _DualSolver(problem.lam, len(problem.positives), max_steps)
    return _CuttingPlaneSolver(problem.lam, problem.loss, max_steps)


def _next_tol(last: float, gap: float, violated: bool, tol: float) -> float:
    """Return the tolerance of the next working set.

    Without violated negatives, or if only the gap relative to the decrease from w = 0 is too large, the working set's
    own gap must shrink.
    """
    exact = _INNER_SHARE * tol
    if gap <= tol or (not violated and last <= exact):
        return 0.1 * last
    return max(exact, min(last, _LOOSE_SHARE * gap)) if violated else exact


def _mean_row(rows: Any) -> Float64:
    """Return the mean of the rows."""
    return np.asarray(rows.mean(axis=0)).ravel()
