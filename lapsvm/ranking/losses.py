"""Rank losses: Delta of a ranking, and its discrete derivatives d_j(i).

A ranking is represented by the number of negatives above each positive (best positive first), or equivalently by the
interleaving ranks r_j of the negatives: one plus the number of positives above the j-th negative. Every loss here
decomposes over the negatives, Delta = sum_j delta_j(r_j), and inference needs only d_j(i) = delta_j(i + 1) -
delta_j(i). Positions j and ranks i are 1-based, as in Mohapatra et al., CVPR 2018.
"""

# ruff: noqa: ARG002 - all losses have the same signature

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lapsvm._ext.inference import KINDS
from lapsvm.arrays import Float64, Index, as_number
from lapsvm.errors import InputError, OptionError
from lapsvm.ranking.derivatives import DerivativeCache
from lapsvm.ranking.discounts import NAMED as NAMED_DISCOUNTS
from lapsvm.ranking.discounts import as_discount, discount_name, tabulate

# longer rankings compute the log discount on demand: a few thousand times, not once per sample
_LONGEST_LOG_TABLE = 1 << 17


class Kernel(NamedTuple):
    """The arguments that select a loss in the compiled code."""

    kind: int
    norm: float = 1.0
    discount: Float64 | None = None
    gains: Callable[[int, int, int], Float64] | None = None


class RankLoss(ABC):
    """Base class of losses for divide-and-conquer inference.

    Subclasses define `derivative`. Inference is exact if d_{j+1}(i) >= d_j(i) for all i and j (condition C2), which
    `lapsvm.testing.RankLossLaws` checks. Inference raises InputError if a derivative that it checks violates C2; see
    `docs/howto/extending/add_a_loss.md`. Delta is 0 for the ranking with every positive on top.
    """

    name: ClassVar[str] = ""

    @abstractmethod
    def derivative(self, j: int, i: Index, n_pos: int, n_neg: int) -> ArrayLike:
        """Return d_j(i) = delta_j(i + 1) - delta_j(i).

        Parameters
        ----------
        j : int
            Position among the negatives, 1 .. n_neg.
        i : ndarray of int, shape (m,)
            Interleaving ranks, each in 1 .. n_pos.
        n_pos, n_neg : int
            Numbers of positives and negatives.

        Returns
        -------
        float or ndarray of shape (m,)
        """

    def value(self, above: Index, n_neg: int) -> float:
        """Return Delta of the ranking with above[k] negatives above the (k+1)-th best positive.

        Parameters
        ----------
        above : ndarray of int, shape (n_pos,)
            Non-decreasing.
        n_neg : int

        Returns
        -------
        float
            The default sums the derivatives from each negative's rank to the end; a closed form is faster.
        """
        n_pos = len(above)
        total = 0.0
        for j in range(1, int(above[-1]) + 1):
            rank = 1 + int(np.searchsorted(above, j))
            remaining = np.arange(rank, n_pos + 1)
            total -= float(np.sum(np.broadcast_to(self.derivative(j, remaining, n_pos, n_neg), remaining.shape)))
        return total

    def kernel(self, n_pos: int, n_neg: int) -> Kernel:
        """Return the arguments of the compiled recursion; the default calls `derivative` for every visited negative."""
        return Kernel(KINDS["object"], gains=DerivativeCache(self, n_pos, n_neg))

    def __init_subclass__(cls, **options: Any) -> None:
        """Make a subclass that overrides `derivative` use it instead of its parent's compiled form."""
        super().__init_subclass__(**options)
        if "derivative" in cls.__dict__ and "kernel" not in cls.__dict__:
            cls.kernel = RankLoss.kernel  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class APLoss(RankLoss):
    """One minus average precision: 1 - (1/P) sum_i i / (rank of the i-th positive among all samples).

    Source: Yue et al., SIGIR 2007; derivative as in Mohapatra et al., CVPR 2018, supplement, proposition 2, with the
    factor 1/P that is missing there.
    """

    name = "ap"

    def derivative(self, j: int, i: Index, n_pos: int, n_neg: int) -> ArrayLike:
        """Return -i / (P (i + j - 1) (i + j))."""
        rank = i + float(j)
        return -i / (n_pos * (rank - 1) * rank)

    def value(self, above: Index, n_neg: int) -> float:
        """Return the mean over the positives of above / (above + i), i being the positive's position."""
        return float(np.mean(above / (above + np.arange(1, len(above) + 1))))

    def kernel(self, n_pos: int, n_neg: int) -> Kernel:
        """Return the compiled form."""
        return Kernel(KINDS["ap"])


