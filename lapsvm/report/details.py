"""Which parts of a picture are shown larger, because boxes are small in it."""

import math

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.boxes import as_boxes
from lapsvm.report.contents import Example
from lapsvm.report.misses import as_window

LEAST = 24
"""Pixels of a side of a detail, at least."""
FACTOR = 3.0
"""How many times as large as its box a detail is."""
SHARE = 0.6
"""A detail of more than this share of the picture's longest side is not shown."""
CLOSE_FACTOR, CLOSE_SHARE = 1.6, 0.9
"""The same of a part that is shown in place of its picture."""
Region = tuple[int, int, int, int]
"""x1, y1, x2, y2 in pixels of the picture, half-open."""


def detail_regions(example: Example, size: tuple[int, int]) -> tuple[Region, ...]:
    """Return the parts of a picture that show what is too small to be seen in it, at most two.

    The first is around the example's window. The other is around the window to compare with, or else the object whose
    centre is nearest, where its own centre is not in the first.

    Parameters
    ----------
    example : Example
    size : tuple of 2 int
        Width and height of the picture.
    """
    window, truth = as_window(example.box)[0], truth_boxes(example)
    boxes = [window]
    if example.second is not None:
        boxes.append(as_window(example.second)[0])
    elif len(truth):
        boxes.append(truth[int(np.argmin(np.hypot(*(_centres(truth) - _centres(window[None])).T)))])
    regions: list[Region] = []
    for box in boxes:
        region = _region(box, *size)
        if region is not None and not any(_holds_centre(other, box) for other in regions):
            regions.append(region)
    return tuple(regions)


def close_region(example: Example, size: tuple[int, int]) -> Region | None:
    """Return the part of a picture of this width and height around an example's window; None if it is nearly all."""
    return _region(as_window(example.box)[0], *size, CLOSE_FACTOR, CLOSE_SHARE)


def truth_boxes(example: Example) -> Float64:
    """Return the objects of the class (n, 4); none where they are not known."""
    return as_boxes(() if example.truth is None else example.truth, "truth")


def _centres(boxes: Float64) -> Float64:
    return (boxes[:, :2] + boxes[:, 2:]) / 2


def _region(box: Float64, width: int, height: int, factor: float = FACTOR, share: float = SHARE) -> Region | None:
    """Return a square around a box, moved into the picture; None if it has nearly the picture's size."""
    x1, y1, x2, y2 = np.clip(box, 0, [width, height, width, height]).tolist()
    side = max(LEAST, math.ceil(factor * max(x2 - x1, y2 - y1)))
    if side > share * max(width, height):
        return None
    across, down = min(side, width), min(side, height)
    left = int(min(max((x1 + x2 - across) / 2, 0), width - across))
    top = int(min(max((y1 + y2 - down) / 2, 0), height - down))
    return left, top, left + across, top + down


def _holds_centre(region: Region, box: Float64) -> bool:
    """Return whether the centre of a box lies in a region."""
    x, y = _centres(box[None])[0]
    return bool(region[0] <= x <= region[2] and region[1] <= y <= region[3])
