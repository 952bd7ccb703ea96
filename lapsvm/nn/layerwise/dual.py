"""The dual of one layer's convex problem, by block-coordinate Frank-Wolfe, without torch.

The primal is ``lam/2 |w|^2 + mu/2 |w - w_0|^2 + sum_b share_b H_b(w)``, where each H_b is convex and at least 0. One
plane below each H_b is a point of the dual; w is the minimiser with the planes in place of the H_b.
"""

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.errors import CertificateError, NotFiniteError
from lapsvm.optim import Plane

# share of the dual's terms by which rounding may make its value fall
_ROUNDING = 1e-12


class BlockDual:
    """One plane per block and what follows from them; planes start at 0, which lies below every H_b.

    Parameters
    ----------
    start : (d,) float64
        w_0.
    shares : (B,) float64
        Weight of each block's H_b.
    lam : float
        Weight of ``|w|^2 / 2``, > 0.
    mu : float
        Weight of ``|w - w_0|^2 / 2``, at least 0.

    Attributes
    ----------
    w : (d,) float64
        The minimiser with the planes in place of H_b.
    average : (d,) float64
        Mean of w over the steps, the k-th weighted by k + 1, as in Lacoste-Julien et al., ICML 2013, section 4.
    value : float
        The dual: at most the primal at any w.
    """

    def __init__(self, start: Float64, shares: Float64, lam: float, mu: float):
        self._start, self._shares, self._lam, self._mu = start, shares, lam, mu
        self._gradients, self._offsets = np.zeros((len(shares), len(start))), np.zeros(len(shares))
        self._gradient, self._offset = np.zeros(len(start)), 0.0
        self._n_steps = 0
        self._update()
        self.average = self.w

    def step(self, block: int, plane: Plane) -> float:
        """Move the block's plane towards `plane`, by line search, and return the block's duality gap before the step.

        The gap is the share of the difference at w between H_b and the block's plane, if `plane` touches H_b there.

        Raises
        ------
        CertificateError
            If the dual falls by more than rounding.
        NotFiniteError
            If the plane is not finite.
        """
        share = self._shares[block]
        gradient = share * (plane.gradient - self._gradients[block])
        offset = share * (plane.offset - self._offsets[block])
        gap = float(offset + gradient @ self.w)
        if not np.isfinite(gap):
            raise NotFiniteError(f"planes of mini-batches must be finite, got the gap {gap} of mini-batch {block}.")
        curvature = float(gradient @ gradient) / (self._lam + self._mu)
        if gap > 0:
            self._move(block, 1.0 if gap >= curvature else gap / curvature, gradient, offset)
        self._n_steps += 1
        self.average = self.average + 2 / (self._n_steps + 1) * (self.w - self.average)
        return gap

    def recompute(self) -> None:
        """Sum the blocks' planes anew, so that rounding does not accumulate.

        Raises
        ------
        CertificateError
            If the dual falls by more than rounding.
        """
        before = self.value
        self._gradient, self._offset = self._shares @ self._gradients, float(self._shares @ self._offsets)
        self._update()
        self._check(before)

    def primal(self, w: Float64, risk: float) -> float:
        """Return the primal at `w`, given the weighted sum of H_b there."""
        return 0.5 * self._lam * float(w @ w) + 0.5 * self._mu * float(np.sum((w - self._start) ** 2)) + risk

    def _move(self, block: int, length: float, gradient: Float64, offset: float) -> None:
        before, share = self.value, self._shares[block]
        self._gradients[block] += length / share * gradient
        self._offsets[block] += length / share * offset
        self._gradient += length * gradient
        self._offset += length * offset
        self._update()
        self._check(before)

    def _update(self) -> None:
        self.w = (self._mu * self._start - self._gradient) / (self._lam + self._mu)
        self._terms = [  # of the primal at w, the planes in place of H_b
            self._offset,
            float(self._gradient @ self.w),
            0.5 * self._lam * float(self.w @ self.w),
            0.5 * self._mu * float(np.sum((self.w - self._start) ** 2)),
        ]
        self.value = float(sum(self._terms))

    def _check(self, before: float) -> None:
        rounding = _ROUNDING * len(self._shares) * sum(map(abs, self._terms))
        if not self.value >= before - rounding:
            raise CertificateError(f"the dual must not fall, got {self.value:.9g} after {before:.9g}.")
