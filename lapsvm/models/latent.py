"""Latent AP-SVM and its kin: detectors from image-level labels, on the scikit-learn interface."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from lapsvm.arrays import Array, Float64, Index, as_floats, check_positive
from lapsvm.bags import Bags, as_bags
from lapsvm.errors import InputError, OneClassError, OptionError
from lapsvm.latent import HingeRisk, LatentProblem, LatentSolution, RankRisk, fit_many, fit_multifold
from lapsvm.models.threshold import balanced_intercept
from lapsvm.ranking import RankLoss, ZeroOneLoss, average_precision

_ALIKE = 1e-12  # a spread of scores that is rounding; the features have a mean norm of 1

BagsLike = Bags | Sequence[ArrayLike]
Callback = Callable[[dict[str, Any]], None]


class LatentEstimator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What the latent estimators share: fitting by CCCP, scoring a bag by its best window."""

    init: "str | ArrayLike"
    n_init: int
    folds: int | None
    callback: Callback | None
    scale: "str | float | None"
    classes_: Array
    coef_: Float64
    intercept_: float
    feature_scale_: float
    objective_: float
    duality_gap_: float
    n_iter_: int
    history_: list[dict[str, Any]]

    @abstractmethod
    def problem(self, y: ArrayLike) -> LatentProblem:
        """Return what `fit` solves, for labels +1, -1 and 0; `lapsvm.latent.fit_many` solves many at once."""

    @abstractmethod
    def _intercept(self, found: LatentSolution, scores: Float64, labels: Float64) -> float:
        """Return the intercept, given the best windows' scores."""

    def fit(self, bags: BagsLike, y: ArrayLike, known_windows: ArrayLike | None = None) -> Self:
        """Train on images with labels.

        Parameters
        ----------
        bags : Bags or sequence of (n_i, d) arrays
            The windows of each image.
        y : (n_bags,) of two values
            The larger one is positive. Of +1, -1 and 0 the last one leaves an image out.
        known_windows : (n_bags,) int, optional
            The window of each image where it is known, else -1: a known image has no other window in training.

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
            If training stopped before the duality gap was at most `tol`.
        """
        raw = as_bags(bags)
        self.classes_, labels = two_classes(y)
        self.feature_scale_ = feature_scale(self.scale, raw)
        data, used = raw.scaled(self.feature_scale_), labels != 0
        problem = replace(self.problem(labels), known_windows=known_windows)
        weights = problem.given_weights(data)
        if weights is not None:
            problem = replace(problem, init=weights / self.feature_scale_)
        found = self._train(problem, data)
        self.coef_ = found.coef * self.feature_scale_
        self.objective_, self.duality_gap_ = found.objective, found.gap
        self.n_iter_, self.history_ = found.n_calls, found.history
        self.n_features_in_ = data.dim
        scores = data.best(found.coef).score[used]
        self.intercept_ = self._intercept(found, scores, labels[used])
        if np.ptp(scores) <= _ALIKE:
            warnings.warn(
                "training ended at w = 0, which scores every image alike; raise C, or choose another init.",
                UserWarning,
                stacklevel=2,
            )
        return self

    def _train(self, problem: LatentProblem, bags: Bags) -> LatentSolution:
        """Return the solution with the lowest objective over the restarts, the first of equal ones."""
        if not (isinstance(self.n_init, Integral) and self.n_init >= 1):
            raise InputError(f"n_init must be a whole number of 1 or more, got {self.n_init!r}.")
        if self.n_init > 1 and not (isinstance(self.init, str) and self.init == "random"):
            raise InputError(f"n_init must be 1 unless init is 'random', got {self.n_init}.")
        restarts = [replace(problem, seed=problem.seed + i) for i in range(self.n_init)]
        return min(self._solved(restarts, bags), key=lambda found: found.objective)

    def _solved(self, problems: list[LatentProblem], bags: Bags) -> list[LatentSolution]:
        callback, folds = self.callback, self.folds
        if folds is not None:
            return [fit_multifold(problem, bags, folds) for problem in problems]
        told = None if callback is None else lambda place, record: callback({"restart": place, **record})
        return fit_many(problems, bags, told)

    def decision_function(self, bags: BagsLike) -> Float64:
        """Return each image's score (n_bags,): its best window's, plus the intercept."""
        return np.asarray(self._best(bags).score + self.intercept_)

    def predict(self, bags: BagsLike) -> Array:
        """Return the class (n_bags,) of each image: the positive one where its score is above 0."""
        positive = self.decision_function(bags) > 0
        return np.asarray(self.classes_[positive.astype(np.intp)])

    def best_windows(self, bags: BagsLike) -> Index:
        """Return each image's best window (n_bags,), 0-based within its bag."""
        return np.asarray(self._best(bags).index)

    def score_windows(self, bags: BagsLike) -> Float64:
        """Return the score of every window (n_windows,), bag after bag, plus the intercept."""
        check_is_fitted(self)
        return np.asarray(as_bags(bags).score_windows(self.coef_) + self.intercept_)

    def score(self, bags: BagsLike, y: ArrayLike) -> float:
        """Return the average precision of the images' scores; label 0 leaves an image out."""
        labels = two_classes(y)[1]
        scores = self.decision_function(bags)[labels != 0]
        return float(average_precision(scores, labels[labels != 0]))

    def _best(self, bags: BagsLike) -> Any:
        check_is_fitted(self)
        return as_bags(bags).best(self.coef_)


