"""Best windows by plain torch operations, on any device and in any type: where Triton is missing, and its slow twin.

Also what the kernels leave open: windows compete here with float64 sums, and as many as are near the best may be kept.
"""

from typing import Any

import numpy as np

from lapsvm.arrays import Index
from lapsvm.bags.selection import Selection, runs_of
from lapsvm.bags.stores.gpu_weights import DeviceWeights

_LANES = 32  # in which float64 sums are made, as in bags.h
_BATCH_BYTES = 1 << 28  # of the float64 products made at once


def best_windows(
    torch: Any, windows: Any, lengths: Any, selection: Selection, bags: range, weights: DeviceWeights
) -> tuple[Any, Any]:
    """Return on the device the best window (n, k) int32 of each of some bags and its score, float64; -1 if it is open.

    Windows compete with sums in the type of the weights' parts, and those within the rounding of the best one with
    float64 sums in the order of the processor. What overflows stays open.

    Parameters
    ----------
    torch : module
    windows : (n_rows, stride) tensor
    lengths : (n_rows,) tensor
        Upper bounds of the rows' Euclidean norms.
    selection : Selection
    bags : range
    weights : DeviceWeights
        Of `DeviceWeights.plain`, on the device.
    """
    columns = weights.parts[0].T
    dim, k = columns.shape
    starts, stops = selection.starts[bags.start : bags.stop], selection.stops[bags.start : bags.stop]
    edges = list(zip(*(edge.tolist() for edge in runs_of(starts, stops)), strict=True))
    features = _joined(torch, [windows[start:stop, :dim] for start, stop in edges])
    sizes = torch.from_numpy(stops - starts).to(windows.device)
    owner = torch.repeat_interleave(torch.arange(len(sizes), device=windows.device), sizes)
    first = torch.cumsum(sizes, 0) - sizes
    longest = _highest(torch, _joined(torch, [lengths[start:stop] for start, stop in edges]), owner, len(sizes))
    scores = features.to(columns.dtype) @ columns
    scores = torch.where(torch.isfinite(scores), scores, torch.inf)
    if selection.excluded is not None:
        excluded = selection.excluded[selection.offsets[bags.start] : selection.offsets[bags.stop]]
        scores.masked_fill_(torch.from_numpy(excluded.copy()).to(windows.device)[:, None], -torch.inf)
    top = _highest(torch, scores, owner, len(sizes))
    margin = 2 * (longest[:, None] * weights.rounding + (1 + longest[:, None]) * weights.least)
    close = (scores >= (top - margin)[owner]) & (scores > -torch.inf)
    close[first] |= top == -torch.inf  # the first window where none competes
    is_open = top == torch.inf
    rows, q = torch.nonzero(close & ~is_open[owner], as_tuple=True)
    exact = float64_scores(torch, features, rows, weights.exact, q)
    pair = owner[rows] * k + q
    score = _highest(torch, exact, pair, len(sizes) * k)
    best_rows = torch.where(exact == score[pair], rows, len(owner))
    index = torch.full((len(sizes) * k,), len(owner), device=windows.device).scatter_reduce_(0, pair, best_rows, "amin")
    index = index.view(-1, k) - first[:, None]
    is_open |= ~torch.isfinite(score.view(-1, k))
    return torch.where(is_open, -1, index).to(torch.int32), score.view(-1, k)


def float64_scores(torch: Any, features: Any, rows: Any, weights: Any, q: Any) -> Any:
    """Return the products of row rows[i] and vector q[i] of `weights` (k, d), rounded as by `lapsvm_dot64` (bags.h)."""
    batch = max(1, _BATCH_BYTES // (24 * weights.shape[1]))
    answers = [
        _float64_scores(features[rows[i : i + batch]].double() * weights[q[i : i + batch]])
        for i in range(0, len(rows), batch)
    ]
    return torch.cat(answers) if answers else torch.empty(0, dtype=torch.float64, device=features.device)


def _float64_scores(products: Any) -> Any:
    """Return the sums of float64 products (n, d): in lanes, then lane after lane, then the rest."""
    n, d = products.shape
    lanes = products.new_zeros((n, _LANES))
    for step in range(0, d - d % _LANES, _LANES):
        lanes += products[:, step : step + _LANES]
    total = products.new_zeros(n)
    for lane in range(_LANES):
        total += lanes[:, lane]
    for step in range(d - d % _LANES, d):
        total += products[:, step]
    return total


def means(torch: Any, windows: Any, starts: Index, stops: Index) -> Any:
    """Return on the device the mean (n, d), float64, of rows starts[i] to stops[i] - 1, rounded as by processors."""
    first, sizes = (torch.from_numpy(array).to(windows.device) for array in (starts.copy(), stops - starts))
    shares = torch.from_numpy(1 / (stops - starts)).to(windows.device)[:, None]
    total = torch.zeros((len(starts), windows.shape[1]), dtype=torch.float64, device=windows.device)
    for step in range(int((stops - starts).max())):
        bags = torch.nonzero(sizes > step)[:, 0]
        total[bags] += windows[first[bags] + step].double() * shares[bags]
    return total


def upper_lengths(torch: Any, windows: Any) -> Any:
    """Return upper bounds (n,) of the Euclidean norms of rows (n, d), in float32, or float64 for such rows."""
    kind = torch.float64 if windows.dtype == torch.float64 else torch.float32
    wide, d = windows.to(kind), windows.shape[1]
    # squares below the least normal number may be lost
    return torch.linalg.vector_norm(wide, dim=1) * (1 + (d + 8) * 2.0**-23) + d * 2.0**-62


def bytes_of_bags(sizes: Index, dim: int, k: int) -> Index:
    """Return about how many bytes of memory `best_windows` needs for bags of these sizes."""
    return np.asarray(sizes * (dim + 3 * k) * 8)


def _joined(torch: Any, runs: list[Any]) -> Any:
    return runs[0] if len(runs) == 1 else torch.cat(runs)


def _highest(torch: Any, values: Any, owner: Any, count: int) -> Any:
    """Return the maximum of the values of each owner, -inf where there are none."""
    lowest = torch.full((count, *values.shape[1:]), -torch.inf, dtype=values.dtype, device=values.device)
    places = owner if values.ndim == 1 else owner[:, None].expand_as(values)
    return lowest.scatter_reduce_(0, places, values, "amax")
