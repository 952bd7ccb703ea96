"""Whether the boxes of a class take the extent of what stands out of the even ground (`lapsvm.detection.extent`).

Where most held-out boxes find such a part, the things of the class have an outline of their own, and parts are better
boxes than windows; where few do, what is found is something else. So labels decide, and boxes that a person knows
overrule them. These teach windows their extent, too: the more there are, the less labels speak for parts.
Every chain decides by the pictures that it may see.
"""

from collections.abc import Sequence

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.boxes import iou
from lapsvm.detection.extent import extent
from lapsvm.detection.groups import WindowPrior
from lapsvm.detection.picture_scores import best_boxes
from lapsvm.settings import DetectSettings

from .chains import Chain
from .pictures import StoredPictures

OFTEN = 0.6
"""The share of held-out boxes that must find a part, see research/notebook/2026-11-small-things.md."""
BY_LABELS = 1.5
"""How many known boxes the decision by labels counts as."""
ENOUGH = 10
"""The number of pictures with known boxes from which on labels do not speak for parts."""
RIGHT = 0.5  # IoU of a right box with a known one


def with_extent(
    pictures: StoredPictures, fold: Index, chains: Sequence[Chain], priors: Sequence[WindowPrior | None],
    settings: DetectSettings,
) -> tuple[list[WindowPrior | None], float | None]:  # fmt: skip
    """Return the priors of the chains with their decisions, and the share of boxes that found a part.

    The share is None where the first chain, which has seen all pictures, decides for windows.
    """
    rows = np.flatnonzero((chains[0].y > 0) & (fold > 0))
    read = pictures.pixels
    if read is None or not len(rows):
        return list(priors), None
    windows = _held_out_boxes(pictures, fold, chains, priors, settings)[rows]
    shown = zip(map(read, rows.tolist()), windows, strict=True)
    moved = np.array([box if pixels is None else extent(pixels, box) for pixels, box in shown])
    is_moved = (moved != windows).any(axis=1)
    gains = np.array([_gain(pictures, *boxes) for boxes in zip(rows.tolist(), windows, moved, strict=True)])
    decided = list[WindowPrior | None]()
    for number, prior in enumerate(priors):
        sizes, are_many = (None, False) if prior is None else prior[:2]
        seen = fold[rows] != number
        by_labels = -BY_LABELS
        if not are_many and is_moved[seen].mean() >= OFTEN:
            by_labels = BY_LABELS * max(0.0, 1 - np.isfinite(gains[seen]).sum() / ENOUGH)
        decided.append(WindowPrior.of(sizes, are_many, bool(by_labels + np.nansum(gains[seen]) > 0)))
    first = decided[0]
    return decided, None if first is None or not first.takes_extent else float(is_moved.mean())


def _held_out_boxes(
    pictures: StoredPictures, fold: Index, chains: Sequence[Chain], priors: Sequence[WindowPrior | None],
    settings: DetectSettings,
) -> Float64:  # fmt: skip
    """Return the best box (n_bags, 4) of each positive picture in a fold, by the chain that did not see it."""
    best = np.zeros((len(fold), 4))
    for number, (chain, prior) in enumerate(zip(chains[1:], priors[1:], strict=True), start=1):
        rows = np.flatnonzero((chains[0].y > 0) & (fold == number))
        best[rows], _ = best_boxes(pictures.bags, pictures.boxes, chain.weights, rows, settings, prior)
    return best


def _gain(pictures: StoredPictures, row: int, window: Float64, moved: Float64) -> float:
    """Return 1 if the moved box alone is right by the known boxes of a picture, -1 if the window alone is, else 0.

    It is NaN where none is known.
    """
    known = pictures.known.get(row)
    if known is None or not len(known.true):
        return np.nan
    is_right = iou(np.stack([moved, window]), known.true).max(axis=1) > RIGHT
    return float(is_right[0]) - float(is_right[1])
