"""CCCP for latent windows (the thesis's algorithm 5).

An outer step solves the convex problem in which each positive image is one fixed vector, then imputes every positive's
best window. The first steps are solved loosely, because their windows will change anyway. Steps share their results:
exchanging the positive part of a plane makes it valid for the new windows, and the pass that found the best point also
found the windows there, so an outer step starts without a pass.

Every training is a coroutine that yields a weight vector and receives each bag's best window;
`lapsvm.latent.scheduling.many` collects the vectors of all problems and answers them from one pass over the windows.
"""

import warnings
from collections.abc import Generator
from functools import cached_property, singledispatch
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lapsvm.arrays import Float64, Index
from lapsvm.bags import Bags, BestWindows
from lapsvm.latent.cccp.imputation import Imputed, ImputedWindows, Trimming, top_counts, top_windows
from lapsvm.latent.cccp.problem import LatentProblem, LatentSolution
from lapsvm.optim import Plane, Solution, cutting_plane, objective_at, run_with_oracle
from lapsvm.optim.certificate import allowed_fall

Passes = Generator[Float64, BestWindows, LatentSolution]
Start = tuple[ImputedWindows, list[Plane]]

FIRST_GAP = 0.1  # gap of the first outer step
_INITIAL_GAP = 0.01  # gap of the problem whose weights choose the first windows
_TIGHTEN = 0.2  # share of an outer step's relative fall that the next convex problem may miss
_ROUNDING = 1e-9


class _PlaneTerms(NamedTuple):
    """The terms of a plane, so that the positives' windows can be exchanged."""

    positive: Float64  # coefficients (n_pos,)
    negative: Float64  # sum (d,) over the negatives, with its sign


class End(NamedTuple):
    """The end of CCCP: the last convex problem, its windows, and those that would follow."""

    solution: Solution
    imputed: ImputedWindows
    following: ImputedWindows
    changed: int
    converged: bool


class AllWindows:
    """The source of best windows: passes over all windows of a problem's bags.

    Attributes
    ----------
    bags : Bags
        They score and add single windows.
    by_passes : bool
        Whether best windows are those of passes over all windows.
    """

    by_passes = True

    def __init__(self, bags: Bags):
        self.bags = bags

    def best(self, w: Float64) -> Generator[Float64, BestWindows, BestWindows]:
        """Yield a point that needs a pass, and return the best window of every bag there."""
        return (yield w)

    def best_of(self, images: Index, w: Float64, counts: Index) -> ImputedWindows:
        """Return the `counts` best windows of each image at `w`."""
        return top_windows(self.bags, images, w, counts)


