"""Probabilities from scores: a monotone map that is fitted on scores of held-out pictures.

The map answers one question: among pictures like the training pictures whose best score is s, which share shows the
class? It says nothing about where the object is.

It is a logistic function of the score (J. Platt, "Probabilistic outputs for support vector machines", 1999, with his
smoothed targets).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64, as_floats, as_whole_numbers, check_same_length
from lapsvm.blas import one_blas_thread
from lapsvm.errors import InputError, OneClassError

_METHOD = "platt"
_BINS = 10  # equal widths of probability (C. Guo et al., "On calibration of modern neural networks", ICML 2017)


@dataclass(frozen=True)
class ReliabilityPoint:
    """One bin of a reliability curve.

    Attributes
    ----------
    probability : float
        Mean probability of the bin's pictures.
    share : float
        Share of them that shows the class.
    pictures : int
    """

    probability: float
    share: float
    pictures: int


@dataclass(frozen=True)
class Reliability:
    """How well probabilities agree with labels.

    Attributes
    ----------
    ece : float
        Expected calibration error: mean distance of probability and share over ten bins of equal width, weighted by
        their pictures.
    brier : float
        Mean squared distance of probability and label (1 or 0).
    positives, negatives : int
        Pictures.
    curve : tuple of ReliabilityPoint
        The bins that are not empty, by increasing probability.
    """

    ece: float
    brier: float
    positives: int
    negatives: int
    curve: tuple[ReliabilityPoint, ...]


@dataclass(frozen=True)
class Calibration:
    """A non-decreasing map from the score of a picture to the probability that it shows the class.

    Attributes
    ----------
    slope, offset : float
        Of the logit, slope >= 0.
    reliability : Reliability or None
        Of maps that were fitted without the fold of the pictures they are applied to.

    Raises
    ------
    NotFiniteError, InputError
        If a number is not finite, or the slope is below 0.
    """

    slope: float
    offset: float
    reliability: Reliability | None = None

    def __post_init__(self) -> None:
        as_floats("a calibration", [self.slope, self.offset], 1)
        if self.slope < 0:
            raise InputError(f"a calibration must not decrease, got the slope {self.slope}.")

    @classmethod
    def fit(cls, scores: ArrayLike, y: ArrayLike, fold: ArrayLike | None = None) -> Self:
        """Fit the map on scores of pictures that their model did not see.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Best score of each picture, all in the scale of the scores that the map is for.
        y : array-like of shape (n,)
            Labels; > 0: the picture shows the class, < 0: it does not, 0: it is left out.
        fold : array-like of shape (n,) of int, optional
            The fold of each picture. With it, `reliability` is computed by maps of the other folds.

        Returns
        -------
        Calibration

        Raises
        ------
        ShapeError, NotFiniteError
            If the arrays do not fit, or a number is NaN or infinite.
        OneClassError
            If there is no positive or no negative, also without any one fold.
        """
        values, shows, folds = _labelled(scores, y, fold)
        slope, offset = _fitted(values, shows)
        known = None if folds is None else reliability(_cross_fitted(values, shows, folds), shows)
        return cls(slope, offset, known)

    def probability(self, scores: ArrayLike) -> Float64:
        """Return the probability of each score.

        Parameters
        ----------
        scores : array-like of shape (n,)

        Returns
        -------
        ndarray of shape (n,), float64
            In [0, 1], the larger the score the larger or equal.

        Raises
        ------
        ShapeError, NotFiniteError
            If the scores are no finite numbers in one dimension.
        """
        logits = self.slope * as_floats("scores", scores, 1) + self.offset
        return logistic(logits)

    def score_at(self, probability: float) -> float | None:
        """Return the score with a probability; None without one, or where all scores have the same."""
        if not self.slope or not 0 < probability < 1:
            return None
        return (math.log(probability / (1 - probability)) - self.offset) / self.slope

    def as_json(self) -> dict[str, Any]:
        """Return the map as plain JSON values, from which `from_json` makes an equal one."""
        content: dict[str, Any] = {"method": _METHOD, "first": [self.slope], "second": [self.offset]}
        if self.reliability is not None:
            curve = [[point.probability, point.share, point.pictures] for point in self.reliability.curve]
            content["reliability"] = {**vars(self.reliability), "curve": curve}
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the map that `as_json` wrote.

        Raises
        ------
        InputError
            If an entry is missing or has the wrong type or value.
        """
        try:
            stored = content.get("reliability")
            (slope,), (offset,) = content["first"], content["second"]
            if content["method"] != _METHOD:
                raise ValueError(f"its method must be {_METHOD}, got {content['method']!r}")
            return cls(float(slope), float(offset), None if stored is None else _reliability(stored))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"a calibration must have a method, its numbers and its reliability: {error}.") from None


