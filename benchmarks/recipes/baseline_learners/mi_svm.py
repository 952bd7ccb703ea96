"""MI-SVM by its usual heuristic: alternate a linear SVM of windows with the choice of the positives' windows."""

import warnings
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from lapsvm.arrays import Float64, Index, check_count, check_positive, check_same_length
from lapsvm.bags import Bags, as_bags
from lapsvm.models.latent_estimator import BagClassifier, BagsLike, feature_scale, image_labels

_PER_IMAGE = 20
"""Maximum number of windows of a negative image that one round adds to the working set."""

_SLACK = 1e-3
"""Margin violation of a window outside the working set that is tolerated; it covers the solver's precision."""


@dataclass(eq=False, repr=False)
class MISVM(BagClassifier):
    """MI-SVM: the positives' best windows against all windows of the negatives.

    Starts from the images' mean features and alternates between training a linear SVM and choosing the best-scored
    window of each positive image. This is the heuristic of Andrews, Tsochantaridis and Hofmann, "Support vector
    machines for multiple-instance learning", NIPS 2003, section 4. A fixed point minimises

    ``(|w|^2 + b^2) / 2 + C (J sum over positives of max(0, 1 - s)^2 + sum over negatives' windows of max(0, 1 + s)^2)``

    The paper has one slack variable per negative image, as `LatentSVM` has. Here each negative window has its own, as
    in most later experiments under this name. The hinge is squared because scikit-learn's `LinearSVC` is the solver.

    A round trains on a working set of negative windows, scores all windows once and chooses the positives' windows
    again. It removes negatives that satisfy their margin from the working set and adds those that violate it. Training
    has converged when no window changes. It also ends, with a warning, when all windows are those of an earlier round:
    two windows can be tied to the solver's precision.

    Fitted are `classes_`, `coef_`, `intercept_` and `feature_scale_` as for `LatentRankSVM`, the number of rounds
    `n_iter_`, and `history_`, for each: step, changed (positives whose window changed), working_set (negative windows),
    added.
    """

    C: float = 1.0  # weight of the loss, > 0
    J: float = 1.0  # weight of the positives' losses, > 0
    _: KW_ONLY
    scale: str | float | None = "mean_norm"  # factor of the features, as for `LatentRankSVM`
    max_iter: int = 30  # largest number of rounds

    def fit(self, bags: BagsLike, y: ArrayLike) -> Self:
        """Train on labelled images, the arguments and errors as for `LatentRankSVM`.

        Warns with ConvergenceWarning if the windows still change after `max_iter` rounds, or those of an earlier
        round return.
        """
        check_positive("C", self.C), check_positive("J", self.J), check_count("max_iter", self.max_iter)
        raw = as_bags(bags)
        self.classes_, labels = image_labels(y)
        check_same_length("y", labels, "bags", raw.offsets[1:])
        self.feature_scale_ = feature_scale(self.scale, raw)
        data = raw.scaled(self.feature_scale_).subset(np.flatnonzero(labels))
        rounds = list(self._rounds(data, labels[labels != 0] > 0))
        last = rounds[-1]
        self.coef_, self.intercept_ = last.coef * self.feature_scale_, last.intercept
        self.n_iter_, self.history_ = len(rounds), [{"step": step, **entry.record} for step, entry in enumerate(rounds)]
        self.n_features_in_ = data.dim
        if last.record["changed"] or last.record["added"]:
            what, advice = ("repeat", "lower C") if last.repeats else ("still change", "raise max_iter, or lower C")
            warnings.warn(f"the windows {what} after {len(rounds)} rounds; {advice}.", ConvergenceWarning, stacklevel=2)
        return self

    def _rounds(self, data: Bags, positive: Any) -> Iterator["_Round"]:
        """Yield rounds until no window changes, all return to those of an earlier round or `max_iter` is reached."""
        positives, negatives = np.flatnonzero(positive), np.flatnonzero(~positive)
        coef, intercept = self._solve(data.means(positives), data.means(negatives))
        windows, working_set = np.full(len(positives), -1), np.empty(0, dtype=np.intp)
        trained: set[tuple[bytes, bytes]] = set()
        for step in range(self.max_iter + 1):
            scores = data.score_windows(coef) + intercept
            bag_scores = np.split(scores, data.offsets[1:-1])
            best = np.array([bag_scores[bag].argmax() for bag in positives])
            kept = working_set[scores[working_set] > -1]
            scores[working_set] = -np.inf  # exclude windows that are already in the working set
            added = _hardest(data, bag_scores, negatives)
            record = {"changed": int((best != windows).sum()), "working_set": len(working_set), "added": len(added)}
            windows, working_set = best, np.union1d(kept, added)
            state = windows.tobytes(), working_set.tobytes()
            repeats = state in trained  # each round is a function of it, so the same rounds would follow for ever
            if step:
                yield _Round(coef, intercept, record, repeats)
                if repeats or (not record["changed"] and not record["added"]):
                    return
            trained.add(state)
            coef, intercept = self._solve(data.rows(positives, windows), _rows(data, working_set))

    def _solve(self, positives: Float64, negatives: Float64) -> tuple[Float64, float]:
        """Return weights and intercept of the linear SVM."""
        from sklearn.svm import LinearSVC

        labels = np.repeat([1, -1], [len(positives), len(negatives)])
        svm = LinearSVC(C=self.C, dual=False, class_weight={1: self.J, -1: 1.0})
        svm.fit(np.vstack([positives, negatives]), labels)
        return svm.coef_[0], float(svm.intercept_[0])


class _Round(NamedTuple):
    """The weights that one round trained, its record, and whether the windows are those of an earlier round."""

    coef: Float64
    intercept: float
    record: dict[str, int]
    repeats: bool


def _hardest(data: Bags, bag_scores: list[Float64], negatives: Index) -> Index:
    """Return the global indices of each negative image's best-scored windows that violate their margin."""
    hardest = [np.empty(0, dtype=np.intp)]
    for bag in negatives:
        best = np.argsort(-bag_scores[bag], kind="stable")[:_PER_IMAGE]
        hardest.append(data.offsets[bag] + best[bag_scores[bag][best] > -1 + _SLACK])
    return np.concatenate(hardest)


def _rows(data: Bags, windows: Index) -> Float64:
    """Return the features of windows given by their global indices."""
    bags = np.searchsorted(data.offsets, windows, side="right") - 1
    return data.rows(bags, windows - data.offsets[bags])
