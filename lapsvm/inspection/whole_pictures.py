"""What the whole picture adds to a class's best window in a decision: a second linear model, and its join.

A defect that covers a surface shows in all windows a little, and in none alone. The second model is a logistic
regression on the mean of a picture's window features. Its score is the mean of the windows' scores by one more vector
of weights, so it costs a prediction one more pass over the same maps. A logistic function of both scores is the
probability of the class; it never decreases with either of them. Detections and their scores know nothing of it.

Every fold has a rule of its own, learned on the others: a classifier, whether it counts, and its join. The held-out
logit of a picture is by the rule of its fold; that of a new picture is the mean over the rules. A classifier of all
pictures would spread new scores more widely than those of two thirds spread the held-out ones, and more new good
pictures would reach a threshold that is chosen on these. The mean spreads them less: it errs towards fewer alarms.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Float64, Index, as_floats, as_groups, as_whole_numbers, check_same_length
from lapsvm.blas import one_blas_thread
from lapsvm.errors import InputError
from lapsvm.inspection.calibration import Calibration, logistic, logistic_weights, smoothed_targets

LEAST = 10
"""The groups of pictures with and without a class that must remain beside every fold; fewer teach no second model."""
_C = 0.01
_RIDGE = 1e-6  # keeps the join of two equal scores defined
_NARROW = 1e-6  # a feature's deviation counts as no less than this share of the largest one
_STORED = "<f4"

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PictureModel:
    """The logit of a class in a picture: slope x score of its best window + coef . mean of its features + offset.

    Attributes
    ----------
    slope, offset : float
        slope >= 0.
    coef : array-like of shape (d,)
        Of the mean of the features of all windows of the picture.

    Raises
    ------
    ShapeError, NotFiniteError, InputError
        If `coef` has other dimensions, a number is not finite, or the slope is below 0.
    """

    slope: float
    offset: float
    coef: Float64

    def __post_init__(self) -> None:
        as_floats("slope and offset of a picture model", [self.slope, self.offset], 1)
        object.__setattr__(self, "coef", as_floats("coef of a picture model", self.coef, 1))
        if self.slope < 0:
            raise InputError(f"the slope of a picture model must be at least 0, got {self.slope}.")

    def probability(self, best: ArrayLike, picture_scores: ArrayLike) -> Float64:
        """Return the probability that each of n pictures shows the class.

        Parameters
        ----------
        best : array-like of shape (n,)
            Scores of their best windows.
        picture_scores : array-like of shape (n,)
            `coef` times the means of their features.

        Returns
        -------
        ndarray of shape (n,), float64
        """
        scores = as_floats("best", best, 1), as_floats("picture_scores", picture_scores, 1)
        return logistic(self.slope * scores[0] + scores[1] + self.offset)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON values; `coef` is rounded to float32, little-endian, as base64."""
        coef = b64encode(self.coef.astype(_STORED).tobytes()).decode()
        return {"slope": self.slope, "offset": self.offset, "coef": coef}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the model of `as_json`; KeyError, TypeError, ValueError or InputError if it is something else."""
        coef = np.frombuffer(b64decode(content["coef"], validate=True), _STORED)
        return cls(float(content["slope"]), float(content["offset"]), coef.astype(np.float64))


class FittedPictures(NamedTuple):
    """A picture model, and the probabilities (n,) of its pictures by models that did not see them."""

    model: PictureModel
    held_out: Float64


def fit_picture_model(
    means: ArrayLike, best: ArrayLike, y: ArrayLike, fold: ArrayLike, groups: ArrayLike | None = None
) -> FittedPictures | None:
    """Learn a picture model of a class.

    Parameters
    ----------
    means : array-like of shape (n, d)
        Mean of each picture's window features.
    best : array-like of shape (n,)
        Score of the best window of each, by a model that did not see it.
    y : array-like of shape (n,)
        1, or -1.
    fold : array-like of shape (n,) of int
        The fold of each picture.
    groups : array-like of shape (n,) of int, optional
        The group of each picture, in one fold each; without it each is on its own. What the whole picture adds counts a
        picture as its part of its group.

    Returns
    -------
    FittedPictures or None
        A held-out probability is by the rule of the picture's fold, which the other folds alone decide; the model is
        the mean of these rules. None where pictures are fewer than `LEAST`, or no fold's rule counts the whole picture.

    Raises
    ------
    ShapeError, NotFiniteError
        If the arrays do not fit, or a number is not finite.
    """
    features, scores = as_floats("means", means, 2), as_floats("best", best, 1)
    shows, folds = as_floats("y", y, 1) > 0, as_whole_numbers("fold", fold)
    group, sizes = as_groups(groups, len(features))
    for name, rows in (("best", scores), ("y", shows), ("fold", folds)):
        check_same_length("means", features, name, rows)
    members = [folds == number for number in np.unique(folds)]
    if not are_enough(shows, folds, group):
        return None
    pictures = _Pictures(scores, np.empty(len(features)), shows, 1 / sizes[group], folds)
    classifiers = [_classifier(features[~in_fold], shows[~in_fold]) for in_fold in members]
    for in_fold, (coef, intercept) in zip(members, classifiers, strict=True):
        pictures.picture_scores[in_fold] = features[in_fold] @ coef + intercept
    joins = [_fold_join(pictures.among(~in_fold)) for in_fold in members]
    if not any(join.weight for join in joins):
        return None
    held_out = np.empty(len(features))
    for in_fold, join in zip(members, joins, strict=True):
        held_out[in_fold] = logistic(join.logits(pictures.among(in_fold)))
    return FittedPictures(_mean_rule(joins, classifiers), held_out)


def are_enough(y: ArrayLike, fold: ArrayLike, groups: ArrayLike) -> bool:
    """Return whether every fold leaves at least `LEAST` groups of pictures with and without a class to learn from.

    The arguments are those of `fit_picture_model`.
    """
    shows, folds, group = as_floats("y", y, 1) > 0, as_whole_numbers("fold", fold), as_whole_numbers("groups", groups)
    return all(_are_enough(shows[folds != number], group[folds != number]) for number in np.unique(folds))


def _mean_rule(joins: Sequence["_Join"], classifiers: Sequence[tuple[Float64, float]]) -> PictureModel:
    """Return the mean of the folds' logits as one model."""
    offsets = [join.offset + join.weight * intercept for join, (_, intercept) in zip(joins, classifiers, strict=True)]
    coefs = [join.weight * coef for join, (coef, _) in zip(joins, classifiers, strict=True)]
    slope = float(np.mean([join.slope for join in joins]))
    return PictureModel(slope, float(np.mean(offsets)), np.mean(coefs, axis=0))


