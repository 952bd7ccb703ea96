"""CCCP for latent windows, many problems side by side (the thesis's algorithm 5).

An outer step solves the convex problem in which each positive image is one fixed vector, then gives every positive
its best window. The first steps are solved loosely, for their windows will change anyway. Nothing is thrown away in
between: planes are made valid for the new windows by exchanging their positive part, and the best point's windows are
known from the pass that found it, so an outer step begins without a pass of its own.

Every training is a generator that yields a weight vector and receives each bag's best window; `fit_many` collects the
vectors of all problems and answers them from one pass over the windows.
"""

import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from lapsvm.arrays import Float64
from lapsvm.bags import Bags, BestWindows, as_bags
from lapsvm.latent.early import LAST, EarlyStep, early_steps, stand_ins
from lapsvm.latent.imputation import Imputed, ImputedWindows, top_counts, top_windows
from lapsvm.latent.passes import side_by_side
from lapsvm.latent.problem import LatentProblem, LatentSolution
from lapsvm.latent.trimming import Trimming
from lapsvm.optim import Plane, Solution, cutting_plane, drive, objective_at

Passes = Generator[Float64, BestWindows, LatentSolution]

_LOOSE = 0.1  # gap of the first outer step
_LOOSE_START = 0.01  # gap of the problem whose weights choose the first windows
_TIGHTEN = 0.2  # share of an outer step's relative fall that the next convex problem may miss
_ROUNDING = 1e-9
_NOTHING = 1e-6  # relative gain over w = 0 that is rounding


class _Parts(NamedTuple):
    """What a plane is made of, so that other windows can be put under its positives."""

    positive: Float64  # coefficients (n_pos,)
    negative: Float64  # sum (d,) over the negatives, with its sign


class _End(NamedTuple):
    """Where a training came to rest: the windows that follow, and planes for those before, of which some changed."""

    imputed: ImputedWindows
    planes: list[Plane]
    changed: int


def fit_many(
    problems: Iterable[LatentProblem],
    bags: Bags | Sequence[ArrayLike],
    progress: Callable[[int, dict[str, Any]], None] | None = None,
) -> list[LatentSolution]:
    """Train every problem on the same bags; each pass over the windows serves all that are not yet done.

    Parameters
    ----------
    problems : iterable of LatentProblem
        Classes, values of C, folds (labels 0 leave images out), in any mixture.
    bags : Bags or sequence of (n_i, d) arrays
        The images.
    progress : callable, optional
        Called with (place of the problem, its history record) after every outer step.

    Returns
    -------
    list of LatentSolution
        In the order of `problems`; each is what training it alone returns, but for near ties (within the rounding of
        float32 scores) that another number of weight vectors in a pass may decide differently.

    Raises
    ------
    InputError
        If labels or initial windows do not fit the bags.

    Warns
    -----
    ConvergenceWarning
        For each problem that stopped at max_calls or max_iter.
    """
    data = as_bags(bags)
    trainings = [start(problem, data) for problem in problems]
    solutions = side_by_side([(training, training.run()) for training in trainings], data, progress)
    warn_unless_converged([training._problem for training in trainings], solutions)
    return solutions


