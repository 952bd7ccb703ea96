"""The operator `torch.ops.lapsvm.rank_loss`: from tensors to the kernels on the processor and back.

The operator returns the reduced value and its gradient and is not differentiable itself; `lapsvm.nn.functional` adds
the gradient with plain torch operators, so that autograd, forward mode, `torch.func` and the compiler need no rule of
ours beyond shapes and vmap.
"""

import weakref
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from lapsvm.arrays import Array
from lapsvm.errors import InputError, OptionError, ShapeError
from lapsvm.nn.bounds import AnyLoss, bounded, solve_one
from lapsvm.nn.device.bounds import BOUNDS
from lapsvm.nn.device.losses import closed_form
from lapsvm.nn.device.operator import has_gains, read_call, solve
from lapsvm.nn.device.ways import DeviceCall, DeviceOptions, choose
from lapsvm.nn.rankings import Batch, Solved, make_batch, solve_rankings
from lapsvm.ranking.losses import NAMED, NDCGLoss

_LIBRARY: Any = torch.library.Library("lapsvm", "FRAGMENT")  # type: ignore[no-untyped-call]
_SCHEMA = (
    "rank_loss(Tensor scores, Tensor labels, Tensor? mask, Tensor? groups, Tensor? class_weight, str bound, str loss, "
    "float scale, str reduction, int? ignore_index, bool raise_on_empty, SymInt n_groups) -> (Tensor, Tensor)"
)

# losses that are objects, by the key that stands for them in the operator's arguments
_objects: "weakref.WeakValueDictionary[str, AnyLoss]" = weakref.WeakValueDictionary()


def loss_key(loss: AnyLoss) -> str:
    """Return the text that stands for a loss in the operator's arguments, as long as the loss lives."""
    if NAMED.get(loss.name) is loss:
        return loss.name
    key = f"{type(loss).__name__} at {id(loss):#x}"
    _objects[key] = loss
    return key


def loss_of(key: str) -> AnyLoss:
    """Return the loss that the key stands for.

    Raises
    ------
    OptionError
        If the loss no longer exists.
    """
    loss = NAMED.get(key) or _objects.get(key)
    if loss is None:
        raise OptionError(f"loss {key!r} must be kept alive by its module or caller, got a loss that is gone.")
    return loss


class Arguments(NamedTuple):
    """The operator's arguments behind the scores, in the order of its schema."""

    labels: torch.Tensor
    mask: torch.Tensor | None
    groups: torch.Tensor | None
    class_weight: torch.Tensor | None
    bound: str
    loss: str
    scale: float
    reduction: str
    ignore_index: int | None
    raise_on_empty: bool
    n_groups: int


