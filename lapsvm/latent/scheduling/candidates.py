"""Training on candidates: a few windows of every image between two passes over all of them, and an exact end.

Leave some windows of every image out, never a positive's chosen ones. The risk rises with the score of a negative
image, which is that of its best window; so without some windows no score is higher, and

    risk over candidates (w) <= risk over all windows (w)    for every w, the positives' windows fixed.

A plane below the left side is below the right one: every plane found on candidates is a constraint of the whole
problem, and the dual value of such planes is a lower bound of its minimum. A pass over all windows at the point w that
the candidates gave tells the true objective there, an upper bound. When both are within `tol`, w is as good as
the certificate of the plain solver says it is: no constraint over all windows is violated by more than that. Where they
are not, the pass has found windows that were missed, and its plane; with these the search goes on.

The candidates of an image are what was ever its best window, and the best window of each of some consecutive parts of
it at the last pass. (One pass gives them by `Bags.best` of the parts, and they differ more from each other than the
best windows do, which lie side by side.) CCCP runs to its end on candidates, positives' windows chosen among
candidates as well; each pass then chooses them among all. The first rounds are solved loosely.
"""

from collections.abc import Generator, Iterable
from typing import cast

import numpy as np

from lapsvm.arrays import Float64, Index, check_count
from lapsvm.bags import Bags, BestWindows
from lapsvm.latent.cccp.imputation import ImputedWindows, top_counts, top_windows
from lapsvm.latent.cccp.problem import LatentProblem
from lapsvm.latent.cccp.training import LOOSE, End, Passes, Training, start
from lapsvm.latent.scheduling.pool import PassAnswer, Pool, WindowRequest
from lapsvm.optim import Plane, Solution, objective_at
from lapsvm.optim.certificate import allowed_gap, relative_gap

CANDIDATES = 20
"""Parts of every image whose best windows are candidates; docs/measurements/learning.md has others."""

_WORTH = 4  # windows per candidate below which passes over all windows are cheap enough
_FINER = 0.3  # of the gap that is wanted, what candidates leave open: the rest is for windows that were missed
_GAIN = 0.1  # of the tolerance: if new windows gain less at the point that was found, CCCP rests
_TIGHTEN = 0.1  # share of a round's gap that the next round on candidates may leave


def pool_for(problems: Iterable[LatentProblem], bags: Bags, candidates: int) -> Pool | None:
    """Return a pool for problems on these bags, or None.

    There is none for 0 candidates, where bags are so small that all their windows would do, and where no problem is of
    a kind that is trained on candidates.

    Raises
    ------
    InputError
        If `candidates` is no whole number of 0 or more.
    """
    check_count("candidates", candidates, least=0)
    worth = candidates > 0 and bags.n_windows >= _WORTH * candidates * bags.n_bags
    return Pool(bags, candidates) if worth and any(_takes_candidates(problem) for problem in problems) else None


def started(problem: LatentProblem, bags: Bags, pool: Pool | None) -> Training:
    """Return the training of a problem: on candidates where there is a pool and the kind of problem can."""
    if pool is None or not _takes_candidates(problem):
        return start(problem, bags)
    return CandidateTraining(problem, bags, pool)


def _takes_candidates(problem: LatentProblem) -> bool:
    """Tell whether a problem's risk grows with the best window's score alone, among windows that stay the same."""
    return type(problem) is LatentProblem and not problem.trim


