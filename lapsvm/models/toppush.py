"""TopPush, a ranker for accuracy at the top of the list, as a scikit-learn classifier."""

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from lapsvm.arrays import Float64, Index, check_choice, check_count, check_positive
from lapsvm.models.supervised import LinearRanker, Samples
from lapsvm.models.threshold import balanced_intercept
from lapsvm.optim import TopPushSolution, top_push

_LOSSES = ("exponential", "logistic", "squared_hinge")


@dataclass(eq=False, repr=False)
class TopPush(LinearRanker):
    """Linear ranker that pushes the positives above the highest negative.

    Minimises ``lam/2 |w|^2 + 1/m sum_i l(max_j w.x-_j - w.x+_i)`` over the m positives: Li, Jin and Zhou, "Top rank
    optimization in linear time", NIPS 2014, problem 6.

    Parameters
    ----------
    lam : float, default 1.0
        Weight of the regulariser, > 0. It applies to the unscaled features.
    tol : float, default 1e-4
        Relative gap between the primal and the dual value at which to stop, > 0. If w = 0 is not optimal within
        `tol`, the gap must also be at most 2 % of the decrease from w = 0 to the minimum.
    loss : {"squared_hinge", "logistic", "exponential"}, default "squared_hinge"
        l(z) = max(0, 1 + z)^2, log(1 + e^z) or e^z.
    max_iter : int, default 100
        Maximum number of passes over the samples, 1 or more.

    Attributes
    ----------
    classes_ : (2,)
        The classes; the second, larger one is the positive one.
    coef_ : (d,) float64
    intercept_ : float
        Set after training: the threshold with the highest balanced accuracy on the training samples.
    objective_ : float
        The primal value at `coef_`.
    duality_gap_ : float
        (objective_ - dual) / abs(objective_).
    n_iter_ : int
        Number of passes over the samples.
    history_ : list of dict
        Per pass: step, objective (the best so far), dual, gap, steps (on the working set), working_set (its size).

    Notes
    -----
    If the positives' mean lies in the convex hull of the negatives, w = 0 is the minimum for every `lam`: no direction
    ranks the positives' mean above all negatives. The dual value is then l(0), `coef_` is 0 or close to it, and `fit`
    warns.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [3.0, 1.0], [2.0, 5.0]])
    >>> model = TopPush(lam=0.01).fit(X, [0, 0, 1, 1])
    >>> model.predict(X)
    array([0, 0, 1, 1])
    """

    lam: float = 1.0
    tol: float = 1e-4
    loss: str = "squared_hinge"
    _: KW_ONLY
    max_iter: int = 100

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
            float32 and float64 are not converted.
        y : (n,) of two values
            The larger one is positive.

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
            If the duality gap is above `tol` after `max_iter` passes.
        UserWarning
            If w = 0 is the minimum.
        """
        checked, labels = self._checked(X, y)
        lam, tol = check_positive("lam", self.lam), check_positive("tol", self.tol)
        check_count("max_iter", self.max_iter)
        check_choice("loss", self.loss, _LOSSES)
        solution = top_push(_Rows(checked), labels, lam, tol, self.loss, max_passes=self.max_iter)
        self.coef_, self.objective_, self.duality_gap_ = solution.w, solution.objective, solution.gap
        self.n_iter_, self.history_ = len(solution.history), solution.history
        self.intercept_ = balanced_intercept(solution.scores, labels > 0)
        _warn_if_unreliable(solution, tol)
        return self


class _Rows:
    """The samples behind the solver's `Rows` protocol."""

    def __init__(self, X: Any):
        self._X = X
        # BLAS is fastest for float64 arrays
        self._direct = not sparse.issparse(X) and X.dtype == np.float64
        self._samples = None if self._direct else Samples(X)

    def scores(self, w: Float64) -> Float64:
        """Return X @ w."""
        return np.asarray(self._X @ w) if self._samples is None else self._samples.scores(w)

    def take(self, indices: Index) -> Any:
        """Return the rows with these indices in float64."""
        return self._X[indices].astype(np.float64, copy=False)


def _warn_if_unreliable(solution: TopPushSolution, tol: float) -> None:
    """Warn, with a remedy, if the gap is above `tol` or w = 0 is the minimum."""
    if not solution.converged:
        warnings.warn(
            f"the duality gap is {solution.gap:.2g} after {len(solution.history)} passes, above tol={tol:g}; "
            "raise max_iter, raise lam, or scale the features to a mean norm near 1.",
            ConvergenceWarning,
            stacklevel=3,
        )
    elif solution.zero_is_optimal:
        warnings.warn(
            "w = 0 is the minimum, so the ranking is not informative: no direction ranks the positives' mean above all "
            "negatives, or lam is far too large for the scale of the features.",
            UserWarning,
            stacklevel=3,
        )
