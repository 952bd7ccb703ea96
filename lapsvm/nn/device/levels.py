"""The best rank of every negative, level by level, in plain torch operations.

The best rank does not fall from one negative to the next worse one (condition C2). A level takes every stride-th
negative; the ranks found by the level before bound its candidates, and those of all its negatives are evaluated at
once. Between two settled negatives of equal rank there is nothing to evaluate.
"""

from typing import NamedTuple

import torch

from lapsvm.nn.device.layout import Segments
from lapsvm.nn.device.losses import FORMS, ClosedForm, Sizes, Tables

Tensor = torch.Tensor

_CANDIDATES = 1 << 21
"""How many candidates a level may evaluate so that there are fewer levels."""


class Task(NamedTuple):
    """The sorted negatives of many rankings, and what their best ranks depend on.

    Attributes
    ----------
    form : ClosedForm
        The loss.
    tables : tuple of tensors
        Those of the loss.
    positives : (K, B) float64
        The scores of the positives less the centre, best first in each segment.
    negatives : (K, B) float64
        Those of the negatives.
    segments : Segments
    start, n_pos, n_neg : (K, B) int64
        The first slot of each slot's segment, and the numbers of its positives and negatives.
    """

    form: ClosedForm
    tables: Tables
    positives: Tensor
    negatives: Tensor
    segments: Segments
    start: Tensor
    n_pos: Tensor
    n_neg: Tensor


class _Level(NamedTuple):
    """The negatives of a level: their slots (m,), and (K, m) how many candidates each has, from rank `low` on."""

    slots: Tensor
    low: Tensor
    width: Tensor


def find_ranks(task: Task) -> Tensor:
    """Return the interleaving rank of each slot's negative (K, B) int64; slots that are not used have a rank of no use.

    The largest of several best ranks, as the kernel returns.
    """
    ranks, sums = torch.ones_like(task.start), task.segments.running_sums(task.positives)
    before = 0
    for stride in _strides(*ranks.shape):
        level = _level(task, ranks, stride, before)
        ranks[:, stride - 1 :: stride] = _best(task, sums, level, _bound(ranks.shape, stride, before))
        before = stride
    return ranks


def _strides(n_rows: int, n: int) -> list[int]:
    """Return the strides of the levels, each a multiple of the next, the last one 1."""
    branches = 2
    while branches < n and 2 * branches * n_rows * n <= _CANDIDATES:
        branches *= 2
    strides = [1]
    while strides[-1] * branches < n:
        strides.append(strides[-1] * branches)
    return strides[::-1]


def _bound(shape: torch.Size, stride: int, before: int) -> int:
    """Return how many candidates a level has at most.

    The intervals between settled negatives that leave a choice have at most P + N ranks in all.
    """
    n_rows, n = shape
    if before:
        return n_rows * n * (before // stride)
    return n_rows * ((n + 1) ** 2 // 4 if stride == 1 else (n // stride) * (n + 1))


def _level(task: Task, ranks: Tensor, stride: int, before: int) -> _Level:
    """Return the candidates of every stride-th slot, between the neighbours that are settled."""
    n = ranks.shape[1]
    slots = torch.arange(stride - 1, n, stride, device=ranks.device)
    start, n_pos, n_neg = (array[:, stride - 1 :: stride] for array in (task.start, task.n_pos, task.n_neg))
    low, high = torch.ones_like(start), n_pos + 1
    if before:
        left, right = (slots + 1) // before * before - 1, (slots + before) // before * before - 1
        low = torch.where(left >= start, ranks[:, left.clamp(min=0)], low)
        high = torch.where(right < start + n_neg, ranks[:, right.clamp(max=n - 1)], high)
    open_ = (slots < start + n_neg) & (low < high)
    return _Level(slots, low, torch.where(open_, high - low + 1, 0))


def _best(task: Task, sums: Tensor, level: _Level, n_candidates: int) -> Tensor:
    """Return the best rank of each negative of a level (K, m), given the sums of the positives up to each slot."""
    low, width = level.low.reshape(-1), level.width.reshape(-1)
    ends = width.cumsum(0)
    number = torch.arange(n_candidates, device=low.device)
    owner = torch.searchsorted(ends, number, right=True)
    inside = owner < len(ends)
    owner = torch.where(inside, owner, 0)
    rank = torch.where(inside, low[owner] + number - (ends - width)[owner], 1)
    row, column = owner // len(level.slots), owner % len(level.slots)
    worth = torch.where(inside, _worth(task, sums, row, level.slots[column], rank), -torch.inf)
    highest = torch.full(low.shape, -torch.inf, dtype=worth.dtype, device=low.device)
    highest = highest.scatter_reduce(0, owner, worth, "amax")
    best = torch.where(inside & (worth == highest[owner]), rank, 0)
    return low.scatter_reduce(0, owner, best, "amax").reshape(level.low.shape)


def _worth(task: Task, sums: Tensor, row: Tensor, slot: Tensor, rank: Tensor) -> Tensor:
    """Return P N / 2 (f_j(rank) - f_j(1)) of the negatives in these slots of the rows."""
    start = task.start[row, slot]
    sizes = Sizes(task.n_pos[row, slot].double(), task.n_neg[row, slot].double())
    above = torch.where(rank > 1, sums[row, (start + rank - 2).clamp(min=0)], 0.0)
    more = FORMS[task.form.name].gains(task.tables, slot - start + 1, rank, sizes)
    return above - (rank - 1) * task.negatives[row, slot] + more
