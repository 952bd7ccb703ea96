"""CCCP for latent windows, many problems side by side (the thesis's algorithm 5).

An outer step solves the convex problem in which each positive image is one fixed vector, then gives every positive
its best window. The first steps are solved loosely, for their windows will change anyway. Nothing is thrown away in
between: planes are made valid for the new windows by exchanging their positive part, and the best point's windows are
known from the pass that found it, so an outer step begins without a pass of its own.

Every training is a generator that yields a weight vector and receives each bag's best window;
`lapsvm.latent.scheduling.passes`
collects the vectors of all problems and answers them from one pass over the windows.
"""

import warnings
from collections.abc import Generator
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lapsvm.arrays import Float64
from lapsvm.bags import Bags, BestWindows
from lapsvm.latent.cccp.imputation import Imputed, ImputedWindows, top_counts, top_windows
from lapsvm.latent.cccp.problem import LatentProblem, LatentSolution
from lapsvm.latent.cccp.trimming import Trimming
from lapsvm.optim import Plane, Solution, cutting_plane, objective_at, run_with_oracle

Passes = Generator[Float64, BestWindows, LatentSolution]
Begun = tuple[ImputedWindows, list[Plane], float]  # windows, planes and proximity to begin with

LOOSE = 0.1  # gap of the first outer step
_LOOSE_START = 0.01  # gap of the problem whose weights choose the first windows
_TIGHTEN = 0.2  # share of an outer step's relative fall that the next convex problem may miss
_ROUNDING = 1e-9


class _Parts(NamedTuple):
    """What a plane is made of, so that other windows can be put under its positives."""

    positive: Float64  # coefficients (n_pos,)
    negative: Float64  # sum (d,) over the negatives, with its sign


class End(NamedTuple):
    """Where CCCP came to rest, if it did: the last convex problem, its windows, and those that would follow."""

    solution: Solution
    imputed: ImputedWindows
    following: ImputedWindows
    changed: int
    rests: bool


