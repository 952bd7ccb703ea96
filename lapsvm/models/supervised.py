"""The supervised rank SVM (AP-SVM, NDCG-SVM and others) as a scikit-learn classifier."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from lapsvm.arrays import Array, Float64, check_count, check_positive, check_switch
from lapsvm.bags import Bags
from lapsvm.errors import InputError, OneClassError, ShapeError
from lapsvm.latent import HingeRisk, RankRisk
from lapsvm.latent.cccp.problem import Risk, Violation
from lapsvm.models.threshold import balanced_intercept
from lapsvm.optim import Plane, minimise
from lapsvm.ranking import RankLoss, ZeroOneLoss
from lapsvm.ranking.losses import as_loss

LARGEST = 1e50
"""Largest magnitude in X: larger numbers overflow in the computation of the certificate."""

_TYPES = (np.float64, np.float32)


class Samples:
    """The rows of an array or of a CSR matrix. Sums over float32 use float64 without copying the array."""

    def __init__(self, X: Any):
        self._matrix: Any = X.astype(np.float64) if sparse.issparse(X) else None
        self._array = None if sparse.issparse(X) else Bags(X, np.arange(len(X) + 1))

    def scores(self, w: Float64) -> Float64:
        """Return X @ w."""
        return np.asarray(self._matrix @ w) if self._array is None else self._array.score_windows(w)

    def weighted_sum(self, coefficients: Float64) -> Float64:
        """Return coefficients @ X."""
        if self._array is None:
            return np.asarray(self._matrix.T @ coefficients)
        return self._array.weighted_sum(coefficients, np.zeros(len(coefficients), dtype=np.intp))


class GroupedRisk:
    """The mean of a risk over groups of samples; a group without both classes counts 0."""

    def __init__(self, risk: Risk, groups: Array):
        self._risk = risk
        self._members = [np.flatnonzero(groups == group) for group in np.unique(groups)]

    def violation(self, scores: Float64, labels: Float64) -> Violation:
        """Return the mean of the groups' planes."""
        offset, coefficients = 0.0, np.zeros(len(scores))
        for members in self._members:
            if len(np.unique(labels[members])) == 2:
                violation = self._risk.violation(scores[members], labels[members])
                offset += violation.offset / len(self._members)
                coefficients[members] = violation.coefficients / len(self._members)
        return Violation(offset, coefficients)


class WeightedZeroOneRisk:
    """The mean hinge loss (the loss "zero_one"), with the positives' hinges times J."""

    def __init__(self, J: float):
        self._hinges = HingeRisk(J)

    def violation(self, scores: Float64, labels: Float64) -> Violation:
        """Return the plane of the samples inside the margin."""
        violation = self._hinges.violation(scores, labels)
        return Violation(violation.offset / len(scores), violation.coefficients / len(scores))


class LinearRanker(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What trained linear rankers share: scores, classes and tags; `fit` sets coef_, intercept_ and classes_."""

    def decision_function(self, X: ArrayLike) -> Float64:
        """Return the scores (n,), the intercept included; a sample is taken as positive where it is above 0."""
        check_is_fitted(self)
        checked = validate_data(self, X, accept_sparse="csr", dtype=_TYPES, reset=False)
        return np.asarray(Samples(checked).scores(self.coef_) + self.intercept_)

    def predict(self, X: ArrayLike) -> Array:
        """Return the class (n,) of each sample."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(np.intp)])

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Any, Float64]:
        """Return the samples and their labels, +1 and -1, after all checks; store the classes."""
        checked, targets = validate_data(self, X, y, accept_sparse="csr", dtype=_TYPES)
        check_moderate(checked)
        self.classes_, labels = two_classes(targets)
        return checked, labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags


