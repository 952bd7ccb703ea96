"""The latent structural SVM for ranking, which latent AP-SVM replaces: the windows are part of the ranking.

The true ranking R* and the ranking R that violates its constraint choose their windows independently, so a plane does
not couple the windows of positives with their ranks. Its gradient is

    Psi(R, H) - Psi(R*, H*)

and only the second term, the truth, changes with the imputed windows: one vector moves all planes to new windows.

Inference is a greedy search. The constraints that it finds are valid, so the dual value stays a lower bound of the
convex problem's minimum; the objective may be too small by the constraints that it misses.
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lapsvm.arrays import Float64, Index, check_choice
from lapsvm.bags import Bags, BestWindows
from lapsvm.errors import OptionError
from lapsvm.latent.cccp.imputation import Imputed, ImputedWindows
from lapsvm.latent.cccp.joint_inference import as_rank_loss, greedy_joint_ranking
from lapsvm.latent.cccp.problem import LatentProblem, LatentSolution, RankRisk
from lapsvm.latent.cccp.training import Training, start
from lapsvm.optim import Plane, Solution, cutting_plane, objective_at
from lapsvm.optim.certificate import relative_gap
from lapsvm.ranking import RankLoss

TRUTHS = ("any", "imputed")

_ROUNDING = 1e-9


@dataclass(frozen=True)
class StructuralProblem(LatentProblem):
    """Minimise |w|^2 / 2 + C max over R, H of { Delta(R) + F(R, H) - F(R*, H*) }, searched greedily.

    The parameters are those of `LatentProblem` and `truth`. The risk must be that of a rank loss; the named
    initialisations and first weights are those of latent AP-SVM.

    Parameters
    ----------
    truth : {"any", "imputed"}, default "imputed"
        The negatives' windows H*_N in the true ranking. "imputed": those that score lowest, chosen with the
        positives' windows between the convex problems, as in Yu and Joachims, ICML 2009 (the thesis's problem 2.9).
        "any": the constraint must hold for all of them, hence for the ones that score highest (problem A.1).

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    truth: str = "imputed"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("truth", self.truth, TRUTHS)
        if self.fit_intercept:
            raise OptionError("fit_intercept must be False, since a ranking does not depend on an intercept, got True.")
        if self.top != 1:
            raise OptionError(f"top must be 1, since every ranking chooses one window per image, got {self.top!r}.")
        if self.trim:
            raise OptionError(f"trim must be 0, since rankings choose among all windows, got {self.trim!r}.")
        self.rank_loss()

    def rank_loss(self) -> RankLoss:
        """Return the loss of the risk."""
        if not isinstance(self.risk, RankRisk):
            raise OptionError(f"risk must be that of a rank loss, got {self.risk!r}.")
        return as_rank_loss(self.risk.loss)


