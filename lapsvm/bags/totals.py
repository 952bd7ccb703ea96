"""What follows from a pass over the windows besides the best ones: the highest of each bag, and means."""

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.bags.passes import Pass, split_into_chunks
from lapsvm.bags.requests import Means
from lapsvm.bags.selection import Mask, Selection
from lapsvm.bags.stores.local import Store


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
    """Return the mean (n_bags, d) of all windows of each bag, excluded ones included.

    A store that caches means reads each bag once.
    """
    bags = list(zip(selection.starts.tolist(), selection.stops.tolist(), strict=True))
    known = {} if store.means is None else store.means
    missing = [index for index, bag in enumerate(bags) if bag not in known]
    if missing:
        chosen = Selection(selection.starts[missing], selection.stops[missing])
        (means,) = Pass(store, chosen, split_into_chunks(store, chosen), threads).run(Means())
        known |= {bags[index]: mean for index, mean in zip(missing, means, strict=True)}
    return np.array([known[bag] for bag in bags])
