"""What a pass over the windows gives besides the best ones: scores, means, norms, copies; bag by bag, in float64."""

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags.passes import Pass, plan
from lapsvm.bags.requests import Copies, Means, Norms, Scores
from lapsvm.bags.selection import Mask, Selection
from lapsvm.bags.stores.local import Store


def window_scores(over: Pass, weights: Float64) -> Float64:
    """Return the score of every window (n_windows,); -inf for those that do not compete."""
    (scores,) = over.ask(Scores(weights))
    return scores


def bag_means(store: Store, selection: Selection, threads: int) -> Float64:
    """Return the mean (n_bags, d) of the windows of each bag; a store that remembers means reads each bag once."""
    if store.means is None:
        return _bag_means(store, selection, threads)
    bags = list(zip(selection.starts.tolist(), selection.stops.tolist(), strict=True))
    missing = [place for place, bag in enumerate(bags) if bag not in store.means]
    if missing:
        found = _bag_means(store, selection.subset(np.array(missing)), threads)
        store.means |= {bags[place]: mean for place, mean in zip(missing, found, strict=True)}
    return np.array([store.means[bag] for bag in bags])


def _bag_means(store: Store, selection: Selection, threads: int) -> Float64:
    """Return the mean (n_bags, d) of the windows of each bag; all of them count."""
    every = Selection(selection.starts, selection.stops)
    (means,) = Pass(store, every, plan(store, every), threads).ask(Means())
    return means


def mean_norm(over: Pass, scale: Float64) -> float:
    """Return the mean Euclidean norm of the windows times `scale` (d,)."""
    (sums,) = over.ask(Norms(scale))
    return float(sums.sum()) / int(over.selection.offsets[-1])


def copies(over: Pass, windows: Mask) -> tuple[Array, Index]:
    """Return copies of the windows of a mask (n_windows,), and the offsets of their bags."""
    chosen = Selection(over.selection.starts, over.selection.stops, ~windows)
    (features,) = Pass(over.store, chosen, over.chunks, over.threads).ask(Copies())
    return features, Copies().places(chosen)