def reliability(probabilities: ArrayLike, y: ArrayLike) -> Reliability:
    """Return how well probabilities agree with labels.

    Parameters
    ----------
    probabilities : array-like of shape (n,)
        In [0, 1].
    y : array-like of shape (n,)
        > 0: the picture shows the class; other pictures do not.

    Raises
    ------
    ShapeError, NotFiniteError, InputError
        If an array breaks its rule, or there is no picture.
    """
    values, shows = as_floats("probabilities", probabilities, 1), as_floats("y", y, 1) > 0
    check_same_length("probabilities", values, "y", shows)
    if not len(values) or values.min() < 0 or values.max() > 1:
        raise InputError(f"probabilities must be one or more numbers from 0 to 1, got {values.tolist()[:3]}.")
    bins = np.minimum((values * _BINS).astype(np.intp), _BINS - 1)
    curve = tuple(_point(values[bins == number], shows[bins == number]) for number in np.unique(bins))
    ece = sum(point.pictures * abs(point.probability - point.share) for point in curve) / len(values)
    brier = float(np.square(values - shows).mean())
    return Reliability(float(ece), brier, int(shows.sum()), int((~shows).sum()), curve)


def _point(probabilities: Float64, shows: Any) -> ReliabilityPoint:
    return ReliabilityPoint(float(probabilities.mean()), float(shows.mean()), len(shows))


def _reliability(stored: Mapping[str, Any]) -> Reliability:
    curve = tuple(ReliabilityPoint(float(p), float(share), int(n)) for p, share, n in stored["curve"])
    ece, brier = as_floats("reliability", [stored["ece"], stored["brier"]], 1).tolist()
    return Reliability(ece, brier, int(stored["positives"]), int(stored["negatives"]), curve)


def _labelled(scores: ArrayLike, y: ArrayLike, fold: ArrayLike | None) -> tuple[Float64, Any, Any]:
    """Return the scores of labelled pictures, whether they show the class, and their folds."""
    values, labels = as_floats("scores", scores, 1), as_floats("y", y, 1)
    check_same_length("scores", values, "y", labels)
    kept = labels != 0
    if fold is None:
        return values[kept], labels[kept] > 0, None
    folds = as_whole_numbers("fold", fold)
    check_same_length("fold", folds, "y", labels)
    return values[kept], labels[kept] > 0, folds[kept]


def _fitted(scores: Float64, shows: Any) -> tuple[float, float]:
    """Return slope and offset, of a constant map if the slope would be negative; `shows` (n,) bool."""
    positives, negatives = int(shows.sum()), int((~shows).sum())
    if not (positives and negatives):
        raise OneClassError(f"calibration needs pictures with and without the class, got {len(shows)} of one kind.")
    mean, spread = scores.mean(), scores.std()
    share = smoothed_targets(shows).mean()
    constant = 0.0, float(np.log(share / (1 - share)))
    if not spread > 0:
        return constant
    weights, intercept = logistic_weights(((scores - mean) / spread)[:, None], shows)
    slope = float(weights[0]) / spread
    return (slope, intercept - slope * mean) if slope > 0 else constant


def logistic(logits: Float64) -> Float64:
    """Return the probability of each logit, without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(logits / 2)))


def logistic_weights(scaled: Float64, shows: Any, inverse_ridge: float = np.inf) -> tuple[Float64, float]:
    """Return weights (m,) and intercept of J. Platt's map of scores of deviation 1, (n, m); `shows` (n,) bool."""
    from sklearn.linear_model import LogisticRegression

    target = smoothed_targets(shows)
    labels, weights = np.repeat([1, 0], len(scaled)), np.append(target, 1 - target)
    with one_blas_thread():
        model = LogisticRegression(C=inverse_ridge, solver="newton-cholesky", tol=1e-10, max_iter=200)
        model.fit(np.tile(scaled, (2, 1)), labels, weights)  # each picture twice, with label 1 and with label 0
    return model.coef_[0], float(model.intercept_[0])


def smoothed_targets(shows: Any) -> Float64:
    """Return J. Platt's smoothed target of each picture, which one more picture of each kind makes of 1 and 0."""
    positives, negatives = int(shows.sum()), int((~shows).sum())
    return np.where(shows, (positives + 1) / (positives + 2), 1 / (negatives + 2))


def _cross_fitted(scores: Float64, shows: Any, folds: Any) -> Float64:
    """Return the probability of each picture by the map of the other folds."""
    probabilities = np.empty(len(scores))
    for fold in np.unique(folds):
        in_fold = folds == fold
        probabilities[in_fold] = Calibration(*_fitted(scores[~in_fold], shows[~in_fold])).probability(scores[in_fold])
    return probabilities
