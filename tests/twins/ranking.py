"""The slow, readable twin of the check of derivatives; those of inference are `lapsvm/ranking/reference.py`."""

import numpy as np

from lapsvm.arrays import Float64, Index


def first_violation(
    order: Index, ranks: Index, starts: Index, values: Float64, n_pos: int, slack: float
) -> tuple[int, int]:
    """Return row and column of the first value that is more than `slack` below an earlier row's, else (-1, -1)."""
    bound = [-np.inf] * (n_pos + 1)
    for k in order.tolist():
        for column, value in enumerate(values[starts[k] : starts[k + 1]].tolist()):
            rank = int(ranks[k]) + column
            if value < bound[rank]:
                return k, column
            bound[rank] = max(bound[rank], value - slack)
    return -1, -1
