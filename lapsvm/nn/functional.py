"""The rank loss of a batch of torch tensors, which may lie in several processes of torch.distributed."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from lapsvm.arrays import check_choice, check_positive, check_switch
from lapsvm.errors import InputError, ShapeError
from lapsvm.nn import rank_op
from lapsvm.ranking import RankLoss, ZeroOneLoss
from lapsvm.ranking.losses import as_loss

LossLike = str | RankLoss | ZeroOneLoss
Weights = torch.Tensor | Sequence[float] | None
Tensor = torch.Tensor


class RankInfo(NamedTuple):
    """What a loss reports about the predicted rankings, one entry per ranking as for ``reduction="none"``.

    Attributes
    ----------
    delta : tensor of float
        Delta of the ranking by the scores, which the value bounds; NaN where there is nothing to rank. Among equal
        scores the first in input order counts as the higher one.
    metric : tensor of float
        1 - delta: average precision for "ap", and so on.
    valid : tensor of bool
        Whether there is a positive and a negative.
    """

    delta: Tensor
    metric: Tensor
    valid: Tensor


class Options(NamedTuple):
    """The options of a rank loss, checked; `scale` multiplies the scores of the bound."""

    bound: str
    loss: str
    scale: float
    reduction: str
    ignore_index: int | None
    raise_on_empty: bool
    gather: bool


class LossInputs(NamedTuple):
    """The tensors that a loss is called with."""

    scores: Tensor
    labels: Tensor
    mask: Tensor | None
    groups: Tensor | None


def rank_hinge_loss(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    groups: Tensor | None = None,
    *,
    loss: LossLike = "ap",
    scale: float = 1.0,
    reduction: str = "mean",
    ignore_index: int | None = None,
    on_empty: str = "skip",
    gather: bool = False,
    class_weight: Weights = None,
    return_info: bool = False,
    sample_weight: object = None,
) -> Any:
    """Return the structured hinge of a rank loss, for binary labels, NDCG also for graded ones.

    Arguments, value and errors are those of :class:`lapsvm.nn.RankHingeLoss`. A loss that is an object must be the same
    object while a compiled graph that contains the call is in use; a module holds it.
    """
    kept = as_loss(loss)  # the operator finds an object as long as it lives
    options = make_options("hinge", kept, scale, reduction, ignore_index, on_empty, gather)
    weights = as_class_weight(class_weight)
    return evaluate(options, LossInputs(scores, labels, mask, groups), weights, return_info, sample_weight)


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
    if not torch.compiler.is_compiling():  # the operator's arguments are constants of a compiled graph
        check_positive("scale", scale)
        check_choice("reduction", reduction, ("mean", "sum", "none"))
        check_choice("on_empty", on_empty, ("skip", "raise"))
        check_switch("gather", gather)
        if ignore_index is not None:
            _check_ignore_index(ignore_index)
    key = rank_op.loss_key(loss)
    return Options(bound, key, float(scale), reduction, ignore_index, on_empty == "raise", gather)


def _check_ignore_index(value: object) -> None:
    """Raise InputError unless the value is a whole number that a label can have."""
    if not isinstance(value, Integral) or isinstance(value, bool) or not -(2**63) <= int(value) < 2**63:
        raise InputError(f"ignore_index must be a whole number or None, got {value!r}.")


def as_class_weight(weights: Weights) -> Tensor | None:
    """Return the weights as a float64 tensor (K,), or None.

    Raises
    ------
    InputError
        If they are not finite numbers of at least 0, in one dimension.
    """
    if weights is None:
        return None
    try:
        tensor = torch.as_tensor(weights, dtype=torch.float64).detach()
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise InputError(f"class_weight must be numbers; {error}.") from None
    if not torch.compiler.is_compiling():
        if tensor.ndim != 1:
            raise ShapeError(f"class_weight must have shape (K,), got {tuple(tensor.shape)}.")
        wrong = tensor[~(torch.isfinite(tensor) & (tensor >= 0))]
        if len(wrong):
            raise InputError(f"class_weight must be finite and 0 or more, got {wrong[0].item():g}.")
    return tensor


def evaluate(
    options: Options, call: LossInputs, class_weight: Tensor | None, return_info: bool, sample_weight: object
) -> Any:
    """Return the value of a rank loss with its gradient, and RankInfo if it is asked for."""
    _check_call(call, sample_weight)
    scores, labels, mask, groups = call
    if labels.requires_grad:  # they may be part of a graph; here they are constants
        labels = labels.detach()
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    values = scores.detach()
    shift, first, n_processes, n_groups = scores - values, 0, 1, -1
    if options.gather:
        (values, labels, mask, groups), first, n_processes = gather_batches([values, labels, mask, groups])
    if groups is not None and (return_info or options.reduction == "none"):
        numbers, groups = torch.unique(groups, return_inverse=True)
        n_groups = numbers.shape[0]
    value, gradient = rank_op.rank_loss(values, labels, mask, groups, class_weight, *options[:6], n_groups)
    if n_processes > 1:  # DistributedDataParallel divides the sum of the processes' gradients by their number
        gradient = n_processes * gradient[first : first + len(shift)]
    if mask is not None or options.ignore_index is not None:  # there may be NaN where nothing counts
        shift = torch.where(gradient != 0, shift, 0)
    value = _add_gradient(value, gradient, shift, groups, options.reduction, first)
    return (value, _info(options, LossInputs(values, labels, mask, groups), n_groups)) if return_info else value


def _add_gradient(
    value: Tensor, gradient: Tensor, shift: Tensor, groups: Tensor | None, reduction: str, first: int
) -> Tensor:
    """Return the value as a function of the scores: value + gradient shift; the scores' shift from themselves is 0."""
    if reduction != "none":
        return value + (torch.dot(shift, gradient) if shift.ndim == 1 else (shift * gradient).sum())
    if groups is None:
        return value + (shift * gradient).sum(0)
    return value.index_add(0, groups[first : first + len(shift)], shift * gradient)


