"""Lower bounds of a minimum, the rounding of their sums, and the gap that they leave.

A dual solution a >= 0 with sum(a) = C over planes (g_i, b_i) below the risk gives, for w = -sum_i a_i g_i,

    b.a - |w|^2 / 2  <=  min |w|^2 / 2 + C r(w).

The norm is that of the combined w. The equal expression a'K a of the Gram matrix K rounds by eps C^2 |g|^2, which is 1
at C = 1e8 and unit gradients, however short w is; the sum w rounds by eps C |g| alone. What the sums may have lost is
bounded by their lengths (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1) and taken away, so the
returned number is a lower bound for the planes as they are stored.
"""

from typing import NamedTuple

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.errors import CertificateError

_EPS = float(np.finfo(float).eps)
_MISSED_GAIN = 0.02  # share of the gain over w = 0 that may be missed
_NO_GAIN = 1e-6  # of the tolerance: with less to be gained, w = 0 is the answer
_ORACLE = 1e-10  # relative rounding of the sums over samples that planes are made of; worst case eps times samples


class CutPlanes(NamedTuple):
    """Planes that a bound is made of.

    Attributes
    ----------
    gradients : (m, d) float64
    offsets : (m,) float64
    norms : (m,) float64
        Euclidean norms of the gradients.
    """

    gradients: Float64
    offsets: Float64
    norms: Float64


def dual_bound(planes: CutPlanes, weights: Float64) -> float:
    """Return the dual value of `weights` (m,) >= 0, less what rounding may have added to it."""
    used = np.flatnonzero(weights)
    a, offsets = weights[used], planes.offsets[used]
    w = a @ planes.gradients[used]
    size = float(w @ w)
    unit = (len(used) + 2) * _EPS  # also pays for the rounding of sum(a) to C
    lost = unit * float(a @ planes.norms[used])  # of |w|
    rounding = unit * float(a @ np.abs(offsets)) + lost * (float(np.sqrt(size)) + lost) + (len(w) + 2) * _EPS * size
    return float(a @ offsets) - 0.5 * size - rounding


def objective_rounding(w: Float64, C: float, steepest: float, highest: float) -> float:
    """Return what rounding may add to an objective or a bound near `w`.

    `steepest` and `highest` are the largest norm of a gradient and the largest absolute offset of the planes.
    """
    size = float(np.linalg.norm(w))
    return float(_ORACLE * (size**2 + C * (steepest * size + highest)))


def relative_gap(objective: float, dual: float, rounding: float = 0.0) -> float:
    """Return (objective - dual) / |objective|; 0 where the bound is above the objective by rounding alone.

    Raises
    ------
    CertificateError
        If the bound is above the objective by more than `rounding`.
    """
    if dual > objective + rounding:
        raise CertificateError(
            f"the lower bound of the minimum must not be above an objective, got {dual:.9g} above {objective:.9g}: "
            "the risk's planes do not lie below it, or its windows or features changed during training."
        )
    return max(0.0, objective - dual) / max(abs(objective), np.finfo(float).tiny)


def allowed_gap(objective: float, dual: float, at_zero: float, tol: float) -> float:
    """Return the absolute gap at which to stop, `at_zero` being a lower bound of the objective at w = 0.

    Where C is small, w = 0 may be within `tol` of the minimum though it says nothing; so the gap must also be a small
    share of what the minimum gains over w = 0.
    """
    return min(tol * abs(objective), max(_MISSED_GAIN * (at_zero - dual), _NO_GAIN * tol * abs(objective)))