class CandidateView:
    """The images as they are on candidates: what `Bags` is to `Training`, windows numbered as in the whole bags.

    Parameters
    ----------
    pool : Pool
    first : (n_bags,) int
        Window 0 of each bag, as the problem numbers it, among the windows of all bags.
    n_competing : (n_bags,) int
        How many windows of each bag compete in all.
    """

    def __init__(self, pool: Pool, first: Index, n_competing: Index):
        self._pool, self._first, self.n_competing = pool, first, n_competing
        self.n_bags, self.dim = pool.bags.n_bags, pool.bags.dim
        self._windows, self._won = np.empty(0, dtype=np.intp), np.empty(0, dtype=np.bool_)

    def take(self, windows: Index) -> None:
        """Let these windows, in their order, be the candidates; which of them were ever best is not forgotten."""
        won, self._windows = self.won, windows
        self._bag = np.searchsorted(self._pool.bags.offsets, windows, side="right") - 1
        self._begin = np.flatnonzero(np.diff(self._bag, prepend=-1))
        self._rank = np.cumsum(np.diff(self._bag, prepend=-1) > 0) - 1
        self._won = np.isin(windows, won, assume_unique=True)

    @property
    def won(self) -> Index:
        """The candidates that were ever best."""
        return self._windows[self._won]

    def best(self, w: Float64) -> BestWindows:
        """Return the best candidate of each bag, the first of equal ones; bags without any score -inf."""
        scores = self._pool.scores(w, self._windows)
        highest = np.maximum.reduceat(scores, self._begin)
        equal = np.flatnonzero(scores == highest[self._rank])
        winners = equal[np.diff(self._rank[equal], prepend=-1) > 0]
        self._won[winners] = True
        index, score = np.zeros(self.n_bags, dtype=np.intp), np.full(self.n_bags, -np.inf)
        bags = self._bag[winners]
        index[bags], score[bags] = self._windows[winners] - self._first[bags], highest
        return BestWindows(index, score)

    def best_of(self, images: Index, w: Float64, counts: Index) -> Index:
        """Return the `counts` best candidates of each image, image after image, best first."""
        scores = self._pool.scores(w, self._windows)
        chosen = []
        for image, count in zip(images, counts, strict=True):
            own = slice(*np.searchsorted(self._bag, [image, image + 1]))
            best = np.argsort(-scores[own], kind="stable")[:count]
            chosen.append(self._windows[own][best] - self._first[image])
        return np.concatenate(chosen)

    def score_rows(self, weights: Float64, bags: Index, index: Index) -> Float64:
        """Return the score of window index[i] of bag bags[i], a candidate, as `Bags.score_rows` does."""
        return self._pool.scores(weights, self._first[bags] + index)

    def sum_rows(self, coefficients: Float64, bags: Index, index: Index) -> Float64:
        """Return the sum of coefficients[i] times window index[i] of bag bags[i], as `Bags.sum_rows` does."""
        return self._pool.weighted_sum(coefficients, self._first[bags] + index)