def _info(options: Options, call: LossInputs, n_groups: int) -> RankInfo:
    """Return the report of the predicted rankings."""
    delta, _ = rank_op.rank_loss(*call, None, "delta", options.loss, 1.0, "none", options.ignore_index, False, n_groups)
    return RankInfo(delta, 1 - delta, ~torch.isnan(delta))


def _check_call(call: LossInputs, sample_weight: object) -> None:
    """Raise InputError unless the arguments are tensors of the right kinds."""
    for name, value in zip(LossInputs._fields, call, strict=True):
        if value is None and name in ("mask", "groups"):
            continue
        if not isinstance(value, Tensor):
            raise InputError(f"{name} must be a torch.Tensor, got {type(value).__name__}.")
        if value.layout is not torch.strided:
            raise InputError(f"{name} must be a dense tensor, got {value.layout}.")
    if not call.scores.dtype.is_floating_point:
        raise InputError(f"scores must be floating-point numbers, got {call.scores.dtype}.")
    if sample_weight is not None:
        raise InputError(
            "sample_weight is not supported, because inference is exact only where every sample counts alike, got one."
        )


def gather_batches(tensors: list[Any]) -> tuple[list[Any], int, int]:
    """Return each tensor with the rows of all processes, the first row of this one, and the number of processes.

    Processes may have different numbers of rows. A tensor that is None must be None in all of them. Without an
    initialised process group this process is the only one.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return tensors, 0, 1
    first = tensors[0]
    sizes = [torch.empty(1, dtype=torch.int64, device=first.device) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, torch.tensor([len(first)], device=first.device))
    rows = [int(size) for size in sizes]
    gathered = [None if tensor is None else _gather(tensor, rows) for tensor in tensors]
    return gathered, sum(rows[: dist.get_rank()]), len(rows)


def _gather(tensor: Tensor, rows: list[int]) -> Tensor:
    """Return the rows of all processes; shorter batches are padded on their way, for all_gather wants equal shapes."""
    kind = tensor.dtype
    sent = tensor.detach().to(torch.uint8) if kind == torch.bool else tensor.detach()
    padding = sent.new_zeros((max(rows) - len(sent), *sent.shape[1:]))
    sent = torch.cat([sent, padding]).contiguous()
    received = [torch.empty_like(sent) for _ in rows]
    dist.all_gather(received, sent)
    return torch.cat([gathered[:n] for gathered, n in zip(received, rows, strict=True)]).to(kind)
