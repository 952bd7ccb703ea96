"""One-slack cutting planes, stabilised: minimise |w|^2 / 2 + C r(w) for a convex risk r >= 0 that an oracle answers.

Each call of the oracle yields a plane below the risk. Two small problems over the planes follow: the plain one, whose
dual value is a lower bound of the minimum (the certificate), and one with a proximal term around the best point seen,
whose solution is asked next. The proximal weight follows the gap: the next point should promise a fixed share of
what may still be gained, so neither the scale of the features nor that of C matters. (Joachims, Finley and Yu,
Machine Learning 2009, for the one-slack form; Kiwiel, Mathematical Programming 1990, for proximal bundles.)

The solver is a generator: it yields the weight vector to be answered and receives the plane. A driver can so run many
problems side by side and answer them all from one pass over the data.
"""

import warnings
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lapsvm.arrays import Float64, check_positive
from lapsvm.blas import one_blas_thread
from lapsvm.optim.bundle import Bundle, Plane
from lapsvm.optim.certificate import allowed_gap, dual_bound, objective_rounding, relative_gap
from lapsvm.optim.simplex_qp import solve_simplex_qp

PROMISE = 0.5
"""Share of the gap that the next point's model value should promise; from 0.3 to 0.6 it matters little."""

_STALE = 30  # calls after which a plane that no solution uses is forgotten
_STALLED = 60  # calls without progress after which rounding has the last word
_SMALL_PROBLEM_SHARE = 0.01  # of the allowed gap: how exactly the small problems are solved