@dataclass(eq=False, repr=False)
class RankSVM(LinearRanker):
    """Linear ranker that minimises the structured hinge of a rank loss.

    Minimises ``|w|^2 / 2 + C max over R of { Delta(R) + F(R) - F(R*) }``: for "ap" the AP-SVM of Yue et al., SIGIR
    2007, with the inference of Mohapatra et al., CVPR 2018.

    Parameters
    ----------
    loss : str or rank loss, default "ap"
        A name of `lapsvm.ranking.losses.NAMED`, or a loss object.
    C : float, default 1.0
        Weight of the loss, > 0. Its effect depends on the scale of the features; scaling them to a mean norm near 1
        makes values of C comparable between data sets.
    tol : float, default 1e-3
        Relative duality gap at which to stop.
    fit_intercept : bool, default False
        Whether to learn the intercept as the weight of a constant feature 1. Only for "zero_one": rank losses do not
        depend on an intercept.
    J : float, default 1.0
        Weight of the positives' hinges, > 0. Only for "zero_one": a rank loss compares positives with negatives, so
        that a class weight would only multiply C.
    max_calls : int, default 1000
        Maximum number of loss-augmented inferences.

    Attributes
    ----------
    classes_ : (2,)
        The classes; the second, larger one is the positive one.
    coef_ : (d,) float64
    intercept_ : float
        Learned, or set after training: the threshold with the highest balanced accuracy on the
        training samples.
    objective_ : float
        The objective at `coef_`.
    duality_gap_ : float
        (objective_ - dual) / abs(objective_).
    n_iter_ : int
        Number of loss-augmented inferences.
    history_ : list of dict
        One entry: step, objective, dual, gap, calls, planes.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [3.0, 1.0], [2.0, 5.0]])
    >>> model = RankSVM("ap", C=100).fit(X, [0, 0, 1, 1])
    >>> model.predict(X)
    array([0, 0, 1, 1])
    """

    loss: "str | RankLoss | ZeroOneLoss" = "ap"
    C: float = 1.0
    tol: float = 1e-3
    _: KW_ONLY
    fit_intercept: bool = False
    J: float = 1.0
    max_calls: int = 1000

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Train.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
            float32 and float64 are not converted.
        y : (n,) of two values
            The larger one is positive.
        groups : (n,), optional
            Query of each sample. The loss is the mean over queries; queries without both classes count 0.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If `y` does not hold two classes, or a parameter breaks its rule.

        Warns
        -----
        ConvergenceWarning
            If the duality gap is above `tol` after `max_calls` inferences.
        """
        checked, labels = self._checked(X, y)
        check_positive("C", self.C)
        check_positive("tol", self.tol)
        check_count("max_calls", self.max_calls)
        learned = check_switch("fit_intercept", self.fit_intercept)
        if learned and not isinstance(as_loss(self.loss), ZeroOneLoss):
            raise InputError(
                f"fit_intercept must be False for the loss {self.loss!r}, which ignores intercepts, got True."
            )
        samples = Samples(_with_ones(checked) if learned else checked)
        risk = self._risk() if groups is None else GroupedRisk(self._risk(), _as_groups(groups, labels))

        def oracle(w: Float64) -> Plane:
            violation = risk.violation(samples.scores(w), labels)
            return Plane(-samples.weighted_sum(violation.coefficients), violation.offset)

        solution = minimise(oracle, self.n_features_in_ + learned, self.C, self.tol, max_calls=self.max_calls)
        self.coef_, self.objective_ = solution.w[: self.n_features_in_], solution.objective
        self.duality_gap_, self.n_iter_ = solution.gap, solution.n_calls
        step = {name: getattr(solution, name) for name in ("objective", "dual", "gap")}
        self.history_ = [{"step": 0, **step, "calls": solution.n_calls, "planes": len(solution.planes)}]
        self.intercept_ = (
            float(solution.w[-1]) if learned else balanced_intercept(samples.scores(solution.w), labels > 0)
        )
        return self

    def _risk(self) -> Risk:
        """Return the risk of one query."""
        if check_positive("J", self.J) == 1:
            return RankRisk(self.loss)
        if not isinstance(as_loss(self.loss), ZeroOneLoss):
            raise InputError(f"J must be 1 for the loss {self.loss!r}, which has no class weights, got {self.J}.")
        return WeightedZeroOneRisk(self.J)


def check_moderate(X: Any) -> None:
    """Raise InputError if a number of an array or sparse matrix is too large for a certificate."""
    values = X.data if sparse.issparse(X) else X
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if largest > LARGEST:
        raise InputError(f"the numbers of X must be within {LARGEST:g} of 0, got {largest:g}; scale the features.")


def two_classes(y: Array) -> tuple[Array, Float64]:
    """Return the two classes and the labels: +1 for the larger class, -1 for the other.

    Raises
    ------
    OneClassError
        If `y` does not hold two classes.
    """
    check_classification_targets(y)
    classes, indices = np.unique(y, return_inverse=True)
    if len(classes) > 2:
        raise InputError(
            f"Only binary classification is supported. The type of the target is {type_of_target(y)}: y must hold two "
            f"classes, got {len(classes)}."
        )
    if len(classes) < 2:
        raise OneClassError(f"y must hold two classes, got one class: {classes.tolist()}.")
    return classes, np.where(indices == 1, 1.0, -1.0)


def _as_groups(groups: ArrayLike, labels: Float64) -> Array:
    array = np.asarray(groups)
    if array.shape != labels.shape:
        raise ShapeError(f"groups must have one entry per sample, got shape {array.shape} for {len(labels)}.")
    # a missing value equals nothing, so that its samples would belong to no group
    if any(group is None or group != group for group in array.tolist()):  # noqa: PLR0124 - NaN differs from itself
        raise InputError("groups must name a query for every sample, got a missing value.")
    return array


def _with_ones(X: Any) -> Any:
    ones = np.ones((X.shape[0], 1), dtype=X.dtype)
    return sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])
