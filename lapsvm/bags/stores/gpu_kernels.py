"""Best windows by two Triton kernels: candidates by tensor cores at the rate of the memory, then their float64 scores.

The first kernel reads every window once. A program takes a section, some consecutive windows of one bag, in tiles of
rows and features, and keeps what scores within the rounding of the section's best, up to `SLOTS` windows for each
weight vector. The second one scores what is kept in float64, in the order of the processor, and takes the first
maximum. What a section cannot keep, and scores beyond float32, are left open.

With the environment variable TRITON_INTERPRET=1 the kernels run on processors, slowly, for tests.
"""

from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, Self

import numpy as np
import triton
import triton.language as tl

from lapsvm.arrays import Index
from lapsvm.bags.selection import Selection
from lapsvm.bags.stores.gpu_weights import DeviceWeights

SECTION_ROWS = 2048
"""Most windows of a section; larger bags are cut, so that programs are of similar length."""

SLOTS = 8
"""Most windows that a section keeps for one weight vector."""

_PAIRS = 32  # bags that a program of the second kernel settles for one weight vector
_LAUNCHES = Lock()  # threads launch one after the other: compilation, and the interpreter, know no others
_MEAN_FEATURES = 256  # of a program that adds windows


class Tiling(NamedTuple):
    """How the first kernel cuts windows: rows and features of a tile, warps of a program, tiles that are under way."""

    rows: int
    features: int
    warps: int
    stages: int


def tiling(itemsize: int, columns: int) -> Tiling:
    """Return the tiling for windows of this size of a number, and this number of weight vectors, rounded up."""
    if itemsize == 4:
        return Tiling(128, 32, 4, 3) if columns <= 32 else Tiling(128, 32, 8, 3)
    return Tiling(128, 64, 4, 3)


@dataclass(frozen=True)
class Sections:
    """The sections of some bags on the device.

    Attributes
    ----------
    table : (n_sections, 4) int64
        First row, number of rows, the first one's number within its bag and in `excluded`.
    bags : (n_bags + 1, 2) int64
        Each bag's first section and row.
    excluded : (n_windows,) bool, or an empty one
        Which windows do not compete.
    """

    table: Any
    bags: Any
    excluded: Any

    @classmethod
    def of(cls, selection: Selection, bags: range, torch: Any, device: str) -> Self:
        """Return the sections of some bags, by one copy; another one for the mask."""
        chosen = slice(bags.start, bags.stop)
        before, after = int(selection.offsets[bags.start]), int(selection.offsets[bags.stop])
        starts = selection.starts[chosen]
        table, ends = cut_into_sections(starts, selection.sizes[chosen], selection.offsets[chosen] - before)
        firsts = np.stack([np.append(0, ends), np.append(starts, 0)], axis=1)
        packed = torch.from_numpy(np.concatenate([table.reshape(-1), firsts.reshape(-1)])).to(device)
        mask = np.zeros(0, dtype=np.bool_)
        if selection.excluded is not None:
            mask = selection.excluded[before:after].copy()
        split = table.size
        return cls(packed[:split].view(-1, 4), packed[split:].view(-1, 2), torch.from_numpy(mask).to(device))


