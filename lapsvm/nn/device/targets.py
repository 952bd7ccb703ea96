"""Which samples count, which are positive, and whose labels cannot be used, in one row per column of the scores."""

from typing import NamedTuple

import torch

Tensor = torch.Tensor


class Targets(NamedTuple):
    """What the labels and the mask say of each sample.

    Attributes
    ----------
    positive : (K, B) bool
    counted : (K, B) bool, or None
        None: all samples count.
    unusable : (K, B) bool, or None
        Labels that are neither 0 nor 1 nor -1, or no class; None: there can be none.
    """

    positive: Tensor
    counted: Tensor | None
    unusable: Tensor | None


def read_targets(shape: torch.Size, labels: Tensor, mask: Tensor | None, ignore_index: int | None) -> Targets:
    """Return the targets of scores of the shape (n,) or (B, K); the arguments have passed `check_shapes`."""
    counted = counted_samples(shape, labels, mask, ignore_index)
    if labels.shape != shape:
        classes = torch.arange(shape[1], device=labels.device)[:, None]
        unusable = (labels < 0) | (labels >= shape[1])
        return Targets(labels == classes, counted, unusable.expand(shape[1], -1))
    rows = _rows(labels, shape)
    if rows.dtype == torch.bool:
        return Targets(rows, counted, None)
    return Targets(rows > 0, counted, ~((rows == 0) | (rows == 1) | (rows == -1)))


def counted_samples(shape: torch.Size, labels: Tensor, mask: Tensor | None, ignore_index: int | None) -> Tensor | None:
    """Return which samples count, `Targets.counted`, for the arguments of `read_targets`."""
    counted = None if mask is None else _rows(mask, shape)
    if ignore_index is None or not _may_hold(labels.dtype, ignore_index):
        return counted
    kept = _rows(labels != ignore_index, shape)
    return kept if counted is None else counted & kept


def _rows(tensor: Tensor, shape: torch.Size) -> Tensor:
    """Return one row per column of the scores, also of what each sample has once."""
    if len(shape) == 1:
        return tensor[None]
    return tensor.T if tensor.ndim == 2 else tensor.expand(shape[1], -1)


def _may_hold(dtype: torch.dtype, number: int) -> bool:
    """Return whether labels of the type can equal the number."""
    if dtype == torch.bool or dtype.is_floating_point:
        return True
    limits = torch.iinfo(dtype)
    return limits.min <= number <= limits.max
