"""The dual problem of the cutting plane: a concave quadratic program over a simplex, with its duality gap.

    maximise  b.a - a'K a / 2   over   a >= 0, sum(a) = total        (K positive semidefinite)

A primal active-set method: each step is the Newton step of the equality-constrained problem on the positive variables
and the variable with the largest gradient, shortened where a variable reaches 0.
"""

from typing import NamedTuple

import numpy as np

from lapsvm._ext import simplex_qp as _kernel
from lapsvm.arrays import Float64


class SimplexSolution(NamedTuple):
    """Solution of the quadratic program.

    Attributes
    ----------
    weights : (m,) float64
        The maximiser a.
    value : float
        Objective at `weights`.
    gap : float
        Upper bound of the distance to the maximal value: total * max(b - K a) - a.(b - K a).
    n_steps : int
        Number of Newton steps.
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
        Sum of a, > 0.
    start : (m,) float64, optional
        A feasible a; by default `total` at the largest entry of `linear`, 0 at the others.
    tol : float, default 0.0
        The gap at which to stop. The method also stops when rounding prevents progress.
    max_steps : int, default 1000
        Maximum number of Newton steps.

    Returns
    -------
    SimplexSolution
        Its gap is valid whether or not `tol` was reached.
    """
    if start is None:
        weights = np.where(np.arange(len(linear)) == np.argmax(linear), float(total), 0.0)
    else:
        weights = start.copy()
    gram, linear = np.ascontiguousarray(gram), np.ascontiguousarray(linear)
    steps = _kernel.maximise(gram, linear, total, weights, tol, max_steps)
    # value and gap are recomputed, so that rounding errors of the updates do not enter them
    weights *= total / weights.sum()
    gradient = linear - gram @ weights
    gap = total * float(gradient.max()) - float(weights @ gradient)
    return SimplexSolution(weights, float(weights @ (linear + gradient)) / 2, gap, steps)