def _are_enough(shows: Flags, group: Index) -> bool:
    return min(len(np.unique(group[rows])) for rows in (shows, ~shows)) >= LEAST


def _classifier(features: Float64, shows: Flags) -> tuple[Float64, float]:
    """Return weights (d,) and intercept of a logistic regression on standardised features, for features as they are."""
    from sklearn.linear_model import LogisticRegression

    mean, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.maximum(spread, max(_NARROW * spread.max(initial=0), np.finfo(float).tiny))
    with one_blas_thread():
        model = LogisticRegression(C=_C, class_weight="balanced", tol=1e-8, max_iter=1000)
        model.fit((features - mean) / spread, shows)
    coef = model.coef_[0] / spread
    return coef, float(model.intercept_[0] - mean @ coef)


@dataclass(frozen=True, eq=False)
class _Pictures:
    """Pictures: scores of best windows and of whole pictures, labels, shares of a group, and folds, (n,)."""

    best: Float64
    picture_scores: Float64
    shows: Flags
    parts: Float64
    fold: Index

    def among(self, rows: Flags) -> "_Pictures":
        return _Pictures(*(column[rows] for column in vars(self).values()))


class _Join(NamedTuple):
    """The logit of two scores."""

    slope: float
    weight: float
    offset: float

    def logits(self, pictures: _Pictures) -> Float64:
        return np.asarray(self.slope * pictures.best + self.weight * pictures.picture_scores + self.offset)

    def losses(self, pictures: _Pictures) -> Float64:
        """Return the negative log-likelihoods (n,) of Platt's targets."""
        logits = self.logits(pictures)
        return np.asarray(np.logaddexp(0, logits) - smoothed_targets(pictures.shows) * logits)


def _fold_join(others: _Pictures) -> _Join:
    """Return the join of a fold, learned on the pictures of the others.

    That of the best window alone if the whole picture adds no more than one more number does by chance (H. Akaike's
    criterion, 1974), where each picture counts as its part of a group, or if it puts no more pairs of the others in
    order, each by a join without its own fold.
    """
    alone, both = _alone(others), _both(others)
    gain = float((alone.losses(others) - both.losses(others)) @ others.parts)
    return both if both.weight and gain > 1 and orders_better(others) else alone


def orders_better(pictures: _Pictures) -> bool:
    """Return whether joins without a picture's fold put more pairs in order than maps of best windows alone do.

    True where pictures beside a fold are of one kind, which cannot tell.
    """
    from lapsvm.evaluation import image_auroc  # prediction needs none

    members = [pictures.fold == number for number in np.unique(pictures.fold)]
    if not all(0 < pictures.shows[~in_fold].sum() < (~in_fold).sum() for in_fold in members):
        return True
    aurocs = []
    for learn in (_both, _alone):
        logits = np.empty(len(pictures.best))
        for in_fold in members:
            logits[in_fold] = learn(pictures.among(~in_fold)).logits(pictures.among(in_fold))
        aurocs.append(image_auroc(logits, np.where(pictures.shows, 1, -1)) or 0)
    return aurocs[0] > aurocs[1]


def _alone(pictures: _Pictures) -> _Join:
    """Return the logistic map of the best window's score."""
    calibration = Calibration.fit(pictures.best, np.where(pictures.shows, 1, -1))
    return _Join(calibration.slope, 0.0, calibration.offset)


def _both(pictures: _Pictures) -> _Join:
    """Return the logistic map of both scores, or that of the best window alone if either would count negatively."""
    scores = np.column_stack([pictures.best, pictures.picture_scores])
    mean, spread = scores.mean(axis=0), scores.std(axis=0)
    if not spread.min() > 0:
        return _alone(pictures)
    weights, intercept = logistic_weights((scores - mean) / spread, pictures.shows, 1 / _RIDGE)
    slope, weight = (weights / spread).tolist()
    both = _Join(slope, weight, intercept - float(mean @ [slope, weight]))
    return both if slope >= 0 and weight > 0 else _alone(pictures)
