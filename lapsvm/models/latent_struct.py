"""The latent structural SVM for rankings, a baseline of latent AP-SVM."""

from dataclasses import KW_ONLY, dataclass

from numpy.typing import ArrayLike

from lapsvm.latent import RankRisk, StructuralProblem
from lapsvm.models.latent_estimator import LatentEstimator
from lapsvm.ranking import RankLoss


@dataclass(eq=False, repr=False)
class LatentStructSVM(LatentEstimator):
    """Latent structural SVM for rankings, in which every ranking chooses its own windows; a baseline.

    Minimises ``|w|^2 / 2 + C max over R, H of { Delta(R) + F(R, H) - F(R*, H*) }`` by CCCP and searches the
    largest violation greedily: problem 2.9 or A.1 of A. Behl's thesis, "Optimizing Average Precision using Weakly
    Supervised Data", with the algorithm of its appendix A; for latent structural SVMs see Yu and Joachims, ICML 2009.

    Parameters
    ----------
    loss : str or rank loss, default "ap"
        "ap", "ndcg", "auc", "mrr", "pos_at_top", or a loss object; "zero_one" is not a ranking loss.
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
