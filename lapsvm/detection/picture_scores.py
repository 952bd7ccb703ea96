"""The boxes of one picture from the scores of its windows, and the best box of many pictures."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.detection.smoothing import smooth_scores
from lapsvm.detection.suppression import demote_scores, detect
from lapsvm.detection.voting import box_voting
from lapsvm.settings import DetectSettings

if TYPE_CHECKING:
    from lapsvm.bags import Bags  # takes a tenth of a second, and prediction needs none

PIXEL_FRACTION = 1 / 16  # voted boxes are rounded to it, so that files are short and the same on every machine


def detect_windows(scores: Float64, boxes: Array, settings: DetectSettings) -> tuple[Float64, Float64]:
    """Return the detections of one class in one picture, boxes (k, 4) and scores (k,), from all its windows."""
    smoothed = smooth_scores(boxes, scores, settings.score_smoothing) if settings.score_smoothing else scores
    lowered = demote_scores(smoothed, settings.demotion)
    detected, values = detect(lowered, boxes, settings.nms_threshold, max_after=settings.max_detections)
    if settings.box_voting:
        moved = box_voting(detected, boxes, scores, settings.box_voting, settings.box_voting_iou)
        detected = np.round(moved / PIXEL_FRACTION) * PIXEL_FRACTION
    return detected, values


def best_boxes(
    bags: "Bags", boxes: Array, weights: Float64, pictures: Index, settings: DetectSettings
) -> tuple[Float64, Float64]:
    """Return the best detection of some pictures: boxes (m, 4) and scores (m,).

    Parameters
    ----------
    bags : Bags
    boxes : (n_windows, 4)
    weights : (d,)
    pictures : (m,) int
    settings : DetectSettings
    """
    if not len(pictures):
        return np.zeros((0, 4)), np.zeros(0)
    part, one = bags.subset(pictures), replace(settings, max_detections=1)
    scores = np.split(part.score_windows(weights).astype(np.float64), part.offsets[1:-1])
    own = (boxes[bags.offsets[picture] : bags.offsets[picture + 1]] for picture in pictures)
    found = [detect_windows(values, windows, one) for values, windows in zip(scores, own, strict=True)]
    return np.array([box[0] for box, _ in found], dtype=np.float64), np.array([score[0] for _, score in found])
