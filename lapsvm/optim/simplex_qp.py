"""The small problem of the cutting plane: a concave quadratic over a simplex, solved exactly, with its own gap.

    maximise  b.a - a'K a / 2   over   a >= 0, sum(a) = total        (K positive semidefinite)

A primal active-set method: on the variables that are in use, plus the one whose gradient is largest, it takes the
Newton step of the equality-constrained problem, shortened where a variable reaches 0.
"""

from typing import NamedTuple

import numpy as np

from lapsvm._ext import simplex_qp as _kernel
from lapsvm.arrays import Float64


class SimplexSolution(NamedTuple):
    """Solution of the small problem.

    Attributes
    ----------
    weights : (m,) float64
        The maximiser a.
    value : float
        Objective there.
    gap : float
        Upper bound on what is missing to the maximum: total * max(b - K a) - a.(b - K a).
    n_steps : int
        Newton steps taken.
    """

    weights: Float64
    value: float
    gap: float
    n_steps: int


def solve_simplex_qp(
    gram: Float64,
    linear: Float64,
    total: float,
    *,
    start: Float64 | None = None,
    tol: float = 0.0,
    max_steps: int = 1000,
) -> SimplexSolution:
    """Maximise ``linear.a - a' gram a / 2`` over a >= 0, sum(a) = total.

    Parameters
    ----------
    gram : (m, m) float64
        Symmetric, positive semidefinite.
    linear : (m,) float64
        Linear term b.
    total : float
        What a sums to, > 0.
    start : (m,) float64, optional
        A feasible a to begin with; by default all of it on the largest entry of `linear`.
    tol : float, default 0.0
        The gap at which to stop; whatever it is, the search ends when rounding stops it.
    max_steps : int, default 1000
        Most Newton steps.

    Returns
    -------
    SimplexSolution
        With a gap that holds whether or not `tol` was reached.
    """
    if start is None:
        weights = np.where(np.arange(len(linear)) == np.argmax(linear), float(total), 0.0)
    else:
        weights = start.copy()
    gram, linear = np.ascontiguousarray(gram), np.ascontiguousarray(linear)
    steps = _kernel.maximise(gram, linear, total, weights, tol, max_steps)
    # value and gap are computed afresh, so that they hold whatever the updates have rounded
    weights *= total / weights.sum()
    slope = linear - gram @ weights
    gap = total * float(slope.max()) - float(weights @ slope)
    return SimplexSolution(weights, float(weights @ (linear + slope)) / 2, gap, steps)
