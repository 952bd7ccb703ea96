"""The four kinds of misses of a weakly supervised detector's windows."""

from collections.abc import Iterable
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64
from lapsvm.boxes import areas, as_boxes, common_areas, iou
from lapsvm.errors import ShapeError
from lapsvm.report.contents import Example

# Two boxes of equal size that share two thirds of each have IoU exactly 1/2. A window with IoU < 1/2 may cover two
# thirds of an object, or have two thirds of its area on the object, but never both: the kinds do not overlap.
_MIN_SHARE = 2 / 3
_MIN_IOU = 1 / 2


class MissKind(StrEnum):
    """The kinds of misses, in the order of the page."""

    TOO_LARGE = "too large"
    TOO_SMALL = "too small (a part)"
    POOR_OVERLAP = "poor overlap (context)"
    WRONG_OBJECT = "wrong object"


def miss_kind(box: ArrayLike, truth_boxes: ArrayLike, other_truth_boxes: ArrayLike = ()) -> MissKind:
    """Return the kind of miss of a window.

    The first rule that applies decides. The *nearest* object is the object of the class with the largest IoU with the
    window, the first among equals. A *share* is the area of an intersection over the area of one box.

    1. Wrong object: an object of another class has IoU >= 1/2 with the window, and more than the nearest object.
    2. Too large: the window covers at least 2/3 of the nearest object and is larger than it.
    3. Too small: at least 2/3 of the window lies on the nearest object, and the window is smaller than it.
    4. Wrong object: at least 2/3 of the window lies on one object of another class.
    5. Poor overlap: all other windows; their share with every object is below 2/3.

    Rules 2 and 3 cannot both apply to a window with IoU < 1/2: two shares of 2/3 give an IoU of at least 1/2.

    Parameters
    ----------
    box : array-like of shape (4,)
        The window, x1, y1, x2, y2. The same rules apply to a window that does not miss.
    truth_boxes : array-like of shape (n, 4)
        Objects of the class in the picture, including difficult ones.
    other_truth_boxes : array-like of shape (m, 4), default ()
        Known objects of the other classes.

    Returns
    -------
    MissKind

    Raises
    ------
    ShapeError
        If an array has another shape.
    """
    window = as_window(box)
    truth, others = as_boxes(truth_boxes, "truth_boxes"), as_boxes(other_truth_boxes, "other_truth_boxes")
    best_iou, covered, inside, surplus = _nearest(window, truth)
    other_iou, on_other = float(iou(window, others).max(initial=0)), float(_share(window, others).max(initial=0))
    if other_iou >= _MIN_IOU and other_iou > best_iou:
        return MissKind.WRONG_OBJECT
    if covered >= _MIN_SHARE and surplus > 0:
        return MissKind.TOO_LARGE
    if inside >= _MIN_SHARE and surplus < 0:
        return MissKind.TOO_SMALL
    return MissKind.WRONG_OBJECT if on_other >= _MIN_SHARE else MissKind.POOR_OVERLAP


def by_kind(misses: Iterable[Example]) -> dict[MissKind, list[Example]]:
    """Group the misses by kind, in the order of the page; examples without ground truth count as poor overlap."""
    groups: dict[MissKind, list[Example]] = {kind: [] for kind in MissKind}
    for example in misses:
        truth = () if example.truth is None else example.truth
        others = [as_boxes(boxes, "others") for boxes in example.others.values()]
        groups[miss_kind(example.box, truth, np.concatenate([np.empty((0, 4)), *others]))].append(example)
    return groups


def as_window(box: ArrayLike) -> Float64:
    """Return one box of shape (4,) as float64 of shape (1, 4), or raise ShapeError."""
    if np.shape(box) != (4,):
        raise ShapeError(f"box must be one box of shape (4,), got shape {np.shape(box)}.")
    return np.asarray(box, dtype=np.float64)[None]


def _nearest(window: Float64, truth: Float64) -> tuple[float, float, float, float]:
    """Return IoU, covered share of the object, share of the window on it, and window area minus object area."""
    if not len(truth):
        return 0.0, 0.0, 0.0, 0.0
    overlaps = iou(window, truth)[0]
    nearest = truth[[int(np.argmax(overlaps))]]
    surplus = float(areas(window)[0] - areas(nearest)[0])
    return float(overlaps.max()), float(_share(nearest, window)[0]), float(_share(window, nearest)[0]), surplus


def _share(first: Float64, second: Float64) -> Float64:
    """Return the share of the single box `first` that each box of `second` covers; 0 for an empty box."""
    common, area = common_areas(second, first), areas(first)
    return np.divide(common, area, out=np.zeros_like(common), where=area > 0)
