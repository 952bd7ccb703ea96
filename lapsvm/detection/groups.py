"""Boxes around several things, which lose to the boxes of the things, and what a model knows of boxes.

Labels do not say whether a box shows one thing or two that touch: both separate the same pictures. Where the pictures
of a class show several things (`lapsvm.pipelines.fitting.refining.things`), a window that holds two others apart with
scores near its own is a group.
"""

from typing import NamedTuple, Self

import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.boxes import areas, as_boxes, iou, shared_areas
from lapsvm.detection.sizes import SizePrior
from lapsvm.detection.suppression import nms

NEAR = 1.0
"""How far the score of the weaker part may lie below that of a group, in standard deviations of the picture's scores,
see research/notebook/2026-11-small-things.md."""
BEST = 200  # windows beyond these are neither groups nor parts
PEAK = 0.5  # IoU from which on a better window stands for another
INSIDE, SMALLER, APART = 0.9, 0.6, 0.1  # share of a part in its group, area over the group's, IoU of two parts


def lower_groups(boxes: Array, scores: Float64) -> Float64:
    """Return the scores (n,) of a picture's windows (n, 4), lowered by `NEAR` deviations where a window is a group.

    Finally all are shifted so that the best score of the picture is what it was, and the order of pictures is kept.
    """
    if not len(scores):
        return scores
    best, near = np.argsort(-scores, kind="stable")[:BEST], NEAR * scores.std()
    weaker = _weaker_parts(as_boxes(boxes[best]), scores[best])
    lowered = scores.copy()
    lowered[best[scores[best] - weaker < near]] -= near
    return np.asarray(lowered - lowered.max() + scores.max())


def _weaker_parts(windows: Float64, scores: Float64) -> Float64:
    """Return the score (n,) of the weaker of the best two parts, apart, of each window (n, 4), the best first.

    It is -inf for a window without two.
    """
    peaks = nms(windows, scores, PEAK)
    parts, size = windows[peaks], areas(windows[peaks])
    is_part = shared_areas(windows, parts) >= INSIDE * size
    is_part &= (size > 0) & (size <= SMALLER * areas(windows)[:, None])
    is_before = np.triu(iou(parts, parts) <= APART, 1)  # the better one of a pair, apart
    is_second = is_part & ((is_part.astype(float) @ is_before.astype(float)) > 0)
    return np.where(is_second.any(axis=1), scores[peaks[is_second.argmax(axis=1)]], -np.inf)


class WindowPrior(NamedTuple):
    """What a model knows of the boxes of its class beside its weights.

    Attributes
    ----------
    sizes : SizePrior or None
        How large the objects are, if a person showed some.
    are_many : bool
        Whether pictures show several things, so that groups lose.
    takes_extent : bool, optional
        Whether boxes take the extent of what stands out of the even ground, see `lapsvm.detection.extent`.
    """

    sizes: SizePrior | None
    are_many: bool
    takes_extent: bool = False

    @classmethod
    def of(cls, sizes: SizePrior | None, are_many: bool, takes_extent: bool = False) -> Self | None:
        """Return the prior of sizes, groups and extent. None without any."""
        return cls(sizes, are_many, takes_extent) if are_many or takes_extent or sizes is not None else None

    def ranked(self, scores: Float64, boxes: Array) -> Float64:
        """Return the scores (n,) of a picture's windows (n, 4) by both; the best score stays what it was."""
        grouped = lower_groups(boxes, scores) if self.are_many else scores
        return grouped if self.sizes is None else self.sizes.ranked(grouped, boxes)
