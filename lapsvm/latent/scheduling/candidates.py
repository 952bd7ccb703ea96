"""Training on candidates: a few windows of every image between two passes over all of them, with an exact end.

Remove some windows of every image, never a positive's chosen ones. The risk grows with the score of a negative image,
which is that of its best window; without some windows no score is higher, so

    risk over candidates (w) <= risk over all windows (w)    for every w, the positives' windows fixed.

A plane below the left side is below the right one: every plane found on candidates is a constraint of the full
problem, and the dual value of such planes is a lower bound of its minimum. A pass over all windows at the solution w on
candidates computes the true objective, an upper bound. When both agree within `tol`, w has the same certificate as a
solution of the plain solver: no constraint over all windows is violated by more. Otherwise the pass has found missing
windows and their plane, and the search continues with these.

The candidates of an image are all windows that were best once, and the best windows of its best sections at the last
pass; sections are consecutive windows. (One pass finds these by `Bags.best` of the sections. They differ more from each
other than the best windows of the image, which overlap. Other sections seldom win before the next pass.) CCCP converges
on candidates, among which it also chooses the positives' windows; each pass then chooses them among all. The first
rounds are solved loosely.
"""

import math
from collections.abc import Generator, Iterable
from typing import cast

import numpy as np

from lapsvm.arrays import Float64, Index, check_count
from lapsvm.bags import Bags, BestWindows
from lapsvm.latent.cccp.imputation import ImputedWindows, top_counts, top_windows
from lapsvm.latent.cccp.problem import LatentProblem
from lapsvm.latent.cccp.training import FIRST_GAP, AllWindows, End, Passes, Training, start
from lapsvm.latent.scheduling.pool import PassAnswer, Pool, WindowRequest
from lapsvm.optim import Plane, Solution, objective_at
from lapsvm.optim.certificate import allowed_gap, relative_gap

CANDIDATES = 20
"""Number of sections of every image, whose best windows may be candidates."""

_BEST_SECTIONS, _LEAST_SECTIONS = 0.3, 3  # share of an image's sections, and least number, that give a candidate
_FEW_PASSES = 3  # after more of them, all sections do
MANY_WINDOWS = 1_000_000  # below, all sections do always: there a pass costs little, and they save passes
WORTH_CANDIDATES = 4  # windows per candidate; below, passes over all windows are cheap enough
_FINER = 0.3  # share of the goal for the gap on candidates; the rest is for missing windows
_GAIN = 0.1  # share of the tolerance; CCCP has converged if new windows gain less
_TIGHTEN = 0.1  # share of a round's gap that is the goal of the next round


def make_pool(problems: Iterable[LatentProblem], bags: Bags, candidates: int) -> Pool | None:
    """Return a pool for problems on these bags, or None where candidates are useless.

    They are for 0 candidates, for small bags, and if no problem is of a kind that is trained on candidates.

    Raises
    ------
    InputError
        If `candidates` is no whole number of 0 or more.
    """
    check_count("candidates", candidates, least=0)
    worth = candidates > 0 and bags.n_competing.sum() >= WORTH_CANDIDATES * candidates * bags.n_bags
    return Pool(bags, candidates) if worth and any(_uses_candidates(problem) for problem in problems) else None


def make_training(problem: LatentProblem, bags: Bags, pool: Pool | None) -> Training:
    """Return the training of a problem, on candidates if there is a pool and this kind of problem allows it."""
    if pool is None or not _uses_candidates(problem):
        return start(problem, bags)
    return CandidateTraining(problem, bags, pool)


def _uses_candidates(problem: LatentProblem) -> bool:
    """Return whether a problem's risk grows with the best window's score alone, among constant windows."""
    return type(problem) is LatentProblem and not problem.trim


class CandidateView:
    """The candidates in the role of `Bags` for `Training`; windows have the numbers of the full bags.

    Parameters
    ----------
    pool : Pool
    first : (n_bags,) int
        Window 0 of each bag of the problem, among the windows of all bags.
    n_competing : (n_bags,) int
        Number of all competing windows of each bag.
    """

    def __init__(self, pool: Pool, first: Index, n_competing: Index):
        self._pool, self._first, self.n_competing = pool, first, n_competing
        self.n_bags, self.dim = pool.bags.n_bags, pool.bags.dim
        self._windows, self._was_best = np.empty(0, dtype=np.intp), np.empty(0, dtype=np.bool_)

    def take(self, windows: Index) -> None:
        """Replace the candidates by these sorted windows; those that were best once stay marked."""
        best_once, self._windows = self.best_once, windows
        self._addresses = self._pool.addresses(windows)
        self._bag = np.searchsorted(self._pool.bags.offsets, windows, side="right") - 1
        self._begin = np.flatnonzero(np.diff(self._bag, prepend=-1))
        self._rank = np.cumsum(np.diff(self._bag, prepend=-1) > 0) - 1
        self._was_best = np.isin(windows, best_once, assume_unique=True)

    @property
    def best_once(self) -> Index:
        """The candidates that were best once; they are never evicted."""
        return self._windows[self._was_best]

    def best(self, w: Float64) -> BestWindows:
        """Return the best candidate of each bag, the first of equal ones; a bag without any has the score -inf."""
        scores = self._pool.scores(w, self._addresses)
        highest = np.maximum.reduceat(scores, self._begin)
        equal = np.flatnonzero(scores == highest[self._rank])
        best = equal[np.diff(self._rank[equal], prepend=-1) > 0]
        self._was_best[best] = True
        index, score = np.zeros(self.n_bags, dtype=np.intp), np.full(self.n_bags, -np.inf)
        bags = self._bag[best]
        index[bags], score[bags] = self._windows[best] - self._first[bags], highest
        return BestWindows(index, score)

    def best_of(self, images: Index, w: Float64, counts: Index) -> Index:
        """Return the `counts` best candidates of each image, image after image, best first."""
        scores = self._pool.scores(w, self._addresses)
        chosen = []
        for image, count in zip(images, counts, strict=True):
            rows = slice(*np.searchsorted(self._bag, [image, image + 1]))
            best = np.argsort(-scores[rows], kind="stable")[:count]
            chosen.append(self._windows[rows][best] - self._first[image])
        return np.concatenate(chosen)

    def score_rows(self, weights: Float64, bags: Index, index: Index) -> Float64:
        """Return the score of window index[i] of bag bags[i], a candidate, as `Bags.score_rows` does."""
        return self._pool.scores(weights, self._pool.addresses(self._first[bags] + index))

    def sum_rows(self, coefficients: Float64, bags: Index, index: Index) -> Float64:
        """Return the sum of coefficients[i] times window index[i] of bag bags[i], as `Bags.sum_rows` does."""
        return self._pool.weighted_sum(coefficients, self._pool.addresses(self._first[bags] + index))


class Candidates(AllWindows):
    """The source of best windows between passes: the candidates."""

    by_passes = False

    def __init__(self, pool: Pool, view: CandidateView):
        super().__init__(cast(Bags, view))
        self._pool, self._view = pool, view

    def best(self, w: Float64) -> Generator[Float64, BestWindows, BestWindows]:
        """Return the best candidate of every bag, without a pass."""
        yield from ()
        self._pool.count_work(calls=1)
        return self._view.best(w)

    def best_of(self, images: Index, w: Float64, counts: Index) -> ImputedWindows:
        """Return the `counts` best candidates of each image at `w`."""
        return ImputedWindows(self.bags, images, self._view.best_of(images, w, counts), counts)


class PoolPasses(AllWindows):
    """Passes over all windows, which keep the positives' best windows where they are several.

    Attributes
    ----------
    tops : ImputedWindows or None
        These windows at the last pass.
    """

    tops: ImputedWindows | None = None

    def best_of(self, images: Index, w: Float64, counts: Index) -> ImputedWindows:
        """Return the best windows at the last pass."""
        return super().best_of(images, w, counts) if self.tops is None else self.tops.on(self.bags)

    def scored_by(self, view: CandidateView) -> "PoolPasses":
        """Return the last pass, with candidates that score and add single windows."""
        last = PoolPasses(cast(Bags, view))
        last.tops = self.tops
        return last


