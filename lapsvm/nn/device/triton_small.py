"""Small batches on a GPU by one launch of a kernel, with masks, groups and labels of every form."""

from typing import NamedTuple

import torch

from lapsvm.nn.device import small_kernel
from lapsvm.nn.device.kernels import KINDS
from lapsvm.nn.device.losses import ClosedForm
from lapsvm.nn.device.triton_rows import as_bytes, bits_of, discount_tables

Tensor = torch.Tensor


class Small(NamedTuple):
    """What the kernel writes.

    Attributes
    ----------
    values : (G, K)
        0 where there is nothing to rank, NaN where a sample cannot be used.
    state : (G, K) int32
        -1 where there is no such group, 0 where there is nothing to rank, 1 where there is, 2 where a sample cannot be
        used.
    gradient : as scores
        Of the sum of the values.
    """

    values: Tensor
    state: Tensor
    gradient: Tensor


class SmallBatch(NamedTuple):
    """The tensors of a call that has few samples, and what else decides what counts."""

    scores: Tensor
    labels: Tensor
    mask: Tensor | None
    groups: Tensor | None
    ignore_index: int | None
    n_groups: int


def solve_small(batch: SmallBatch, scale: float, form: ClosedForm, bound: str) -> Small:
    """Return what a bound gives for each ranking; one ranking's in the type of the scores, those of more in float64.

    Parameters
    ----------
    batch : SmallBatch
    scale : float
    form : ClosedForm
    bound : "hinge", "up" or "delta"
    """
    scores, labels = (as_bytes(array).contiguous() for array in (batch.scores, batch.labels))
    mask = None if batch.mask is None else as_bytes(batch.mask).contiguous()
    n, n_columns = len(scores), scores.shape[1] if scores.ndim == 2 else 1
    n_groups = 1 if batch.groups is None else batch.n_groups if batch.n_groups >= 0 else n
    block = max(16, 1 << (n - 1).bit_length())
    floats = scores.new_empty((n_groups * n_columns, block), dtype=torch.float64)
    ints = scores.new_empty((n_groups * n_columns, 4 * block), dtype=torch.int32)
    kind = scores.dtype if n_groups * n_columns == 1 else torch.float64
    values, gradient = scores.new_empty((n_groups, n_columns), dtype=kind), torch.empty_like(scores, dtype=kind)
    state = scores.new_empty((n_groups, n_columns), dtype=torch.int32)
    small_kernel.solve[(n_columns, n_groups)](
        scores, labels, scores if mask is None else mask,
        scores if batch.groups is None else batch.groups.contiguous(),
        *discount_tables(form, n, floats), floats, ints, values, state, gradient, n, n_columns,
        batch.ignore_index or 0, bits_of(scale),
        KIND=KINDS.index(form.name), HINGE=bound == "hinge", VIOLATED=bound != "delta", PREDICTED=bound != "hinge",
        WHOLE=not labels.dtype.is_floating_point, CLASSES=labels.shape != scores.shape,
        MASK=0 if mask is None else mask.ndim if n_columns > 1 else 1, IGNORING=batch.ignore_index is not None,
        GROUPS=0 if batch.groups is None else 1 if batch.n_groups >= 0 else 2, BLOCK=block, J=16,
        num_warps=8 if block > 256 else 4, enable_fp_fusion=False,
    )  # fmt: skip
    return Small(values, state, gradient)
