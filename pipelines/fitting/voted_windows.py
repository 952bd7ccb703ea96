"""The windows that a model chooses, moved by box voting.

The best of a thousand windows is partly best by chance. Detection moves it to the mean of the windows around it; the
window nearest to that box serves refinement better than the best one. The constants of voting are the defaults of
`lapsvm.detection.box_voting`, whatever detection uses.
"""

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags import Bags
from lapsvm.boxes import iou
from lapsvm.detection import box_voting


def voted_windows(bags: Bags, boxes: Array, weights: Float64, pictures: Index, windows: Index) -> Index:
    """Return the windows (n_bags,) with those of some pictures moved to the window nearest to their voted box.

    Parameters
    ----------
    bags : Bags
    boxes : (n_windows, 4)
    weights : (d,)
        Of the model that chose the pictures' windows.
    pictures : (m,) int
    windows : (n_bags,) int
        The chosen windows; those of other pictures stay.
    """
    moved = windows.copy()
    if not len(pictures):
        return moved
    part = bags.subset(pictures)
    scores = np.split(part.score_windows(weights), part.offsets[1:-1])
    for picture, values in zip(pictures, scores, strict=True):
        own = boxes[bags.offsets[picture] : bags.offsets[picture + 1]]
        box = box_voting(own[[windows[picture]]], own, values)
        moved[picture] = int(np.argmax(iou(own, box)[:, 0]))
    return moved