class NDCGLoss(RankLoss):
    """One minus normalised discounted cumulative gain: 1 - sum over positives of D(rank) / sum_{i <= P} D(i).

    Parameters
    ----------
    discount : "log", "reciprocal", array-like of shape (m,) or callable, default="log"
        D(i) = 1 / log2(1 + i); 1 / i; D(1), D(2), ... and 0 beyond the end; or a function that maps an integer array
        of 1-based ranks to D, such as `RankBiased(p)`. D must be convex and non-increasing.
    k : int, optional
        Cut-off: D(i) becomes max(D(i) - D(k + 1), 0), which stays convex.

    Raises
    ------
    OptionError
        If the name of the discount is unknown.
    InputError
        If the discount is not finite, positive at 1, non-increasing and convex; the message names the rank.

    Notes
    -----
    Mohapatra et al., CVPR 2018, supplement, proposition 1 and section 6. Discounts other than "log" are tabulated up to
    the number of samples; the table takes 8 bytes per sample.
    """

    name = "ndcg"

    def __init__(self, discount: str | ArrayLike | Callable[[Index], ArrayLike] = "log", k: int | None = None) -> None:
        self.discount = as_discount(discount, k)
        self._table: Float64 = np.zeros(1)
        self._sums: Float64 = np.zeros(1)

    def derivative(self, j: int, i: Index, n_pos: int, n_neg: int) -> ArrayLike:
        """Return (D(i + j) - D(i + j - 1)) / C."""
        return (self.discount(i + j) - self.discount(i + j - 1)) / self._norm(n_pos)

    def value(self, above: Index, n_neg: int) -> float:
        """Return the lost share of the gain."""
        positions = np.arange(1, len(above) + 1)
        losses = self.discount(positions) - self.discount(positions + above)
        return float(np.sum(losses)) / self._norm(len(above))

    def kernel(self, n_pos: int, n_neg: int) -> Kernel:
        """Return the compiled form: the log discount of long rankings is computed, all others are tabulated."""
        if self.discount is NAMED_DISCOUNTS["log"] and n_pos + n_neg > _LONGEST_LOG_TABLE:
            return Kernel(KINDS["ndcg_log"], self._norm(n_pos))
        return Kernel(KINDS["ndcg_table"], self._norm(n_pos), self._table_to(n_pos + n_neg))

    def _norm(self, n_pos: int) -> float:
        """Return C, the sum of the first P discounts."""
        sums = self._sums
        if len(sums) <= n_pos:
            self._sums = sums = np.cumsum(tabulate(self.discount, 2 * n_pos))
        if not sums[n_pos] > 0:
            raise InputError(
                f"discounts of the first {n_pos} ranks must sum to more than 0, got {sums[n_pos]:.6g} "
                f"from {discount_name(self.discount)}."
            )
        return float(sums[n_pos])

    def _table_to(self, n: int) -> Float64:
        """Return a table of D with at least entries 0..n; replacing the complete table is safe for threads."""
        table = self._table
        if len(table) <= n:
            self._table = table = tabulate(self.discount, min(2 * n, max(n, _LONGEST_LOG_TABLE)))
        return table

    def __repr__(self) -> str:
        return f"NDCGLoss({discount_name(self.discount)})"


class AUCLoss(RankLoss):
    """One minus the area under the ROC curve: the share of pairs in the wrong order (Joachims, ICML 2005)."""

    name = "auc"

    def derivative(self, j: int, i: Index, n_pos: int, n_neg: int) -> ArrayLike:
        """Return -1 / (P N)."""
        return -1.0 / (n_pos * float(n_neg))

    def value(self, above: Index, n_neg: int) -> float:
        """Return the share of swapped pairs."""
        return float(np.mean(above / n_neg))

    def kernel(self, n_pos: int, n_neg: int) -> Kernel:
        """Return the compiled form."""
        return Kernel(KINDS["auc"])


class MRRLoss(RankLoss):
    """One minus the reciprocal rank of the best positive."""

    name = "mrr"

    def derivative(self, j: int, i: Index, n_pos: int, n_neg: int) -> ArrayLike:
        """Return -1 / (j (j + 1)) at i = 1, else 0."""
        return np.where(i == 1, -1.0 / (j * (j + 1.0)), 0.0)

    def value(self, above: Index, n_neg: int) -> float:
        """Return 1 - 1 / (1 + negatives above the best positive)."""
        return float(above[0] / (1.0 + above[0]))

    def kernel(self, n_pos: int, n_neg: int) -> Kernel:
        """Return the compiled form."""
        return Kernel(KINDS["mrr"])


