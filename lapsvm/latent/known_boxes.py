"""Boxes of a positive picture that are known: where its objects are, and where they are not."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64
from lapsvm.boxes import iou

Mask = NDArray[np.bool_]


class KnownBoxes(NamedTuple):
    """What is known of the windows of one positive picture.

    Attributes
    ----------
    true : (m, 4) float64
        Objects of the picture; none if no object is known.
    wrong : (k, 4) float64
        Boxes that hold none. They count where `true` is empty.
    """

    true: Float64
    wrong: Float64

    def nearest(self, windows: Float64) -> int:
        """Return which of the windows (n, 4) overlaps an object most."""
        return int(np.argmax(iou(windows, self.true).max(axis=1)))

    def right(self, windows: Float64, least: float) -> Mask:
        """Return which windows (n, 4) may hold an object.

        Those that overlap one by more than `least`; or, where no object is known, those that overlap no wrong box so
        much.
        """
        if len(self.true):
            return np.asarray(iou(windows, self.true).max(axis=1) > least)
        return np.asarray(iou(windows, self.wrong).max(axis=1, initial=0.0) <= least)

    def settled(
        self, windows: Float64, near: Mask, far: Mask, pos_iou: float, neg_ious: tuple[float, float]
    ) -> tuple[Mask, Mask]:
        """Return which windows (n, 4) are positives and negatives, from what they are for the chosen window.

        With known objects the overlap with these decides: parts of them are negatives, and windows that hardly overlap
        them are not, because a person may have marked one of several objects. Otherwise windows near a wrong box are
        negatives.
        """
        if len(self.true):
            overlaps = iou(windows, self.true).max(axis=1)
            low, high = neg_ious
            return np.asarray(overlaps >= pos_iou), np.asarray((overlaps >= low) & (overlaps < high))
        wrong = iou(windows, self.wrong).max(axis=1, initial=0.0) >= pos_iou
        return near & ~wrong, far | wrong
