"""Rank losses as torch modules."""

from math import isinf
from typing import Any, ClassVar

import torch

from lapsvm.arrays import check_choice, check_positive
from lapsvm.errors import InputError
from lapsvm.nn import functional, rank_op
from lapsvm.nn.functional import LossLike, Options, Weights
from lapsvm.ranking import RankLoss, ZeroOneLoss
from lapsvm.ranking.losses import as_loss


class RankModule(torch.nn.Module):
    """The common part of the modules: the options, and the call.

    Parameters
    ----------
    loss : RankLoss or ZeroOneLoss
    options : Options
    class_weight : array-like of shape (K,), optional
    """

    class_weight: torch.Tensor | None

    def __init__(self, loss: RankLoss | ZeroOneLoss, options: Options, class_weight: Weights) -> None:
        super().__init__()
        self.loss = loss
        self._options = options
        self.register_buffer("class_weight", functional.as_class_weight(class_weight))

    def forward(
        self,
        scores: torch.Tensor,
        labels: torch.Tensor,
        mask: torch.Tensor | None = None,
        groups: torch.Tensor | None = None,
        *,
        return_info: bool = False,
        sample_weight: object = None,
    ) -> Any:
        """Return the loss of a batch; :class:`RankHingeLoss` describes the arguments."""
        call = functional.LossInputs(scores, labels, mask, groups)
        return functional.evaluate(self._options, call, self.class_weight, return_info, sample_weight)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Register the loss anew, for a copy of the module has a copy of the loss."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._options = self._options._replace(loss=rank_op.loss_key(self.loss))

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        bound, _, scale, reduction = self._options[:4]
        return f"loss={self.loss!r}, bound={bound!r}, scale={scale:g}, reduction={reduction!r}"


class _Bound(RankModule):
    """A module whose class names its bound of Delta."""

    _bound: ClassVar[str]

    def __init__(
        self,
        loss: LossLike = "ap",
        *,
        scale: float = 1.0,
        reduction: str = "mean",
        ignore_index: int | None = None,
        on_empty: str = "skip",
        gather: bool = False,
        class_weight: Weights = None,
    ) -> None:
        made = as_loss(loss)
        options = functional.make_options(self._bound, made, scale, reduction, ignore_index, on_empty, gather)
        super().__init__(made, options, class_weight)


class RankHingeLoss(_Bound):
    """The structured hinge of a rank loss, for binary labels, NDCG also for graded ones.

    It is max_R (Delta(R) + F(R)) - F(R*); in R* all positives are on top.

    An upper bound of Delta of the ranking by the scores, convex in the scores; the maximum over all rankings is exact.
    F(R) is the mean over all pairs of a positive and a negative of the scores' difference, negated where R puts the
    negative on top, times `scale`.

    Parameters
    ----------
    loss : str or RankLoss, default="ap"
        A name of `lapsvm.ranking.losses.NAMED`, or a loss object (`lapsvm.ranking.NDCGLoss(k=10)`, or your
        own).
    scale : float, default=1.0
        Factor of the scores in F, > 0. The hinge of AP asks the best pair for a gap of N / (4 scale) with N negatives:
        tune it, or let the network's last layer learn it.
    reduction : "mean", "sum" or "none", default="mean"
        Over the rankings with both a positive and a negative. "none" returns one value per ranking, 0 for others.
    ignore_index : int, optional
        Labels equal to it leave their sample out of the ranking.
    on_empty : "skip" or "raise", default="skip"
        What happens with a ranking without a positive or without a negative: it counts neither in the numerator nor in
        the denominator (and if there is no other, the value is a 0 with a gradient of 0), or OneClassError is raised.
    gather : bool, default=False
        Rank the samples of all processes of torch.distributed together. The value is the same in all processes, and the
        gradient of each is that of its own samples times the number of processes, because DistributedDataParallel
        takes the mean over processes. Without a process group the option changes nothing.
    class_weight : array-like of float, shape (K,), optional
        Weights of the columns in "mean" (divided by the sum of the weights that count) and "sum", at least 0.

    Raises
    ------
    OptionError, InputError
        If an option does not exist or breaks its rule.

    Notes
    -----
    Call the module with these arguments; it returns a tensor of the scores' type (float32 for 16-bit scores), on their
    device.

    ===============  ==================================================================================================
    scores           float, (n,): one ranking; (B, K): one ranking per column. Finite where they count.
    labels           as scores, binary: 1 is positive, 0 and -1 are negative; for "ndcg" also gains of at least 0, such
                     as 0, 1, 2, 3 (or 2^r - 1 of relevances r); or (B,) whole numbers: the class 0 .. K - 1 of each
                     sample, one against the others
    mask             bool, as scores or (B,), optional: True where a sample counts
    groups           whole numbers (n,) or (B,), optional: one ranking per group (and column). "none" returns (G,) or
                     (G, K), the group with the least number first.
    return_info      True returns a tuple: the value, and :class:`lapsvm.nn.RankInfo` of the predicted rankings
    sample_weight    is refused: inference is exact only where every sample counts alike
    ===============  ==================================================================================================

    With gains F is the mean over all pairs of different gains, and the maximum a linear assignment
    (`lapsvm.nn.bounds`): exact, but of O(n^3) time at worst; a list of 100 takes about a millisecond, one of 1,000
    a third of a second. A list whose gains are all equal has nothing to rank.

    NotFiniteError, ShapeError, InputError and OneClassError are raised for tensors that do not fit.

    Everything is computed in float64 on the processor, in as many threads as torch has if there are several large
    rankings; tensors on a GPU are copied. The gradient sums to 0 over each ranking, so that a bias of the last layer
    does not learn. Source: Yue et al., SIGIR 2007; Mohapatra et al., CVPR 2018.
    """

    _bound = "hinge"


