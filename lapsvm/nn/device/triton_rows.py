"""Rankings in rows, one per column of the scores, by Triton's kernels: some ten launches for any number of samples."""

import struct
from typing import NamedTuple

import torch

from lapsvm.nn.device import kernels
from lapsvm.nn.device.levels import Task
from lapsvm.nn.device.losses import ClosedForm

Tensor = torch.Tensor

_BLOCK = 1024  # slots of a program that streams
_BRANCHES = 64  # negatives of a level between two of the level before
_FULL_SCANS = 2048  # negatives of the first level, whose candidates are all ranks


class Rows(NamedTuple):
    """What is known of the rankings of rows (K, B), and what their gradient is made of.

    Attributes
    ----------
    values : (K, 1) float64; in the scores' type if K is 1
        Of the bound; 0 where there is nothing to rank, NaN where a sample cannot be used.
    state : (K, 1) int32
        0 where there is nothing to rank, 1 where there is, 2 where a sample cannot be used.
    """

    values: Tensor
    state: Tensor
    order: Tensor
    running: Tensor
    swapped: Tensor
    units: Tensor
    flags: dict[str, bool]


class RowsCall(NamedTuple):
    """What is ranked in rows.

    Attributes
    ----------
    scores : (K, B) float, contiguous
    labels : as the caller's scores, (B,) or (B, K); or (B,) classes
    counted : (K, B) bool, or None
        None: all samples count.
    classes : bool
        Whether the labels are classes.
    """

    scores: Tensor
    labels: Tensor
    counted: Tensor | None
    classes: bool