class StructuralTraining(Training):
    """The training of one structural problem; each point takes two passes, for the best and the worst windows."""

    def __init__(self, problem: StructuralProblem, bags: Bags):
        super().__init__(problem, bags)
        self._rank_loss, self._any_truth = problem.rank_loss(), problem.truth == "any"
        self._worst = self._answer  # as self._answer, the worst windows at the best point
        self._lowest = np.zeros(len(self._negatives), dtype=np.intp)  # the negatives' imputed windows

    def _initialise(self) -> Generator[Float64, BestWindows, ImputedWindows]:
        imputed = yield from super()._initialise()
        if self._w.any():
            self._worst = yield from self._worst_windows(self._w)
        self._lowest = self._worst.index[self._negatives]
        return imputed

    def _take_over(self, previous: Training) -> tuple[ImputedWindows, list[Plane]]:
        if isinstance(previous, StructuralTraining):
            self._worst, self._lowest = previous._worst, previous._lowest
        return super()._take_over(previous)

    def _solve(
        self, imputed: Imputed, tol: float, planes: list[Plane], proximity: float
    ) -> Generator[Float64, BestWindows, Solution]:
        """Solve the convex problem of the constraints that the search finds.

        A constraint found later may raise the objective of the best point; the search then continues, until that
        objective is the one of all known constraints.
        """
        truth, budget = self._true_psi(imputed), self._problem.max_calls
        known = [Plane(plane.tag - truth, plane.offset, plane.tag) for plane in planes]
        while True:
            solution = yield from self._search(known, truth, tol, budget, proximity)
            budget -= solution.n_calls
            objective = objective_at(solution.w, _highest(known, solution.w), self._problem.C)
            gap = relative_gap(objective, solution.dual, solution.rounding)
            if gap <= tol or not solution.converged or budget < 1:
                n_calls = self._problem.max_calls - budget
                return solution._replace(objective=objective, gap=gap, n_calls=n_calls, converged=gap <= tol)

    def _search(
        self, known: list[Plane], truth: Float64, tol: float, max_calls: int, proximity: float
    ) -> Generator[Float64, BestWindows, Solution]:
        """Run the solver once and append the planes that it finds to `known`."""
        C, best = self._problem.C, np.inf
        options: dict[str, Any] = {"start": self._w, "planes": known, "proximity": proximity}
        steps = cutting_plane(self._dim, C, tol, max_calls=max_calls, exact=False, **options)
        w = next(steps)
        while True:
            answer, worst = self._answer, self._worst
            if w is not self._w:
                self._n_passes += 1
                answer = yield w
                worst = yield from self._worst_windows(w)
            known.append(self._violated(answer, worst, truth))
            plane = _highest(known, w)  # an earlier search may have found a higher one
            if (objective := objective_at(w, plane, C)) < best:
                best, self._w, self._answer, self._worst = objective, w, answer, worst
            try:
                w = steps.send(plane)
            except StopIteration as end:
                solution: Solution = end.value
                return solution

    def _worst_windows(self, w: Float64) -> Generator[Float64, BestWindows, BestWindows]:
        self._n_passes += 1
        best = yield -w
        return BestWindows(best.index, -best.score)

    def _violated(self, best: BestWindows, worst: BestWindows, truth: Float64) -> Plane:
        """Return the plane of the constraint that the greedy search finds: the thesis's problem A.3."""
        self._n_calls += 1
        images = np.append(self._positives, self._negatives)
        lowest = np.minimum(worst.score, best.score)
        ranking = greedy_joint_ranking(best.score[images], lowest[images], self._signs, self._rank_loss)
        windows = np.where(ranking.coefficients > 0, best.index[images], worst.index[images])
        psi = self._bags.sum_rows(ranking.coefficients, images, windows)
        if self._any_truth:
            psi += self._mean(best.index[self._negatives])
        return Plane(psi - truth, ranking.loss, psi)

    def _true_psi(self, imputed: Imputed) -> Float64:
        """Return the imputed terms of Psi(R*, H*)."""
        n_pos = len(self._positives)
        above = imputed.weighted_sum(np.full(n_pos, 1 / n_pos))
        return above if self._any_truth else above - self._mean(self._lowest)

    def _mean(self, windows: Index) -> Float64:
        """Return the mean over the negatives of these windows."""
        n_neg = len(self._negatives)
        return self._bags.sum_rows(np.full(n_neg, 1 / n_neg), self._negatives, windows)

    def _moved(self, plane: Plane, imputed: Imputed) -> Plane:  # noqa: ARG002 - `_solve` moves all by one vector
        return plane

    def _impute(self, imputed: ImputedWindows) -> tuple[ImputedWindows, int]:
        following, changed = super()._impute(imputed)
        if self._any_truth:
            return following, changed
        lower = self._worst.score[self._negatives] < self._bags.score_rows(self._w, self._negatives, self._lowest)
        self._lowest = np.where(lower, self._worst.index[self._negatives], self._lowest)
        return following, changed + int(lower.sum())

    def _solution(self) -> LatentSolution:
        """Return the solution; weights that gain nothing over w = 0 are rounding, and become 0."""
        solution = super()._solution()
        n_pos, n_neg = len(self._positives), len(self._negatives)
        at_zero = self._problem.C * self._rank_loss.value(np.full(n_pos, n_neg), n_neg)
        if solution.objective < at_zero * (1 - _ROUNDING):
            return solution
        # the certificate of w = 0, whose objective is exact
        gap = relative_gap(at_zero, solution.dual, self._end.solution.rounding)
        return replace(solution, coef=np.zeros_like(solution.coef), objective=at_zero, gap=gap)

    def _check_fall(self, last: float, objective: float) -> None:
        """Do nothing: the objective may rise by constraints that the greedy search missed before."""


def _highest(planes: list[Plane], w: Float64) -> Plane:
    return max(planes, key=lambda plane: plane.value(w))


@start.register
def _(problem: StructuralProblem, bags: Bags) -> Training:
    return StructuralTraining(problem, bags)
