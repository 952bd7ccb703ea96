"""Latent AP-SVM, its variants for other rank losses, and their baselines latent SVM and latent structural SVM."""

from dataclasses import KW_ONLY, dataclass

from numpy.typing import ArrayLike

from lapsvm.arrays import Float64
from lapsvm.latent import HingeRisk, LatentProblem, LatentSolution, RankRisk, StructuralProblem
from lapsvm.latent.scheduling.candidates import CANDIDATES
from lapsvm.models.latent_estimator import LatentEstimator
from lapsvm.ranking import RankLoss, ZeroOneLoss


@dataclass(eq=False, repr=False)
class LatentRankSVM(LatentEstimator):
    """Latent AP-SVM, generalised to any rank loss.

    Minimises ``|w|^2 / 2 + C max over R, H_N of { Delta(R) + F(R) - F(R*) }`` where each positive image is represented
    by its best window: problem 3.3 of A. Behl's thesis, "Optimizing Average Precision using Weakly Supervised Data".

    Parameters
    ----------
    loss : str or rank loss, default "ap"
        A name of `lapsvm.ranking.losses.NAMED`, or a loss object.
    C : float, default 1.0
        Weight of the loss, > 0.
    tol : float, default 1e-3
        Relative duality gap of the last convex problem, and the relative fall of the objective that ends CCCP, unless
        the fall is above a twentieth of the decrease from w = 0 so far.
    init : str or array, default "mean"
        Choice of the first windows, see `LatentProblem`. "mean" makes no assumption about the bags; "whole_image" is
        for bags whose window 0 is the whole image. An array holds weights of the unscaled features, like `coef_`.
    top : float, default 0.03
        Number of best windows whose mean represents a positive image in training; below 1, a share of its windows,
        rounded up. 1 is the thesis's model. Averaging reduces the noise in the choice of a single window. Prediction
        always uses the best window.
    scale : {"mean_norm"}, float or None, default "mean_norm"
        Factor of the features. "mean_norm" is one over the mean norm of the training windows, which makes C
        independent of the features' unit; None is 1.
    max_iter : int, default 50
        Maximum number of outer steps.
    max_calls : int, default 1000
        Maximum number of loss-augmented inferences in one outer step.
    random_state : int, default 0
        Seed of ``init="random"``.
    n_init : int, default 1
        Number of random restarts with the seeds random_state, random_state + 1, ...; the solution with the lowest
        objective is kept. Values above 1 need ``init="random"``.
    callback : callable, optional
        Called after every outer step with its `history_` record and "restart", 0 .. n_init - 1.
    candidates : int, default 20
        Number of parts of every image whose best windows training keeps between passes over all windows, see
        `lapsvm.latent.fit_many`; with 0, every plane takes a pass. The certificate holds in both cases.

    Attributes
    ----------
    classes_ : (2,)
        The classes; the second one is the positive one.
    coef_ : (d,) float64
        Weights of the unscaled features; the score of a window is ``x @ coef_ + intercept_``.
    feature_scale_ : float
        The factor that `scale` selected.
    intercept_ : float
        Set after training, because rank losses do not depend on it: the threshold with the highest balanced accuracy
        on the training images.
    objective_ : float
        The objective at `coef_`, |coef_ / feature_scale_|^2 / 2 + C risk, with the positive windows of the last outer
        step.
    duality_gap_ : float
        (objective_ - dual) / abs(objective_) of the last convex problem.
    n_iter_ : int
        Number of loss-augmented inferences.
    history_ : list of dict
        One per outer step, see `lapsvm.latent.LatentSolution`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(size=(8, 3)) + 3 * (i < 5) * (np.arange(8) == 2)[:, None] for i in range(15)]
    >>> model = LatentRankSVM("ap", C=10).fit(bags, np.repeat([1, -1], [5, 10]))
    >>> model.best_windows(bags)[:5]
    array([2, 2, 2, 2, 2])
    """

    loss: "str | RankLoss | ZeroOneLoss" = "ap"
    C: float = 1.0
    tol: float = 1e-3
    _: KW_ONLY
    top: float = 0.03
    candidates: int = CANDIDATES

    def problem(self, y: ArrayLike) -> LatentProblem:
        """Return the problem that `fit` solves, for labels +1, -1 and 0; see also `lapsvm.latent.fit_many`."""
        return LatentProblem(y, RankRisk(self.loss), self.C, tol=self.tol, top=self.top, **self._options())


