"""What a pass over the windows gives besides the best ones: scores, means, norms, copies; bag by bag, in float64."""

import numpy as np

from lapsvm._ext import bags as _kernel
from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags.parts import joined
from lapsvm.bags.passes import Chunk, Pass, plan, rows_of
from lapsvm.bags.scoring import Block, as_stored
from lapsvm.bags.selection import Mask, Selection
from lapsvm.bags.store import Store


def window_scores(over: Pass, weights: Float64) -> Float64:
    """Return the score of every window (n_windows,); -inf for those that do not compete."""
    offsets = over.selection.offsets
    scores = np.empty(int(offsets[-1]))

    def one(chunk: Chunk, block: Block) -> None:
        place = int(offsets[chunk.first])
        for start, stop in zip(*joined(block.starts, block.stops), strict=True):
            rows = as_stored(block.features[start:stop])
            _kernel.all_scores(rows, weights, scores[place : place + len(rows)])
            place += len(rows)

    over.each(one)
    if over.selection.excluded is not None:
        scores[over.selection.excluded] = -np.inf
    return scores


def bag_means(store: Store, selection: Selection, threads: int) -> Float64:
    """Return the mean (n_bags, d) of the windows of each bag; a store that remembers means reads each bag once."""
    if store.means is None:
        return _bag_means(Pass(store, selection, plan(store, selection), threads))
    bags = list(zip(selection.starts.tolist(), selection.stops.tolist(), strict=True))
    missing = [place for place, bag in enumerate(bags) if bag not in store.means]
    if missing:
        part = selection.subset(np.array(missing))
        found = _bag_means(Pass(store, part, plan(store, part), threads))
        store.means |= {bags[place]: mean for place, mean in zip(missing, found, strict=True)}
    return np.array([store.means[bag] for bag in bags])


def _bag_means(over: Pass) -> Float64:
    """Return the mean (n_bags, d) of the windows of each bag."""
    means = np.zeros((over.selection.n_bags, over.store.dim))

    def one(chunk: Chunk, block: Block) -> None:
        stored = as_stored(block.features)
        for bag, start, stop in zip(range(chunk.first, chunk.last), block.starts, block.stops, strict=True):
            rows = np.arange(start, stop)
            _kernel.add_rows(stored, rows, np.full(len(rows), 1 / len(rows)), means[bag])

    over.each(one)
    return means


def mean_norm(over: Pass, scale: Float64) -> float:
    """Return the mean Euclidean norm of the windows times `scale` (d,)."""
    sums = np.empty(over.selection.n_bags)

    def one(chunk: Chunk, block: Block) -> None:
        own = sums[chunk.first : chunk.last]
        _kernel.sums_of_norms(as_stored(block.features), block.starts, block.stops, scale, own)

    over.each(one)
    return float(sums.sum()) / int(over.selection.offsets[-1])


def copies(over: Pass, windows: Mask) -> tuple[Array, Index]:
    """Return copies of the windows of a mask (n_windows,), and the offsets of their bags."""
    before = over.selection.offsets
    offsets = np.append(0, np.add.reduceat(windows, before[:-1], dtype=np.intp).cumsum())
    features = np.empty((int(offsets[-1]), over.store.dim), dtype=over.store.dtype)

    def one(chunk: Chunk, block: Block) -> None:
        mask = windows[before[chunk.first] : before[chunk.last]]
        features[offsets[chunk.first] : offsets[chunk.last]] = block.features[rows_of(block)[mask]]

    over.each(one)
    return features, offsets