class RankRampLoss(_Bound):
    """The structured ramp of a rank loss, for binary labels, NDCG also for graded ones.

    It is max_R (Delta(R) + F(R)) - max_R F(R), an upper bound of Delta of the ranking by the scores, at most the
    hinge and much tighter where rankings are bad. It is not convex, and more robust to wrong labels.

    Parameters
    ----------
    loss, scale, reduction, ignore_index, on_empty, gather, class_weight
        As in :class:`RankHingeLoss`; so are the call, the errors and the notes.
    """

    _bound = "up"


class DirectLoss(RankModule):
    """A bound with the gradient of direct loss minimisation, for binary labels, NDCG also for graded ones.

    "up" is (max_R (F + eps Delta) - max_R F) / eps, an upper bound of Delta of the ranking by the scores. "down" is
    (max_R F - max_R (F - eps Delta)) / eps, a lower bound. Both tend to Delta as eps tends to 0. The gradient of the
    expected Delta is the limit of their expected gradients.

    Parameters
    ----------
    loss : str or RankLoss, default="ap"
    eps : float, default=1.0
        Weight of Delta in inference, > 0. With 1, "up" is :class:`RankRampLoss`; only scale / eps sets the value.
    direction : "up" or "down", default="up"
        "down" takes O(P N) time for AP at worst (P positives, N negatives), and for a loss of your own always.
    scale, reduction, ignore_index, on_empty, gather, class_weight
        As in :class:`RankHingeLoss`; so are the call, the errors and the notes.

    Notes
    -----
    Song, Schwing, Zemel, Urtasun, "Training deep neural networks via direct loss minimization", ICML 2016. The maximum
    of "down" is exact for every loss: `lapsvm.ranking.loss_diminished_ranking`.
    """

    def __init__(
        self,
        loss: LossLike = "ap",
        eps: float = 1.0,
        direction: str = "up",
        *,
        scale: float = 1.0,
        reduction: str = "mean",
        ignore_index: int | None = None,
        on_empty: str = "skip",
        gather: bool = False,
        class_weight: Weights = None,
    ) -> None:
        check_positive("eps", eps)
        check_choice("direction", direction, ("up", "down"))
        made = as_loss(loss)
        options = functional.make_options(direction, made, scale, reduction, ignore_index, on_empty, gather)
        if isinf(options.scale / float(eps)):
            raise InputError(f"scale / eps must be finite, got {options.scale:g} / {eps:g}.")
        super().__init__(made, options._replace(scale=options.scale / float(eps)), class_weight)
        self._weights = f"eps={eps:g}, scale={scale:g}"  # the options have their quotient

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        bound, reduction = self._options.bound, self._options.reduction
        return f"loss={self.loss!r}, bound={bound!r}, {self._weights}, reduction={reduction!r}"
