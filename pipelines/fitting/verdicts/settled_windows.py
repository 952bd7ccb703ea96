"""The windows of pictures of which a person has said where the object is, or where it is not."""

from collections.abc import Mapping

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags import Bags
from lapsvm.latent import KnownBoxes

SAME = 0.5
"""A window with a greater IoU with a rejected box is rejected too."""


def settled_windows(
    bags: Bags, boxes: Array, weights: Float64, windows: Index, known: Mapping[int, KnownBoxes],
    added: Mapping[int, Array],
) -> Index:  # fmt: skip
    """Return the chosen windows (n_bags,), with those of some pictures replaced by what is known of them.

    A picture with known objects gets the window that overlaps one most. In a picture with rejected boxes, a rejected
    window gives way to the best-scored one that is not; it stays where all are rejected.

    Parameters
    ----------
    bags : Bags
    boxes : (n_windows, 4)
    weights : (d,)
        Of the model that chooses among the windows that are not rejected.
    windows : (n_bags,) int
    known : mapping of picture to KnownBoxes
    added : mapping of picture to (m, 4)
        Windows that a picture has after its own.
    """
    settled = windows.copy()
    for picture, of_picture in known.items():
        own = np.asarray(boxes[bags.offsets[picture] : bags.offsets[picture + 1]], dtype=np.float64)
        if len(of_picture.true):
            settled[picture] = of_picture.nearest(np.concatenate([own, added.get(picture, own[:0])]))
            continue
        right = of_picture.right(own, SAME)
        if right.any() and not right[settled[picture]]:
            scores = bags.subset([picture]).score_windows(weights)
            settled[picture] = int(np.argmax(np.where(right, scores, -np.inf)))
    return settled