class PosAtTopLoss(RankLoss):
    """The share of positives below the best negative (one minus Pos@Top; Li et al., NIPS 2014)."""

    name = "pos_at_top"

    def derivative(self, j: int, i: Index, n_pos: int, n_neg: int) -> ArrayLike:
        """Return -1 / P at j = 1, else 0."""
        return -1.0 / n_pos if j == 1 else 0.0

    def value(self, above: Index, n_neg: int) -> float:
        """Return the share of positives with a negative above."""
        return float(np.mean(above > 0))

    def kernel(self, n_pos: int, n_neg: int) -> Kernel:
        """Return the compiled form."""
        return Kernel(KINDS["pos_at_top"])


class PartialAUCLoss(RankLoss):
    """One minus the partial area under the ROC curve, up to a budget of false alarms, as a share of its largest value.

    Delta is the share of swapped pairs among the positives and the best B = max_fpr N negatives; of a last negative of
    which a part belongs to them, that part counts. It is at least the share of positives that are missed where B
    negatives raise a false alarm, and at most `PosAtTopLoss`, which it is for B <= 1. For B = N it is `AUCLoss`.

    Parameters
    ----------
    max_fpr : float, default 0.1
        The largest false positive rate, above 0 and at most 1.

    Raises
    ------
    InputError
        If `max_fpr` is not such a number.

    Notes
    -----
    Narasimhan and Agarwal, ICML 2013, for the range of false positive rates from 0 on. -d_j(i) falls with j, so that C2
    holds. The share of missed positives alone, a loss of the B-th negative, breaks C2.
    """

    name = "partial_auc"

    def __init__(self, max_fpr: float = 0.1) -> None:
        share = as_number("max_fpr", max_fpr)
        if not 0 < share <= 1:
            raise InputError(f"max_fpr must be above 0 and at most 1, got {share}.")
        self.max_fpr = share

    def derivative(self, j: int, i: Index, n_pos: int, n_neg: int) -> ArrayLike:
        """Return -1 / (P B) for the best B negatives, and a part of it for the next one."""
        budget = self._budget(n_neg)
        return -min(max(budget - (j - 1), 0.0), 1.0) / (n_pos * budget)

    def value(self, above: Index, n_neg: int) -> float:
        """Return the mean over the positives of the share of the best B negatives that are above."""
        budget = self._budget(n_neg)
        return float(np.mean(np.minimum(above, budget) / budget))

    def kernel(self, n_pos: int, n_neg: int) -> Kernel:
        """Return the compiled form."""
        return Kernel(KINDS["partial_auc"], self._budget(n_neg))

    def _budget(self, n_neg: int) -> float:
        """Return B; below one negative the area is that of one."""
        return max(self.max_fpr * n_neg, 1.0)

    def __repr__(self) -> str:
        return f"PartialAUCLoss({self.max_fpr:g})"


class ZeroOneLoss:
    """The share of misclassified samples; its structured hinge is the mean hinge loss of the binary SVM.

    It serves as a comparison with the rank losses and decomposes over the samples: with labels y_k of +1 and -1 the
    structured output is a labelling, Psi = sum_k y_k phi_k / (2 n), and the largest violation is
    (1/n) sum_k max(0, 1 - y_k s_k). :func:`lapsvm.ranking.most_violated_ranking` defines its `ranks`.
    """

    name = "zero_one"

    def __repr__(self) -> str:
        return "ZeroOneLoss()"


NAMED: dict[str, RankLoss | ZeroOneLoss] = {
    loss.name: loss
    for loss in (APLoss(), NDCGLoss(), AUCLoss(), MRRLoss(), PosAtTopLoss(), PartialAUCLoss(), ZeroOneLoss())
}
_SHARE = f"{PartialAUCLoss.name}@"


def as_loss(loss: object) -> RankLoss | ZeroOneLoss:
    """Return the loss of a name, or the loss itself; "partial_auc@.05" is `PartialAUCLoss` of this `max_fpr`.

    Raises
    ------
    OptionError
        If the name is unknown, what stands behind an @ is no share, or the object is not a loss.
    """
    if isinstance(loss, str) and loss in NAMED:
        return NAMED[loss]
    if isinstance(loss, str) and loss.startswith(_SHARE):
        return _partial_auc(loss.removeprefix(_SHARE))
    if isinstance(loss, (RankLoss, ZeroOneLoss)):
        return loss
    raise OptionError(f"loss must be one of {', '.join(NAMED)}, or a RankLoss of your own, got {loss!r}.")


@cache
def _partial_auc(share: str) -> PartialAUCLoss:
    """Return the loss of a share that is written as a number."""
    try:
        return PartialAUCLoss(float(share))
    except ValueError:
        raise OptionError(f"loss {_SHARE}{share} must have a share above 0 and at most 1 behind the @.") from None
