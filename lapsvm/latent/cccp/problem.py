"""Latent problems: their risks, and their solutions.

A risk takes scores and labels and returns (offset, coefficients): the risk of any scores s' is at least
``offset - coefficients @ s'``, with equality at the scores given. Coefficients are >= 0 on positives and <= 0 on
negatives. Therefore the best window of a positive lowers the risk most, and that of a negative raises it most, which
makes imputation and inference separable (the thesis's propositions 2 and 3).
"""

from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float64, Index, as_floats, as_whole_numbers, check_count, check_positive, check_switch
from lapsvm.bags import Bags
from lapsvm.errors import InputError, OneClassError, OptionError, ShapeError
from lapsvm.latent.cccp.imputation import Imputed, ImputedVectors, ImputedWindows
from lapsvm.ranking import RankLoss, ZeroOneLoss, most_violated_ranking
from lapsvm.ranking.losses import as_loss
from lapsvm.settings import INITS


class Violation(NamedTuple):
    """The plane below a risk: ``offset - coefficients @ scores``."""

    offset: float
    coefficients: Float64


class Risk(Protocol):
    """The risk of a problem, convex in the scores."""

    def violation(self, scores: Float64, labels: Float64) -> Violation:
        """Return the plane that touches the risk at these scores (n,) of labels (n,) of +1 and -1."""


@dataclass(frozen=True)
class RankRisk:
    """The structured hinge of a rank loss: max over rankings R of Delta(R) + F(R) - F(R*).

    Parameters
    ----------
    loss : str or rank loss, default "ap"
        As `lapsvm.ranking.most_violated_ranking` takes it.
    """

    loss: "str | RankLoss | ZeroOneLoss" = "ap"

    def __post_init__(self) -> None:
        as_loss(self.loss)

    def violation(self, scores: Float64, labels: Float64) -> Violation:
        """Return the most violated ranking's plane."""
        violated = most_violated_ranking(scores, labels, loss=self.loss)
        return Violation(violated.loss, violated.coefficients)


@dataclass(frozen=True)
class HingeRisk:
    """The sum of hinges max(0, 1 - y s), those of positives times J.

    Parameters
    ----------
    J : float, default 1.0
        Weight of the positives, > 0.
    """

    J: float = 1.0

    def __post_init__(self) -> None:
        check_positive("J", self.J)

    def violation(self, scores: Float64, labels: Float64) -> Violation:
        """Return the plane of the samples inside the margin."""
        weights = np.where(labels > 0, self.J, 1.0) * (labels * scores < 1)
        return Violation(float(weights.sum()), weights * labels)


