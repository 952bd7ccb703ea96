"""MI-SVM as it is mostly run: a linear SVM of windows, alternating with the choice of the positives' windows."""

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from lapsvm.arrays import Float64, Index, check_count, check_positive, check_same_length
from lapsvm.bags import Bags, as_bags
from lapsvm.models.latent_estimator import BagClassifier, BagsLike, feature_scale, image_labels

_PER_IMAGE = 20
"""Most windows of a negative image that one round adds to the working set."""

_SLACK = 1e-3
"""By how much a left-out window may break its margin: the solver's precision, not the model's."""


class MISVM(BagClassifier):
    """MI-SVM: the positives' best windows against all windows of the negatives.

    Alternates between a linear SVM and the choice of the window of each positive image that it scores best, from the
    images' mean features on, as the heuristic of Andrews, Tsochantaridis and Hofmann, "Support vector machines for
    multiple-instance learning", NIPS 2003, section 4. A fixed point minimises

    ``(|w|^2 + b^2) / 2 + C (J sum over positives of max(0, 1 - s)^2 + sum over negatives' windows of max(0, 1 + s)^2)``

    The paper has one slack for each negative image, as `LatentSVM` has; here each negative window has its own, as in
    most later experiments under this name, and the hinge is squared, scikit-learn's `LinearSVC` being the solver.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss, > 0.
    J : float, default 1.0
        Weight of the positives' losses, > 0.
    scale : {"mean_norm"}, float or None, default "mean_norm"
        What the features are multiplied with, as for `LatentRankSVM`.
    max_iter : int, default 30
        Most rounds. A round trains on a working set of negative windows, scores all windows once, chooses the
        positives' windows anew and exchanges negatives that are beyond their margin for those that break it. It is at
        rest when neither changes.

    Attributes
    ----------
    classes_ : (2,)
        The classes; the second one is the positive one.
    coef_ : (d,) float64
        Weights of the features as they are given; a window scores ``x @ coef_ + intercept_``.
    intercept_ : float
        b.
    feature_scale_ : float
        What `scale` came to.
    n_iter_ : int
        Rounds.
    history_ : list of dict
        One per round: step, changed (positives whose window is another one), working_set (negative windows), added.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(size=(8, 3)) + 3 * (i < 5) * (np.arange(8) == 2)[:, None] for i in range(15)]
    >>> MISVM(C=1).fit(bags, np.repeat([1, -1], [5, 10])).best_windows(bags)[:5]
    array([2, 2, 2, 2, 2])
    """

    n_iter_: int
    history_: list[dict[str, int]]

    def __init__(
        self, C: float = 1.0, J: float = 1.0, *, scale: "str | float | None" = "mean_norm", max_iter: int = 30
    ):
        self.C = C
        self.J = J
        self.scale = scale
        self.max_iter = max_iter

    def fit(self, bags: BagsLike, y: ArrayLike) -> Self:
        """Train on images with labels.

        Parameters
        ----------
        bags : Bags or sequence of (n_i, d) arrays
            The windows of each image.
        y : (n_bags,) of two values
            The larger one is positive. Of +1, -1 and 0 the last one leaves an image out.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If the labels do not fit the bags or are not of two classes, or a parameter breaks its rule.

        Warns
        -----
        ConvergenceWarning
            If the windows are not at rest after `max_iter` rounds.
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
        self.n_iter_, self.history_ = len(rounds), [{"step": step, **one.record} for step, one in enumerate(rounds)]
        self.n_features_in_ = data.dim
        if last.record["changed"] or last.record["added"]:
            warnings.warn(
                f"after {len(rounds)} rounds the windows are not at rest; raise max_iter, or lower C.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _rounds(self, data: Bags, positive: Any) -> Iterator["_Round"]:
        """Yield rounds until the windows are at rest or there were enough."""
        positives, negatives = np.flatnonzero(positive), np.flatnonzero(~positive)
        coef, intercept = self._solved(data.means(positives), data.means(negatives))
        windows, held = np.full(len(positives), -1), np.empty(0, dtype=np.intp)
        for step in range(self.max_iter + 1):
            scores = data.score_windows(coef) + intercept
            parts = np.split(scores, data.offsets[1:-1])
            best = np.array([parts[bag].argmax() for bag in positives])
            kept = held[scores[held] > -1]
            scores[held] = -np.inf  # what is there is not looked for
            added = _hardest(data, parts, negatives)
            record = {"changed": int((best != windows).sum()), "working_set": len(held), "added": len(added)}
            if step:
                yield _Round(coef, intercept, record)
                if not record["changed"] and not record["added"]:
                    return
            windows, held = best, np.union1d(kept, added)
            coef, intercept = self._solved(data.rows(positives, windows), _rows(data, held))

    def _solved(self, positives: Float64, negatives: Float64) -> tuple[Float64, float]:
        """Return weights and intercept of the linear SVM."""
        from sklearn.svm import LinearSVC

        labels = np.repeat([1, -1], [len(positives), len(negatives)])
        svm = LinearSVC(C=self.C, dual=False, class_weight={1: self.J, -1: 1.0})
        svm.fit(np.vstack([positives, negatives]), labels)
        return svm.coef_[0], float(svm.intercept_[0])


class _Round(NamedTuple):
    """What one round trained, and what it changed."""

    coef: Float64
    intercept: float
    record: dict[str, int]


def _hardest(data: Bags, parts: list[Float64], negatives: Index) -> Index:
    """Return the best-scored windows of each negative image that break their margin, counted through all bags."""
    found = [np.empty(0, dtype=np.intp)]
    for bag in negatives:
        best = np.argsort(-parts[bag], kind="stable")[:_PER_IMAGE]
        found.append(data.offsets[bag] + best[parts[bag][best] > -1 + _SLACK])
    return np.concatenate(found)


def _rows(data: Bags, places: Index) -> Float64:
    """Return the features of windows that are counted through all bags."""
    bags = np.searchsorted(data.offsets, places, side="right") - 1
    return data.rows(bags, places - data.offsets[bags])
