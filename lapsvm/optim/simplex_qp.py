"""The small problem of the cutting plane: a concave quadratic over a simplex, solved exactly, with its own gap.

    maximise  b.a - a'K a / 2   over   a >= 0, sum(a) = total        (K positive semidefinite)

A primal active-set method: on the variables that are in use, plus the one whose gradient is largest, it takes the
Newton step of the equality-constrained problem, shortened where a variable reaches 0. A tiny proximal term keeps the
system solvable when planes depend on each other; it vanishes at the solution, so it costs no accuracy.
"""

from typing import NamedTuple

import numpy as np

from lapsvm.arrays import Float64, Index

_PROXIMAL = 1e-12
_REFRESH = 50  # steps after which the gradient is computed afresh, against the drift of updates


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
    a = _vertex(len(linear), int(np.argmax(linear)), total) if start is None else start.copy()
    slope = linear - gram @ a
    for step in range(max_steps + 1):
        if step % _REFRESH == 0:
            slope = linear - gram @ a
        gap = total * float(slope.max()) - float(a @ slope)
        if gap <= tol or step == max_steps:
            break
        move = _move(gram, slope, a)
        if move is None:
            break
        used, direction, length = move
        a[used] += length * direction
        a[a < 1e-15 * total] = 0.0
        slope -= length * (gram[:, used] @ direction)
    return _certified(gram, linear, total, a, step)


def _certified(gram: Float64, linear: Float64, total: float, a: Float64, steps: int) -> SimplexSolution:
    """Return the solution with value and gap computed afresh, its weights summing to `total` exactly enough."""
    a *= total / a.sum()
    slope = linear - gram @ a
    value = float(a @ (linear + slope)) / 2
    return SimplexSolution(a, value, total * float(slope.max()) - float(a @ slope), steps)


def _vertex(m: int, place: int, total: float) -> Float64:
    a = np.zeros(m)
    a[place] = total
    return a


def _move(gram: Float64, slope: Float64, a: Float64) -> tuple[Index, Float64, float] | None:
    """Return (variables, direction, length) of an ascent step, or None where rounding leaves none."""
    newest = int(np.argmax(slope))
    used = np.flatnonzero((a > 0) | (np.arange(len(a)) == newest))
    for direction in (_newton(gram, slope, used), _exchange(slope, used, newest)):
        shrinking = direction < 0
        room = float(np.min(a[used][shrinking] / -direction[shrinking], initial=np.inf))
        rise = float(direction @ slope[used])
        if rise > 0 and 0 < room < np.inf:
            bend = float(direction @ gram[np.ix_(used, used)] @ direction)
            return used, direction, min(room, rise / bend) if bend > 0 else room
    return None


def _newton(gram: Float64, slope: Float64, used: Index) -> Float64:
    """Return the direction to the maximum over these variables at a constant sum."""
    m = len(used)
    system = np.empty((m + 1, m + 1))
    system[:m, :m] = gram[np.ix_(used, used)]
    diagonal = np.arange(m)
    system[diagonal, diagonal] += _PROXIMAL * max(float(system[diagonal, diagonal].max()), 1e-300)
    system[m, :m] = system[:m, m] = 1.0
    system[m, m] = 0.0
    return np.asarray(np.linalg.solve(system, np.append(slope[used], 0.0))[:m])


def _exchange(slope: Float64, used: Index, newest: int) -> Float64:
    """Return the direction that gives to the steepest variable what the flattest one in use has."""
    direction = np.zeros(len(used))
    direction[np.argmin(slope[used])] -= 1.0
    direction[np.searchsorted(used, newest)] += 1.0
    return direction