@np.errstate(over="ignore")  # scores that overflow under the scale are refused
def _rank_loss(scores: torch.Tensor, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the value, a scalar or one per ranking, and the gradient of its sum in the scores' shape.

    The bound "delta" is NaN for rankings whose samples are all alike.
    """
    given = Arguments(*arguments)
    array, targets = to_array("scores", scores), to_array("labels", given.labels)
    answer = _plain_answer(array, targets, given) or _batch_answer(array, targets, given)
    value, gradient = torch.from_numpy(np.asarray(answer[0], dtype=array.dtype)), torch.from_numpy(answer[1])
    if scores.is_cpu:
        return value, gradient
    return value.to(scores.device), gradient.to(scores.device)


def _plain_answer(scores: Array, labels: Array, given: Arguments) -> tuple[Any, Array] | None:
    """Return value and gradient of one ranking of all samples. None for calls that need more."""
    options = given.mask, given.groups, given.class_weight, given.ignore_index
    if given.bound == "delta" or any(option is not None for option in options):
        return None
    return solve_one(given.bound, loss_of(given.loss), scores, labels, given.scale)


def _batch_answer(scores: Array, labels: Array, given: Arguments) -> tuple[Any, Array]:
    """Return value and gradient of a batch of rankings."""
    loss, parts = loss_of(given.loss), {"mask": given.mask, "groups": given.groups}
    optional = (None if option is None else to_array(name, option) for name, option in parts.items())
    scaled, graded = np.multiply(scores, given.scale, dtype=np.float64), isinstance(loss, NDCGLoss)
    batch = make_batch(
        scaled, labels, *optional, ignore_index=given.ignore_index, n_groups=given.n_groups, graded=graded
    )
    solved = _solve_batch(batch, given.bound, loss, given.raise_on_empty)
    weights = _ranking_weights(solved, scores.shape, given.class_weight, given.reduction)
    each = _as_shape(solved.values, scores.ndim, given.groups is not None)
    value = each if given.reduction == "none" else float((solved.values * weights).sum())
    return value, _gradient(solved, scores, -given.scale * weights)


def _solve_batch(batch: Batch, bound: str, loss: AnyLoss, raise_on_empty: bool) -> Solved:
    """Return the bound's values and coefficients for each ranking."""
    solved = solve_rankings(batch, partial(bounded, bound, loss), torch.get_num_threads(), raise_on_empty)
    if bound == "delta":
        solved.values[~solved.valid] = np.nan
    return solved


def _ranking_weights(
    solved: Solved, shape: tuple[int, ...], class_weight: torch.Tensor | None, reduction: str
) -> Array | float:
    """Return the weight of each ranking in the output: one for all, or one per column (K,)."""
    if class_weight is None:
        return 1.0 / max(int(np.count_nonzero(solved.valid)), 1) if reduction == "mean" else 1.0
    if class_weight.shape != shape[1:]:
        raise ShapeError(
            f"class_weight must have one entry per column of scores, got shape {tuple(class_weight.shape)} "
            f"for scores of shape {shape}."
        )
    if reduction == "none":
        return 1.0
    per_column = to_array("class_weight", class_weight)
    total = 1.0 if reduction == "sum" else float((solved.valid * per_column).sum())
    return per_column / total if total > 0 else 0.0


def _gradient(solved: Solved, scores: Array, factors: Array | float) -> Array:
    """Return the coefficients times the factor, or the factors (K,), in the type and shape of the scores."""
    coefficients = solved.coefficients[0] if scores.ndim == 1 else solved.coefficients.T
    gradient = np.empty(scores.shape, dtype=scores.dtype)
    return np.multiply(coefficients, factors, out=gradient, casting="same_kind")


def _as_shape(values: Array, ndim: int, grouped: bool) -> Array:
    """Return one value per ranking (G, K) without the axes that the call does not have."""
    per_column = values if ndim == 2 else values[:, 0]
    return np.asarray(per_column if grouped else per_column[0])


def to_array(name: str, tensor: torch.Tensor) -> Array:
    """Return the tensor's values as an array, without a copy if it is on the processor."""
    if tensor.dtype.is_complex:
        raise InputError(f"{name} must be real numbers, got {tensor.dtype}.")
    if not tensor.is_cpu or tensor.requires_grad:
        tensor = tensor.detach().cpu()
    return tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def _on_gpu(scores: torch.Tensor, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the value and the gradient without waiting for the GPU. The processor solves losses without a form."""
    given = Arguments(*arguments)
    form = closed_form(loss_of(given.loss))
    if form is None or scores.is_cpu or not scores.numel() or given.bound not in BOUNDS:
        return _over_processor(scores, *arguments)
    with torch.cuda.device(scores.device):
        call = read_call(DeviceCall(scores, *given[:4]))
        gains = has_gains(call, given.ignore_index) if form.name == "ndcg" else None
        if gains is not None and _waited_for(gains):
            return _over_processor(scores, *arguments)
        options = DeviceOptions(given.bound, given.scale, given.reduction, given.ignore_index, given.n_groups)
        answer = solve(call, options, form, choose(call, form))
        if given.raise_on_empty and _waited_for(answer.lacking().any()):
            return _over_processor(scores, *arguments)  # which says what is missing
    return answer.value, answer.gradient


def _over_processor(scores: torch.Tensor, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the value and the gradient by the kernels."""
    _check_wait()
    return _rank_loss(scores, *arguments)


def _waited_for(flag: torch.Tensor) -> bool:
    """Return a flag of a GPU, which has to finish first."""
    _check_wait()
    return bool(flag)


def _check_wait() -> None:
    """Raise InputError inside of a CUDA graph, which cannot wait."""
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        raise InputError(
            "a CUDA graph takes hinge, ramp and direct loss upwards of the rank losses of lapsvm.ranking, on_empty "
            "'skip', and for 'ndcg' boolean labels or class indices, got a call that needs the processor."
        )


def _fake(scores: torch.Tensor, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return outputs of the right shapes and types."""
    given = Arguments(*arguments)
    per_ranking = ([] if given.groups is None else [given.n_groups]) + list(scores.shape[1:])
    return scores.new_empty(per_ranking if given.reduction == "none" else []), scores.new_empty(scores.shape)


def _vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, tuple[int, int]]:
    """Call the operator for each entry of the mapped axis."""
    entries = [
        [value if axis is None else value.select(axis, k) for value, axis in zip(arguments, in_dims, strict=True)]
        for k in range(info.batch_size)
    ]
    values, gradients = zip(*(rank_loss(*entry) for entry in entries), strict=True)
    return (torch.stack(values), torch.stack(gradients)), (0, 0)


_LIBRARY.define(_SCHEMA)
_LIBRARY.impl("rank_loss", _rank_loss, "CompositeExplicitAutograd")
_LIBRARY.impl("rank_loss", _on_gpu, "CUDA")
torch.library.register_fake("lapsvm::rank_loss", _fake, lib=_LIBRARY)
torch.library.register_vmap("lapsvm::rank_loss", _vmap, lib=_LIBRARY)
rank_loss = torch.ops.lapsvm.rank_loss.default
