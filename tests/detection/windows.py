"""Windows of one picture for the tests of smoothing and voting."""

import numpy as np


def boxes_at(*lefts):
    """Boxes of 10 x 10 side by side: those whose lefts differ by k overlap (10 - k) / (10 + k)."""
    return [[left, 0, left + 10, 10] for left in lefts]


def drawn_windows(count: int):
    """Return random boxes (count, 4) and their scores."""
    rng = np.random.default_rng(count)
    corners = rng.uniform(0, 30, (count, 2))
    return np.hstack([corners, corners + rng.uniform(15, 40, (count, 2))]), rng.normal(size=count)
