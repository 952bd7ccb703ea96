"""Whether labels leave open which is meant: what a box shows, or one of its parts.

If no picture without the class shows a car, every part of a car tells the pictures apart, as a number plate does.
"""

from collections.abc import Sequence

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.boxes import areas, as_boxes, common_areas
from lapsvm.detection import detect, smooth_scores

from ..run.dataset import Labels
from .held_out import ScoredPictures

PARTS = 3  # objects have one or two that tell them
SMALLER, INSIDE, APART = 1 / 4, 0.9, 0.05  # area over that of the box, share of it in the box, IoU of two parts
BEYOND = 0.9  # of the pictures without the class


def has_telling_parts(boxes: Array, scores: Float64, negatives: Float64, smoothing: float) -> bool:
    """Return whether `PARTS` parts of a picture's best window, apart from one another, score above most negatives.

    Parameters
    ----------
    boxes : (n, 4)
        The windows of a picture with the class.
    scores : (n,)
        Their scores by a model that did not see the picture.
    negatives : (m,)
        The best scores of pictures without the class, by the same model, which did not see them either.
    smoothing : float
        See `lapsvm.detection.smooth_scores`.
    """
    windows, smoothed = as_boxes(boxes), smooth_scores(boxes, scores, smoothing)
    best, area = windows[[int(np.argmax(smoothed))]], areas(windows)
    is_part = (area < SMALLER * areas(best)) & (common_areas(windows, best) >= INSIDE * area)
    is_part &= smoothed > np.quantile(negatives, BEYOND)
    parts, _ = detect(smoothed[is_part], windows[is_part], APART, PARTS)
    return len(parts) == PARTS


def count_telling(pictures: ScoredPictures, y: Labels, fold: Index, models: Sequence[Float64], smoothing: float) -> int:
    """Return the number of positive pictures with telling parts, by models (d,) without fold 1, 2 and so on."""
    bags, count = pictures.bags, 0
    for number, weights in enumerate(models, start=1):
        rows = np.flatnonzero((fold == number) & (y != 0))
        scores = dict(zip(rows.tolist(), bags.subset(rows).split_scores(weights), strict=True))
        negatives = np.array([values.max() for row, values in scores.items() if y[row] < 0])
        for row in rows[y[rows] > 0].tolist():
            boxes = pictures.boxes[bags.offsets[row] : bags.offsets[row + 1]]
            count += has_telling_parts(boxes, scores[row], negatives, smoothing)
    return count
