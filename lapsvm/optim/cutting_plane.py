"""Stabilised one-slack cutting planes: minimise |w|^2 / 2 + C r(w) for a convex risk r >= 0 given by an oracle.

Each call of the oracle returns a plane below the risk. The solver then solves two small problems over the planes. The
dual value of the plain problem is a lower bound of the minimum (the certificate). The solution of the problem with a
proximal term around the best point is the next point. The proximal weight adapts such that the predicted decrease at
the next point is a fixed share of the gap, which makes the method independent of the scales of features and C.
(Joachims, Finley and Yu, Machine Learning 2009, for the one-slack form; Kiwiel, Mathematical Programming 1990, for
proximal bundles.)

The solver is a generator: it yields a weight vector and receives the plane. A scheduler can thus run many problems side
by side and compute all their planes in one pass over the data.
"""

import warnings
from collections.abc import Callable, Generator, Iterable
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lapsvm.arrays import Float64, check_positive
from lapsvm.blas import one_blas_thread
from lapsvm.optim.bundle import Bundle, Plane
from lapsvm.optim.certificate import allowed_gap, objective_rounding, relative_gap
from lapsvm.optim.simplex_qp import solve_simplex_qp

TARGET_DECREASE = 0.5
"""Desired predicted decrease at the next point as a share of the gap; values from 0.3 to 0.6 differ little."""

_STALE = 30  # calls after which an unused plane is removed
_STALLED = 60  # calls without progress after which the solver stops: rounding prevents any
_QP_SHARE = 0.01  # tolerance of the small problems as a share of the allowed gap
_STILL = 1e-3  # move of the next point, as a share of its distance to the best one, that is none


class Solution(NamedTuple):
    """Result of a cutting-plane solver.

    Attributes
    ----------
    w : (d,) float64
        The best point.
    objective : float
        Its objective |w|^2 / 2 + C r(w).
    dual : float
        A lower bound of the minimum, corrected for the rounding error of its sums.
    gap : float
        (objective - dual) / |objective|.
    n_calls : int
        Calls of the oracle.
    planes : list of Plane
        Planes in use at the end, for a warm start.
    proximity : float
        Last weight of the proximal term, for a warm start.
    converged : bool
        Whether the gap is at most the tolerance.
    rounding : float
        Bound of the rounding error of the objective and the dual value due to the oracle's sums.
    """

    w: Float64
    objective: float
    dual: float
    gap: float
    n_calls: int
    planes: list[Plane]
    proximity: float
    converged: bool
    rounding: float = 0.0


Steps = Generator[Float64, Plane, Solution]


def objective_at(w: Float64, plane: Plane, C: float) -> float:
    """Return |w|^2 / 2 + C r(w), given the plane that is tangent to r at `w`."""
    return 0.5 * float(w @ w) + C * max(0.0, plane.value(w))


class _State:
    """The planes with their weights in the two small problems, the best point and the bounds of the minimum."""

    def __init__(self, C: float, bundle: Bundle, proximity: float, w: Float64):
        self.C, self.bundle, self.proximity = C, bundle, proximity
        self.best_w, self.best, self.dual, self.max_norm = w, np.inf, 0.0, 0.0
        self.plain, self.unused_calls = np.zeros(len(bundle)), np.zeros(len(bundle))
        self.plain[0] = C
        self.proximal = self.plain.copy()

    def add(self, w: Float64, plane: Plane) -> None:
        """Add the plane that is tangent to the risk at `w`."""
        objective = objective_at(w, plane, self.C)
        if objective < self.best:
            self.best, self.best_w = objective, w
        self.bundle.add(plane)
        self.plain, self.proximal = np.append(self.plain, 0.0), np.append(self.proximal, 0.0)
        self.unused_calls = np.append(self.unused_calls, 0.0)

    def raise_bound(self, slack: float) -> None:
        """Raise the lower bound to the dual value of the plain problem."""
        gram, offsets = self.bundle.gram, self.bundle.offsets
        self.plain = solve_simplex_qp(gram, offsets, self.C, start=self.plain, tol=slack).weights
        self.dual = max(self.dual, self.bundle.dual_bound(self.plain))
        self.max_norm = max(self.max_norm, self.bundle.max_norm)

    @property
    def rounding(self) -> float:
        """Bound of the rounding error of the best objective and the lower bound."""
        return objective_rounding(self.best_w, self.C, self.max_norm, float(np.abs(self.bundle.offsets).max()))

    def allowance(self, tol: float) -> float:
        """Return the absolute gap at which to stop."""
        return allowed_gap(self.best, self.dual, self.C * float(self.bundle.offsets.max()), tol)

    def next_point(self, slack: float) -> Float64:
        """Return the minimiser of the model with the proximal term, and adapt the term's weight."""
        t = self.proximity
        shift = t / (1 + t) * (self.bundle.gradients @ self.best_w)
        gram, offsets = self.bundle.gram / (1 + t), self.bundle.offsets + shift
        self.proximal = solve_simplex_qp(gram, offsets, self.C, start=self.proximal, tol=slack).weights
        w = (t * self.best_w + self.bundle.combine(self.proximal)) / (1 + t)
        predicted = self.best - 0.5 * float(w @ w) - self.C * self.bundle.risk(w)
        share = predicted / max(self.best - self.dual, np.finfo(float).tiny)
        self.proximity = float(np.clip(t * np.clip(share / TARGET_DECREASE, 0.25, 4.0), 1e-6, 1e12))
        return w

    def stands_still(self, last: Float64, w: Float64) -> bool:
        """Return whether the next point repeats the last one, not for the proximal term but for the small problems.

        Where w = 0 is nearly as good as the minimum, the allowed gap may be below the tolerance of these problems. The
        new planes then change nothing, the proximal term vanishes, and all later points are the same.
        """
        return bool(np.linalg.norm(w - last) < _STILL * np.linalg.norm(w - self.best_w))

    def drop_stale(self) -> None:
        """Remove the planes that neither problem has used for `_STALE` calls."""
        self.unused_calls = np.where((self.plain > 0) | (self.proximal > 0), 0.0, self.unused_calls + 1)
        kept = self.unused_calls < _STALE
        kept[0] = True
        if not kept.all():
            self.bundle.keep(kept)
            self.plain, self.proximal = self.plain[kept], self.proximal[kept]
            self.unused_calls = self.unused_calls[kept]


