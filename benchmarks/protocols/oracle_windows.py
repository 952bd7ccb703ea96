"""Oracle windows: for a share of the positive pictures, boxes choose the window of training.

Elsewhere training sees labels only. Behl's thesis (section 4.1) gives S percent of the samples the window that overlaps
their object most, and varies S.
"""

from collections.abc import Sequence

import numpy as np
from lapsvm.pipelines.run.dataset import Labels
from pictures import Pictures

from lapsvm.arrays import Array, Index
from lapsvm.boxes import iou
from lapsvm.catalog import GroundTruth

MIN_IOU = 0.5


def oracle_windows(pictures: Pictures, class_name: str) -> Index:
    """Return each positive picture's window of largest overlap with an object of the class, -1 where there is none.

    A picture has an oracle window if the overlap (IoU) with an object that is not difficult is 0.5 or more. Negative
    pictures have none.
    """
    truth, y = pictures.truth[class_name], pictures.labels[class_name]
    windows = [
        _oracle_window(boxes, truth[image]) if label > 0 else -1
        for image, boxes, label in zip(pictures.ids, pictures.boxes, y, strict=True)
    ]
    return np.array(windows, dtype=np.intp)


def _oracle_window(boxes: Array, objects: GroundTruth) -> int:
    """Return the first window of largest overlap in one picture, or -1."""
    easy = np.asarray(objects.boxes)[~np.asarray(objects.difficult, dtype=bool)]
    if not len(easy):
        return -1
    overlaps = iou(boxes, easy).max(axis=1)
    best = int(overlaps.argmax())
    return best if overlaps[best] >= MIN_IOU else -1


def oracle_share(oracle: Index, percent: float, seed: Sequence[int]) -> Index:
    """Return the oracle windows of a random `percent` of the pictures that have one, and -1 for the others.

    With the same seed a larger share contains every smaller one.
    """
    order = np.random.default_rng(seed).permutation(np.flatnonzero(oracle >= 0))
    drawn = order[: round(len(order) * percent / 100)]
    given = np.full(len(oracle), -1, dtype=np.intp)
    given[drawn] = oracle[drawn]
    return given


def counts(oracle: Index, given: Index, y: Labels) -> dict[str, int]:
    """Return the numbers of positive pictures, of those with an oracle window, and of windows given to training."""
    return {
        "positives": int((y > 0).sum()),
        "with_oracle_window": int((oracle >= 0).sum()),
        "given": int((given >= 0).sum()),
    }
