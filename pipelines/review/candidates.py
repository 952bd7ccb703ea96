"""The boxes that a person chooses from: the best one, and the best of other extents.

Labels alone do not say whether a part, the object or more than it is meant. So after the first box come the best-scored
window inside it, the best one around it, and the best one elsewhere, by score.
"""

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64
from lapsvm.boxes import areas, common_areas, iou

COUNT = 3
INSIDE = 0.9  # the share of a box's area that lies in the one around it
SMALLER = 0.6  # a part has at most this share of the area of the whole
APART = 0.3  # boxes that overlap less are elsewhere
LEAST = 0.02  # a part has at least this share


def candidate_boxes(first: Float64, boxes: Float64, scores: Float64) -> Float64:
    """Return the boxes to choose from, (k, 4) float64 with k from 1 to 3, `first` first.

    Parameters
    ----------
    first : (4,) float64
    boxes : (n, 4) float64
        The picture's windows.
    scores : (n,) float64
    """
    part, more, apart = (_best(mask, scores) for mask in _extents(first, boxes))
    chosen = [*sorted([*part, *more], key=lambda row: -scores[row]), *apart][: COUNT - 1]
    return np.concatenate([first[None], boxes[chosen].reshape(-1, 4)]).astype(np.float64)


def _best(mask: NDArray[np.bool_], scores: Float64) -> list[int]:
    """Return the best-scored window of a mask, in a list; none if the mask is empty."""
    rows = np.flatnonzero(mask)
    return [int(rows[np.argmax(scores[rows])])] if len(rows) else []


def _extents(first: Float64, boxes: Float64) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which windows are a part of the first box, contain it, and are elsewhere."""
    common, own, whole = common_areas(boxes, first[None]), areas(boxes), float(areas(first[None])[0])
    part = (common >= INSIDE * own) & (own <= SMALLER * whole) & (own >= LEAST * whole)
    more = (common >= INSIDE * whole) & (own * SMALLER >= whole)
    apart = (iou(boxes, first[None])[:, 0] < APART) & ~part & ~more
    return part, more, apart
