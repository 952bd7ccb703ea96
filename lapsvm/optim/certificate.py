"""Lower bounds of a minimum, the rounding error of their sums, and the duality gap.

A dual solution a >= 0 with sum(a) = C over planes (g_i, b_i) below the risk gives, for w = -sum_i a_i g_i,

    b.a - |w|^2 / 2  <=  min |w|^2 / 2 + C r(w).

The norm is computed from the combined w. The equivalent a'K a with the Gram matrix K has a rounding error of
eps C^2 |g|^2, which is 1 for C = 1e8 and unit gradients even for short w; the sum w has an error of eps C |g| only. The
rounding error of the sums is bounded by their lengths (Higham, Accuracy and Stability of Numerical Algorithms, section
3.1) and subtracted, so that the returned number is a lower bound for the stored planes.
"""

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.errors import CertificateError

MISSED_GAIN = 0.02
"""Largest gap at convergence, as a share of the decrease from w = 0."""

MISSED_FALL = 0.05
"""Largest fall of an outer step at convergence, as a share of the decrease from w = 0; measured in learning.md."""

NO_GAIN = 1e-6
"""Share of the tolerance: if the relative decrease from w = 0 is smaller, w = 0 is optimal."""

_ORACLE_ROUNDING = 1e-10  # relative rounding error of the oracle's sums over samples; worst case eps times samples


def objective_rounding(w: Float64, C: float, max_norm: float, max_offset: float) -> float:
    """Return a bound of the rounding error of an objective or a dual value near `w`.

    `max_norm` and `max_offset` are the largest norm of a gradient and the largest absolute offset of the planes.
    """
    size = float(np.linalg.norm(w))
    return float(_ORACLE_ROUNDING * (size**2 + C * (max_norm * size + max_offset)))


def relative_gap(objective: float, dual: float, rounding: float = 0.0) -> float:
    """Return (objective - dual) / |objective|, or 0 if rounding alone puts the bound above the objective.

    Raises
    ------
    CertificateError
        If the bound is above the objective by more than `rounding`.
    """
    if dual > objective + rounding:
        raise CertificateError(
            f"the lower bound of the minimum must not exceed the objective, got {dual:.9g} above {objective:.9g}: "
            "the planes do not lie below the risk, or windows or features changed during training."
        )
    return max(0.0, objective - dual) / max(abs(objective), np.finfo(float).tiny)


def allowed_gap(objective: float, dual: float, at_zero: float, tol: float) -> float:
    """Return the absolute gap at which to stop, given a lower bound `at_zero` of the objective at w = 0.

    For small C, the useless w = 0 may be within `tol` of the minimum. The gap must therefore also be a small share of
    the decrease from w = 0 to the minimum.
    """
    return _allowed(objective, MISSED_GAIN * (at_zero - dual), tol)


def allowed_fall(objective: float, at_zero: float, tol: float) -> float:
    """Return the fall of the objective in an outer step, such as one of CCCP, below which training may end.

    As long as training has hardly left the objective `at_zero` of w = 0, a fall below `tol` of the whole objective can
    be large beside all that was learned; ending there would leave the first windows as they are. The fall must
    therefore also be a small share of the decrease from w = 0 so far.
    """
    return _allowed(objective, MISSED_FALL * (at_zero - objective), tol)


def _allowed(objective: float, share: float, tol: float) -> float:
    """Return the smaller one of `tol` of the objective and a share of the decrease from w = 0."""
    return min(tol * abs(objective), max(share, NO_GAIN * tol * abs(objective)))