@dataclass(eq=False, repr=False)
class LatentSVM(LatentEstimator):
    """Latent SVM with the hinge loss, also known as MI-SVM.

    Minimises ``|w|^2 / 2 + C (J sum over positives + sum over negatives) max(0, 1 - y s)``, where s is the score
    of an image's best window.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss, > 0.
    J : float, default 1.0
        Weight of the positives' hinges, > 0.
    c : float, default 0.0
        The share, in [0, 1), of highest-scored windows that training ignores in each negative image, rounded down; at
        least one window is kept. The thesis adds this robustness to the baseline. See `LatentProblem`.
    top : float, default 1
        As for `LatentRankSVM`; 1 is MI-SVM.
    fit_intercept : bool, default False
        Whether to learn an intercept. It is regularised like the weight of a constant feature 1.
    tol, init, scale, max_iter, max_calls, random_state, n_init, callback, candidates
        As for `LatentRankSVM`.

    Attributes
    ----------
    coef_, feature_scale_, intercept_, objective_, duality_gap_, n_iter_, history_
        As for `LatentRankSVM`, but `intercept_` is 0 or learned, and the objective contains intercept_^2 / 2.
    """

    C: float = 1.0
    J: float = 1.0
    tol: float = 1e-3
    _: KW_ONLY
    c: float = 0.0
    fit_intercept: bool = False
    top: float = 1
    candidates: int = CANDIDATES

    def problem(self, y: ArrayLike) -> LatentProblem:
        """Return the problem that `fit` solves, for labels +1, -1 and 0; see also `lapsvm.latent.fit_many`."""
        options = self._options() | {"top": self.top, "fit_intercept": self.fit_intercept, "trim": self.c}
        return LatentProblem(y, HingeRisk(self.J), self.C, tol=self.tol, **options)

    def _intercept(self, solution: LatentSolution, scores: Float64, labels: Float64) -> float:  # noqa: ARG002
        return solution.intercept


@dataclass(eq=False, repr=False)
class LatentStructSVM(LatentEstimator):
    """Latent structural SVM for rankings, in which every ranking chooses its own windows; a baseline.

    Minimises ``|w|^2 / 2 + C max over R, H of { Delta(R) + F(R, H) - F(R*, H*) }`` by CCCP and searches the
    largest violation greedily: problem 2.9 or A.1 of A. Behl's thesis, "Optimizing Average Precision using Weakly
    Supervised Data", with the algorithm of its appendix A; for latent structural SVMs see Yu and Joachims, ICML 2009.

    Parameters
    ----------
    loss : str or rank loss, default "ap"
        A name of `lapsvm.ranking.losses.NAMED`, or a loss object; "zero_one" is not a ranking loss.
    C : float, default 1.0
        Weight of the loss, > 0.
    tol : float, default 1e-3
        Relative duality gap of the last convex problem, and the relative fall of the objective that ends CCCP, unless
        the fall is above a twentieth of the decrease from w = 0 so far.
    truth : {"imputed", "any"}, default "imputed"
        The negatives' windows in the true ranking R*. "imputed" takes the lowest-scored windows, which maximise F
        (problem 2.9). "any" imposes the constraints for every choice (problem A.1); it penalises every difference
        between a negative's windows, and its solution is often w = 0.
    init : str or array, default "mean"
        Choice of the first windows, as for `LatentRankSVM`. An array of windows applies to the positives; the
        negatives then start from their window 0.
    scale, max_iter, max_calls, random_state, n_init, callback
        As for `LatentRankSVM`.

    Attributes
    ----------
    classes_, coef_, feature_scale_, intercept_, n_iter_
        As for `LatentRankSVM`.
    objective_ : float
        The objective at `coef_` over the constraints that the search found. It is a lower bound of the true objective,
        because the search may miss a worse ranking.
    duality_gap_ : float
        (objective_ - dual) / abs(objective_) of the last convex problem. The dual value is a lower bound of that
        problem's minimum, and so is `objective_`. A small gap means that the search finds no further constraint, not
        that the minimum is reached.
    history_ : list of dict
        One per outer step: step, objective, dual, gap, tol, calls, passes, planes, changed. The objective may rise
        between steps when the search finds constraints that it missed before.

    Notes
    -----
    Prediction scores images by their best window, as `LatentRankSVM` does. The objective ranks differently: images at
    the bottom take their worst windows. One inference costs up to N P assignment problems of N and of P samples, which
    limits this baseline to some hundred images.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(size=(8, 3)) + 6 * (i < 5) * (np.arange(8) == 2)[:, None] for i in range(15)]
    >>> model = LatentStructSVM("ap", C=10).fit(bags, np.repeat([1, -1], [5, 10]))
    >>> model.best_windows(bags)[:5]
    array([2, 2, 2, 2, 2])
    """

    loss: "str | RankLoss" = "ap"
    C: float = 1.0
    tol: float = 1e-3
    _: KW_ONLY
    truth: str = "imputed"

    def problem(self, y: ArrayLike) -> StructuralProblem:
        """Return the problem that `fit` solves, for labels +1, -1 and 0; see also `lapsvm.latent.fit_many`."""
        return StructuralProblem(y, RankRisk(self.loss), self.C, tol=self.tol, truth=self.truth, **self._options())
