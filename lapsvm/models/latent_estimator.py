"""Base classes of the latent estimators: fitting by CCCP, and scoring an image by its best window."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from lapsvm.arrays import Array, Float64, Index, as_floats, check_count, check_positive, check_same_length
from lapsvm.bags import Bags, as_bags
from lapsvm.errors import InputError, NotFiniteError, OneClassError, OptionError, ShapeError
from lapsvm.latent import LatentProblem, LatentSolution, fit_many
from lapsvm.models.threshold import balanced_intercept
from lapsvm.ranking import average_precision

_MIN_SPREAD = 1e-12  # smaller spreads of the scores are rounding; the features have a mean norm of 1

BagsLike = Bags | Sequence[ArrayLike]
Callback = Callable[[dict[str, Any]], None]


class BagClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear model of windows that scores a bag by its best one."""

    classes_: Array
    coef_: Float64
    intercept_: float
    feature_scale_: float

    def decision_function(self, bags: BagsLike) -> Float64:
        """Return the score (n_bags,) of each image: its best window's score plus the intercept."""
        return np.asarray(self._best(bags).score + self.intercept_)

    def predict(self, bags: BagsLike) -> Array:
        """Return the class (n_bags,) of each image: positive if its score is above 0."""
        positive = self.decision_function(bags) > 0
        return np.asarray(self.classes_[positive.astype(np.intp)])

    def best_windows(self, bags: BagsLike) -> Index:
        """Return the index (n_bags,) of each image's best window, 0-based within its bag."""
        return np.asarray(self._best(bags).index)

    def score_windows(self, bags: BagsLike) -> Float64:
        """Return the score (n_windows,) of every window in the order of the bags, including the intercept."""
        return np.asarray(self._fitting(bags).score_windows(self.coef_) + self.intercept_)

    def instance_scores(self, bags: BagsLike) -> list[Float64]:
        """Return the scores (n_i,) of the instances of each bag, which say where in a bag the class is.

        They include the intercept, and the largest of a bag is its `decision_function`.
        """
        given = self._fitting(bags)
        return np.split(self.score_windows(given), given.offsets[1:-1])

    def score(self, bags: BagsLike, y: ArrayLike) -> float:
        """Return the average precision of the images' scores; images with label 0 are left out."""
        labels, scores = image_labels(y)[1], self.decision_function(bags)
        check_same_length("y", labels, "bags", scores)
        return float(average_precision(scores[labels != 0], labels[labels != 0]))

    def _best(self, bags: BagsLike) -> Any:
        return self._fitting(bags).best(self.coef_)

    def _fitting(self, bags: BagsLike) -> Bags:
        """Return the bags. Raises ShapeError unless they have the number of features of training."""
        check_is_fitted(self)
        given = as_bags(bags)
        if given.dim != len(self.coef_):
            raise ShapeError(f"bags must have {len(self.coef_)} features, as those of training, got {given.dim}.")
        return given