class Training:
    """The training of one problem, on the windows of a source."""

    def __init__(self, problem: LatentProblem, bags: Bags):
        labels = problem.labels(bags)
        fixed = problem.fixed(bags)
        self._problem, self._all_bags = problem, bags
        self._source = AllWindows(bags.narrowed(fixed, "fixed_windows"))
        self._fixed = np.flatnonzero(fixed >= 0)
        self._before = np.maximum(fixed, 0)  # the number of each bag's first window in the full bags
        self._positives, self._negatives = np.flatnonzero(labels > 0), np.flatnonzero(labels < 0)
        self._signs = np.repeat([1.0, -1.0], [len(self._positives), len(self._negatives)])
        self._dim = bags.dim + bool(problem.fit_intercept)
        self._trimming = Trimming(self._bags.subset(self._negatives), problem.trim) if problem.trim else None
        self._n_calls = self._n_passes = self._n_candidate_calls = self._n_steps = 0
        self.history: list[dict[str, Any]] = []
        # the best point and each bag's best window there
        self._w, self._answer = np.zeros(self._dim), best_at_zero(self._bags)

    @property
    def _bags(self) -> Bags:
        """The bags that score and add single windows."""
        return self._source.bags

    def receive(self, w: Float64, answer: BestWindows) -> BestWindows:
        """Return the best windows of this problem from the answer of a pass over all windows."""
        if not len(self._fixed) and self._trimming is None:
            return answer
        index, score = answer.index.copy(), answer.score.copy()
        index[self._fixed] = 0
        score[self._fixed] = self._bags.score_rows(w, self._fixed, index[self._fixed])
        if self._trimming is not None:
            index[self._negatives], score[self._negatives] = self._trimming.best(w)
        return BestWindows(index, score)

    def close(self) -> None:
        """Release the memory that only this training holds."""

    def run(self, previous: "Training | None" = None) -> Passes:
        """Yield points and receive their best windows; return the solution.

        A `previous` training, of the same problem at another C, supplies the start.
        """
        imputed, planes = yield from self._start(previous)
        self._end = yield from self._descend(imputed, planes, 1.0, self._problem.tol)
        return self._solution()

    def _start(self, previous: "Training | None") -> Generator[Float64, BestWindows, Start]:
        """Return the first windows and planes."""
        if previous is not None:
            return self._take_over(previous)
        return (yield from self._initialise()), []

    def _descend(
        self, imputed: ImputedWindows, planes: list[Plane], proximity: float, final: float
    ) -> Generator[Float64, BestWindows, End]:
        """Take outer steps until the windows converge with convex problems solved to the gap `final`."""
        tol, last = max(final, FIRST_GAP), np.inf
        while True:
            solution = yield from self._solve(imputed, tol, planes, proximity)
            following, changed = self._impute(imputed)
            self._n_steps += 1
            self._record(solution, tol, changed)
            self._check_fall(last, solution.objective)
            converged = changed == 0 or last - solution.objective <= self._allowed_fall(solution.objective)
            if (converged and tol <= final) or self._n_steps >= self._problem.max_iter:
                return End(solution, imputed, following, changed, converged)
            fall = (last - solution.objective) / max(abs(solution.objective), np.finfo(float).tiny)
            tol = final if converged else max(final, min(tol, _TIGHTEN * fall, FIRST_GAP))
            planes = self._carried(solution.planes, following) if changed else solution.planes
            # the objective may rise when the mean of several windows replaces one given window
            last = solution.objective if len(following.index) == len(imputed.index) else np.inf
            imputed, proximity = following, solution.proximity

    def _allowed_fall(self, objective: float) -> float:
        """Return the fall of the objective below which CCCP has converged."""
        return allowed_fall(objective, self._at_zero, self._problem.tol)

    @cached_property
    def _at_zero(self) -> float:
        """The objective at w = 0, where all windows score alike."""
        return self._problem.C * self._problem.risk.violation(np.zeros(len(self._signs)), self._signs).offset

    def _take_over(self, previous: "Training") -> Start:
        """Return the last windows and planes of another training, and start from its best point."""
        self._w, self._answer, self._trimming = previous._w, previous._answer, previous._trimming
        end = previous._end
        planes = end.solution.planes
        return end.following, self._carried(planes, end.following) if end.changed else planes

    def _carried(self, planes: list[Plane], imputed: Imputed) -> list[Plane]:
        """Return the planes made valid for other windows; none with trimming, which changes the negatives' windows."""
        return [] if self._trimming is not None else [self._moved(plane, imputed) for plane in planes]

    def _initialise(self) -> Generator[Float64, BestWindows, ImputedWindows]:
        """Return the positives' first windows: those given, or the best ones of the first weights."""
        problem, bags = self._problem, self._bags
        windows = problem.initial_windows(self._all_bags, self._positives)
        if windows is not None:
            windows = np.where(np.isin(self._positives, self._fixed), 0, windows)
            return ImputedWindows(bags, self._positives, windows)
        weights = problem.initial_weights(bags)
        self._w = self._first_weights() if weights is None else np.append(weights, np.zeros(self._dim - bags.dim))
        self._answer = yield from self._query(self._w)
        return self._best_windows()

    def _first_weights(self) -> Float64:
        """Return weights trained on one vector per image, without a pass."""
        images = self._problem.first_vectors(self._bags, np.append(self._positives, self._negatives))
        risk, dim = self._problem.risk, self._bags.dim

        def oracle(w: Float64) -> Plane:
            self._n_calls += 1
            violation = risk.violation(images.scores(w[:dim]) + w[dim:].sum(), self._signs)
            total = images.weighted_sum(violation.coefficients)
            return Plane(-self._augmented(total, violation.coefficients), violation.offset)

        tol = max(self._problem.tol, _INITIAL_GAP)
        steps = cutting_plane(self._dim, self._problem.C, tol, max_calls=self._problem.max_calls)
        return run_with_oracle(steps, oracle).w

    def _solve(
        self, imputed: Imputed, tol: float, planes: list[Plane], proximity: float
    ) -> Generator[Float64, BestWindows, Solution]:
        """Solve the convex problem, starting from the best point, which needs no pass."""
        C, best = self._problem.C, np.inf
        options: dict[str, Any] = {"start": self._w, "planes": planes, "proximity": proximity}
        # on candidates the objective is a lower bound, which planes of passes over all windows may exceed
        options["exact"] = self._source.by_passes
        steps = cutting_plane(self._dim, C, tol, max_calls=self._problem.max_calls, **options)
        w = next(steps)
        while True:
            answer = self._answer if w is self._w else (yield from self._query(w))
            plane = self._plane(w, answer, imputed)
            if (objective := objective_at(w, plane, C)) < best:
                best, self._w, self._answer = objective, w, answer
            try:
                w = steps.send(plane)
            except StopIteration as end:
                solution: Solution = end.value
                return solution

    def _query(self, w: Float64) -> Generator[Float64, BestWindows, BestWindows]:
        """Return every bag's best window at `w`."""
        if self._source.by_passes:
            self._n_passes += 1
        else:
            self._n_candidate_calls += 1
        return (yield from self._source.best(w[: self._bags.dim]))

    def _plane(self, w: Float64, answer: BestWindows, imputed: Imputed) -> Plane:
        """Return the plane of the most violated constraint at `w`: the thesis's problem 3.24."""
        self._n_calls += 1
        bias = w[self._bags.dim :].sum()
        above, below = imputed.scores(w[: self._bags.dim]), answer.score[self._negatives]
        violation = self._problem.risk.violation(np.concatenate([above, below]) + bias, self._signs)
        positive, negative = np.split(violation.coefficients, [len(above)])
        windows = answer.index[self._negatives]
        total = self._augmented(self._bags.sum_rows(negative, self._negatives, windows), negative)
        return self._assemble(_PlaneTerms(positive, total), violation.offset, imputed)

    def _assemble(self, terms: _PlaneTerms, offset: float, imputed: Imputed) -> Plane:
        above = self._augmented(imputed.weighted_sum(terms.positive), terms.positive)
        return Plane(-(above + terms.negative), offset, terms)

    def _moved(self, plane: Plane, imputed: Imputed) -> Plane:
        """Return the constraint of the same ranking and negative windows with the positives' new windows."""
        return self._assemble(plane.tag, plane.offset, imputed)

    def _augmented(self, total: Float64, coefficients: Float64) -> Float64:
        """Append the sum of the constant features, if there is one."""
        return np.append(total, coefficients.sum()) if self._problem.fit_intercept else total

    def _best_windows(self) -> ImputedWindows:
        """Return the positives' best windows at the best point; single ones are known from its pass."""
        counts = top_counts(self._bags, self._positives, self._problem.top)
        if (counts == 1).all():
            return ImputedWindows(self._bags, self._positives, self._answer.index[self._positives])
        return self._source.best_of(self._positives, self._w[: self._bags.dim], counts)

    def _impute(self, imputed: ImputedWindows) -> tuple[ImputedWindows, int]:
        best = self._best_windows()
        if len(best.index) != len(imputed.index):
            return best, len(self._positives)
        following, changed = imputed.improved(best, self._w[: self._bags.dim])
        return following, changed + self._update_trimming()

    def _update_trimming(self) -> int:
        """Ignore the negatives' best windows at the best point; return for how many images this changes anything."""
        if self._trimming is None:
            return 0
        w = self._w[: self._bags.dim]
        changed = self._trimming.renew(w)
        self._answer = self.receive(w, self._answer)
        return changed

    def _record(self, solution: Solution, tol: float, changed: int) -> None:
        record = {
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
            "certified": self._source.by_passes,
        }
        self.history.append(record)

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
            converged=self._end.converged and last.gap <= self._problem.tol,
        )


def best_at_zero(bags: Bags) -> BestWindows:
    """Return every bag's best window at w = 0, where all are equal: the first that competes."""
    if np.array_equal(bags.n_competing, np.diff(bags.offsets)):
        return BestWindows(np.zeros(bags.n_bags, dtype=np.intp), np.zeros(bags.n_bags))
    return bags.best(np.zeros(bags.dim))


@singledispatch
def start(problem: LatentProblem, bags: Bags) -> Training:
    """Return the training of a problem; other kinds of problems register their own."""
    return Training(problem, bags)
