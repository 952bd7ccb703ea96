"""Probabilities from scores: a monotone map that is fitted on scores of held-out pictures.

The map answers one question: among pictures like the training pictures whose best score is s, which share shows the
class? It says nothing about where the object is.

Platt's map is a logistic function of the score (J. Platt, "Probabilistic outputs for support vector machines", 1999,
with his smoothed targets); the isotonic map is the best non-decreasing step function (B. Zadrozny and C. Elkan,
"Transforming classifier scores into accurate multiclass probability estimates", KDD 2002).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64, as_floats, as_whole_numbers, check_same_length
from lapsvm.blas import one_blas_thread
from lapsvm.errors import InputError, OneClassError, OptionError

METHODS = ("platt", "isotonic")
ISOTONIC_POSITIVES = 1000
"""`auto` fits the isotonic map from this number of positives and of negatives on; see docs/measurements/learning.md."""

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
    method : "platt" or "isotonic"
    first, second : tuple of float
        Platt: (slope,) >= 0 and (offset,) of the logit. Isotonic: scores, increasing, and their probabilities; between
        them the map is linear, outside it is constant.
    reliability : Reliability or None
        Of maps that were fitted without the fold of the pictures they are applied to.

    Raises
    ------
    OptionError
        If the method is unknown.
    InputError
        If the numbers are no non-decreasing map to [0, 1].
    """

    method: str
    first: tuple[float, ...]
    second: tuple[float, ...]
    reliability: Reliability | None = None

    def __post_init__(self) -> None:
        _check_method(self.method, METHODS)
        first, second = as_floats("first", self.first, 1), as_floats("second", self.second, 1)
        check_same_length("first", first, "second", second)
        if self.method == "platt":
            valid = len(first) == 1 and first[0] >= 0
        else:
            valid = len(first) > 0 and _increases(first, second)
        if not valid:
            raise InputError(f"a {self.method} map must not decrease, got {list(self.first)} and {list(self.second)}.")

    @classmethod
    def fit(cls, scores: ArrayLike, y: ArrayLike, fold: ArrayLike | None = None, *, method: str = "auto") -> Self:
        """Fit the map on scores of pictures that their model did not see.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Best score of each picture, all in the scale of the scores that the map is for.
        y : array-like of shape (n,)
            Labels; > 0: the picture shows the class, < 0: it does not, 0: it is left out.
        fold : array-like of shape (n,) of int, optional
            The fold of each picture. With it, `reliability` is computed by maps of the other folds.
        method : {"auto", "platt", "isotonic"}, default "auto"
            "auto" is "isotonic" from `ISOTONIC_POSITIVES` positives and as many negatives on, else "platt".

        Returns
        -------
        Calibration

        Raises
        ------
        ShapeError, NotFiniteError
            If the arrays do not fit, or a number is NaN or infinite.
        OneClassError
            If there is no positive or no negative, also without any one fold.
        OptionError
            If the method is unknown.
        """
        _check_method(method, ("auto", *METHODS))
        values, shows, folds = _labelled(scores, y, fold)
        chosen = _auto(shows) if method == "auto" else method
        first, second = _fitted(chosen, values, shows)
        if folds is None:
            return cls(chosen, first, second)
        return cls(chosen, first, second, reliability(_cross_fitted(chosen, values, shows, folds), shows))

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
        values = as_floats("scores", scores, 1)
        if self.method == "platt":
            return _logistic(self.first[0] * values + self.second[0])
        return np.interp(values, self.first, self.second)

    def as_json(self) -> dict[str, Any]:
        """Return the map as plain JSON values, from which `from_json` makes an equal one."""
        content: dict[str, Any] = {"method": self.method, "first": list(self.first), "second": list(self.second)}
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
            first, second = (tuple(map(float, content[name])) for name in ("first", "second"))
            return cls(content["method"], first, second, None if stored is None else _reliability(stored))
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


def _check_method(method: str, methods: Sequence[str]) -> None:
    if method not in methods:
        raise OptionError(f"method must be one of {', '.join(methods)}, got {method!r}.")


def _increases(scores: Float64, probabilities: Float64) -> bool:
    """Return whether scores increase, and probabilities do not decrease and lie in [0, 1]."""
    inside = probabilities[0] >= 0 and probabilities[-1] <= 1
    return bool(inside and (np.diff(scores) > 0).all() and (np.diff(probabilities) >= 0).all())


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


def _auto(shows: Any) -> str:
    fewest = min(shows.sum(), (~shows).sum())
    return "isotonic" if fewest >= ISOTONIC_POSITIVES else "platt"


def _fitted(method: str, scores: Float64, shows: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the numbers of the map; `shows` (n,) bool."""
    if shows.all() or not shows.any():
        raise OneClassError(f"calibration needs pictures with and without the class, got {len(shows)} of one kind.")
    return (_platt if method == "platt" else _isotonic)(scores, shows)


def _targets(shows: Any) -> tuple[float, float]:
    """Return Platt's targets of positives and negatives: the probabilities after one more picture of each kind."""
    positives, negatives = int(shows.sum()), int((~shows).sum())
    return (positives + 1) / (positives + 2), 1 / (negatives + 2)


def _platt(scores: Float64, shows: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the slope and the offset of the logistic map, those of a constant map if the slope would be negative."""
    from sklearn.linear_model import LogisticRegression

    target = np.where(shows, *_targets(shows))
    mean, spread = scores.mean(), scores.std()
    share = target.mean()
    constant = (0.0,), (float(np.log(share / (1 - share))),)
    if not spread > 0:
        return constant
    scaled = np.tile((scores - mean) / spread, 2)[:, None]  # each picture twice, with label 1 and with label 0
    labels, weights = np.repeat([1, 0], len(scores)), np.append(target, 1 - target)
    with one_blas_thread():
        model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10, max_iter=200)
        model.fit(scaled, labels, weights)
    slope = float(model.coef_[0, 0]) / spread
    return ((slope,), (float(model.intercept_[0]) - slope * mean,)) if slope > 0 else constant


def _isotonic(scores: Float64, shows: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the knots of the isotonic map; its probabilities never exceed Platt's targets, which 0 and 1 would."""
    from sklearn.isotonic import IsotonicRegression

    high, low = _targets(shows)
    model = IsotonicRegression(y_min=low, y_max=high).fit(scores, shows.astype(np.float64))
    return tuple(model.X_thresholds_.tolist()), tuple(model.y_thresholds_.tolist())


def _cross_fitted(method: str, scores: Float64, shows: Any, folds: Any) -> Float64:
    """Return the probability of each picture by the map of the other folds."""
    probabilities = np.empty(len(scores))
    for fold in np.unique(folds):
        own = folds == fold
        one = Calibration(method, *_fitted(method, scores[~own], shows[~own]))
        probabilities[own] = one.probability(scores[own])
    return probabilities


def _logistic(logits: Float64) -> Float64:
    return np.asarray(0.5 * (1 + np.tanh(logits / 2)))  # without overflow
