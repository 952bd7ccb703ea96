"""Triton's kernel for small batches: one launch, a program for each ranking, from scores to value and gradient."""


# mypy: ignore-errors

import triton
import triton.language as tl

from lapsvm.nn.device.kernels import _as_factor, _as_float64, _as_stored, _bound, _delta, _gain, _labelled

_NOT_SPECIAL = ["n", "n_columns", "ignored", "scale_bits"]


@triton.jit
def _codes(
    labels, mask, groups, row, program, sample, inside, n_columns, ignored,
    WHOLE: tl.constexpr, CLASSES: tl.constexpr, MASK: tl.constexpr, IGNORING: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    """Return what each sample is: 1 positive, 2 negative, 3 not counted, 0 of another ranking; and unusable labels.

    MASK is 0 for none, 1 for one value a sample, 2 for one value a score. GROUPS is 0 for none, 1 for groups 0, 1, ...
    and one program each, 2 for any numbers and a program a sample, of which that of a group's first sample works.
    """
    mine = inside
    if GROUPS > 0:
        group = tl.load(groups + sample, mask=inside, other=0)
        wanted = program.to(group.dtype)
        if GROUPS == 2:
            wanted = tl.load(groups + program)
        mine = inside & (group == wanted)
        if GROUPS == 2:
            mine &= tl.sum((mine & (sample < program)).to(tl.int32), axis=0) == 0
    counted = mine
    if MASK == 1:
        counted &= tl.load(mask + sample, mask=inside, other=0) != 0
    elif MASK == 2:
        counted &= tl.load(mask + sample * n_columns + row, mask=inside, other=0) != 0
    label, positive, unusable = _labelled(labels, sample, row, n_columns, inside, WHOLE, CLASSES)
    if IGNORING:
        counted &= label != ignored
    code = tl.where(counted, tl.where(positive, 1, 2), tl.where(mine, 3, 0))
    return code, counted & unusable


@triton.jit
def _sort(value, code, sample, floats, ints, BLOCK: tl.constexpr, J: tl.constexpr):
    """Return the values, codes and samples in order, highest first, by counting what is above each."""
    tl.store(floats + sample, value)
    tl.debug_barrier()
    rank = tl.zeros_like(sample)
    first = 0
    while first < BLOCK:
        other = first + tl.arange(0, J)
        score = tl.load(floats + other)
        above = (score[:, None] > value[None, :]) | (
            (score[:, None] == value[None, :]) & (other[:, None] < sample[None, :])
        )
        rank += tl.sum(above.to(tl.int32), axis=0)
        first += J
    tl.debug_barrier()
    tl.store(floats + rank, value)
    tl.store(ints + rank, code)
    tl.store(ints + BLOCK + rank, sample)
    tl.debug_barrier()
    return tl.load(floats + sample), tl.load(ints + sample), tl.load(ints + BLOCK + sample)


@triton.jit
def _violated(
    score, i, is_pos, n_pos, n_neg, floats, ints, table, sums,
    KIND: tl.constexpr, BLOCK: tl.constexpr, J: tl.constexpr,
):  # fmt: skip
    """Return how many negatives are above each positive, and the ranks of the negatives, in sorted order."""
    slots = tl.arange(0, BLOCK)
    places = ints + 2 * BLOCK
    tl.store(places + slots, i)
    tl.debug_barrier()
    factor, count = _as_factor(KIND, n_pos, sums, True), n_neg.to(tl.float64)
    above = tl.zeros_like(i)
    first = 0
    while first < n_pos + n_neg:
        slot = first + tl.arange(0, J)
        is_neg = (slot < BLOCK) & (tl.load(ints + slot, mask=slot < BLOCK, other=0) == 2)
        negative = tl.load(floats + slot, mask=is_neg, other=0.0)
        j = slot + 1 - tl.load(places + slot, mask=is_neg, other=0)
        inside = is_neg[:, None] & is_pos[None, :]
        gain = _gain(KIND, j.to(tl.float64)[:, None], i.to(tl.float64)[None, :], factor, count, table, inside)
        more = tl.where(inside, score[None, :] - negative[:, None] + gain, 0.0)
        worth = tl.where(inside, tl.cumsum(more, axis=1), float("-inf"))
        highest = tl.max(worth, axis=1)
        last = tl.max(tl.where(inside & (worth == highest[:, None]), i[None, :] + 1, 1), axis=1)
        rank = tl.where(highest >= 0, last, 1)
        above += tl.sum((is_neg[:, None] & (rank[:, None] <= i[None, :])).to(tl.int32), axis=0)
        tl.store(ints + BLOCK * 3 + slot, rank, mask=is_neg)
        first += J
    tl.debug_barrier()
    return above, tl.load(ints + BLOCK * 3 + slots)


@triton.jit(do_not_specialize=_NOT_SPECIAL)
def solve(
    scores, labels, mask, groups, table, sums, floats, ints, values, state, gradient,
    n, n_columns, ignored, scale_bits,
    KIND: tl.constexpr, HINGE: tl.constexpr, VIOLATED: tl.constexpr, PREDICTED: tl.constexpr, WHOLE: tl.constexpr,
    CLASSES: tl.constexpr, MASK: tl.constexpr, IGNORING: tl.constexpr, GROUPS: tl.constexpr, BLOCK: tl.constexpr,
    J: tl.constexpr,
):  # fmt: skip
    """Write value, state and gradient of one ranking of scores (n, n_columns).

    The state is that of `kernels.finish`, or -1 if the program has no samples.
    """
    ranking = tl.program_id(1) * n_columns + tl.program_id(0)
    row = tl.program_id(0)
    sample = tl.arange(0, BLOCK)
    inside = sample < n
    scale = scale_bits.to(tl.int64).to(tl.float64, bitcast=True)
    score = _as_float64(tl.load(scores + sample * n_columns + row, mask=inside, other=0.0)) * scale
    code, unusable = _codes(
        labels, mask, groups, row, tl.program_id(1), sample, inside, n_columns, ignored,
        WHOLE, CLASSES, MASK, IGNORING, GROUPS,
    )  # fmt: skip
    counts = (code == 1) | (code == 2)
    bad = tl.sum((unusable | (counts & ~(tl.abs(score) <= 1e290))).to(tl.int32), axis=0) > 0
    floats += ranking * BLOCK
    ints += ranking * BLOCK * 4
    usable = tl.where(counts & (score == score), score, float("-inf"))  # noqa: PLR0124 - not NaN
    ordered, code, sample = _sort(usable, code, sample, floats, ints, BLOCK, J)
    n_pos, n_neg = tl.sum((code == 1).to(tl.int32), axis=0), tl.sum((code == 2).to(tl.int32), axis=0)
    both = (n_pos > 0) & (n_neg > 0)
    is_pos, is_neg = (code == 1) & (tl.zeros_like(code) < n_neg), (code == 2) & (tl.zeros_like(code) < n_pos)
    i, j = tl.cumsum((code == 1).to(tl.int32), axis=0), tl.cumsum((code == 2).to(tl.int32), axis=0)
    centre = tl.sum(tl.where(is_pos & (i == n_pos), ordered, 0.0), axis=0)
    score = tl.where(is_pos | is_neg, ordered - centre, 0.0)
    factor, count = _as_factor(KIND, n_pos, sums, False), n_neg.to(tl.float64)
    delta, weighted, plain_delta, difference = centre * 0, centre * 0, centre * 0, centre * 0
    high, plain, rank_as_float = tl.zeros_like(i), tl.zeros_like(i), i.to(tl.float64)
    if VIOLATED:
        above, rank = _violated(
            ordered, i, is_pos, n_pos, n_neg, floats, ints, table, sums, KIND, BLOCK, J
        )  # fmt: skip
        high = tl.where(is_pos, above, tl.where(is_neg, rank - n_pos - 1, 0))
        delta = tl.sum(_delta(KIND, rank_as_float, above.to(tl.float64), factor, count, table, is_pos), axis=0)
        weighted = tl.sum(high * score, axis=0)
    if PREDICTED:
        plain = tl.where(is_pos, j, tl.where(is_neg, i - n_pos, 0))
        plain_delta = tl.sum(_delta(KIND, rank_as_float, j.to(tl.float64), factor, count, table, is_pos), axis=0)
        difference = tl.sum((high - plain) * score, axis=0)
    unit = tl.where(both, 2.0 / (n_pos.to(tl.float64) * count), 0.0)
    value, unit_high, unit_plain = _bound(
        HINGE, VIOLATED, delta, weighted, plain_delta, tl.sum(plain * score, axis=0), difference, unit
    )
    spoilt = tl.where(bad, float("nan"), 0.0)
    slope = -scale * ((unit_high + spoilt) * high - (unit_plain + spoilt) * plain)
    slope = tl.where((code == 1) | (code == 2), tl.where(both, slope, 0.0) + spoilt, 0.0)
    at = gradient + sample * n_columns + row
    tl.store(at, _as_stored(slope, gradient), mask=code > 0)
    tl.store(values + ranking, _as_stored(tl.where(both, value, 0.0) + spoilt, values))
    exists = tl.sum((code > 0).to(tl.int32), axis=0) > 0
    tl.store(state + ranking, tl.where(bad, 2, tl.where(exists, both.to(tl.int32), -1)))