class CandidateTraining(Training):
    """Training of one problem on candidates between passes."""

    def __init__(self, problem: LatentProblem, bags: Bags, pool: Pool):
        super().__init__(problem, bags)
        self._pool, self._full = pool, self._bags
        self._source = self._passes = PoolPasses(self._full)
        self._first = pool.bags.offsets[:-1] + self._before
        self._view = CandidateView(pool, self._first, self._full.n_competing)
        self._counts = top_counts(self._full, self._positives, problem.top)
        self._images = np.append(self._positives, self._negatives)
        self._optional = np.empty((0, 0), dtype=np.intp)  # the best windows of sections at the last pass
        self._chosen = np.empty(0, dtype=np.intp)  # positives' windows that must be candidates after the next pass

    def receive(self, w: Float64, answer: BestWindows) -> BestWindows:
        """Return the best windows of this problem after a pass, and request the candidates that it found."""
        best = super().receive(w, answer)
        if isinstance(answer, PassAnswer):
            others = answer.others[self._images, : self._most_sections(w)]
            others[np.isin(self._images, self._fixed)] = -1
            self._optional = np.where(others < 0, -1, others + self._pool.bags.offsets[self._images, None])
            self._request_candidates(w, best.index)
        return best

    def _most_sections(self, w: Float64) -> int:
        """Return how many sections of an image may give candidates; at w = 0 none is better than another."""
        few = self._pool.n_competing >= MANY_WINDOWS and w.any() and self._n_passes <= _FEW_PASSES
        return max(_LEAST_SECTIONS, math.ceil(_BEST_SECTIONS * self._pool.count)) if few else self._pool.count

    def close(self) -> None:
        """Release the candidates."""
        self._pool.release(self._view)

    def run(self, previous: Training | None = None) -> Passes:
        """Yield points and receive the best windows of passes; return the solution."""
        imputed, planes = yield from self._start(previous)
        yield from self._load_candidates(imputed)
        proximity, final, last = 1.0, self._problem.tol, np.inf
        goal = max(final, FIRST_GAP)
        while True:
            end = yield from self._solve_on_candidates(imputed, planes, proximity, _FINER * goal)
            self._end, gain = yield from self._certify(end)
            solution, following = self._end.solution, self._end.following
            certified = solution.objective - solution.dual <= self._allowed(solution)
            fall, allowed = max(gain, last - solution.objective), self._allowed_fall(solution.objective)
            converged = self._end.changed == 0 or gain <= _GAIN * allowed or fall <= allowed
            self._end = self._end._replace(converged=converged)
            spent = self._n_steps >= self._problem.max_iter or not (end.solution.converged or goal > final)
            if (certified and converged) or spent:
                return self._solution()
            goal = final if certified else max(final, min(goal, _TIGHTEN * solution.gap))
            planes = self._carried(solution.planes, following) if self._end.changed else solution.planes
            last = solution.objective if len(following.index) == len(end.imputed.index) else np.inf
            imputed, proximity = following, solution.proximity

    def _solve_on_candidates(
        self, imputed: ImputedWindows, planes: list[Plane], proximity: float, tol: float
    ) -> Generator[Float64, BestWindows, End]:
        """Return where CCCP converges on candidates."""
        self._source = Candidates(self._pool, self._view)
        return (yield from self._descend(imputed.on(self._bags), planes, proximity, tol))

    def _certify(self, end: End) -> Generator[Float64, BestWindows, tuple[End, float]]:
        """Return the end with its objective over all windows, and what the new windows gain there."""
        record, w = self.history.pop(), end.solution.w
        self._chosen = np.append(self._numbers(end.imputed), self._numbers(end.following))
        self._source = self._passes
        self._answer, self._w = (yield from self._query(w)), w
        self._source = self._passes.scored_by(self._view)
        self._view.take(self._pool.available(self._view))
        plane = self._plane(w, self._answer, end.imputed)
        objective = objective_at(w, plane, self._problem.C)
        solution = end.solution._replace(
            objective=objective,
            gap=relative_gap(objective, end.solution.dual, end.solution.rounding),
            planes=[*end.solution.planes, plane],
        )
        following, changed = self._impute(end.imputed)
        gain = objective - objective_at(w, self._moved(plane, following), self._problem.C) if changed else 0.0
        update = {"objective": objective, "gap": solution.gap, "passes": self._n_passes, "changed": changed}
        self.history.append(record | update | {"tol": self._problem.tol, "certified": True})
        return End(solution, end.imputed, following, changed, converged=False), gain

    def _allowed(self, solution: Solution) -> float:
        """Return the absolute gap at which to stop."""
        at_zero = self._problem.C * max(plane.offset for plane in solution.planes)
        return allowed_gap(solution.objective, solution.dual, at_zero, self._problem.tol)

    def _take_over(self, previous: Training) -> tuple[ImputedWindows, list[Plane]]:
        if isinstance(previous, CandidateTraining):
            self._view, self._optional = previous._view, previous._optional
            self._passes.tops = previous._passes.tops
        return super()._take_over(previous)

    def _load_candidates(self, imputed: ImputedWindows) -> Generator[Float64, BestWindows, None]:
        """Load the candidates of the first round, and request them if the last pass did not."""
        self._chosen = self._numbers(imputed)
        if not self._optional.size:  # initial windows were given, and there was no pass
            self.receive(self._w[: self._view.dim], self._pool.at_zero)
        best = self._first[self._images] + self._answer.index[self._images]
        if not np.isin(np.append(self._chosen, best), self._pool.available(self._view)).all():
            self._request_candidates(self._w[: self._view.dim], self._answer.index)
            yield np.empty(0)  # an update of the candidates without a pass
        self._view.take(self._pool.available(self._view))

    def _request_candidates(self, w: Float64, best: Index) -> None:
        """Request the bags' best windows now and before, the positives' chosen ones, and the best of sections."""
        needed = [self._first[self._images] + best[self._images], self._view.best_once, self._chosen]
        if (self._counts > 1).any():
            self._passes.tops = top_windows(self._full, self._positives, w, self._counts)
            self._pool.count_work(read_rows=int(np.diff(self._full.offsets)[self._positives].sum()))
            needed.append(self._numbers(self._passes.tops))
        self._pool.request(self._view, WindowRequest(np.concatenate(needed), self._optional))

    def _numbers(self, imputed: ImputedWindows) -> Index:
        """Return the numbers of chosen windows among all."""
        return self._first[imputed.owners] + imputed.index
