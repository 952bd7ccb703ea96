"""The operator's work on tensors of a GPU: from scores and labels to value and gradient, all on their device."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from lapsvm.errors import InputError, ShapeError
from lapsvm.nn.device.losses import ClosedForm
from lapsvm.nn.device.targets import read_targets
from lapsvm.nn.device.ways import WAYS, DeviceCall, DeviceOptions, Found
from lapsvm.nn.shapes import check_shapes

Tensor = torch.Tensor


class Answer(NamedTuple):
    """The value, its gradient in the scores' shape, and what returns which rankings lack positives or negatives."""

    value: Tensor
    gradient: Tensor
    lacking: Callable[[], Tensor]


def read_call(call: DeviceCall) -> DeviceCall:
    """Return the call with all tensors on the scores' device; ShapeError or InputError if they do not fit together."""
    for name, tensor in zip(call._fields, call, strict=True):
        if tensor is not None and tensor.dtype.is_complex:
            raise InputError(f"{name} must be real numbers, got {tensor.dtype}.")
    check_shapes(*call[:4])
    if call.class_weight is not None and call.class_weight.shape != call.scores.shape[1:]:
        raise ShapeError(
            f"class_weight must have one entry per column of scores, got shape {tuple(call.class_weight.shape)} "
            f"for scores of shape {tuple(call.scores.shape)}."
        )
    scores = call.scores.detach()
    others = (None if argument is None else argument.detach().to(scores.device) for argument in call[2:])
    return DeviceCall(scores, call.labels.detach().to(scores.device), *others)


def has_gains(call: DeviceCall, ignore_index: int | None) -> Tensor | None:
    """Return, on the device, whether labels that count are neither 0 nor 1 nor -1; None if that cannot be."""
    _, counted, unusable = read_targets(call.scores.shape, call.labels, call.mask, ignore_index)
    if unusable is None or call.labels.shape != call.scores.shape:
        return None
    return (unusable if counted is None else unusable & counted).any()


def solve(call: DeviceCall, options: DeviceOptions, form: ClosedForm, way: str) -> Answer:
    """Return value and gradient of a batch that has a sample and has passed `read_call`, in one of WAYS.

    A score that is not finite or too large, or a label that is not binary, makes value and gradient of its ranking NaN.
    """
    result = WAYS[way](call, options, form)
    weights = _weights(result, call.class_weight, options.reduction)
    values = result.values
    if options.reduction == "none":
        if options.bound == "delta":
            values = torch.where(result.counting(), values, torch.nan)
        value = _as_shape(values, call)
    elif values.numel() == 1 and weights is None:
        value = values[0, 0]
    else:
        value = (values if weights is None else values * weights).sum()
    return Answer(value.to(call.scores.dtype), result.gradient(weights), result.lacking)


def _weights(result: Found, class_weight: Tensor | None, reduction: str) -> Tensor | None:
    """Return the weight of each ranking in the output, in a shape that fits to (K, n); None if they are 1."""
    if reduction == "none" or (class_weight is None and (reduction == "sum" or result.values.numel() == 1)):
        return None
    if class_weight is None:
        return 1.0 / result.counting().sum().clamp(min=1).double().reshape(1, 1)
    per_column = class_weight.double()[:, None]
    if reduction == "sum":
        return per_column
    total = (result.counting() * per_column).sum()
    return torch.where(total > 0, per_column / total, 0.0)


def _as_shape(values: Tensor, call: DeviceCall) -> Tensor:
    """Return one value per ranking (K, n) as (n, K), without the axes that the call does not have."""
    per_column = values.T if call.scores.ndim == 2 else values[0]
    return per_column if call.groups is not None else per_column[0]
