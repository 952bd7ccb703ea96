"""Slow, readable twins of the kernels: active-set steps solved from scratch, a projection that tries every bend."""

from typing import NamedTuple

import numpy as np

from lapsvm.arrays import Float64, Index

_PROXIMAL = 1e-12


class Move(NamedTuple):
    """A step: these variables, in this direction, so far."""

    used: Index
    direction: Float64
    length: float


def maximise(gram: Float64, linear: Float64, total: float, a: Float64, tol: float, most: int) -> int:
    """Improve the feasible `a` (m,) in place; return the number of steps taken."""
    for step in range(most):
        slope = linear - gram @ a
        gap = total * float(slope.max()) - float(a @ slope)
        rounding = 1e-15 * float(a @ (np.abs(linear) + np.abs(gram @ a)))
        move = _move(gram, slope, a) if gap > max(tol, rounding) else None
        if move is None:
            return step
        a[move.used] += move.length * move.direction
        a[a < 1e-15 * total] = 0.0
        a *= total / a.sum()
    return most


def _move(gram: Float64, slope: Float64, a: Float64) -> Move | None:
    """Return an ascent step, or None where rounding leaves none."""
    newest = int(np.argmax(slope))
    used = np.flatnonzero((a > 0) | (np.arange(len(a)) == newest))
    for direction in (_newton(gram, slope, used), _exchange(slope, used, newest)):
        shrinking = direction < 0
        room = float(np.min(a[used][shrinking] / -direction[shrinking], initial=np.inf))
        rise = float(direction @ slope[used])
        if rise > 0 and 0 < room < np.inf:
            bend = float(direction @ gram[np.ix_(used, used)] @ direction)
            return Move(used, direction, min(room, rise / bend) if bend > 0 else room)
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


def balance(alpha: Float64, beta: Float64) -> float:
    """Project onto {alpha, beta >= 0, sum(alpha) = sum(beta)} in place; return gamma.

    Bend by bend from above: the root lies in the piece above the first bend at which alpha has the larger sum.
    """
    gamma = -np.inf
    for u in np.unique(np.concatenate([alpha, -beta]))[::-1]:
        if np.maximum(alpha - u, 0.0).sum() >= np.maximum(beta + u, 0.0).sum():
            higher, lower = alpha > u, -beta <= u
            count = int(higher.sum() + lower.sum())
            gamma = float(alpha[higher].sum() - beta[lower].sum()) / count if count else float(u)
            break
    alpha[:] = np.maximum(alpha - gamma, 0.0)
    beta[:] = np.maximum(beta + gamma, 0.0)
    return gamma
