"""The boxes of one picture, and how far the best of them scores above the picture's best window."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Array, Float64
from lapsvm.bags import Bags
from lapsvm.detection import box_support, box_voting, demote_scores, detect, smooth_scores

from ..run.settings import DetectSettings

RANKED = 100  # boxes that support ranks, also where fewer are kept: so these are the first ones of a longer list
PIXEL_FRACTION = 1 / 16  # voted boxes are rounded to it, so that files are short and the same on every machine


def detect_windows(scores: Float64, boxes: Array, settings: DetectSettings) -> tuple[Float64, Float64]:
    """Return the detections of one class in one picture, boxes (k, 4) and scores (k,), from all its windows."""
    smoothed = smooth_scores(boxes, scores, settings.score_smoothing) if settings.score_smoothing else scores
    lowered = demote_scores(smoothed, settings.demotion)
    limit = settings.max_detections
    kept = max(limit, RANKED) if settings.box_support else limit
    detected, values = detect(lowered, boxes, settings.nms_threshold, max_after=kept)
    if settings.box_support:
        values = values + box_support(detected, boxes, scores, settings.box_support)
        order = np.argsort(-values, kind="stable")[:limit]
        detected, values = detected[order], values[order]
    if settings.box_voting:
        moved = box_voting(detected, boxes, scores, settings.box_voting, settings.box_voting_iou)
        detected = np.round(moved / PIXEL_FRACTION) * PIXEL_FRACTION
    return detected, values


def score_gains(
    bags: Bags, boxes: Array, weights: Float64, pictures: NDArray[np.bool_], settings: DetectSettings
) -> Float64:
    """Return by how much the best detection of pictures scores above their best window; 0 without box support.

    Parameters
    ----------
    bags : Bags
    boxes : (n_windows, 4)
    weights : (d,)
    pictures : (n_bags,) bool
        The m pictures.
    settings : DetectSettings

    Returns
    -------
    (m,) float64
    """
    rows = np.flatnonzero(pictures)
    if not settings.box_support:
        return np.zeros(len(rows))
    part, one = bags.subset(rows), replace(settings, box_voting=0.0)
    scores = np.split(part.score_windows(weights).astype(np.float64), part.offsets[1:-1])
    own = (boxes[bags.offsets[row] : bags.offsets[row + 1]] for row in rows)
    gains = [
        detect_windows(values, windows, one)[1][0] - values.max() for values, windows in zip(scores, own, strict=True)
    ]
    return np.array(gains)