def solve_rows(call: RowsCall, scale: float, form: ClosedForm, bound: str) -> Rows:
    """Return what the bound, "hinge", "up" or "delta", gives for each row of scores."""
    rows, counted = call.scores, call.counted
    n_rows, n = rows.shape
    keys = rows if counted is None else torch.where(counted, rows, -torch.inf)
    values, order = torch.sort(keys, dim=1, descending=True, stable=True)
    tiles = -(-n // _BLOCK)
    values, order, labels = values.contiguous(), order.contiguous(), as_bytes(call.labels).contiguous()
    packed = torch.empty_like(order)
    read = {"WHOLE": not labels.dtype.is_floating_point, "CLASSES": call.classes}
    kernels.mark[(n_rows * tiles,)](
        order, labels, order if counted is None else as_bytes(counted).contiguous(), packed, n, n_rows, tiles,
        MASKED=counted is not None, BLOCK=_BLOCK, enable_fp_fusion=False, **read,
    )  # fmt: skip
    running = packed.view(-1).cumsum(0)
    positives, negatives = values.new_empty((2, n_rows, n), dtype=torch.float64)
    n_pos, n_neg, state = order.new_empty((3, n_rows), dtype=torch.int32)
    ranks, swapped = order.new_empty((2, n_rows, n), dtype=torch.int32)
    bits = bits_of(scale)
    kernels.pack[(n_rows * tiles,)](
        values, running, positives, negatives, n_pos, n_neg, n, tiles, bits, BLOCK=_BLOCK,
        enable_fp_fusion=False,
    )  # fmt: skip
    tables = discount_tables(form, n, positives)
    flags = {"VIOLATED": bound != "delta", "PREDICTED": bound != "hinge"}
    if flags["VIOLATED"]:
        find_levels(form, tables, Level(positives, negatives, ranks, ranks, n_pos, n_neg), grouped=False)
    partial = values.new_empty((n_rows * tiles, 6), dtype=torch.float64)
    kernels.measure[(n_rows * tiles,)](
        values, running, positives, ranks, labels, order, *tables, swapped, partial, n, n_rows,
        tiles, bits, KIND=kernels.KINDS.index(form.name), CHECKED=call.labels.dtype != torch.bool,
        STEPS=n.bit_length(), BLOCK=_BLOCK, enable_fp_fusion=False, **read, **flags,
    )  # fmt: skip
    bounds = values.new_empty((n_rows, 1), dtype=values.dtype if n_rows == 1 else torch.float64)
    units = values.new_empty((n_rows, 2), dtype=torch.float64)
    kernels.finish[(n_rows,)](
        partial, running, bounds, units, state, n, tiles, HINGE=bound == "hinge", enable_fp_fusion=False, **flags
    )  # fmt: skip
    return Rows(bounds, state[:, None], order, running, swapped, units, flags)


def gradient_of(rows: Rows, scale: float, weights: Tensor | None, like: Tensor) -> Tensor:
    """Return the gradient of the sum of the values times the weights (K,), in shape and type of the scores."""
    n_rows, n = rows.order.shape
    gradient = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    tiles = -(-n // _BLOCK)
    row_step, sample_step = (0, 1) if like.ndim == 1 else (1, n_rows)
    kernels.spread[(n_rows * tiles,)](
        rows.swapped, rows.running, rows.order, rows.units, rows.units if weights is None else weights, gradient, n,
        tiles, row_step, sample_step, bits_of(scale), WEIGHTED=weights is not None, BLOCK=_BLOCK,
        enable_fp_fusion=False, **rows.flags,
    )  # fmt: skip
    return gradient


class Level(NamedTuple):
    """The tensors of `kernels.level`: (K, B), or numbers of positives and negatives (K,) of rows without groups."""

    positives: Tensor
    negatives: Tensor
    ranks: Tensor
    starts: Tensor
    n_pos: Tensor
    n_neg: Tensor


def try_kernel(device: torch.device) -> None:
    """Compile and launch a kernel; whatever is missing raises an error."""
    order = torch.zeros((1, 1), dtype=torch.int64, device=device)
    kernels.mark[(1,)](
        order, order, order, torch.empty_like(order), 1, 1, 1, MASKED=False, WHOLE=True, CLASSES=False, BLOCK=16,
        enable_fp_fusion=False,
    )  # fmt: skip


def find_levels(form: ClosedForm, tables: tuple[Tensor, Tensor], level: Level, grouped: bool) -> None:
    """Write the ranks of all negatives, level by level."""
    n_rows, n = level.ranks.shape
    strides = [1]
    while n // strides[-1] > _FULL_SCANS:
        strides.append(strides[-1] * _BRANCHES)
    before = 0
    for stride in reversed(strides):
        at_once, candidates = (1, 1024) if stride == strides[-1] > 1 else (16, 128)
        tiles = -(-(n // stride) // at_once)
        kernels.level[(n_rows * tiles,)](
            *level, *tables, n, stride, before, tiles,
            KIND=kernels.KINDS.index(form.name), GROUPED=grouped, J=at_once, R=candidates, enable_fp_fusion=False,
        )  # fmt: skip
        before = stride


def find_ranks(task: Task) -> Tensor:
    """Return what `levels.find_ranks` returns."""
    ranks = torch.empty_like(task.start, dtype=torch.int32)
    sizes = (counts.contiguous() for counts in (task.start, task.n_pos, task.n_neg))
    level = Level(task.positives.contiguous(), task.negatives.contiguous(), ranks, *sizes)
    find_levels(task.form, discount_tables(task.form, ranks.shape[1], task.positives), level, grouped=True)
    return ranks.long()


def discount_tables(form: ClosedForm, n: int, other: Tensor) -> tuple[Tensor, Tensor]:
    """Return the tables that the kernels read, those of NDCG alone, or twice the other tensor."""
    if form.name != "ndcg":
        return other, other
    discounts, sums = form.tables(n, other.device)
    return discounts, sums


def bits_of(number: float) -> int:
    """Return the bits of a float64: a kernel takes a number as float32."""
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def as_bytes(tensor: Tensor) -> Tensor:
    """Return booleans as bytes, without a copy."""
    return tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor
