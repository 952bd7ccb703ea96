"""Slow, readable twins of the kernels: active-set steps from scratch, and a projection that tries every candidate."""

from typing import NamedTuple

import numpy as np

from lapsvm.arrays import Float64, Index

_PROXIMAL = 1e-12


class Step(NamedTuple):
    """A step: the variables in use, a direction for them, and a length."""

    used: Index
    direction: Float64
    length: float


def maximise(gram: Float64, linear: Float64, total: float, a: Float64, tol: float, max_steps: int) -> int:
    """Improve the feasible `a` (m,) in place; return the number of steps taken."""
    for step in range(max_steps):
        gradient = linear - gram @ a
        gap = total * float(gradient.max()) - float(a @ gradient)
        rounding = 1e-15 * float(a @ (np.abs(linear) + np.abs(gram @ a)))
        chosen = _step(gram, gradient, a) if gap > max(tol, rounding) else None
        if chosen is None:
            return step
        a[chosen.used] += chosen.length * chosen.direction
        a[a < 1e-15 * total] = 0.0
        a *= total / a.sum()
    return max_steps


def _step(gram: Float64, gradient: Float64, a: Float64) -> Step | None:
    """Return an ascent step, or None if rounding prevents one."""
    newest = int(np.argmax(gradient))
    used = np.flatnonzero((a > 0) | (np.arange(len(a)) == newest))
    for direction in (_newton(gram, gradient, used), _exchange(gradient, used, newest)):
        shrinking = direction < 0
        max_length = float(np.min(a[used][shrinking] / -direction[shrinking], initial=np.inf))
        ascent = float(direction @ gradient[used])
        if ascent > 0 and 0 < max_length < np.inf:
            curvature = float(direction @ gram[np.ix_(used, used)] @ direction)
            return Step(used, direction, min(max_length, ascent / curvature) if curvature > 0 else max_length)
    return None


def _newton(gram: Float64, gradient: Float64, used: Index) -> Float64:
    """Return the direction to the maximum over the used variables at a constant sum."""
    m = len(used)
    system = np.empty((m + 1, m + 1))
    system[:m, :m] = gram[np.ix_(used, used)]
    diagonal = np.arange(m)
    system[diagonal, diagonal] += _PROXIMAL * max(float(system[diagonal, diagonal].max()), 1e-300)
    system[m, :m] = system[:m, m] = 1.0
    system[m, m] = 0.0
    return np.asarray(np.linalg.solve(system, np.append(gradient[used], 0.0))[:m])


def _exchange(gradient: Float64, used: Index, newest: int) -> Float64:
    """Return the direction that moves weight from the smallest-gradient variable in use to the newest one."""
    direction = np.zeros(len(used))
    direction[np.argmin(gradient[used])] -= 1.0
    direction[np.searchsorted(used, newest)] += 1.0
    return direction


def project(alpha: Float64, beta: Float64) -> float:
    """Project onto {alpha, beta >= 0, sum(alpha) = sum(beta)} in place; return gamma.

    The breakpoints are tried in descending order. The root lies in the interval above the first candidate at which
    alpha has the larger sum.
    """
    gamma = -np.inf
    for candidate in np.unique(np.concatenate([alpha, -beta]))[::-1]:
        if np.maximum(alpha - candidate, 0.0).sum() >= np.maximum(beta + candidate, 0.0).sum():
            higher, lower = alpha > candidate, -beta <= candidate
            count = int(higher.sum() + lower.sum())
            gamma = float(alpha[higher].sum() - beta[lower].sum()) / count if count else float(candidate)
            break
    alpha[:] = np.maximum(alpha - gamma, 0.0)
    beta[:] = np.maximum(beta + gamma, 0.0)
    return gamma
