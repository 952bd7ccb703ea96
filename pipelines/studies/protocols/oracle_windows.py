"""Right windows for a share of the positive pictures: the one place where boxes reach training, as its protocol asks.

Everywhere else training sees labels only. Behl's thesis (section 4.1) gives S percent of the samples the window that
overlaps their object most, and varies S.
"""

from collections.abc import Sequence

import numpy as np

from lapsvm.arrays import Array, Index
from lapsvm.boxes import iou
from lapsvm.catalog import GroundTruth

from ...run.dataset import Labels
from .pictures import Pictures

LEAST_IOU = 0.5


def oracle_windows(pictures: Pictures, class_name: str) -> Index:
    """Return each picture's window of largest overlap with an object of the class; -1 where it is not known.

    It is known in positive pictures alone, and only where the overlap (IoU) with an object that is not difficult is
    0.5 or more. Negative pictures have no right window: any of theirs is wrong.
    """
    truth, y = pictures.truth[class_name], pictures.labels[class_name]
    found = [
        _oracle_window(boxes, truth[image]) if label > 0 else -1
        for image, boxes, label in zip(pictures.ids, pictures.boxes, y, strict=True)
    ]
    return np.array(found, dtype=np.intp)


def _oracle_window(boxes: Array, objects: GroundTruth) -> int:
    """Return the window of one picture, the first of equals, or -1."""
    easy = np.asarray(objects.boxes)[~np.asarray(objects.difficult, dtype=bool)]
    if not len(easy):
        return -1
    overlaps = iou(boxes, easy).max(axis=1)
    best = int(overlaps.argmax())
    return best if overlaps[best] >= LEAST_IOU else -1


def oracle_share(right: Index, percent: float, seed: Sequence[int]) -> Index:
    """Return `right` for a drawn share of the pictures that have one, and -1 elsewhere.

    With the same seed a larger share holds every smaller one.
    """
    order = np.random.default_rng(seed).permutation(np.flatnonzero(right >= 0))
    drawn = order[: round(len(order) * percent / 100)]
    known = np.full(len(right), -1, dtype=np.intp)
    known[drawn] = right[drawn]
    return known


def counts(right: Index, known: Index, y: Labels) -> dict[str, int]:
    """Return how many pictures are positive, how many of them have a right window, and how many of these are told."""
    return {
        "positives": int((y > 0).sum()),
        "with_right_window": int((right >= 0).sum()),
        "known": int((known >= 0).sum()),
    }
