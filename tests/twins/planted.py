"""Bags in which one window tells the classes apart."""

import numpy as np


def planted(seed=0, n_bags=40, size=8, dim=6, shift=3.0, dtype=np.float64, first=0):
    """Return bags of noise, labels, and a window of each bag, not before `first`.

    In every third bag, a positive one, that window is shifted along the first axis.
    """
    rng = np.random.default_rng(seed)
    windows = rng.normal(size=(n_bags, size, dim))
    y = np.where(np.arange(n_bags) % 3 == 0, 1, -1)
    places = rng.integers(first, size, n_bags)
    windows[np.flatnonzero(y > 0), places[y > 0], 0] += shift
    return [part.astype(dtype) for part in windows], y, places