class Solution(NamedTuple):
    """What a cutting-plane run found.

    Attributes
    ----------
    w : (d,) float64
        The best point seen.
    objective : float
        Its objective |w|^2 / 2 + C r(w).
    dual : float
        A lower bound of the minimum; what rounding may have added to its sums is taken away.
    gap : float
        (objective - dual) / |objective|.
    n_calls : int
        Calls of the oracle.
    planes : list of Plane
        Planes that are still in use; they may start another run.
    proximity : float
        Last weight of the proximal term; it may start another run.
    converged : bool
        Whether the gap is at most the tolerance.
    rounding : float
        What rounding of the oracle's sums may add to the objective or the dual value.
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
    """Return |w|^2 / 2 + C r(w), given the plane that touches r at `w`."""
    return 0.5 * float(w @ w) + C * max(0.0, plane.value(w))


@dataclass
class _State:
    """The planes and what is known about the minimum."""

    C: float
    bundle: Bundle
    proximity: float
    best_w: Float64
    best: float = np.inf
    dual: float = 0.0
    steepest: float = 0.0
    plain: Float64 = field(default_factory=lambda: np.zeros(0))
    proximal: Float64 = field(default_factory=lambda: np.zeros(0))
    idle: Float64 = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        m = len(self.bundle)
        self.plain, self.idle = np.zeros(m), np.zeros(m)
        self.plain[0] = self.C
        self.proximal = self.plain.copy()

    def learn(self, w: Float64, plane: Plane) -> None:
        """Add the plane made at `w`."""
        objective = objective_at(w, plane, self.C)
        if objective < self.best:
            self.best, self.best_w = objective, w
        self.bundle.add(plane)
        self.plain, self.proximal = np.append(self.plain, 0.0), np.append(self.proximal, 0.0)
        self.idle = np.append(self.idle, 0.0)

    def bound(self, slack: float) -> None:
        """Raise the lower bound: the dual value of the plain problem."""
        found = solve_simplex_qp(self.bundle.gram, self.bundle.offsets, self.C, start=self.plain, tol=slack)
        self.plain = found.weights
        self.dual = max(self.dual, dual_bound(self.bundle.cut_planes, found.weights))
        self.steepest = max(self.steepest, self.bundle.steepest)

    @property
    def rounding(self) -> float:
        """What rounding may add to the best objective or the lower bound."""
        return objective_rounding(self.best_w, self.C, self.steepest, float(np.abs(self.bundle.offsets).max()))

    def allowance(self, tol: float) -> float:
        """Return the absolute gap at which to stop."""
        return allowed_gap(self.best, self.dual, self.C * float(self.bundle.offsets.max()), tol)

    def next_point(self, slack: float) -> Float64:
        """Return the minimiser of the planes' model with the proximal term, and adapt its weight."""
        t = self.proximity
        shift = t / (1 + t) * (self.bundle.gradients @ self.best_w)
        gram, offsets = self.bundle.gram / (1 + t), self.bundle.offsets + shift
        found = solve_simplex_qp(gram, offsets, self.C, start=self.proximal, tol=slack)
        self.proximal = found.weights
        w = (t * self.best_w + self.bundle.combine(found.weights)) / (1 + t)
        promised = self.best - 0.5 * float(w @ w) - self.C * self.bundle.risk(w)
        share = promised / max(self.best - self.dual, np.finfo(float).tiny)
        self.proximity = float(np.clip(t * np.clip(share / PROMISE, 0.25, 4.0), 1e-6, 1e12))
        return w

    def forget(self) -> None:
        """Drop the planes that neither problem has used for long."""
        self.idle = np.where((self.plain > 0) | (self.proximal > 0), 0.0, self.idle + 1)
        kept = self.idle < _STALE
        kept[0] = True
        if not kept.all():
            self.bundle.keep(kept)
            self.plain, self.proximal, self.idle = self.plain[kept], self.proximal[kept], self.idle[kept]


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
    """Minimise |w|^2 / 2 + C r(w), asking for planes of r by yielding points.

    Parameters
    ----------
    dim : int
        Length of w.
    C : float
        Weight of the risk, > 0.
    tol : float, default 1e-3
        Relative duality gap at which to stop.
    max_calls : int, default 1000
        Most points to ask for.
    start : (d,) float64, optional
        First point; 0 by default. The answer is never worse than this point.
    planes : iterable of Plane
        Planes known to lie below r.
    proximity : float, default 1.0
        First weight of the proximal term.
    exact : bool, default True
        Whether the planes that are sent touch the risk. Otherwise an objective may be below the risk's, and a dual
        value above it counts as convergence.

    Yields
    ------
    (d,) float64
        A point; send the Plane that touches the risk there.

    Returns
    -------
    Solution

    Raises
    ------
    CertificateError
        If the planes are exact and the lower bound is above the best objective by more than rounding.
    """
    w = np.zeros(dim) if start is None else start
    state = _State(C, Bundle(dim, planes), proximity, w)
    calls, marked, mark = 0, 0, (np.inf, -np.inf)
    while calls < max(1, max_calls):
        state.learn(w, (yield w))
        calls += 1
        slack = _SMALL_PROBLEM_SHARE * tol * abs(state.best)
        state.bound(slack)
        if state.best - state.dual <= state.allowance(tol):
            break
        if (state.best, state.dual) != mark:
            marked, mark = calls, (state.best, state.dual)
        elif calls - marked >= _STALLED:
            break
        w = state.next_point(slack)
        state.forget()
    rounding = state.rounding
    gap = relative_gap(state.best, state.dual, rounding if exact else np.inf)
    known = state.bundle.planes()
    return Solution(state.best_w, state.best, state.dual, gap, calls, known, state.proximity, gap <= tol, rounding)


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
    """Minimise |w|^2 / 2 + C r(w) for the risk whose planes `oracle` returns.

    Parameters
    ----------
    oracle : callable
        w (d,) -> the Plane that touches the risk at w.
    dim, C, tol, max_calls, start, planes
        As in `cutting_plane`.

    Returns
    -------
    Solution

    Raises
    ------
    CertificateError
        If the planes do not lie below the risk, so that the lower bound is above the objective.

    Warns
    -----
    ConvergenceWarning
        If the gap is above `tol` after `max_calls` calls, or rounding stops it.
    """
    steps = cutting_plane(
        dim, check_positive("C", C), check_positive("tol", tol), max_calls=max_calls, start=start, planes=planes
    )
    with one_blas_thread():
        solution = run_with_oracle(steps, oracle)
    warn_unless_converged(solution, tol, max_calls)
    return solution


def run_with_oracle(steps: Steps, oracle: Callable[[Float64], Plane]) -> Solution:
    """Answer every point of a solver by `oracle`, and return its solution."""
    w = next(steps)
    while True:
        try:
            w = steps.send(oracle(w))
        except StopIteration as end:
            solution: Solution = end.value
            return solution


def warn_unless_converged(solution: Solution, tol: float, max_calls: int) -> None:
    """Warn, saying what to do, if the solution's gap is above `tol`."""
    if solution.converged:
        return
    remedy = "raise max_calls" if solution.n_calls >= max_calls else "raise tol, for rounding allows no more"
    warnings.warn(
        f"the duality gap is {solution.gap:.2g} after {solution.n_calls} calls, above tol={tol:g}; {remedy}, lower C, "
        "or scale the features to a mean norm near 1.",
        ConvergenceWarning,
        stacklevel=3,
    )
