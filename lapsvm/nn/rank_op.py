"""The operator `torch.ops.lapsvm.rank_loss`: from tensors to the kernels on the processor and back.

The operator returns the reduced value and its gradient and is not differentiable itself; `lapsvm.nn.functional` adds
the gradient with plain torch operators, so that autograd, forward mode, `torch.func` and the compiler need no rule of
ours beyond shapes and vmap.
"""

import weakref
from functools import partial
from typing import Any

import numpy as np
import torch

from lapsvm.arrays import Array
from lapsvm.errors import InputError, OptionError, ShapeError
from lapsvm.nn.bounds import BOUNDS, AnyLoss
from lapsvm.nn.rankings import Solved, make_batch, solve_rankings
from lapsvm.ranking.losses import NAMED

_LIBRARY: Any = torch.library.Library("lapsvm", "FRAGMENT")  # type: ignore[no-untyped-call]
_SCHEMA = (
    "rank_loss(Tensor scores, Tensor labels, Tensor? mask, Tensor? groups, Tensor? class_weight, str bound, str loss, "
    "float scale, str reduction, int? ignore_index, bool raise_on_empty, SymInt n_groups) -> (Tensor, Tensor, Tensor)"
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


def _rank_loss(
    scores: torch.Tensor,
    labels: torch.Tensor,
    mask: torch.Tensor | None,
    groups: torch.Tensor | None,
    class_weight: torch.Tensor | None,
    bound: str,
    loss: str,
    scale: float,
    reduction: str,
    ignore_index: int | None,
    raise_on_empty: bool,
    n_groups: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the value, the gradient of its sum in the scores' shape, and whether there was something to rank.

    Value and validity are scalars, or have one entry per ranking if nothing is reduced.
    """
    array = to_array("scores", scores)
    batch = make_batch(
        array,
        to_array("labels", labels),
        None if mask is None else to_array("mask", mask),
        None if groups is None else to_array("groups", groups),
        scale=scale,
        ignore_index=ignore_index,
        n_groups=n_groups,
    )
    solve = partial(BOUNDS[bound], loss_of(loss))
    solved = solve_rankings(batch, solve, torch.get_num_threads(), raise_on_empty)
    weights = _ranking_weights(solved, array.shape, class_weight, reduction)
    gradient = _gradient(solved, array, -scale * weights)
    value: Any = float((solved.values * weights).sum())
    valid: Any = bool(solved.valid.any())
    if reduction == "none":
        value, valid = (_as_shape(part, array.ndim, groups is not None) for part in (solved.values, solved.valid))
    return (
        torch.as_tensor(value, dtype=scores.dtype, device=scores.device),
        torch.from_numpy(gradient).to(scores.device),
        torch.as_tensor(valid, device=scores.device),
    )


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
    gradient = np.empty(scores.shape, dtype=scores.dtype)
    if scores.ndim == 1:
        np.multiply(solved.coefficients[0], factors, out=gradient, casting="same_kind")
    else:
        np.multiply(solved.coefficients.T, factors, out=gradient, casting="same_kind")
    return gradient


def _as_shape(values: Array, ndim: int, grouped: bool) -> Array:
    """Return one value per ranking (G, K) without the axes that the call does not have."""
    per_column = values if ndim == 2 else values[:, 0]
    return np.asarray(per_column if grouped else per_column[0])


def to_array(name: str, tensor: torch.Tensor) -> Array:
    """Return the tensor's values as an array, without a copy if it is on the processor."""
    if tensor.dtype.is_complex:
        raise InputError(f"{name} must be real numbers, got {tensor.dtype}.")
    tensor = tensor.detach().cpu()
    return tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def _fake(scores: torch.Tensor, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return outputs of the right shapes and types."""
    groups, reduction, n_groups = arguments[2], arguments[7], arguments[10]
    per_ranking = ([] if groups is None else [n_groups]) + list(scores.shape[1:])
    shape = per_ranking if reduction == "none" else []
    valid = scores.new_empty(shape, dtype=torch.bool)
    return scores.new_empty(shape), scores.new_empty(scores.shape), valid


def _vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, tuple[int, int, int]]:
    """Call the operator for each entry of the mapped axis."""
    entries = [
        [value if axis is None else value.select(axis, k) for value, axis in zip(arguments, in_dims, strict=True)]
        for k in range(info.batch_size)
    ]
    results = zip(*(rank_loss(*entry) for entry in entries), strict=True)
    return tuple(torch.stack(parts) for parts in results), (0, 0, 0)


_LIBRARY.define(_SCHEMA)
_LIBRARY.impl("rank_loss", _rank_loss, "CompositeExplicitAutograd")
torch.library.register_fake("lapsvm::rank_loss", _fake, lib=_LIBRARY)
torch.library.register_vmap("lapsvm::rank_loss", _vmap, lib=_LIBRARY)
rank_loss = torch.ops.lapsvm.rank_loss.default
