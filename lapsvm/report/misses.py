"""How a window misses: the four kinds by which a weakly supervised detector goes wrong."""

from collections.abc import Iterable
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64
from lapsvm.boxes import areas, as_boxes, iou
from lapsvm.errors import ShapeError
from lapsvm.report.contents import Example

# Two boxes of equal size that share two thirds of each have IoU exactly 1/2. So a window with IoU < 1/2 can hold two
# thirds of an object, or lie with two thirds on it, but never both: the kinds do not overlap.
_MOST = 2 / 3
_RIGHT = 1 / 2


class MissKind(StrEnum):
    """What is wrong with a window that misses, in the order in which the page shows it."""

    TOO_LARGE = "too large"
    TOO_SMALL = "too small (a part)"
    POOR_OVERLAP = "poor overlap (context)"
    WRONG_OBJECT = "wrong object"


def miss_kind(box: ArrayLike, truth_boxes: ArrayLike, other_truth_boxes: ArrayLike = ()) -> MissKind:
    """Say how a window that misses goes wrong.

    The first rule that holds decides. The *nearest* object is the one of the class with the largest IoU with the
    window, the first of several equal ones; a *share* is the area of an intersection over the area of one box.

    1. Wrong object: an object of another class has IoU >= 1/2 with the window, and more than the nearest object has.
    2. Too large: the window holds at least 2/3 of the nearest object, and is the larger of the two.
    3. Too small: at least 2/3 of the window lies on the nearest object, and the window is the smaller of the two.
    4. Wrong object: at least 2/3 of the window lies on one object of another class.
    5. Beside: everything else; the window shares less than 2/3 with any object, or meets none.

    Rules 2 and 3 meet in no window whose IoU is under 1/2: two shares of 2/3 make an IoU of 1/2.

    Parameters
    ----------
    box : array-like of shape (4,)
        The window, x1, y1, x2, y2. That it misses is the caller's finding; an IoU above 1/2 is answered by the same
        rules.
    truth_boxes : array-like of shape (n, 4)
        Objects of the class in the picture, the difficult ones included.
    other_truth_boxes : array-like of shape (m, 4), default ()
        Objects of the other classes, as far as they are known.

    Returns
    -------
    MissKind

    Raises
    ------
    ShapeError
        If a shape is another one.
    """
    window = as_window(box)
    truth, others = as_boxes(truth_boxes, "truth_boxes"), as_boxes(other_truth_boxes, "other_truth_boxes")
    best_iou, held, on_it, larger = _nearest(window, truth)
    other_iou, on_other = float(iou(window, others).max(initial=0)), float(_share(window, others).max(initial=0))
    if other_iou >= _RIGHT and other_iou > best_iou:
        return MissKind.WRONG_OBJECT
    if held >= _MOST and larger > 0:
        return MissKind.TOO_LARGE
    if on_it >= _MOST and larger < 0:
        return MissKind.TOO_SMALL
    return MissKind.WRONG_OBJECT if on_other >= _MOST else MissKind.POOR_OVERLAP


def by_kind(misses: Iterable[Example]) -> dict[MissKind, list[Example]]:
    """Return the misses of each kind, all four in the order of the page; examples without truth count as beside."""
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
    """Return IoU, share of the object held, share of the window on it and the window's surplus area."""
    if not len(truth):
        return 0.0, 0.0, 0.0, 0.0
    overlaps = iou(window, truth)[0]
    nearest = truth[[int(np.argmax(overlaps))]]
    surplus = float(areas(window)[0] - areas(nearest)[0])
    return float(overlaps.max()), float(_share(nearest, window)[0]), float(_share(window, nearest)[0]), surplus


def _share(first: Float64, second: Float64) -> Float64:
    """Return the share of `first`, one box, that each box of `second` takes; 0 for an empty box."""
    sides: Float64 = np.minimum(first[:, 2:], second[:, 2:]) - np.maximum(first[:, :2], second[:, :2])
    common: Float64 = np.prod(np.maximum(sides, 0.0), axis=1)
    area = areas(first)
    return np.divide(common, area, out=np.zeros_like(common), where=area > 0)