@dataclass(eq=False, repr=False, kw_only=True)
class LatentEstimator(BagClassifier):
    """Base class of the estimators that CCCP trains, with their common parameters."""

    candidates = 0  # subclasses with this parameter override it

    init: "str | ArrayLike" = "mean"
    scale: "str | float | None" = "mean_norm"
    max_iter: int = 50
    max_calls: int = 1000
    random_state: int = 0
    n_init: int = 1
    callback: Callback | None = None

    @abstractmethod
    def problem(self, y: ArrayLike) -> LatentProblem:
        """Return the problem that `fit` solves, for labels +1, -1 and 0; see also `lapsvm.latent.fit_many`."""

    def _options(self) -> dict[str, Any]:
        """Return the arguments that all problems share."""
        seed = check_count("random_state", self.random_state, least=0)
        return {"init": self.init, "max_iter": self.max_iter, "max_calls": self.max_calls, "seed": seed}

    def _intercept(self, solution: LatentSolution, scores: Float64, labels: Float64) -> float:  # noqa: ARG002
        """Return the intercept for the scores of the best windows."""
        return balanced_intercept(scores, labels > 0)

    def fit(self, bags: BagsLike, y: ArrayLike, fixed_windows: ArrayLike | None = None) -> Self:
        """Train on labelled images.

        Parameters
        ----------
        bags : Bags or sequence of (n_i, d) arrays
            The windows of each image.
        y : (n_bags,) of two values
            The larger one is positive. If the values are +1, -1 and 0, images with label 0 are left out.
        fixed_windows : (n_bags,) int, optional
            Index of the only window that training uses of an image, or -1 to use all its windows.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If the labels do not fit the bags or do not hold two classes, or a parameter breaks its rule.

        Warns
        -----
        ConvergenceWarning
            If training stopped before the duality gap was at most `tol`.
        """
        raw = as_bags(bags)
        self.classes_, labels = image_labels(y)
        self.feature_scale_ = feature_scale(self.scale, raw)
        data, used = raw.scaled(self.feature_scale_), labels != 0
        problem = replace(self.problem(labels), fixed_windows=fixed_windows)
        weights = problem.initial_weights(data)
        if weights is not None:
            problem = replace(problem, init=weights / self.feature_scale_)
        solution = self._train(problem, data)
        self.coef_ = solution.coef * self.feature_scale_
        self.objective_, self.duality_gap_ = solution.objective, solution.gap
        self.n_iter_, self.history_ = solution.n_calls, solution.history
        self.n_features_in_ = data.dim
        scores = data.best(solution.coef).score[used]
        self.intercept_ = self._intercept(solution, scores, labels[used])
        if np.ptp(scores) <= _MIN_SPREAD:
            state = "with weights that give" if solution.coef.any() else "at w = 0, which gives"
            warnings.warn(
                f"training ended {state} every image the same score; raise C, or choose another init.",
                UserWarning,
                stacklevel=2,
            )
        return self

    def _train(self, problem: LatentProblem, bags: Bags) -> LatentSolution:
        """Return the restart with the lowest objective, the first among equals."""
        check_count("n_init", self.n_init)
        if self.callback is not None and not callable(self.callback):
            raise InputError(f"callback must be callable or None, got {self.callback!r}.")
        if self.n_init > 1 and not (isinstance(self.init, str) and self.init == "random"):
            raise InputError(f"n_init must be 1 unless init is 'random', got {self.n_init}.")
        restarts = [replace(problem, seed=problem.seed + i) for i in range(self.n_init)]
        callback = self.callback
        report = None if callback is None else lambda restart, record: callback({"restart": restart, **record})
        solutions = fit_many(restarts, bags, report, candidates=self.candidates)
        return min(solutions, key=lambda solution: solution.objective)


def feature_scale(scale: "str | float | None", bags: Bags) -> float:
    """Return the factor for these bags that a `scale` parameter selects.

    Raises
    ------
    OptionError
        If `scale` is neither "mean_norm", None nor a number.
    """
    if scale is None:
        return 1.0
    if isinstance(scale, str):
        if scale != "mean_norm":
            raise OptionError(f"scale must be 'mean_norm', None or a number, got {scale!r}.")
        norm = bags.mean_norm()
        if not np.isfinite(norm):
            raise NotFiniteError(f"the features' mean norm must be finite, got {norm}; rescale the features.")
        return 1.0 / norm if norm > 0 else 1.0
    return check_positive("scale", scale)


def image_labels(y: ArrayLike) -> tuple[Array, Float64]:
    """Return the two classes, and the labels as +1 for the larger class, -1, and 0 for images that are left out.

    Raises
    ------
    OneClassError
        If `y` does not hold two classes.
    """
    labels = as_floats("y", y, ndim=1)
    values = np.unique(labels)
    if {-1, 1} <= set(values) <= {-1, 0, 1}:
        return np.array([-1, 1]), labels
    if len(values) != 2:
        raise OneClassError(f"y must hold two classes, got {len(values)}.")
    if set(values) == {-1, 0}:
        raise OneClassError(
            "y must hold two classes, got only -1: with labels -1 and 0, images with label 0 are left out."
        )
    return np.unique(np.asarray(y)), np.where(labels == values[1], 1.0, -1.0)
