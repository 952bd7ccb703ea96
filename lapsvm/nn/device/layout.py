"""The samples of many rankings side by side, sorted: one row per column of the scores, one segment of a row per group.

Nothing has a shape that depends on a value. What counts stands at the beginning of its segment, and where arrays hold
positives or negatives alone, the slots behind the last one of a segment are not used.
"""

from typing import NamedTuple

import torch

Tensor = torch.Tensor


class Segments(NamedTuple):
    """Where the rankings of a row are: the first slot of each slot's segment (B,), and which segment it is (B,).

    Both are None if every row is one ranking; `n` is their number in a row, or a bound of it.
    """

    start: Tensor | None
    number: Tensor | None
    n: int

    def sums(self, values: Tensor) -> Tensor:
        """Return the sum of the values (K, B) of each ranking (K, n)."""
        if self.number is None:
            return values.sum(1, keepdim=True)
        return values.new_zeros(len(values), self.n).index_add_(1, self.number, values)

    def exist(self, values: Tensor) -> Tensor:
        """Return for each of the values (K, n) whether there is such a ranking."""
        if self.number is None:
            return torch.ones_like(values, dtype=torch.bool)
        return (torch.arange(self.n, device=values.device) <= self.number[-1]).expand_as(values)

    def spread(self, values: Tensor) -> Tensor:
        """Return the value (K, n) of each slot's ranking, in a shape that fits to (K, B)."""
        return values if self.number is None else values[:, self.number]

    def running_sums(self, values: Tensor) -> Tensor:
        """Return the sums of the values (K, B) up to each slot from its segment's start on; others never mix in."""
        if self.start is None:
            return values.cumsum(1)
        slots, step = torch.arange(values.shape[1], device=values.device), 1
        while step < values.shape[1]:
            before = torch.nn.functional.pad(values[:, :-step], (step, 0))
            values = values + torch.where(slots - step >= self.start, before, 0)
            step *= 2
        return values

    def starts(self, like: Tensor) -> Tensor:
        """Return the first slot of each slot's segment in the shape of a tensor (K, B)."""
        return torch.zeros_like(like) if self.start is None else self.start.expand_as(like)


class Sorted(NamedTuple):
    """The samples, highest score first in each segment, the first in input order first among equal ones.

    Attributes
    ----------
    scores : (K, B) float64
    order : (K, B) int64
        The sample of each slot.
    positive, negative : (K, B) bool
        Neither, where the sample does not count.
    i, j : (K, B) int64
        How many positives, and how many negatives, of the segment there are up to the slot.
    n_pos, n_neg : (K, n) int64
    segments : Segments
    """

    scores: Tensor
    order: Tensor
    positive: Tensor
    negative: Tensor
    i: Tensor
    j: Tensor
    n_pos: Tensor
    n_neg: Tensor
    segments: Segments


def sort_samples(
    scores: Tensor, scale: float, positive: Tensor, counted: Tensor | None, groups: Tensor | None, n_groups: int
) -> Sorted:
    """Return the samples in order.

    Parameters
    ----------
    scores : (K, B) float
    scale : float
    positive, counted : (K, B) bool
    groups : (B,) int, optional
    n_groups : int
        Their number, if it is known, or -1.
    """
    keys = scores if counted is None else torch.where(counted, scores, -torch.inf)
    values, order = torch.sort(keys, dim=1, descending=True, stable=True)
    segments = Segments(None, None, 1)
    if groups is not None:
        by_group = torch.sort(groups[order], dim=1, stable=True)
        order, values = order.gather(1, by_group.indices), values.gather(1, by_group.indices)
        segments = _segments(torch.sort(groups).values, n_groups)
    flags = positive.gather(1, order)
    kept = None if counted is None else counted.gather(1, order)
    positive, negative = (flags, ~flags) if kept is None else (flags & kept, ~flags & kept)
    (i, n_pos), (j, n_neg) = (_counts(scores, segments) for scores in (positive, negative))
    return Sorted(values.double() * scale, order, positive, negative, i, j, n_pos, n_neg, segments)


def _segments(groups: Tensor, n_groups: int) -> Segments:
    """Return the segments of groups in ascending order; there are at most as many as samples."""
    slots = torch.arange(len(groups), device=groups.device)
    changed = torch.ones_like(groups, dtype=torch.bool)
    changed[1:] = groups[1:] != groups[:-1]
    start = torch.where(changed, slots, 0).cummax(0).values
    return Segments(start, changed.cumsum(0) - 1, len(groups) if n_groups < 0 else n_groups)


def _counts(flags: Tensor, segments: Segments) -> tuple[Tensor, Tensor]:
    """Return how many flags are set up to each slot of its segment, and in each segment."""
    totals = segments.sums(flags.long())
    running = flags.cumsum(1)
    return running - segments.spread(totals.cumsum(1) - totals), totals


def packed(values: Tensor, chosen: Tensor, number: Tensor, start: Tensor) -> Tensor:
    """Return the chosen values (K, B), each at its number (from 1) in its segment; other slots are 0."""
    n_rows, n = values.shape
    slots = torch.where(chosen, start + number - 1, n)  # one more slot takes all that is not chosen
    return values.new_zeros(n_rows, n + 1).scatter_(1, slots, values)[:, :n]
