"""Rank losses as functions of torch tensors."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import torch

from lapsvm.arrays import check_positive, check_switch
from lapsvm.errors import InputError, ShapeError
from lapsvm.nn import rank_op
from lapsvm.nn.rankings import check_choice
from lapsvm.ranking import RankLoss, ZeroOneLoss
from lapsvm.ranking.losses import as_loss

LossLike = str | RankLoss | ZeroOneLoss
Weights = torch.Tensor | Sequence[float] | None


class Options(NamedTuple):
    """The options of a rank loss, checked."""

    bound: str
    loss: str
    scale: float
    reduction: str
    ignore_index: int | None
    raise_on_empty: bool
    gather: bool


def rank_hinge_loss(
    scores: torch.Tensor,
    labels: torch.Tensor,
    mask: torch.Tensor | None = None,
    groups: torch.Tensor | None = None,
    *,
    loss: LossLike = "ap",
    scale: float = 1.0,
    reduction: str = "mean",
    ignore_index: int | None = None,
    on_empty: str = "skip",
    gather: bool = False,
    class_weight: Weights = None,
    sample_weight: object = None,
) -> torch.Tensor:
    """Return the structured hinge of a rank loss; see :class:`lapsvm.nn.RankHingeLoss`."""
    kept = as_loss(loss)
    options = make_options("hinge", kept, scale, reduction, ignore_index, on_empty, gather)
    return apply(options, scores, labels, mask, groups, as_class_weight(class_weight), sample_weight)


def make_options(
    bound: str,
    loss: RankLoss | ZeroOneLoss,
    scale: float,
    reduction: str,
    ignore_index: int | None,
    on_empty: str,
    gather: bool,
) -> Options:
    """Return the options; raise InputError or OptionError unless each keeps its rule."""
    key = rank_op.loss_key(loss)
    if not torch.compiler.is_compiling():
        check_positive("scale", scale)
        check_choice("reduction", reduction, ("mean", "sum", "none"))
        check_choice("on_empty", on_empty, ("skip", "raise"))
        check_switch("gather", gather)
        if ignore_index is not None and (not isinstance(ignore_index, Integral) or isinstance(ignore_index, bool)):
            raise InputError(f"ignore_index must be a whole number or None, got {ignore_index!r}.")
    return Options(bound, key, float(scale), reduction, ignore_index, on_empty == "raise", gather)


def as_class_weight(weights: Weights) -> torch.Tensor | None:
    """Return the weights as a float64 tensor (K,), or None.

    Raises
    ------
    InputError
        If they are not finite numbers of at least 0.
    """
    if weights is None:
        return None
    tensor = torch.as_tensor(weights, dtype=torch.float64)
    if not torch.compiler.is_compiling():
        if tensor.ndim != 1:
            raise ShapeError(f"class_weight must have shape (K,), got {tuple(tensor.shape)}.")
        wrong = tensor[~(torch.isfinite(tensor) & (tensor >= 0))]
        if len(wrong):
            raise InputError(f"class_weight must be 0 or more, got {wrong[0].item():g}.")
    return tensor


def apply(
    options: Options,
    scores: torch.Tensor,
    labels: torch.Tensor,
    mask: torch.Tensor | None,
    groups: torch.Tensor | None,
    class_weight: torch.Tensor | None,
    sample_weight: object,
) -> torch.Tensor:
    """Return the value of a rank loss with its gradient."""
    _check_call(scores, labels, mask, groups, sample_weight)
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    bound, loss, scale, reduction, ignore_index, raise_on_empty, _ = options
    n_groups = -1
    if groups is not None and reduction == "none":
        numbers, groups = torch.unique(groups, return_inverse=True)
        n_groups = numbers.shape[0]
    value, gradient = rank_op.rank_loss(
        scores.detach(),
        labels,
        mask,
        groups,
        class_weight,
        bound,
        loss,
        scale,
        reduction,
        ignore_index,
        raise_on_empty,
        n_groups,
    )
    left_out = mask is not None or ignore_index is not None
    return _with_gradient(value, gradient, scores, left_out, groups if reduction == "none" else None, reduction)


def _with_gradient(
    value: torch.Tensor,
    gradient: torch.Tensor,
    scores: torch.Tensor,
    left_out: bool,
    groups: torch.Tensor | None,
    reduction: str,
) -> torch.Tensor:
    """Return the value as a function of the scores: value + gradient (scores - their values), whose sum is 0."""
    shift = scores - scores.detach()
    if left_out:  # there may be NaN and infinity where nothing counts
        shift = torch.where(gradient != 0, shift, 0)
    shift = shift * gradient
    if reduction != "none":
        return value + shift.sum()
    if groups is not None:
        return value.index_add(0, groups, shift)
    return value + shift.sum(0)


def _check_call(scores: Any, labels: Any, mask: Any, groups: Any, sample_weight: object) -> None:
    """Raise InputError unless the arguments are tensors of the right kinds."""
    for name, value in (("scores", scores), ("labels", labels), ("mask", mask), ("groups", groups)):
        if not isinstance(value, torch.Tensor) and not (value is None and name in ("mask", "groups")):
            raise InputError(f"{name} must be a torch.Tensor, got {type(value).__name__}.")
    if not scores.dtype.is_floating_point:
        raise InputError(f"scores must be floating-point numbers, got {scores.dtype}.")
    if sample_weight is not None:
        raise InputError(
            "sample_weight is not supported, because inference is exact only where every sample counts alike, got one."
        )
