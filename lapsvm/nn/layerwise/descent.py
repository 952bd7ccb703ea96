"""One step of the concave-convex procedure on one layer: solve its convex problem, keep the best weights.

The problem is solved in the dual, by block-coordinate Frank-Wolfe. Its primal is ``lam/2 |w|^2 + mu/2 |w - w_0|^2 +
sum_b share_b H_b(w)``, where each H_b is convex and at least 0. One plane below each H_b is a point of the dual; w is
the minimiser with the planes in place of the H_b.
"""

import math
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.errors import CertificateError, NotFiniteError
from lapsvm.nn.layerwise.problem import Blocks, LayerProblem, SummedHinge
from lapsvm.optim import Plane

Record = dict[str, Any]

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


class Effort(NamedTuple):
    """When to leave a layer, and whether to report the convex problem's primal after every epoch."""

    tol: float
    max_epochs: int
    report_primal: bool


class Descent:
    """The solver of the layers' problems; it keeps the random order of the blocks and the objective reached so far.

    Parameters
    ----------
    squares : dict of str to float
        |W|^2 of every trained layer; kept up to date.
    blocks : Blocks
    hinge : SummedHinge
    lam, mu : float
    effort : Effort
    rng : numpy Generator
        Order of the blocks in each epoch.
    """

    def __init__(
        self,
        squares: dict[str, float],
        blocks: Blocks,
        hinge: SummedHinge,
        lam: float,
        mu: float,
        effort: Effort,
        rng: np.random.Generator,
    ):
        self._squares, self._blocks, self._hinge, self._lam, self._mu = squares, blocks, hinge, lam, mu
        self._effort, self._rng = effort, rng
        self._risk = math.nan

    @property
    def objective(self) -> float:
        """Return lam/2 sum |W|^2 over the trained layers, plus the weighted sum of the blocks' hinges."""
        return 0.5 * self._lam * sum(self._squares.values()) + self._risk

    def measure(self, problem: LayerProblem) -> float:
        """Compute the objective with any layer's problem, and return it."""
        self._risk = problem.risk(problem.start)
        return self.objective

    def improve(self, problem: LayerProblem, about: Record) -> Iterator[Record]:
        """Solve the layer's convex problem, yield the record of every epoch, with `about`, and store the best weights.

        :meth:`measure` must have been called, for the first layer.
        """
        dual = BlockDual(problem.start, self._blocks.shares, self._lam, self._mu)
        epoch = 0
        while True:
            epoch += 1
            before = dual.value
            record = about | {"epoch": epoch} | self._epoch(problem, dual)
            if epoch == self._effort.max_epochs or dual.value - before <= self._effort.tol * before:
                break
            yield record
        yield record | self._choose(problem, dual, about["layer"])

    def _epoch(self, problem: LayerProblem, dual: BlockDual) -> Record:
        """Visit every block once."""
        begin, inference = time.process_time(), self._hinge.seconds
        gap = 0.0
        for block in self._rng.permutation(len(self._blocks.shares)).tolist():
            gap += dual.step(block, problem.plane(block, dual.w))
        dual.recompute()
        seconds, inference = time.process_time() - begin, self._hinge.seconds - inference
        primal = dual.primal(dual.w, problem.convex_risk(dual.w)) if self._effort.report_primal else None
        return {
            "dual": dual.value,
            "visited_gap": gap,
            "primal": primal,
            "objective": None,
            "kept": None,
            "seconds": seconds,
            "inference_seconds": inference,
        }

    def _choose(self, problem: LayerProblem, dual: BlockDual, layer: str) -> Record:
        """Store the weights with the least objective of the network itself: the first ones unless others are lower."""
        candidates = {"start": (problem.start, self._risk)}
        candidates |= {name: (w, problem.risk(w)) for name, w in (("average", dual.average), ("last", dual.w))}
        values = {name: 0.5 * self._lam * float(w @ w) + risk for name, (w, risk) in candidates.items()}
        kept = min(values, key=values.__getitem__)
        w, self._risk = candidates[kept]
        if kept != "start":
            problem.store(w)
            self._squares[layer] = float(w @ w)
        return {"objective": self.objective, "kept": kept}