def bytes_of_bags(sizes: Index, k: int) -> Index:
    """Return about how many bytes of memory `best_windows` needs for bags of these sizes."""
    return np.asarray((1 + sizes // SECTION_ROWS) * (8 + 4 * SLOTS) * k + 12 * k + 56)


def cut_into_sections(starts: Index, sizes: Index, places: Index) -> tuple[Index, Index]:
    """Return the table of sections, and how many sections bags have up to each one; tiles of a bag stay whole."""
    tiles = -(-sizes // 128)
    counts = np.maximum(1, -(-tiles * 128 // SECTION_ROWS))
    ends = np.cumsum(counts)
    owner = np.repeat(np.arange(len(sizes)), counts)
    number = np.arange(len(owner)) - (ends - counts)[owner]
    inside = number * tiles[owner] // counts[owner] * 128
    stop = np.minimum((number + 1) * tiles[owner] // counts[owner] * 128, sizes[owner])
    table = np.stack([starts[owner] + inside, stop - inside, inside, places[owner] + inside], axis=1)
    return table.astype(np.int64), ends.astype(np.int64)


class Kept(NamedTuple):
    """What sections keep, on the device.

    Attributes
    ----------
    top : (n_sections, k) float32
        The best score, in the weights' scales; infinite where one is no number.
    longest : (n_sections,) float32
        The length of the longest window.
    counts : (n_sections, k) int32
        How many windows are near the best one.
    rows : (n_sections, k, SLOTS) int32
        The first ones of these, by their number within the bag.
    """

    top: Any
    longest: Any
    counts: Any
    rows: Any


def best_windows(torch: Any, windows: Any, lengths: Any, sections: Sections, weights: DeviceWeights) -> tuple[Any, Any]:
    """Return on the device the best window (n_bags, k) int32 of each bag and its score, float64; -1 if it stays open.

    Parameters
    ----------
    torch : module
    windows : (n_rows, stride) tensor
        Whose rows begin at multiples of 16 bytes; features beyond the weights' are 0.
    lengths : (n_rows,) float32 tensor
        Upper bounds of the rows' Euclidean norms.
    sections : Sections
    weights : DeviceWeights
        On the device, none of which is 0.
    """
    (k, dim), n_bags = weights.exact.shape, len(sections.bags) - 1
    index = torch.empty((n_bags, k), dtype=torch.int32, device=windows.device)
    score = torch.empty((n_bags, k), dtype=torch.float64, device=windows.device)
    with _LAUNCHES:
        kept = candidates(torch, windows, lengths, sections, weights)
        settle[(-(-n_bags // _PAIRS), k)](
            windows, weights.exact, weights.rounding, sections.bags, *kept, index, score, n_bags, k, weights.least,
            STRIDE=windows.stride(0), DIM=dim, PAIRS=_PAIRS, SLOTS=SLOTS, num_warps=4,
            enable_fp_fusion=False,
        )  # fmt: skip
    return index, score


def candidates(torch: Any, windows: Any, lengths: Any, sections: Sections, weights: DeviceWeights) -> Kept:
    """Return the windows that sections keep, by one reading of all (see `best_windows`)."""
    k, n_sections = len(weights.exact), len(sections.table)
    _, columns, padded = weights.parts.shape
    tile = tiling(windows.element_size(), columns)
    kinds = torch.float32, torch.float32, torch.int32, torch.int32
    shapes = (n_sections, k), (n_sections,), (n_sections, k), (n_sections, k, SLOTS)
    kept = Kept(*map(partial(_empty, torch, windows.device), shapes, kinds))
    keep_candidates[(n_sections,)](
        windows, lengths, weights.parts, weights.rounding, sections.excluded, sections.table, *kept, k, weights.least,
        STRIDE=windows.stride(0), PADDED=padded, COLUMNS=columns, WIDE=windows.device.type == "cpu",
        MASKED=len(sections.excluded) > 0, SLOTS=SLOTS, ROWS=tile.rows, FEATURES=tile.features, num_warps=tile.warps,
        num_stages=tile.stages, enable_fp_fusion=False,
    )  # fmt: skip
    return kept


def _empty(torch: Any, device: Any, shape: tuple[int, ...], kind: Any) -> Any:
    return torch.empty(shape, dtype=kind, device=device)


@triton.jit(do_not_specialize=["k"])  # type: ignore[untyped-decorator]
def keep_candidates(
    windows: tl.tensor, lengths: tl.tensor, parts: tl.tensor, rounding: tl.tensor, excluded: tl.tensor, table:
    tl.tensor, top_out: tl.tensor, longest_out: tl.tensor, counts_out: tl.tensor, rows_out: tl.tensor, k: tl.tensor,
    least: tl.tensor, STRIDE: tl.constexpr, PADDED: tl.constexpr, COLUMNS: tl.constexpr, WIDE: tl.constexpr, MASKED:
    tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr, FEATURES: tl.constexpr,
) -> None:  # fmt: skip
    """Keep the windows of a section that score within the rounding of its best; one program per section.

    Writes the section's best score, its longest window, how many windows were kept, and these. The best score is
    infinite where a competing window's is no number.
    """
    section = tl.program_id(0)
    start, count = tl.load(table + 4 * section), tl.load(table + 4 * section + 1).to(tl.int32)
    inside, mask_start = tl.load(table + 4 * section + 2).to(tl.int32), tl.load(table + 4 * section + 3)
    column, row = tl.arange(0, COLUMNS), tl.arange(0, ROWS)
    used = column < k
    top = tl.full([COLUMNS], float("-inf"), tl.float32)
    n_kept = tl.zeros([COLUMNS], tl.int32)
    longest = tl.max(tl.zeros([ROWS], tl.float32), 0)
    kept = rows_out + section.to(tl.int64) * k * SLOTS
    for at in range(0, count, ROWS):
        there = at + row < count
        scores = tile_scores(
            windows + (start + at + row)[:, None] * STRIDE, parts, there, STRIDE, PADDED, COLUMNS, WIDE, FEATURES
        )
        longest = tl.maximum(longest, tl.max(tl.load(lengths + start + at + row, mask=there, other=0.0), 0))
        rounded = tl.load(rounding + column, mask=used, other=0.0)
        margin = 2 * (longest * rounded + (1 + longest) * least)
        competes = there
        if MASKED:
            competes = there & (tl.load(excluded + mask_start + at + row, mask=there, other=1) == 0)
        scores = tl.where(tl.abs(scores) < float("inf"), scores, float("inf"))
        scores = tl.where(competes[:, None] & used[None, :], scores, float("-inf"))
        high = tl.max(scores, 0)
        n_kept = tl.where(high - margin > top, 0, n_kept)  # all that was kept is surely worse
        top = tl.maximum(top, high)
        level = tl.where(top > float("-inf"), top - margin, float("inf"))
        if tl.max((high >= level).to(tl.int32), 0) > 0:
            total = tl.sum((scores >= level[None, :]).to(tl.int32), 0)
            last = tl.full([COLUMNS], -1, tl.int32)
            for slot in range(tl.minimum(tl.max(total, 0), SLOTS)):  # one row of each column after the other
                close = (scores >= level[None, :]) & (row[:, None] > last[None, :])
                last = tl.min(tl.where(close, row[:, None], ROWS), 0)
                target = column * SLOTS + n_kept + slot
                tl.store(kept + target, inside + at + last, mask=(slot < total) & (n_kept + slot < SLOTS))
            n_kept += total
    tl.store(top_out + section * k + column, top, mask=used)
    tl.store(counts_out + section * k + column, n_kept, mask=used)
    tl.store(longest_out + section, longest)


@triton.jit  # type: ignore[untyped-decorator]
def tile_scores(
    rows: tl.tensor, parts: tl.tensor, there: tl.tensor, STRIDE: tl.constexpr, PADDED: tl.constexpr, COLUMNS:
    tl.constexpr, WIDE: tl.constexpr, FEATURES: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return the float32 scores (n, COLUMNS) of rows, the sum of each step of features added on its own.

    `WIDE` is for Triton's interpreter, which multiplies the bits of bfloat16.
    """
    column, feature = tl.arange(0, COLUMNS), tl.arange(0, FEATURES)
    scores = tl.zeros([rows.shape[0], COLUMNS], tl.float32)
    for step in range(0, PADDED, FEATURES):
        mask = there[:, None]
        if PADDED > STRIDE:
            mask = mask & (step + feature < STRIDE)[None, :]
        tile = tl.load(rows + step + feature[None, :], mask=mask, other=0.0)
        address = parts + column[None, :] * PADDED + (step + feature)[:, None]
        if rows.dtype.element_ty == tl.float32:  # 11 bits and the next 11 of each, in TF32
            high = first_bits(tile)
            low = first_bits(tile - high)
            above, below = tl.load(address), tl.load(address + COLUMNS * PADDED)
            sums = tl.dot(low, above, input_precision="tf32")
            sums = tl.dot(high, below, sums, input_precision="tf32")
            sums = tl.dot(high, above, sums, input_precision="tf32")
        else:
            if WIDE:
                tile = tile.to(tl.float32)
            below = tl.load(address + COLUMNS * PADDED).to(tile.dtype)
            if rows.dtype.element_ty == tl.bfloat16:  # three parts
                sums = tl.dot(tile, tl.load(address + 2 * COLUMNS * PADDED).to(tile.dtype))
                sums = tl.dot(tile, below, sums)
            else:
                sums = tl.dot(tile, below)
            sums = tl.dot(tile, tl.load(address).to(tile.dtype), sums)
        scores += sums
    return scores


@triton.jit  # type: ignore[untyped-decorator]
def first_bits(numbers: tl.tensor) -> tl.tensor:
    """Return float32 numbers cut to the 11 bits of TF32."""
    return (numbers.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)


@triton.jit(do_not_specialize=["n_bags", "k"])  # type: ignore[untyped-decorator]
def settle(
    windows: tl.tensor, exact: tl.tensor, rounding: tl.tensor, bags: tl.tensor, top_in: tl.tensor, longest_in:
    tl.tensor, counts_in: tl.tensor, rows_in: tl.tensor, index_out: tl.tensor, score_out: tl.tensor, n_bags:
    tl.tensor, k: tl.tensor, least: tl.tensor, STRIDE: tl.constexpr, DIM: tl.constexpr, PAIRS: tl.constexpr, SLOTS:
    tl.constexpr,
) -> None:  # fmt: skip
    """Find the best of the kept windows by float64 scores; one program per `PAIRS` bags and weight vector.

    Sections that are surely worse than another one of their bag are left out. The index is 0 where no window competes.
    """
    bag, q = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS), tl.program_id(1)
    alive = bag < n_bags
    begin, end = tl.load(bags + 2 * bag, mask=alive, other=0), tl.load(bags + 2 * bag + 2, mask=alive, other=0)
    start = tl.load(bags + 2 * bag + 1, mask=alive, other=0)
    rounded, most = tl.load(rounding + q), tl.max(end - begin, 0)
    floor, top = tl.full([PAIRS], float("-inf"), tl.float32), tl.full([PAIRS], float("-inf"), tl.float32)
    for step in range(most):
        there = alive & (begin + step < end)
        high = tl.load(top_in + (begin + step) * k + q, mask=there, other=float("-inf"))
        longest = tl.load(longest_in + begin + step, mask=there, other=0.0)
        floor = tl.maximum(floor, high - (longest * rounded + (1 + longest) * least))
        top = tl.maximum(top, high)
    empty = top == float("-inf")
    is_open = top == float("inf")
    index, score = tl.full([PAIRS], -1, tl.int32), tl.full([PAIRS], float("-inf"), tl.float64)
    for step in range(most):
        there = alive & (begin + step < end)
        high = tl.load(top_in + (begin + step) * k + q, mask=there, other=float("-inf"))
        longest = tl.load(longest_in + begin + step, mask=there, other=0.0)
        count = tl.load(counts_in + (begin + step) * k + q, mask=there, other=0)
        near = high + (longest * rounded + (1 + longest) * least) >= floor
        count = tl.where(near & (high > float("-inf")), count, 0)
        count = tl.where(there & empty & (step == 0), 1, count)  # its first window
        is_open = is_open | (count > SLOTS)
        count = tl.where(is_open, 0, count)
        for slot in range(tl.max(count, 0)):
            active = slot < count
            kept = rows_in + ((begin + step) * k + q) * SLOTS + slot
            row = tl.load(kept, mask=active & (empty == 0), other=0)
            value = float64_scores(windows + (start + row) * STRIDE, exact + q * DIM, active, DIM, PAIRS)
            is_open = is_open | (active & ((tl.abs(value) < float("inf")) == 0))
            better = active & (value > score)
            index, score = tl.where(better, row, index), tl.where(better, value, score)
    tl.store(index_out + bag * k + q, tl.where(is_open, -1, index), mask=alive)
    tl.store(score_out + bag * k + q, score, mask=alive)


def means(torch: Any, windows: Any, dim: int, starts: Index, stops: Index) -> Any:
    """Return on the device the mean (n, dim), float64, of rows starts[i] to stops[i] - 1 of the windows."""
    table = torch.from_numpy(np.stack([starts, stops - starts])).to(windows.device)
    shares = torch.from_numpy(1 / (stops - starts)).to(windows.device)
    out = torch.empty((len(starts), dim), dtype=torch.float64, device=windows.device)
    with _LAUNCHES:
        add_shares[(len(starts), -(-dim // _MEAN_FEATURES))](
            windows, table[0], table[1], shares, out, STRIDE=windows.stride(0), DIM=dim, FEATURES=_MEAN_FEATURES,
            num_warps=4, enable_fp_fusion=False,
        )  # fmt: skip
    return out


@triton.jit  # type: ignore[untyped-decorator]
def add_shares(
    windows: tl.tensor, starts: tl.tensor, sizes: tl.tensor, shares: tl.tensor, out: tl.tensor, STRIDE: tl.constexpr,
    DIM: tl.constexpr, FEATURES: tl.constexpr,
) -> None:  # fmt: skip
    """Add a share of every row of a bag, in order, as processors do; one program per bag and `FEATURES` features."""
    bag, feature = tl.program_id(0).to(tl.int64), tl.program_id(1) * FEATURES + tl.arange(0, FEATURES)
    start, count, share = tl.load(starts + bag), tl.load(sizes + bag).to(tl.int32), tl.load(shares + bag)
    total = tl.zeros([FEATURES], tl.float64)
    for step in range(count):
        values = tl.load(windows + (start + step) * STRIDE + feature, mask=feature < DIM, other=0.0)
        total += share * values.to(tl.float32).to(tl.float64)
    tl.store(out + bag * DIM + feature, total, mask=feature < DIM)


def score_rows(torch: Any, windows: Any, rows: Any, weights: Any) -> Any:
    """Return on the device the float64 scores (n,) of rows (n,) of the windows by `weights` (d,)."""
    scores = torch.empty(len(rows), dtype=torch.float64, device=windows.device)
    with _LAUNCHES:
        score_chosen[(-(-len(rows) // _PAIRS),)](
            windows, rows, weights, scores, len(rows), STRIDE=windows.stride(0), DIM=len(weights), PAIRS=_PAIRS,
            num_warps=4, enable_fp_fusion=False,
        )  # fmt: skip
    return scores


def try_kernel(torch: Any, device: str) -> None:
    """Compile and launch a kernel; whatever is missing raises an error."""
    windows = torch.zeros((1, 8), dtype=torch.float16, device=device)
    rows, weights = torch.zeros(1, dtype=torch.int64, device=device), torch.zeros(8, dtype=torch.float64, device=device)
    score_rows(torch, windows, rows, weights)


@triton.jit(do_not_specialize=["n_rows"])  # type: ignore[untyped-decorator]
def score_chosen(
    windows: tl.tensor, rows: tl.tensor, weights: tl.tensor, out: tl.tensor, n_rows: tl.tensor, STRIDE: tl.constexpr,
    DIM: tl.constexpr, PAIRS: tl.constexpr,
) -> None:  # fmt: skip
    """Write the float64 scores of `PAIRS` rows; one program for these."""
    at = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    row = tl.load(rows + at, mask=at < n_rows, other=0)
    scores = float64_scores(windows + row * STRIDE, weights, at < n_rows, DIM, PAIRS)
    tl.store(out + at, scores, mask=at < n_rows)


@triton.jit  # type: ignore[untyped-decorator]
def float64_scores(
    rows: tl.tensor, weights: tl.tensor, active: tl.tensor, DIM: tl.constexpr, PAIRS: tl.constexpr
) -> tl.tensor:
    """Return the products of rows with one weight vector, every sum rounded as in `lapsvm_dot64` of bags.h."""
    LANES: tl.constexpr = 32  # in which sums are made, as in bags.h
    lane = tl.arange(0, LANES)
    sums, total = tl.zeros([PAIRS, LANES], tl.float64), tl.zeros([PAIRS], tl.float64)
    for step in range(0, DIM - DIM % LANES, LANES):
        values = tl.load(rows[:, None] + (step + lane)[None, :], mask=active[:, None], other=0.0)
        sums += values.to(tl.float32).to(tl.float64) * tl.load(weights + step + lane)[None, :]
    for number in range(LANES):  # adds zeros and one number, which is exact
        total += tl.sum(tl.where(lane[None, :] == number, sums, 0.0), 1)
    for step in range(DIM - DIM % LANES, DIM):
        values = tl.load(rows + step, mask=active, other=0.0)
        total += values.to(tl.float32).to(tl.float64) * tl.load(weights + step)
    return total