def cutting_plane(
    dim: int,
    C: float,
    tol: float = 1e-3,
    *,
    max_calls: int = 1000,
    start: Float64 | None = None,
    planes: Iterable[Plane] = (),
    proximity: float = 1.0,
    exact: bool = True,
) -> Steps:
    """Minimise |w|^2 / 2 + C r(w) as a generator that yields points and receives planes.

    Parameters
    ----------
    dim : int
        Length of w.
    C : float
        Weight of the risk, > 0.
    tol : float, default 1e-3
        Relative duality gap at which to stop.
    max_calls : int, default 1000
        Maximum number of points.
    start : (d,) float64, optional
        First point; 0 by default. The solution is never worse than this point.
    planes : iterable of Plane
        Planes that lie below r, for a warm start.
    proximity : float, default 1.0
        Initial weight of the proximal term.
    exact : bool, default True
        Whether the received planes are tangent to the risk. Otherwise objectives may be too low, and a dual value above
        the objective counts as convergence.

    Yields
    ------
    (d,) float64
        A point; send the Plane that is tangent to the risk there.

    Returns
    -------
    Solution

    Raises
    ------
    CertificateError
        If the planes are exact and the lower bound exceeds the best objective by more than rounding.
    """
    w = np.zeros(dim) if start is None else start
    state = _State(C, Bundle(dim, planes), proximity, w)
    calls, last_progress, bounds = 0, 0, (np.inf, -np.inf)
    while calls < max(1, max_calls):
        state.add(w, (yield w))
        calls += 1
        slack = _QP_SHARE * tol * abs(state.best)
        state.raise_bound(slack)
        if state.best - state.dual <= state.allowance(tol):
            break
        if (state.best, state.dual) != bounds:
            last_progress, bounds = calls, (state.best, state.dual)
        elif calls - last_progress >= _STALLED:
            break
        last, w = w, state.next_point(slack)
        if calls > last_progress and state.stands_still(last, w):
            break
        state.drop_stale()
    rounding = state.rounding
    gap = relative_gap(state.best, state.dual, rounding if exact else np.inf)
    used = state.bundle.planes()
    return Solution(state.best_w, state.best, state.dual, gap, calls, used, state.proximity, gap <= tol, rounding)


def minimise(
    oracle: Callable[[Float64], Plane],
    dim: int,
    C: float,
    tol: float = 1e-3,
    *,
    max_calls: int = 1000,
    start: Float64 | None = None,
    planes: Iterable[Plane] = (),
) -> Solution:
    """Minimise |w|^2 / 2 + C r(w) with the planes that `oracle` returns.

    Parameters
    ----------
    oracle : callable
        Maps w (d,) to the Plane that is tangent to the risk at w.
    dim, C, tol, max_calls, start, planes
        As in `cutting_plane`.

    Returns
    -------
    Solution

    Raises
    ------
    CertificateError
        If the planes do not lie below the risk, so that the lower bound exceeds the objective.

    Warns
    -----
    ConvergenceWarning
        If the gap is above `tol` after `max_calls` calls, or rounding prevents progress.
    """
    steps = cutting_plane(
        dim, check_positive("C", C), check_positive("tol", tol), max_calls=max_calls, start=start, planes=planes
    )
    with one_blas_thread():
        solution = run_with_oracle(steps, oracle)
    if not solution.converged:
        remedy = (
            "raise max_calls" if solution.n_calls >= max_calls else "raise tol, because rounding allows no smaller gap"
        )
        warnings.warn(
            f"the duality gap is {solution.gap:.2g} after {solution.n_calls} calls, above tol={tol:g}; {remedy}, lower "
            "C, or scale the features to a mean norm near 1.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return solution


def run_with_oracle(steps: Steps, oracle: Callable[[Float64], Plane]) -> Solution:
    """Run a solver with an oracle and return its solution."""
    w = next(steps)
    while True:
        try:
            w = steps.send(oracle(w))
        except StopIteration as end:
            solution: Solution = end.value
            return solution
