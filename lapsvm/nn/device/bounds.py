"""The bounds of Delta for all rankings of a batch: values, and how they change with the scores."""

from typing import NamedTuple

import torch

from lapsvm.nn.device.layout import Sorted, packed
from lapsvm.nn.device.levels import Task, find_ranks
from lapsvm.nn.device.losses import FORMS, ClosedForm, Sizes, Tables

Tensor = torch.Tensor

BOUNDS = ("hinge", "up", "delta")


class Bounded(NamedTuple):
    """What a bound gives: values (K, n), 0 where there is nothing to rank, and coefficients (K, B) of the slots.

    A value changes with the scores as -coefficients.
    """

    values: Tensor
    coefficients: Tensor


class _Ranking(NamedTuple):
    """A ranking: Delta (K, n), and the pairs of each slot (K, B) in the wrong order, below 0 for negatives."""

    delta: Tensor
    swapped: Tensor


class _Problem(NamedTuple):
    """The sorted samples, their scores less their segment's centre (0 where they do not count), and the loss."""

    samples: Sorted
    scores: Tensor
    form: ClosedForm
    tables: Tables
    sizes: Sizes


def bounded(bound: str, samples: Sorted, form: ClosedForm) -> Bounded:
    """Return the values and coefficients by a bound of BOUNDS, 0 for rankings without a positive or a negative."""
    n_pos, n_neg = (samples.segments.spread(counts) for counts in (samples.n_pos, samples.n_neg))
    start = samples.segments.starts(samples.i)
    best = packed(samples.scores, samples.positive, samples.i, start)
    centre = best.gather(1, (start + n_pos - 1).clamp(min=0))  # a shift of the scores that reduces rounding
    counted = (samples.positive | samples.negative) & (n_pos > 0) & (n_neg > 0)
    scores = torch.where(counted, samples.scores - centre, 0.0)
    tables = form.tables(scores.shape[1], scores.device)
    problem = _Problem(samples, scores, form, tables, Sizes(n_pos.double(), n_neg.double()))
    if bound == "delta":
        predicted = _predicted(problem)
        return Bounded(_valid(samples, predicted.delta), _coefficients(problem, predicted.swapped))
    violated = _violated(problem, start)
    swapped, least = violated.swapped, torch.zeros_like(violated.delta)
    if bound == "up":
        predicted = _predicted(problem)
        swapped, least = swapped - predicted.swapped, predicted.delta
    coefficients = _coefficients(problem, swapped)
    values = violated.delta - samples.segments.sums(coefficients * scores)
    return Bounded(_valid(samples, torch.maximum(values, least)), coefficients)


def _valid(samples: Sorted, values: Tensor) -> Tensor:
    """Return the values (K, n), 0 where there is nothing to rank."""
    return torch.where((samples.n_pos > 0) & (samples.n_neg > 0), values, 0.0)


def _predicted(problem: _Problem) -> _Ranking:
    """Return the ranking by the scores."""
    samples = problem.samples
    below = samples.segments.spread(samples.n_pos) - samples.i
    return _ranking(problem, samples.j, below)


def _violated(problem: _Problem, start: Tensor) -> _Ranking:
    """Return the ranking that violates its constraint most, or the perfect one if rounding says it is better."""
    samples = problem.samples
    segments = samples.segments
    n_pos, n_neg = (segments.spread(counts).expand_as(start) for counts in (samples.n_pos, samples.n_neg))
    positives = packed(problem.scores, samples.positive, samples.i, start)
    negatives = packed(problem.scores, samples.negative, samples.j, start)
    ranks = find_ranks(Task(problem.form, problem.tables, positives, negatives, segments, start, n_pos, n_neg))
    slots = torch.arange(start.shape[1], device=start.device)
    keys = torch.where(slots < start + n_neg, ranks, n_pos + 2)
    above = _above(keys, samples, start)
    below = n_pos + 1 - keys.gather(1, (start + samples.j - 1).clamp(min=0))
    ranking = _ranking(problem, above, below)
    violation = ranking.delta - segments.sums(_coefficients(problem, ranking.swapped) * problem.scores)
    keep = ~(violation < 0)
    return _Ranking(torch.where(keep, ranking.delta, 0.0), ranking.swapped * segments.spread(keep))


def _above(keys: Tensor, samples: Sorted, start: Tensor) -> Tensor:
    """Return how many negatives are above each positive: those whose rank is at most its place."""
    segments = samples.segments
    if segments.number is None:
        return torch.searchsorted(keys, samples.i, right=True)
    step = keys.shape[1] + 3  # beyond every key, so that keys rise from one segment to the next
    wanted = segments.number * step + samples.i
    return torch.searchsorted(segments.number * step + keys, wanted, right=True) - start


def _ranking(problem: _Problem, above: Tensor, below: Tensor) -> _Ranking:
    """Return the ranking with these numbers of negatives above positives and of positives below negatives."""
    samples = problem.samples
    parts = FORMS[problem.form.name].parts(problem.tables, samples.i, above, problem.sizes)
    delta = samples.segments.sums(torch.where(samples.positive, parts, 0.0))
    swapped = torch.where(samples.positive, above, torch.where(samples.negative, -below, 0))
    return _Ranking(delta, swapped)


def _coefficients(problem: _Problem, swapped: Tensor) -> Tensor:
    """Return the coefficient of each slot: its pairs that are swapped, times 2 / (P N)."""
    units = 2.0 / (problem.sizes.n_pos * problem.sizes.n_neg)
    return torch.where(swapped != 0, swapped * units, 0.0)