class Training:
    """One problem on its bags."""

    def __init__(self, problem: LatentProblem, bags: Bags):
        labels = problem.labels(bags)
        known = problem.known(bags)
        self._problem, self._whole, self._bags = problem, bags, bags.narrowed(known, "fixed_windows")
        self._known = np.flatnonzero(known >= 0)
        self._before = np.maximum(known, 0)  # windows that come before the ones left, in the whole bags
        self._positives, self._negatives = np.flatnonzero(labels > 0), np.flatnonzero(labels < 0)
        self._signs = np.repeat([1.0, -1.0], [len(self._positives), len(self._negatives)])
        self._dim = bags.dim + bool(problem.fit_intercept)
        self._trimming = Trimming(self._bags.subset(self._negatives), problem.trim) if problem.trim else None
        self._n_calls = self._n_passes = self._n_candidate_calls = self._n_steps = 0
        self.history: list[dict[str, Any]] = []
        self._on_candidates = False
        # the best point and each bag's best window there
        self._w, self._answer = np.zeros(self._dim), _at_zero(self._bags)

    def seen(self, w: Float64, answer: BestWindows) -> BestWindows:
        """Return what a pass over all windows says of those that this problem sees."""
        if not len(self._known) and self._trimming is None:
            return answer
        index, score = answer.index.copy(), answer.score.copy()
        index[self._known] = 0
        score[self._known] = self._bags.score_rows(w, self._known, index[self._known])
        if self._trimming is not None:
            index[self._negatives], score[self._negatives] = self._trimming.best(w)
        return BestWindows(index, score)

    def leave(self) -> None:
        """Give back what was taken for this training alone."""

    def run(self, before: "Training | None" = None) -> Passes:
        """Yield the points to be answered; return the solution.

        It begins where `before` ended, the same problem at another C, if one is given.
        """
        imputed, planes, proximity = yield from self._begun(before)
        self._end = yield from self._descended(imputed, planes, proximity, self._problem.tol)
        return self._solution()

    def _begun(self, before: "Training | None") -> Generator[Float64, BestWindows, Begun]:
        """Return windows, planes and proximity to begin with."""
        if before is not None:
            return *self._taken_over(before), 1.0
        imputed = yield from self._initialise()
        return imputed, [], 1.0

    def _descended(
        self, imputed: ImputedWindows, planes: list[Plane], proximity: float, final: float
    ) -> Generator[Float64, BestWindows, End]:
        """Take outer steps until windows rest while convex problems are solved to the gap `final`."""
        tol, last = max(final, LOOSE), np.inf
        while True:
            solution = yield from self._solve(imputed, tol, planes, proximity)
            following, changed = self._impute(imputed)
            self._n_steps += 1
            self._record(solution, tol, changed)
            self._check_fall(last, solution.objective)
            fall = (last - solution.objective) / max(abs(solution.objective), np.finfo(float).tiny)
            rests = changed == 0 or fall <= self._problem.tol
            if (rests and tol <= final) or self._n_steps >= self._problem.max_iter:
                return End(solution, imputed, following, changed, rests)
            tol = final if rests else max(final, min(tol, _TIGHTEN * fall, LOOSE))
            planes = self._carried(solution.planes, following) if changed else solution.planes
            # after given windows, one per image, the mean of several begins anew
            last = solution.objective if len(following.index) == len(imputed.index) else np.inf
            imputed, proximity = following, solution.proximity

    def _taken_over(self, before: "Training") -> tuple[ImputedWindows, list[Plane]]:
        """Return the windows and planes with which another training ended, and make its best point the first one."""
        self._w, self._answer, self._trimming = before._w, before._answer, before._trimming
        end = before._end
        planes = end.solution.planes
        return end.following, self._carried(planes, end.following) if end.changed else planes

    def _carried(self, planes: list[Plane], imputed: Imputed) -> list[Plane]:
        """Return the planes that hold for other windows; those of negatives' windows now ignored do not."""
        return [] if self._trimming is not None else [self._moved(plane, imputed) for plane in planes]

    def _initialise(self) -> Generator[Float64, BestWindows, ImputedWindows]:
        """Return what first stands for the positives: given windows, or the best ones of the first weights."""
        problem, bags = self._problem, self._bags
        windows = problem.initial_windows(self._whole, self._positives)
        if windows is not None:
            windows = np.where(np.isin(self._positives, self._known), 0, windows)
            return ImputedWindows(bags, self._positives, windows)
        weights = problem.initial_weights(bags)
        self._w = self._first_weights() if weights is None else np.append(weights, np.zeros(self._dim - bags.dim))
        self._answer = yield from self._answered(self._w)
        return self._best_windows()

    def _first_weights(self) -> Float64:
        """Return the weights trained on one vector per image, which no pass needs to choose."""
        images = self._problem.first_vectors(self._bags, np.append(self._positives, self._negatives))
        risk, dim = self._problem.risk, self._bags.dim

        def oracle(w: Float64) -> Plane:
            self._n_calls += 1
            violation = risk.violation(images.scores(w[:dim]) + w[dim:].sum(), self._signs)
            total = images.weighted_sum(violation.coefficients)
            return Plane(-self._augmented(total, violation.coefficients), violation.offset)

        tol = max(self._problem.tol, _LOOSE_START)
        return run_with_oracle(
            cutting_plane(self._dim, self._problem.C, tol, max_calls=self._problem.max_calls), oracle
        ).w

    def _solve(
        self, imputed: Imputed, tol: float, planes: list[Plane], proximity: float
    ) -> Generator[Float64, BestWindows, Solution]:
        """Solve the convex problem from the best point, which needs no pass."""
        C, best = self._problem.C, np.inf
        options: dict[str, Any] = {"start": self._w, "planes": planes, "proximity": proximity}
        # on candidates the objective is a lower bound, which planes of passes over all windows may exceed
        exact = self._whole.exact and not self._on_candidates
        steps = cutting_plane(self._dim, C, tol, max_calls=self._problem.max_calls, exact=exact, **options)
        w = next(steps)
        while True:
            if w is self._w:
                answer = self._answer
            else:
                answer = yield from self._answered(w)
            plane = self._plane(w, answer, imputed)
            if (objective := objective_at(w, plane, C)) < best:
                best, self._w, self._answer = objective, w, answer
            try:
                w = steps.send(plane)
            except StopIteration as end:
                solution: Solution = end.value
                return solution

    def _slack(self, solution: Solution) -> float:
        """Return by how much a lower bound may be above an objective over all windows."""
        return solution.rounding if self._whole.exact else np.inf

    def _answered(self, w: Float64) -> Generator[Float64, BestWindows, BestWindows]:
        """Return every bag's best window at `w`."""
        self._n_passes += 1
        return (yield w[: self._bags.dim])

    def _plane(self, w: Float64, answer: BestWindows, imputed: Imputed) -> Plane:
        """Return the plane of the most violated constraint at `w`: the thesis's problem 3.24."""
        self._n_calls += 1
        bias = w[self._bags.dim :].sum()
        above, below = imputed.scores(w[: self._bags.dim]), answer.score[self._negatives]
        violation = self._problem.risk.violation(np.concatenate([above, below]) + bias, self._signs)
        positive, negative = np.split(violation.coefficients, [len(above)])
        windows = answer.index[self._negatives]
        total = self._augmented(self._bags.sum_rows(negative, self._negatives, windows), negative)
        return self._assemble(_Parts(positive, total), violation.offset, imputed)

    def _assemble(self, parts: _Parts, offset: float, imputed: Imputed) -> Plane:
        above = self._augmented(imputed.weighted_sum(parts.positive), parts.positive)
        return Plane(-(above + parts.negative), offset, parts)

    def _moved(self, plane: Plane, imputed: Imputed) -> Plane:
        """Return the constraint of the same ranking and negative windows with the positives' new windows."""
        return self._assemble(plane.tag, plane.offset, imputed)

    def _augmented(self, total: Float64, coefficients: Float64) -> Float64:
        """Append the sum of the constant features, if there is one."""
        return np.append(total, coefficients.sum()) if self._problem.fit_intercept else total

    def _best_windows(self) -> ImputedWindows:
        """Return the positives' best windows at the best point; the last pass there knows the first of each."""
        counts = top_counts(self._bags, self._positives, self._problem.top)
        if (counts == 1).all():
            return ImputedWindows(self._bags, self._positives, self._answer.index[self._positives])
        return top_windows(self._bags, self._positives, self._w[: self._bags.dim], counts)

    def _impute(self, imputed: ImputedWindows) -> tuple[ImputedWindows, int]:
        best = self._best_windows()
        if len(best.index) != len(imputed.index):
            return best, len(self._positives)
        following, changed = imputed.improved(best, self._w[: self._bags.dim])
        return following, changed + self._renew_trimming()

    def _renew_trimming(self) -> int:
        """Ignore the negatives' best windows at the best point; return for how many images this changes anything."""
        if self._trimming is None:
            return 0
        w = self._w[: self._bags.dim]
        changed = self._trimming.renew(w)
        self._answer = self.seen(w, self._answer)
        return changed

    def _record(self, solution: Solution, tol: float, changed: int) -> None:
        self.history.append(
            {
                "step": len(self.history),
                "objective": solution.objective,
                "dual": solution.dual,
                "gap": solution.gap,
                "tol": tol,
                "calls": solution.n_calls,
                "passes": self._n_passes,
                "candidate_calls": self._n_candidate_calls,
                "planes": len(solution.planes),
                "changed": changed,
                "certified": not self._on_candidates,
            }
        )

    def _check_fall(self, last: float, objective: float) -> None:
        """Warn if the objective rose, which exact inference forbids."""
        if objective > last + _ROUNDING * max(1.0, abs(last)):
            warnings.warn(
                f"CCCP's objective must not rise, got {objective:.9g} after {last:.9g}; the risk's inference is not "
                "exact for these scores.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _solution(self) -> LatentSolution:
        last, windows = self._end.solution, self._answer.index.copy()
        windows[self._positives] = self._end.following.first
        dim = self._bags.dim
        return LatentSolution(
            coef=last.w[:dim].copy(),
            intercept=float(last.w[dim:].sum()),
            objective=last.objective,
            dual=last.dual,
            gap=last.gap,
            windows=windows + self._before,
            history=self.history,
            n_calls=self._n_calls,
            n_passes=self._n_passes,
            n_candidate_calls=self._n_candidate_calls,
            converged=self._end.rests and last.gap <= self._problem.tol,
        )


def _at_zero(bags: Bags) -> BestWindows:
    """Return every bag's best window at w = 0, where all tie: the first that competes."""
    if np.array_equal(bags.n_competing, np.diff(bags.offsets)):
        return BestWindows(np.zeros(bags.n_bags, dtype=np.intp), np.zeros(bags.n_bags))
    return bags.best(np.zeros(bags.dim))


@singledispatch
def start(problem: LatentProblem, bags: Bags) -> Training:
    """Return the training of a problem; kinds of problems that are trained otherwise register theirs."""
    return Training(problem, bags)
