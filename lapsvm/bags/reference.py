"""The slow, readable reference of the pass: one bag after the other, in NumPy."""

from collections.abc import Sequence

import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.bags.scoring import BestWindows


def best_windows(bags: Sequence[Array], weights: Float64) -> BestWindows:
    """Return the best window of each (n_i, d) array for every column of `weights` (d, k); the first of equal scores."""
    scores = [np.asarray(bag, dtype=np.float64) @ weights for bag in bags]
    index = np.array([score.argmax(axis=0) for score in scores])
    return BestWindows(index, np.array([score.max(axis=0) for score in scores]))