class LatentRankSVM(LatentEstimator):
    """Latent AP-SVM, and the same for the other rank losses.

    Minimises ``|w|^2 / 2 + C max over R, H_N of { Delta(R) + F(R) - F(R*) }`` with each positive image at its best
    window: problem 3.3 of A. Behl's thesis, "Optimizing Average Precision using Weakly Supervised Data".

    Parameters
    ----------
    loss : str or rank loss, default "ap"
        "ap", "ndcg", "auc", "mrr", "pos_at_top", "zero_one", or a loss object.
    C : float, default 1.0
        Weight of the loss, > 0.
    tol : float, default 1e-3
        Relative duality gap of the last convex problem, and the relative fall of the objective that ends CCCP.
    init : str or array, default "mean"
        Where the first windows come from, see `LatentProblem`. "mean" asks nothing of the bags; "whole_image" is for
        bags whose window 0 is the whole image. Weights are, like `coef_`, those of the features as they are given.
    top : float, default 0.03
        How many best windows stand for a positive image in training, by their mean: a number, or, below 1, a share of
        its windows, rounded up. 1 is the thesis's model. The mean of a few averages out what is noise in the choice
        of one; prediction is by the best window in any case.
    scale : {"mean_norm"}, float or None, default "mean_norm"
        What the features are multiplied with: one over the mean norm of the training windows, so that a value of C
        means the same for any unit of measurement; a number; or nothing.
    max_iter : int, default 50
        Most outer steps.
    max_calls : int, default 1000
        Most loss-augmented inferences in one outer step.
    random_state : int, default 0
        Seed of ``init="random"``.
    n_init : int, default 1
        Trainings from random windows, seeded random_state, random_state + 1, ..., side by side; the one with the
        lowest objective is kept. More than 1 asks for ``init="random"``.
    folds : int, optional
        Multi-fold relocalisation, see `lapsvm.latent.fit_multifold`: in how many parts the positives are cut, so that
        each one's window is chosen by a model that was not trained on it. `history_` is then that of the last, convex
        problem, one window standing for each positive image.
    callback : callable, optional
        Called after every outer step with its record, as in `history_`, and "restart", 0 .. n_init - 1; not with
        `folds`.

    Attributes
    ----------
    classes_ : (2,)
        The classes; the second one is the positive one.
    coef_ : (d,) float64
        Weights of the features as they are given; a window scores ``x @ coef_ + intercept_``.
    feature_scale_ : float
        What `scale` came to.
    intercept_ : float
        Set after training, for a rank loss does not see it: the threshold with the highest balanced accuracy on the
        training images.
    objective_ : float
        The objective at `coef_`, |coef_ / feature_scale_|^2 / 2 + C risk, the positives at the windows of the last
        outer step.
    duality_gap_ : float
        (objective_ - dual) / abs(objective_) of that last convex problem.
    n_iter_ : int
        Loss-augmented inferences.
    history_ : list of dict
        One per outer step: step, objective, dual, gap, tol, calls, passes, planes, changed.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(size=(8, 3)) + 3 * (i < 5) * (np.arange(8) == 2)[:, None] for i in range(15)]
    >>> model = LatentRankSVM("ap", C=10).fit(bags, np.repeat([1, -1], [5, 10]))
    >>> model.best_windows(bags)[:5]
    array([2, 2, 2, 2, 2])
    """

    def __init__(
        self,
        loss: "str | RankLoss | ZeroOneLoss" = "ap",
        C: float = 1.0,
        tol: float = 1e-3,
        *,
        init: "str | ArrayLike" = "mean",
        top: float = 0.03,
        scale: "str | float | None" = "mean_norm",
        max_iter: int = 50,
        max_calls: int = 1000,
        random_state: int = 0,
        n_init: int = 1,
        folds: int | None = None,
        callback: Callback | None = None,
    ):
        self.loss = loss
        self.C = C
        self.tol = tol
        self.init = init
        self.top = top
        self.scale = scale
        self.max_iter = max_iter
        self.max_calls = max_calls
        self.random_state = random_state
        self.n_init = n_init
        self.folds = folds
        self.callback = callback

    def problem(self, y: ArrayLike) -> LatentProblem:
        """Return what `fit` solves, for labels +1, -1 and 0; `lapsvm.latent.fit_many` solves many at once."""
        return LatentProblem(
            y,
            risk=RankRisk(self.loss),
            C=self.C,
            init=self.init,
            top=self.top,
            tol=self.tol,
            max_iter=self.max_iter,
            max_calls=self.max_calls,
            seed=self.random_state,
        )

    def _intercept(self, found: LatentSolution, scores: Float64, labels: Float64) -> float:  # noqa: ARG002
        return balanced_intercept(scores, labels > 0)


