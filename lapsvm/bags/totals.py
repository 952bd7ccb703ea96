"""What a pass over the windows computes besides the best ones: scores, means, norms and copies, in float64."""

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags.passes import Pass, split_into_chunks
from lapsvm.bags.requests import Copies, Means, Norms, Scores
from lapsvm.bags.selection import Mask, Selection
from lapsvm.bags.stores.local import Store


def window_scores(over: Pass, weights: Float64) -> Float64:
    """Return the scores (n_windows, k) of every window by `weights` (k, d); -inf for those that do not compete."""
    (scores,) = over.run(Scores(weights))
    return scores


def top_mask(scores: Float64, offsets: Index, count: int | Index) -> Mask:
    """Return the mask (n_windows,) of the `count` highest finite scores of each bag, the first of equal ones."""
    mask = np.zeros(len(scores), dtype=np.bool_)
    for first, bag_scores, most in zip(
        offsets, np.split(scores, offsets[1:-1]), np.broadcast_to(count, len(offsets) - 1), strict=False
    ):
        best = np.argsort(-bag_scores, kind="stable")[:most]
        mask[first + best[bag_scores[best] > -np.inf]] = True
    return mask


def bag_means(store: Store, selection: Selection, threads: int) -> Float64:
    """Return the mean (n_bags, d) of the windows of each bag; a store that caches means reads each bag once."""
    if store.means is None:
        return _bag_means(store, selection, threads)
    bags = list(zip(selection.starts.tolist(), selection.stops.tolist(), strict=True))
    missing = [index for index, bag in enumerate(bags) if bag not in store.means]
    if missing:
        means = _bag_means(store, selection.subset(np.array(missing)), threads)
        store.means |= {bags[index]: mean for index, mean in zip(missing, means, strict=True)}
    return np.array([store.means[bag] for bag in bags])


def _bag_means(store: Store, selection: Selection, threads: int) -> Float64:
    """Return the mean (n_bags, d) of all windows of each bag, excluded ones included."""
    every = Selection(selection.starts, selection.stops)
    (means,) = Pass(store, every, split_into_chunks(store, every), threads).run(Means())
    return means


def mean_norm(over: Pass, scale: Float64) -> float:
    """Return the mean Euclidean norm of the windows times `scale` (d,)."""
    (sums,) = over.run(Norms(scale))
    return float(sums.sum()) / int(over.selection.offsets[-1])


def copies(over: Pass, windows: Mask) -> tuple[Array, Index]:
    """Return copies of the windows of a mask (n_windows,), and the offsets of their bags."""
    chosen = Selection(over.selection.starts, over.selection.stops, ~windows)
    (features,) = Pass(over.store, chosen, over.chunks, over.threads).run(Copies())
    return features, Copies().offsets(chosen)
