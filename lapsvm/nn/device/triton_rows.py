"""Rankings in rows, one per column of the scores, by Triton's kernels: some ten launches for any number of samples."""

import struct
from typing import NamedTuple

import torch

from lapsvm.nn.device import kernels
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
    bound: str


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
    """Return the values by a bound, "hinge", "up" or "delta", of each row of scores."""
    rows, counted = call.scores, call.counted
    n_rows, n = rows.shape
    keys = rows if counted is None else torch.where(counted, rows, -torch.inf)
    values, order = (tensor.contiguous() for tensor in torch.sort(keys, dim=1, descending=True, stable=True))
    labels, bits = _as_bytes(call.labels).contiguous(), _bits_of(scale)
    grid, launch = _grid(n_rows, n), {"BLOCK": _BLOCK, "enable_fp_fusion": False}
    packed = torch.empty_like(order)
    kept = None if counted is None else _as_bytes(counted).contiguous()
    kernels.mark[grid](order, labels, kept, packed, n, grid[0] // n_rows, CLASSES=call.classes, **launch)
    running = packed.view(-1).cumsum(0)
    sides = values.new_empty((2, n_rows, n), dtype=torch.float64)
    counts, state = order.new_empty((2, n_rows), dtype=torch.int32), order.new_empty((n_rows, 1), dtype=torch.int32)
    kernels.pack[grid](values, running, sides, counts, n, grid[0] // n_rows, bits, **launch)
    ranks, swapped = order.new_empty((2, n_rows, n), dtype=torch.int32)
    tables = form.tables(n, rows.device) if form.name == "ndcg" else (None, None)
    if bound != "delta":
        _find_ranks(form, tables, sides, counts, ranks)
    partial = values.new_empty((grid[0], 6), dtype=torch.float64)
    kernels.measure[grid](
        values, running, sides, ranks, None if call.labels.dtype == torch.bool else labels, order, *tables, swapped,
        partial, n, grid[0] // n_rows, bits, KIND=form.name, BOUND=bound, CLASSES=call.classes, STEPS=n.bit_length(),
        **launch,
    )  # fmt: skip
    bounds = values.new_empty((n_rows, 1), dtype=values.dtype if n_rows == 1 else torch.float64)
    units = values.new_empty((n_rows, 2), dtype=torch.float64)
    kernels.finish[(n_rows,)](
        partial, running, bounds, units, state, n, grid[0] // n_rows, BOUND=bound, enable_fp_fusion=False
    )
    return Rows(bounds, state, order, running, swapped, units, bound)


def gradient_of(rows: Rows, scale: float, weights: Tensor | None, like: Tensor) -> Tensor:
    """Return the gradient of the sum of the values times the weights (K, 1) or (1, 1), in the form of the scores."""
    n_rows, n = rows.order.shape
    gradient = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    units = rows.units * (-scale if weights is None else weights * -scale)
    kernels.spread[_grid(n_rows, n)](
        rows.swapped, rows.running, rows.order, units, gradient, n, BOUND=rows.bound, BLOCK=_BLOCK,
        enable_fp_fusion=False,
    )  # fmt: skip
    return gradient


def try_kernel(device: torch.device) -> None:
    """Compile and launch a kernel; whatever is missing raises an error."""
    order = torch.zeros((1, 1), dtype=torch.int64, device=device)
    kernels.mark[(1,)](
        order, order, None, torch.empty_like(order), 1, 1, CLASSES=False, BLOCK=16, enable_fp_fusion=False
    )


def _grid(n_rows: int, n: int) -> tuple[int]:
    """Return the number of programs that stream over all rows."""
    return (n_rows * -(-n // _BLOCK),)


def _find_ranks(
    form: ClosedForm, tables: tuple[Tensor | None, ...], sides: Tensor, counts: Tensor, ranks: Tensor
) -> None:
    """Write the ranks (K, B) of all negatives, level by level, for the packed scores (2, K, B) and counts (2, K)."""
    n_rows, n = ranks.shape
    strides = [1]
    while n // strides[-1] > _FULL_SCANS:
        strides.append(strides[-1] * _BRANCHES)
    before = 0
    for stride in reversed(strides):
        at_once, candidates = (1, 1024) if stride == strides[-1] > 1 else (16, 128)
        tiles = -(-(n // stride) // at_once)
        kernels.level[(n_rows * tiles,)](
            sides, counts, ranks, *tables, n, stride, before, tiles, KIND=form.name, J=at_once, R=candidates,
            enable_fp_fusion=False,
        )  # fmt: skip
        before = stride


def _bits_of(number: float) -> int:
    """Return the bits of a float64: a kernel takes a number as float32."""
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def _as_bytes(tensor: Tensor) -> Tensor:
    """Return booleans as bytes, without a copy."""
    return tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor
