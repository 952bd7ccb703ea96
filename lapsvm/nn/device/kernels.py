"""Triton's kernels for rankings on a GPU: levels of inference, and what stands around them in few launches.

A row is one ranking. Sums run over the derivatives themselves, as on the processor, so that a level needs no tables of
sums. Loops over candidates have the sizes of what there is on the device; the processor knows only those of arrays.
"""


# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def _as_float64(number):
    """Return numbers in float64: Triton before 3.3 converts float16 only from and to float32."""
    return number if number.dtype.is_fp64() else number.to(tl.float32).to(tl.float64)


@triton.jit
def _as_stored(number, pointer):
    """Return float64 numbers in the type of a pointer (see `_as_float64`)."""
    return number if pointer.dtype.element_ty.is_fp64() else number.to(tl.float32).to(pointer.dtype.element_ty)


@triton.jit
def _gain(KIND: tl.constexpr, j, i, n_pos, n_neg, table, inside):
    """P N / 2 d_j(i); `table` holds D(0), D(1), ... and n_pos is divided by C for NDCG."""
    if KIND == "ap":
        gain = -0.5 * n_neg * i / ((i + j - 1) * (i + j))
    elif KIND == "ndcg":
        after = tl.load(table + (i + j).to(tl.int32), mask=inside, other=0.0)
        gain = 0.5 * n_pos * n_neg * (after - tl.load(table + (i + j).to(tl.int32) - 1, mask=inside, other=0.0))
    elif KIND == "auc":
        gain = tl.zeros_like(i + j) - 0.5
    else:
        tl.static_assert(KIND == "pos_at_top")
        gain = tl.where((j == 1) & (i > 0), -0.5 * n_neg, 0.0)
    return gain


@triton.jit
def _delta(KIND: tl.constexpr, i, above, n_pos, n_neg, table, inside):
    """Return the part of Delta of the i-th positive, for the number of negatives above it."""
    if KIND == "ap":
        term = above / (i + above) / n_pos
    elif KIND == "ndcg":
        best = tl.load(table + i.to(tl.int32), mask=inside, other=0.0)
        term = (best - tl.load(table + (i + above).to(tl.int32), mask=inside, other=0.0)) * n_pos
    elif KIND == "auc":
        term = above / n_neg / n_pos
    else:
        tl.static_assert(KIND == "pos_at_top")
        term = tl.where(above > 0, 1.0 / n_pos, 0.0)
    return tl.where(inside, term, 0.0)


@triton.jit
def _as_factor(KIND: tl.constexpr, n_pos, sums, factor: tl.constexpr):
    """n_pos in float64, in the form that the loss needs: NDCG has P / C in its gains and 1 / C in its parts."""
    count = n_pos.to(tl.float64)
    if KIND == "ndcg":
        norm = tl.load(sums + n_pos)
        if factor:  # noqa: SIM108 - the compiler of kernels takes one branch of a constant
            count = count / norm
        else:
            count = 1.0 / norm
    return count


@triton.jit(do_not_specialize=["n", "stride", "before", "tiles"])
def level(
    sides, counts, ranks, table, sums, n, stride, before, tiles, KIND: tl.constexpr, J: tl.constexpr, R: tl.constexpr
):
    """Find the ranks of J negatives of a level, by R candidates at a time, between those of the level before."""
    row = tl.program_id(0) // tiles
    n_rows = tl.num_programs(0) // tiles
    slot = ((tl.program_id(0) % tiles) * J + tl.arange(0, J) + 1) * stride - 1
    first = row * n
    positives, negatives = sides + first, sides + (n_rows + row) * n
    ranks += first
    n_pos, n_neg = tl.load(counts + row), tl.load(counts + n_rows + row)
    there = slot < n_neg
    low = tl.zeros_like(slot) + 1
    high = tl.zeros_like(slot) + n_pos + 1
    if before > 0:
        left = (slot + 1) // before * before - 1
        right = (slot + before) // before * before - 1
        has_left, has_right = there & (left >= 0), there & (right < n_neg)
        low = tl.where(has_left, tl.load(ranks + left, mask=has_left, other=1), low)
        high = tl.where(has_right, tl.load(ranks + right, mask=has_right, other=1), high)
    score = tl.load(negatives + slot, mask=there, other=0.0)
    j = (slot + 1).to(tl.float64)
    factor, count = _as_factor(KIND, n_pos, sums, True), n_neg.to(tl.float64)
    rank, best, total = low, tl.zeros_like(score), tl.zeros_like(score)
    width = tl.max(tl.where(there, high - low, 0), axis=0)
    step = 0
    while step < width:
        i = low[:, None] + step + tl.arange(0, R)[None, :]
        inside = there[:, None] & (i < high[:, None])
        above = tl.load(positives + i - 1, mask=inside, other=0.0)
        gain = _gain(KIND, j[:, None], i.to(tl.float64), factor, count, table, inside)
        more = tl.where(inside, above - score[:, None] + gain, 0.0)
        worth = tl.where(inside, tl.cumsum(more, axis=1) + total[:, None], float("-inf"))
        highest = tl.max(worth, axis=1)
        last = tl.max(tl.where(inside & (worth == highest[:, None]), i + 1, 0), axis=1)
        better = (highest >= best) & (last > 0)
        rank, best = tl.where(better, last, rank), tl.where(better, highest, best)
        total += tl.sum(more, axis=1)
        step += R
    tl.store(ranks + slot, rank, mask=there)


@triton.jit
def _labelled(labels, sample, row, n_columns, inside, CLASSES: tl.constexpr):
    """Return which labels are positive, and which cannot be used: neither 0 nor 1 nor -1, or no class.

    They are one for each score (n, n_columns), or with CLASSES one class for each sample.
    """
    label = tl.load(labels + (sample if CLASSES else sample * n_columns + row), mask=inside, other=0)
    label = _as_float64(label) if labels.dtype.element_ty.is_floating() else label.to(tl.int64)
    if CLASSES:
        positive, unusable = label == row, (label < 0) | (label >= n_columns)
    else:
        positive, unusable = label > 0, (label != 0) & (label != 1) & (label != -1)
        unusable |= label != label  # noqa: PLR0124 - NaN
    return positive, unusable


@triton.jit(do_not_specialize=["n", "tiles"])
def mark(order, labels, counted, packed, n, tiles, CLASSES: tl.constexpr, BLOCK: tl.constexpr):
    """Write 1 for each positive and 2^32 for each negative in sorted order, 0 for samples that do not count.

    All samples count if `counted` is None.
    """
    row = tl.program_id(0) // tiles
    slot = (tl.program_id(0) % tiles) * BLOCK + tl.arange(0, BLOCK)
    inside = slot < n
    sample = tl.load(order + row * n + slot, mask=inside, other=0)
    positive, _ = _labelled(labels, sample, row, tl.num_programs(0) // tiles, inside, CLASSES)
    unit = tl.full([BLOCK], 1, tl.int64)
    code = tl.where(positive, unit, unit << 32)
    if counted is not None:
        code = tl.where(tl.load(counted + row * n + sample, mask=inside, other=0) != 0, code, 0)
    tl.store(packed + row * n + slot, code, mask=inside)


@triton.jit
def _counts(running, row, slot, n, inside):
    """Return the numbers of positives and negatives of the row up to each slot, and which of them the slot holds."""
    first = row * n
    before = tl.load(running + first - 1, mask=row > 0, other=0)
    here = tl.load(running + first + slot, mask=inside, other=0)
    in_slot = here - tl.load(running + first + slot - 1, mask=inside & (first + slot > 0), other=0)
    inside_row = here - before
    i, j = (inside_row & 0xFFFFFFFF).to(tl.int32), (inside_row >> 32).to(tl.int32)
    return i, j, inside & (in_slot == 1), inside & (in_slot > 1)


@triton.jit
def _totals(running, row, n):
    """Return how many positives and negatives the row has."""
    total = tl.load(running + row * n + n - 1) - tl.load(running + row * n - 1, mask=row > 0, other=0)
    return (total & 0xFFFFFFFF).to(tl.int32), (total >> 32).to(tl.int32)


@triton.jit
def _scaled(values, at, scale_bits, inside):
    """Return scores in float64 times the scale, which comes by its bits, for numbers come as float32."""
    scale = scale_bits.to(tl.int64).to(tl.float64, bitcast=True)
    return _as_float64(tl.load(values + at, mask=inside, other=0.0)) * scale


@triton.jit(do_not_specialize=["n", "tiles", "scale_bits"])
def pack(values, running, sides, counts, n, tiles, scale_bits, BLOCK: tl.constexpr):
    """Write the scores of the positives, and of the negatives, each side by side, and their numbers."""
    row = tl.program_id(0) // tiles
    n_rows = tl.num_programs(0) // tiles
    tile = tl.program_id(0) % tiles
    slot = tile * BLOCK + tl.arange(0, BLOCK)
    inside = slot < n
    i, j, is_pos, is_neg = _counts(running, row, slot, n, inside)
    score = _scaled(values, row * n + slot, scale_bits, inside)
    tl.store(sides + row * n + i - 1, score, mask=is_pos)
    tl.store(sides + (n_rows + row) * n + j - 1, score, mask=is_neg)
    if tile == 0:
        n_pos, n_neg = _totals(running, row, n)
        tl.store(counts + row, n_pos)
        tl.store(counts + n_rows + row, n_neg)


@triton.jit
def _negatives_above(ranks, i, n_neg, is_pos, STEPS: tl.constexpr):
    """Return how many of the ascending ranks are at most i, by binary search."""
    low = tl.zeros_like(i)
    high = tl.zeros_like(i) + n_neg
    for _ in range(STEPS):
        middle = (low + high) // 2
        open_ = is_pos & (low < high)
        up = open_ & (tl.load(ranks + middle, mask=open_, other=0) <= i)
        low, high = tl.where(up, middle + 1, low), tl.where(open_ & ~up, middle, high)
    return low


@triton.jit(do_not_specialize=["n", "tiles", "scale_bits"])
def measure(
    values, running, positives, ranks, labels, order, table, sums, swapped, partial, n, tiles, scale_bits,
    KIND: tl.constexpr, BOUND: tl.constexpr, CLASSES: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write each slot's swapped pairs in the violated ranking, and a tile's sums; `labels` are None if all can be used.

    The sums are Delta, and swapped pairs times scores, of the violated ranking and of the predicted one, those of their
    difference, and the number of samples that cannot be used.
    """
    row = tl.program_id(0) // tiles
    slot = (tl.program_id(0) % tiles) * BLOCK + tl.arange(0, BLOCK)
    inside = slot < n
    i, j, is_pos, is_neg = _counts(running, row, slot, n, inside)
    n_pos, n_neg = _totals(running, row, n)
    both = (n_pos > 0) & (n_neg > 0)
    score = _scaled(values, row * n + slot, scale_bits, inside)
    bad = (is_pos | is_neg) & ~(tl.abs(score) <= 1e290)
    if labels is not None:
        sample = tl.load(order + row * n + slot, mask=inside, other=0)
        _, unusable = _labelled(labels, sample, row, tl.num_programs(0) // tiles, inside, CLASSES)
        bad |= (is_pos | is_neg) & unusable
    is_pos, is_neg = is_pos & (tl.zeros_like(i) < n_neg), is_neg & (tl.zeros_like(i) < n_pos)
    centre = tl.load(positives + row * n + n_pos - 1, mask=both, other=0.0)
    score = tl.where(is_pos | is_neg, score - centre, 0.0)
    factor, count = _as_factor(KIND, n_pos, sums, False), n_neg.to(tl.float64)
    out = partial + tl.program_id(0) * 6
    rank_as_float, high, plain = i.to(tl.float64), tl.zeros_like(i), tl.zeros_like(i)
    if BOUND != "delta":
        above = _negatives_above(ranks + row * n, i, n_neg, is_pos, STEPS)
        rank = tl.load(ranks + row * n + j - 1, mask=is_neg, other=0)
        high = tl.where(is_pos, above, tl.where(is_neg, rank - n_pos - 1, 0))
        tl.store(swapped + row * n + slot, high, mask=inside)
        tl.store(out, tl.sum(_delta(KIND, rank_as_float, above.to(tl.float64), factor, count, table, is_pos), axis=0))
        tl.store(out + 1, tl.sum(high * score, axis=0))
    if BOUND != "hinge":
        plain = tl.where(is_pos, j, tl.where(is_neg, i - n_pos, 0))
        tl.store(out + 2, tl.sum(_delta(KIND, rank_as_float, j.to(tl.float64), factor, count, table, is_pos), axis=0))
        tl.store(out + 3, tl.sum(plain * score, axis=0))
        tl.store(out + 4, tl.sum((high - plain) * score, axis=0))
    tl.store(out + 5, tl.sum(bad.to(tl.float64), axis=0))


@triton.jit
def _bound(BOUND: tl.constexpr, delta, weighted, plain_delta, plain, difference, unit):
    """Return value and the units of the coefficients of violated and predicted ranking, from the sums of a ranking."""
    keep = tl.where(delta - unit * weighted < 0, 0.0, 1.0)  # 0 if rounding makes the perfect ranking the better one
    value, unit_high, unit_plain = plain_delta, keep * unit, unit
    if BOUND == "delta":
        unit_plain = -unit
    elif BOUND == "hinge":
        value = keep * (delta - unit * weighted)
    else:
        value = tl.maximum(tl.where(keep > 0, delta - unit * difference, unit * plain), plain_delta)
    return value, unit_high, unit_plain


@triton.jit
def _total(partial, which: tl.constexpr, tiles, WANTED: tl.constexpr):
    """Return the sum of one of the six numbers over the tiles, 0 if it is not wanted."""
    total = tl.zeros([256], tl.float64)
    if WANTED:
        tile = tl.arange(0, 256)
        while tl.min(tile, axis=0) < tiles:
            total += tl.load(partial + tile * 6 + which, mask=tile < tiles, other=0.0)
            tile += 256
    return tl.sum(total, axis=0)


@triton.jit(do_not_specialize=["n", "tiles"])
def finish(partial, running, values, units, state, n, tiles, BOUND: tl.constexpr):
    """Add the tiles' sums of a row and write its value, its two units, and its state.

    The state is 0 where there is nothing to rank, 1 where there is, 2 if a sample cannot be used.
    """
    row = tl.program_id(0)
    n_pos, n_neg = _totals(running, row, n)
    both = (n_pos > 0) & (n_neg > 0)
    partial += row * tiles * 6
    delta, weighted = _total(partial, 0, tiles, BOUND != "delta"), _total(partial, 1, tiles, BOUND != "delta")
    plain_delta, plain = _total(partial, 2, tiles, BOUND != "hinge"), _total(partial, 3, tiles, BOUND != "hinge")
    difference, bad = _total(partial, 4, tiles, BOUND != "hinge"), _total(partial, 5, tiles, True)
    unit = tl.where(both, 2.0 / (n_pos.to(tl.float64) * n_neg.to(tl.float64)), 0.0)
    value, unit_high, unit_plain = _bound(BOUND, delta, weighted, plain_delta, plain, difference, unit)
    spoilt = tl.where(bad > 0, float("nan"), 0.0)
    tl.store(values + row, _as_stored(tl.where(both, value, 0.0) + spoilt, values))
    tl.store(units + 2 * row, tl.where(both, unit_high, 0.0) + spoilt)
    tl.store(units + 2 * row + 1, tl.where(both, unit_plain, 0.0) + spoilt)
    tl.store(state + row, tl.where(bad > 0, 2, both.to(tl.int32)))


@triton.jit(do_not_specialize=["n"])
def spread(swapped, running, order, units, gradient, n, BOUND: tl.constexpr, BLOCK: tl.constexpr):
    """Write the gradient (n, rows) of each sample, whose units have the scale and the weights."""
    tiles = tl.cdiv(n, BLOCK)
    row = tl.program_id(0) // tiles
    slot = (tl.program_id(0) % tiles) * BLOCK + tl.arange(0, BLOCK)
    inside = slot < n
    i, j, is_pos, is_neg = _counts(running, row, slot, n, inside)
    n_pos, _ = _totals(running, row, n)
    slope = tl.zeros([BLOCK], tl.float64)
    if BOUND != "delta":
        high = tl.load(swapped + row * n + slot, mask=inside, other=0)
        slope += tl.load(units + 2 * row) * high
    if BOUND != "hinge":
        slope -= tl.load(units + 2 * row + 1) * tl.where(is_pos, j, i - n_pos)
    sample = tl.load(order + row * n + slot, mask=inside, other=0)
    slope = tl.where(is_pos | is_neg, slope, 0.0)
    tl.store(gradient + sample * (tl.num_programs(0) // tiles) + row, _as_stored(slope, gradient), mask=inside)
