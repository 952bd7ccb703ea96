"""One step of the concave-convex procedure on one layer: solve its convex problem, keep the best weights."""

import math
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from lapsvm.nn.layerwise.dual import BlockDual
from lapsvm.nn.layerwise.hinge import SummedHinge
from lapsvm.nn.layerwise.problem import Blocks, LayerProblem

Record = dict[str, Any]


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
        found = {"start": (problem.start, self._risk)}
        found |= {name: (w, problem.risk(w)) for name, w in (("average", dual.average), ("last", dual.w))}
        values = {name: 0.5 * self._lam * float(w @ w) + risk for name, (w, risk) in found.items()}
        kept = min(values, key=values.__getitem__)
        w, self._risk = found[kept]
        if kept != "start":
            problem.store(w)
            self._squares[layer] = float(w @ w)
        return {"objective": self.objective, "kept": kept}