class CandidateTraining(Training):
    """One problem on its bags, on candidates between passes."""

    def __init__(self, problem: LatentProblem, bags: Bags, pool: Pool):
        super().__init__(problem, bags)
        self._pool, self._full = pool, self._bags
        self._first = pool.bags.offsets[:-1] + self._before
        self._view = CandidateView(pool, self._first, self._full.n_competing)
        self._counts = top_counts(self._full, self._positives, problem.top)
        self._images = np.append(self._positives, self._negatives)
        self._spare = np.empty((0, 0), dtype=np.intp)  # the best windows of parts at the last pass
        self._chosen = np.empty(0, dtype=np.intp)  # positives' windows that the next pass must find at hand
        self._tops: ImputedWindows | None = None  # positives' best windows at the last pass, where they are several

    def seen(self, w: Float64, answer: BestWindows) -> BestWindows:
        """Take from a pass what this problem sees, and ask for the candidates that it found."""
        best = super().seen(w, answer)
        if isinstance(answer, PassAnswer):
            others = np.where(np.isin(self._images, self._known)[:, None], -1, answer.others[self._images])
            self._spare = np.where(others < 0, -1, others + self._pool.bags.offsets[self._images, None])
            self._wish(w, best.index)
        return best

    def leave(self) -> None:
        """Give the candidates back."""
        self._pool.leave(self._view)

    def run(self, before: Training | None = None) -> Passes:
        """Yield the points to be answered by passes; return the solution."""
        imputed, planes, proximity = yield from self._begun(before)
        yield from self._admit(imputed)
        final, last = self._problem.tol, np.inf
        goal = max(final, LOOSE)
        while True:
            found = yield from self._solve_on_candidates(imputed, planes, proximity, _FINER * goal)
            self._end, gain = yield from self._certify(found)
            solution, following = self._end.solution, self._end.following
            scale = max(abs(solution.objective), np.finfo(float).tiny)
            certified = solution.objective - solution.dual <= self._allowed(solution)
            fall = max(gain, last - solution.objective)
            rests = self._end.changed == 0 or gain <= _GAIN * final * scale or fall <= final * scale
            self._end = self._end._replace(rests=rests)
            spent = self._n_steps >= self._problem.max_iter or not (found.solution.converged or goal > final)
            if (certified and rests) or spent:
                return self._solution()
            goal = final if certified else max(final, min(goal, _TIGHTEN * solution.gap))
            planes = self._carried(solution.planes, following) if self._end.changed else solution.planes
            last = solution.objective if len(following.index) == len(found.imputed.index) else np.inf
            imputed, proximity = following, solution.proximity

    def _solve_on_candidates(
        self, imputed: ImputedWindows, planes: list[Plane], proximity: float, tol: float
    ) -> Generator[Float64, BestWindows, End]:
        """Return where CCCP rests on candidates."""
        self._bags, self._on_candidates = cast(Bags, self._view), True
        return (yield from self._descended(imputed.on(self._bags), planes, proximity, tol))

    def _certify(self, found: End) -> Generator[Float64, BestWindows, tuple[End, float]]:
        """Return what is true of the point that was found, over all windows, and what its new windows gain there."""
        record, w = self.history.pop(), found.solution.w
        self._chosen = np.append(self._numbers(found.imputed), self._numbers(found.following))
        self._bags, self._on_candidates = self._full, False
        self._answer, self._w = (yield from self._answered(w)), w
        self._bags = cast(Bags, self._view)
        self._view.take(self._pool.granted(self._view))
        plane = self._plane(w, self._answer, found.imputed)
        objective = objective_at(w, plane, self._problem.C)
        solution = found.solution._replace(
            objective=objective,
            gap=relative_gap(objective, found.solution.dual, self._slack(found.solution)),
            planes=[*found.solution.planes, plane],
        )
        following, changed = self._impute(found.imputed)
        gain = objective - objective_at(w, self._moved(plane, following), self._problem.C) if changed else 0.0
        told = {"objective": objective, "gap": solution.gap, "passes": self._n_passes, "changed": changed}
        self.history.append(record | told | {"tol": self._problem.tol, "certified": True})
        return End(solution, found.imputed, following, changed, rests=False), gain

    def _allowed(self, solution: Solution) -> float:
        """Return the absolute gap at which to stop."""
        at_zero = self._problem.C * max(plane.offset for plane in solution.planes)
        return allowed_gap(solution.objective, solution.dual, at_zero, self._problem.tol)

    def _answered(self, w: Float64) -> Generator[Float64, BestWindows, BestWindows]:
        if not self._on_candidates:
            return (yield from super()._answered(w))
        self._n_candidate_calls += 1
        self._pool.count_work(calls=1)
        return self._view.best(w[: self._view.dim])

    def _best_windows(self) -> ImputedWindows:
        if (self._counts == 1).all():
            return super()._best_windows()
        w = self._w[: self._view.dim]
        if self._on_candidates:
            index = self._view.best_of(self._positives, w, self._counts)
            return ImputedWindows(self._bags, self._positives, index, self._counts)
        tops = top_windows(self._full, self._positives, w, self._counts) if self._tops is None else self._tops
        return tops.on(self._bags)

    def _taken_over(self, before: Training) -> tuple[ImputedWindows, list[Plane]]:
        if isinstance(before, CandidateTraining):
            self._view, self._spare, self._tops = before._view, before._spare, before._tops
        return super()._taken_over(before)

    def _admit(self, imputed: ImputedWindows) -> Generator[Float64, BestWindows, None]:
        """Have candidates at hand for the first round, if the last pass did not see to that."""
        self._chosen = self._numbers(imputed)
        if not self._spare.size:  # given windows, and no pass yet
            self.seen(self._w[: self._view.dim], self._pool.at_zero)
        best = self._first[self._images] + self._answer.index[self._images]
        if not np.isin(np.append(self._chosen, best), self._pool.granted(self._view)).all():
            self._wish(self._w[: self._view.dim], self._answer.index)
            yield np.empty(0)  # no pass, but the candidates
        self._view.take(self._pool.granted(self._view))

    def _wish(self, w: Float64, best: Index) -> None:
        """Ask for all bags' best windows, those that ever were, the positives' chosen ones, and the best of parts."""
        needed = [self._first[self._images] + best[self._images], self._view.won, self._chosen]
        if (self._counts > 1).any():
            self._tops = top_windows(self._full, self._positives, w, self._counts)
            self._pool.count_work(read_rows=int(np.diff(self._full.offsets)[self._positives].sum()))
            needed.append(self._numbers(self._tops))
        self._pool.wish(self._view, WindowRequest(np.concatenate(needed), self._spare))

    def _numbers(self, imputed: ImputedWindows) -> Index:
        """Return chosen windows by their numbers among all."""
        return self._first[imputed.owners] + imputed.index