@dataclass(frozen=True)
class LatentProblem:
    """Minimise |w|^2 / 2 + C risk over w and the positives' windows (the thesis's problem 3.3).

    Parameters
    ----------
    y : (n_bags,) of +1, -1 or 0
        Labels of the images; 0 leaves an image out, such as one of another fold or with difficult objects only.
    risk : Risk, default RankRisk("ap")
        `RankRisk(loss)` or `HingeRisk(J)`.
    C : float, default 1.0
        Weight of the risk, > 0.
    init : {"mean", "whole_image", "random"}, (n_bags,) int or (d,) float, default "mean"
        The source of the positives' first windows. By name: the best windows for weights trained on one vector per
        image, which is the mean of its windows, its window 0 (by convention the whole image), or a random window.
        Whole numbers are the first windows themselves; other numbers
        are weights, whose best windows are the first ones.
    tol : float, default 1e-3
        Relative duality gap of the last convex problem, and the relative fall of the objective that ends training,
        unless the fall is above a twentieth of the decrease from w = 0 so far.
    top : float, default 1
        Number of best windows whose mean represents a positive image, or, below 1, their share of its windows,
        rounded up. 1 is the thesis's model; more windows average out the noise of the choice.
    max_iter : int, default 50
        Most outer steps.
    max_calls : int, default 1000
        Most loss-augmented inferences in one outer step.
    seed : int, default 0
        Seed of the random initialisation.
    fit_intercept : bool, default False
        Append a constant 1 to every window, regularised like all features; a rank risk does not depend on it.
    fixed_windows : (n_bags,) int, optional
        The only window of each image, or -1 where all windows compete. A positive image with a fixed window is not
        imputed, whatever `init` is; a negative one is scored by that window alone. With all windows fixed nothing is
        latent (the thesis's supervision S = 100 %).
    trim : float, default 0.0
        The share, in [0, 1), of most confusing windows that is ignored in each negative image, rounded down; at least
        one window is kept (the thesis's c, section 4.0.1). They are the best-scored ones, chosen anew after every
        outer step, beginning with none; like imputation this never raises the objective.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    y: ArrayLike
    risk: Risk = field(default_factory=RankRisk)
    C: float = 1.0
    init: "str | ArrayLike" = "mean"
    tol: float = 1e-3
    top: float = 1
    max_iter: int = 50
    max_calls: int = 1000
    seed: int = 0
    fit_intercept: bool = False
    fixed_windows: ArrayLike | None = None
    trim: float = 0.0

    def __post_init__(self) -> None:
        check_positive("C", self.C)
        check_positive("tol", self.tol)
        if check_positive("top", self.top) > 1 and self.top % 1:
            raise InputError(f"top must be a share below 1 or a whole number, got {self.top}.")
        for name, least in (("max_iter", 1), ("max_calls", 1), ("seed", 0)):
            check_count(name, getattr(self, name), least)
        check_switch("fit_intercept", self.fit_intercept)
        if not (isinstance(self.trim, Real) and 0 <= self.trim < 1):
            raise InputError(f"trim must be at least 0 and below 1, got {self.trim!r}.")
        if not callable(getattr(self.risk, "violation", None)):
            raise InputError(f"risk must have a method violation, got {self.risk!r}.")
        valid = self.init in INITS if isinstance(self.init, str) else self._init_has_kind("iuf")
        if not valid:
            raise OptionError(f"init must be one of {', '.join(INITS)}, windows or weights, got {self.init!r}.")

    def labels(self, bags: Bags) -> Float64:
        """Return the labels (n_bags,), checked against these bags."""
        labels = as_floats("y", self.y, ndim=1)
        if len(labels) != bags.n_bags:
            raise ShapeError(f"y must have one label per bag, got {len(labels)} for {bags.n_bags} bags.")
        if not np.isin(labels, (-1, 0, 1)).all():
            raise InputError(f"y must hold +1, -1 or 0, got {labels[~np.isin(labels, (-1, 0, 1))][0]:g}.")
        for sign, name in ((1, "positive"), (-1, "negative")):
            if not (labels == sign).any():
                raise OneClassError(f"y must have a positive and a negative image, got no {name}.")
        return labels

    def fixed(self, bags: Bags) -> Index:
        """Return the fixed windows (n_bags,), -1 where all windows compete."""
        if self.fixed_windows is None:
            return np.full(bags.n_bags, -1)
        return as_whole_numbers("fixed_windows", self.fixed_windows)

    def initial_windows(self, bags: Bags, positives: Index) -> Index | None:
        """Return the positives' first windows if `init` holds windows, else None."""
        if not self._init_has_kind("iu"):
            return None
        given = np.asarray(self.init)
        check_windows("init", given, bags, positives)
        return given[positives].astype(np.intp)

    def initial_weights(self, bags: Bags) -> Float64 | None:
        """Return the first weights if `init` holds weights, else None."""
        if not self._init_has_kind("f"):
            return None
        weights = np.asarray(self.init, dtype=np.float64)
        if weights.shape != (bags.dim,):
            raise ShapeError(f"init must have one weight per feature, got shape {weights.shape} for {bags.dim}.")
        return as_floats("init", weights, ndim=1)

    def first_vectors(self, bags: Bags, images: Index) -> Imputed:
        """Return the one vector per image on which a named `init` trains the first weights."""
        if self.init == "mean":
            return ImputedVectors(bags.means(images))
        if self.init == "whole_image":
            return ImputedWindows(bags, images, np.zeros(len(images), dtype=np.intp))
        # one draw per bag, so that an image's first window does not depend on the other images of the fold
        draws = np.random.default_rng(self.seed).random(bags.n_bags)[images]
        return ImputedWindows(bags, images, np.floor(draws * np.diff(bags.offsets)[images]).astype(np.intp))

    def _init_has_kind(self, kinds: str) -> bool:
        if isinstance(self.init, str):
            return False
        try:
            return np.asarray(self.init).dtype.kind in kinds
        except ValueError:  # rows of different lengths
            return False


def check_windows(name: str, windows: Array, bags: Bags, images: Index) -> None:
    """Raise ShapeError unless there is one window per bag, InputError unless those of some images are in their bags."""
    if windows.shape != (bags.n_bags,):
        raise ShapeError(f"{name} must have one window per bag, got shape {windows.shape} for {bags.n_bags} bags.")
    sizes = np.diff(bags.offsets)
    wrong = images[(windows[images] < 0) | (windows[images] >= sizes[images])]
    if len(wrong):
        raise InputError(
            f"{name} must choose windows inside their bags, got {windows[wrong[0]]} for bag {wrong[0]} of "
            f"{sizes[wrong[0]]} windows."
        )


@dataclass(frozen=True)
class LatentSolution:
    """The solution of a problem.

    Attributes
    ----------
    coef : (d,) float64
        Weights.
    intercept : float
        Weight of the constant; 0 without `fit_intercept`.
    objective : float
        |w|^2 / 2 + C risk at these weights, with the positives' windows of the last outer step.
    dual : float
        Lower bound of the minimum of that last convex problem.
    gap : float
        (objective - dual) / |objective|.
    windows : (n_bags,) intp
        Every image's best window at these weights; for positives the imputed one.
    history : list of dict
        One per outer step: step, objective, dual, gap, tol, calls, passes, candidate_calls, planes, changed (positives
        whose window changed after the step), certified. Where `certified` is False, objective, gap and changed are
        those on candidates: the objective is a lower bound of the one over all windows and may rise with the next pass.
    n_calls : int
        Number of loss-augmented inferences, on all windows or on candidates.
    n_passes : int
        Number of passes over the windows for this problem.
    converged : bool
        Whether the gap is at most `tol` and CCCP has converged.
    n_candidate_calls : int
        How often the candidates were scored.
    """

    coef: Float64
    intercept: float
    objective: float
    dual: float
    gap: float
    windows: Index
    history: list[dict[str, Any]]
    n_calls: int
    n_passes: int
    converged: bool
    n_candidate_calls: int = 0
