"""The latent structural SVM for ranking: the baseline that latent AP-SVM is measured against."""

from numpy.typing import ArrayLike

from lapsvm.latent import RankRisk, StructuralProblem
from lapsvm.models.latent_estimator import Callback, LatentEstimator
from lapsvm.ranking import RankLoss


class LatentStructSVM(LatentEstimator):
    """Latent structural SVM for rankings: every ranking chooses its own windows. A baseline; see the notes.

    Minimises ``|w|^2 / 2 + C max over R, H of { Delta(R) + F(R, H) - F(R*, H*) }`` by CCCP, the largest violation
    searched greedily: problem 2.9 or A.1 of A. Behl's thesis, "Optimizing Average Precision using Weakly Supervised
    Data", with the algorithm of its appendix A; for latent structural SVMs see Yu and Joachims, ICML 2009.

    Parameters
    ----------
    loss : str or rank loss, default "ap"
        "ap", "ndcg", "auc", "mrr", "pos_at_top", or a loss object; "zero_one" is no loss of rankings.
    C : float, default 1.0
        Weight of the loss, > 0.
    tol : float, default 1e-3
        Relative duality gap of the last convex problem, and the relative fall of the objective that ends CCCP.
    truth : {"imputed", "any"}, default "imputed"
        The negatives' windows in the true ranking R*: "imputed", those that score lowest, as the ranking would choose
        them (problem 2.9); "any", the constraints hold for every choice (problem A.1). The latter charges every
        difference between a negative's windows, and soon leaves nothing better than w = 0; measured in the docs.
    init : str or array, default "mean"
        Where the first windows come from, as for `LatentRankSVM`. Where windows are given, they are the positives';
        the negatives then begin with their window 0.
    scale, max_iter, max_calls, random_state, n_init, folds, callback
        As for `LatentRankSVM`.

    Attributes
    ----------
    classes_, coef_, feature_scale_, intercept_, n_iter_
        As for `LatentRankSVM`.
    objective_ : float
        The objective at `coef_` over the constraints that were found: a lower bound of the true objective there, for
        the search may miss a worse ranking.
    duality_gap_ : float
        (objective_ - dual) / abs(objective_) of the last convex problem. The dual value is a true lower bound of that
        problem's minimum; with `objective_` being one too, a small gap says that no constraint which the search can
        find is left, not that the minimum is reached.
    history_ : list of dict
        One per outer step: step, objective, dual, gap, tol, calls, passes, planes, changed. The objective may rise
        from one step to the next by what the search had missed before.

    Notes
    -----
    Images are scored by their best window, as `LatentRankSVM` does; that is not the ranking this objective thinks of,
    in which images at the bottom take their worst windows. One inference costs up to N P assignment problems of N
    and of P samples: a baseline for some hundred images.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(size=(8, 3)) + 6 * (i < 5) * (np.arange(8) == 2)[:, None] for i in range(15)]
    >>> model = LatentStructSVM("ap", C=10).fit(bags, np.repeat([1, -1], [5, 10]))
    >>> model.best_windows(bags)[:5]
    array([2, 2, 2, 2, 2])
    """

    def __init__(
        self,
        loss: "str | RankLoss" = "ap",
        C: float = 1.0,
        tol: float = 1e-3,
        *,
        truth: str = "imputed",
        init: "str | ArrayLike" = "mean",
        scale: "str | float | None" = "mean_norm",
        max_iter: int = 50,
        max_calls: int = 1000,
        random_state: int = 0,
        n_init: int = 1,
        folds: int | None = None,
        callback: Callback | None = None,
    ):
        super().__init__(C, tol, init, scale, max_iter, max_calls, random_state, n_init, folds, callback)
        self.loss = loss
        self.truth = truth

    def problem(self, y: ArrayLike) -> StructuralProblem:
        """Return what `fit` solves, for labels +1, -1 and 0; `lapsvm.latent.fit_many` solves many at once."""
        return StructuralProblem(y, risk=RankRisk(self.loss), truth=self.truth, **self._options())