class Training:
    """One problem on its bags."""

    def __init__(self, problem: LatentProblem, bags: Bags):
        labels = problem.labels(bags)
        known = problem.known(bags)
        self._problem, self._whole, self._bags = problem, bags, bags.narrowed(known, "known_windows")
        self._known = np.flatnonzero(known >= 0)
        self._before = np.maximum(known, 0)  # windows that come before the ones left, in the whole bags
        self._positives, self._negatives = np.flatnonzero(labels > 0), np.flatnonzero(labels < 0)
        self._signs = np.repeat([1.0, -1.0], [len(self._positives), len(self._negatives)])
        self._dim = bags.dim + bool(problem.fit_intercept)
        self._trimming = Trimming(self._bags.subset(self._negatives), problem.ignored) if problem.ignored else None
        self._n_calls = self._n_passes = 0
        self.history: list[dict[str, Any]] = []
        # the best point and each bag's best window there; at w = 0 all windows tie and the first wins
        self._w = np.zeros(self._dim)
        self._answer = BestWindows(np.zeros(bags.n_bags, dtype=np.intp), np.zeros(bags.n_bags))

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

    def run(self, before: "Training | None" = None) -> Passes:
        """Yield the points to be answered; return the solution.

        It begins where `before` ended, the same problem at another C, if one is given.
        """
        if before is None:
            imputed = yield from self._initialise()
            imputed, planes, proximity = yield from self._early(imputed)
        else:
            (imputed, planes), proximity = self._taken_over(before), 1.0
        tol, last = max(self._problem.tol, _LOOSE), np.inf
        for _ in range(self._problem.max_iter):
            solution = yield from self._solve(imputed, tol, planes, proximity)
            following, changed = self._impute(imputed)
            self._record(solution, tol, changed)
            self._check_fall(last, solution.objective)
            fall = (last - solution.objective) / max(abs(solution.objective), np.finfo(float).tiny)
            rests = changed == 0 or fall <= self._problem.tol
            if rests and tol <= self._problem.tol:
                break
            tol = self._problem.tol if rests else max(self._problem.tol, min(tol, _TIGHTEN * fall, _LOOSE))
            planes = self._carried(solution.planes, following) if changed else solution.planes
            # after given windows, one per image, the mean of several begins anew
            last = solution.objective if len(following.index) == len(imputed.index) else np.inf
            imputed, proximity = following, solution.proximity
        self._end = _End(following, solution.planes, changed)  # where the next training on a path begins
        return self._solution(solution, following, rests)

    def _taken_over(self, before: "Training") -> tuple[ImputedWindows, list[Plane]]:
        """Return the windows and planes with which another training ended, and make its best point the first one."""
        self._w, self._answer, self._trimming = before._w, before._answer, before._trimming
        imputed, planes, changed = before._end
        return imputed, self._carried(planes, imputed) if changed else planes

    def _early(
        self, imputed: ImputedWindows
    ) -> Generator[Float64, BestWindows, tuple[ImputedWindows, list[Plane], float]]:
        """Solve easier problems, one after the other; return windows, planes and proximity to begin the real one with.

        Each is solved loosely, from the best point of the last one that gained anything; one that gains nothing says
        nothing of windows. Without scores, at w = 0, the given windows are the first that are solved for.
        """
        problem, planes, share = self._problem, list[Plane](), 0.0
        steps = early_steps(problem.anneal, problem.pace)
        if not steps or np.isin(self._positives, self._known).all():
            return imputed, planes, 1.0
        counts, tol = top_counts(self._bags, self._positives, problem.top), max(problem.tol, _LOOSE)
        if not self._w.any():
            solution = yield from self._solve(imputed, tol, planes, 1.0)
            self._record(solution, tol, len(self._positives))
        for step in steps:
            easier = stand_ins(self._bags, self._positives, self._w[: self._bags.dim], counts, step)
            # a plane holds for the positives that it ranks
            moved, before = self._carried(planes, easier) if share == 1 else [], (self._w, self._answer)
            solution = yield from self._solve(easier, tol, moved, 1.0)
            if not self._gains(solution.objective, easier):
                self._w, self._answer = before
            self._record(solution, tol, len(self._positives), step)
            planes, share = solution.planes, step.share
        following = self._best_windows()
        return following, self._carried(planes, following) if share == 1 else [], solution.proximity

    def _gains(self, objective: float, imputed: Imputed) -> bool:
        """Return whether this is less than the objective at w = 0, where no window is better than another."""
        signs = self._signs[len(self._positives) - len(imputed.scores(np.zeros(self._bags.dim))) :]
        at_zero = self._problem.C * self._problem.risk.violation(np.zeros(len(signs)), signs).offset
        return objective < at_zero * (1 - _NOTHING)

    def _carried(self, planes: list[Plane], imputed: Imputed) -> list[Plane]:
        """Return the planes that hold for other windows; those of negatives' windows now ignored do not."""
        return [] if self._trimming is not None else [self._moved(plane, imputed) for plane in planes]

    def _initialise(self) -> Generator[Float64, BestWindows, ImputedWindows]:
        """Return what first stands for the positives: given windows, or the best ones of the first weights."""
        problem, bags = self._problem, self._bags
        windows = problem.given_windows(self._whole, self._positives)
        if windows is not None:
            windows = np.where(np.isin(self._positives, self._known), 0, windows)
            return ImputedWindows(bags, self._positives, windows)
        weights = problem.given_weights(bags)
        self._w = self._first_weights() if weights is None else np.append(weights, np.zeros(self._dim - bags.dim))
        self._n_passes += 1
        self._answer = yield self._w[: bags.dim]
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
        return drive(cutting_plane(self._dim, self._problem.C, tol, max_calls=self._problem.max_calls), oracle).w

    def _solve(
        self, imputed: Imputed, tol: float, planes: list[Plane], proximity: float
    ) -> Generator[Float64, BestWindows, Solution]:
        """Solve the convex problem from the best point, which needs no pass."""
        C, best = self._problem.C, np.inf
        steps = cutting_plane(
            self._dim, C, tol, max_calls=self._problem.max_calls, start=self._w, planes=planes, proximity=proximity
        )
        w = next(steps)
        while True:
            if w is self._w:
                answer = self._answer
            else:
                self._n_passes += 1
                answer = yield w[: self._bags.dim]
            plane = self._plane(w, answer, imputed)
            if (objective := objective_at(w, plane, C)) < best:
                best, self._w, self._answer = objective, w, answer
            try:
                w = steps.send(plane)
            except StopIteration as end:
                solution: Solution = end.value
                return solution

    def _plane(self, w: Float64, answer: BestWindows, imputed: Imputed) -> Plane:
        """Return the plane of the most violated constraint at `w`: the thesis's problem 3.24."""
        self._n_calls += 1
        bias = w[self._bags.dim :].sum()
        above, below = imputed.scores(w[: self._bags.dim]), answer.score[self._negatives]
        signs = self._signs[len(self._positives) - len(above) :]  # early steps leave positives out
        violation = self._problem.risk.violation(np.concatenate([above, below]) + bias, signs)
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

    def _record(self, solution: Solution, tol: float, changed: int, early: EarlyStep = LAST) -> None:
        self.history.append(
            {
                "step": len(self.history),
                "objective": solution.objective,
                "dual": solution.dual,
                "gap": solution.gap,
                "tol": tol,
                "calls": solution.n_calls,
                "passes": self._n_passes,
                "planes": len(solution.planes),
                "changed": changed,
                **early._asdict(),
            }
        )

    def _check_fall(self, last: float, objective: float) -> None:
        """Warn if the objective rose, which exact inference forbids."""
        if objective > last + _ROUNDING * max(1.0, abs(last)):
            warnings.warn(
                f"CCCP's objective must not rise, got {objective:.9g} after {last:.9g}; the risk's inference is not "
                "exact for these scores.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _solution(self, last: Solution, imputed: ImputedWindows, rests: bool) -> LatentSolution:
        windows = self._answer.index.copy()
        windows[self._positives] = imputed.first
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
            converged=rests and last.gap <= self._problem.tol,
        )


@singledispatch
def start(problem: LatentProblem, bags: Bags) -> Training:
    """Return the training of a problem; kinds of problems that are trained otherwise register theirs."""
    return Training(problem, bags)


def warn_unless_converged(problems: Iterable[LatentProblem], solutions: Iterable[LatentSolution]) -> None:
    """Warn of each solution that stopped early, saying what to do; the warning is that of the caller's caller."""
    for problem, found in zip(problems, solutions, strict=True):
        if found.converged:
            continue
        last = found.history[-1]
        if last["calls"] >= problem.max_calls:
            remedy = f"max_calls={problem.max_calls} calls were not enough; raise it, lower C or raise tol"
        elif last["gap"] > last["tol"]:
            remedy = "rounding allows no more; raise tol, lower C or scale the features to a mean norm near 1"
        else:
            remedy = f"max_iter={problem.max_iter} outer steps were not enough; raise it or raise tol"
        warnings.warn(
            f"training stopped at a duality gap of {found.gap:.2g} with {last['changed']} windows still changing: "
            f"{remedy}.",
            ConvergenceWarning,
            stacklevel=3,
        )