class LatentSVM(LatentEstimator):
    """Latent SVM with the hinge loss, also known as MI-SVM.

    Minimises ``|w|^2 / 2 + C (J sum over positives + sum over negatives) max(0, 1 - y s)``, s being the score of an
    image's best window.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss, > 0.
    J : float, default 1.0
        Weight of the positives' hinges, > 0.
    c : float, default 0.0
        The share, in [0, 1), of most confusing windows that is ignored in each negative image, rounded down, at least
        one being kept: the robustness that the thesis gives this baseline. See `LatentProblem`.
    top : float, default 1
        As for `LatentRankSVM`; 1 is MI-SVM.
    fit_intercept : bool, default False
        Learn an intercept; it is regularised like a feature that is 1 everywhere.
    tol, init, scale, max_iter, max_calls, random_state, n_init, folds, callback
        As for `LatentRankSVM`.

    Attributes
    ----------
    coef_, feature_scale_, intercept_, objective_, duality_gap_, n_iter_, history_
        As for `LatentRankSVM`, but `intercept_` is 0 or learned; the objective contains intercept_^2 / 2.
    """

    def __init__(
        self,
        C: float = 1.0,
        J: float = 1.0,
        tol: float = 1e-3,
        *,
        c: float = 0.0,
        fit_intercept: bool = False,
        init: "str | ArrayLike" = "mean",
        top: float = 1,
        scale: "str | float | None" = "mean_norm",
        max_iter: int = 50,
        max_calls: int = 1000,
        random_state: int = 0,
        n_init: int = 1,
        folds: int | None = None,
        callback: Callback | None = None,
    ):
        self.C = C
        self.J = J
        self.c = c
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.init = init
        self.top = top
        self.scale = scale
        self.max_iter = max_iter
        self.max_calls = max_calls
        self.random_state = random_state
        self.n_init = n_init
        self.folds = folds
        self.callback = callback

    def problem(self, y: ArrayLike) -> LatentProblem:
        """Return what `fit` solves, for labels +1, -1 and 0; `lapsvm.latent.fit_many` solves many at once."""
        return LatentProblem(
            y,
            risk=HingeRisk(self.J),
            C=self.C,
            init=self.init,
            top=self.top,
            tol=self.tol,
            max_iter=self.max_iter,
            max_calls=self.max_calls,
            seed=self.random_state,
            fit_intercept=self.fit_intercept,
            ignored=self.c,
        )

    def _intercept(self, found: LatentSolution, scores: Float64, labels: Float64) -> float:  # noqa: ARG002
        return found.intercept


def feature_scale(scale: "str | float | None", bags: Bags) -> float:
    """Return the factor that a `scale` parameter means for these bags.

    Raises
    ------
    OptionError
        If it is neither "mean_norm", None nor a number.
    """
    if scale is None:
        return 1.0
    if isinstance(scale, str):
        if scale != "mean_norm":
            raise OptionError(f"scale must be 'mean_norm', None or a number, got {scale!r}.")
        norm = bags.mean_norm()
        return 1.0 / norm if norm > 0 else 1.0
    return check_positive("scale", scale)


def two_classes(y: ArrayLike) -> tuple[Array, Float64]:
    """Return the two classes, and the labels as +1 for the larger one, -1, and 0 for images that are left out.

    Raises
    ------
    OneClassError
        If there are not two classes.
    """
    labels = as_floats("y", y, ndim=1)
    values = np.unique(labels)
    if np.isin(values, (-1, 0, 1)).all() and {-1, 1} <= set(values):
        return np.array([-1, 1]), labels
    if len(values) != 2:
        raise OneClassError(f"y must hold two classes, got {len(values)}.")
    return np.unique(np.asarray(y)), np.where(labels == values[1], 1.0, -1.0)
