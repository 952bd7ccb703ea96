"""The extent of a small thing on even ground: the part of a box and its surroundings that stands out of these.

Labels say where something is, and leave its extent open: windows around it that are too small or too large separate
the same pictures. Where the ground is even, the picture itself shows where the thing ends.
"""

import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.boxes import areas, iou
from lapsvm.catalog import Pixels
from lapsvm.detection.suppression import nms
from lapsvm.windows.colour import lab
from lapsvm.windows.proposals import reduced, scales_of

RING = 0.5
"""The width of the ring about a box, as a share of its sides, see research/notebook/2026-11-small-things.md."""
STANDING = 0.9
"""The share of the ring's pixels that a part differs more than from the ring's colour."""
OVERLAP = 0.1
"""The IoU of a part's frame with the box from which on it takes the box's place."""
SEEN = 96
"""Pixels of the longer side of a box with its ring, to which larger ones are reduced."""
MOST = 10
"""Boxes of a class in a picture, the best ones, that take the extent of a part."""
SAME = 0.5  # IoU of two boxes that show the same part
_BINOMIAL = np.array([1, 4, 6, 4, 1], np.float32)  # a Gaussian of one pixel, in whole numbers: exact on every machine


def fitted(pixels: Pixels, boxes: Float64, scores: Float64) -> tuple[Float64, Float64]:
    """Return a picture's boxes (n, 4), best first, and their scores, with the extent of what stands out.

    Of boxes that show the same part the best one is kept.
    """
    moved = boxes.copy()
    for row, box in enumerate(boxes[:MOST]):
        moved[row] = extent(pixels, box)
    kept = nms(moved, scores, SAME)
    return moved[kept], scores[kept]


def extent(pixels: Pixels, box: Float64) -> Float64:
    """Return the frame (4,) of the part that stands out of the ring about a box (4,) of a picture.

    A part differs from the median colour of the ring more than `STANDING` of the ring's pixels do. Of connected parts
    the one with most pixels in the box counts. The box itself is returned where that part reaches the ring's outer edge
    inside the picture, overlaps the box by less than `OVERLAP`, or is not there.
    """
    picture = np.array([pixels.shape[1], pixels.shape[0]] * 2)
    inner = np.clip([*np.floor(box[:2]), *np.ceil(box[2:])], 0, picture)
    if areas(inner[None])[0] == 0:
        return box
    ring = np.maximum(np.round(RING * (inner[2:] - inner[:2])), 1)
    outer = np.clip(inner + np.concatenate([-ring, ring]), 0, picture).astype(int)
    crop = pixels[outer[1] : outer[3], outer[0] : outer[2]]
    seen = reduced(crop, SEEN)
    scales, origin = scales_of(crop, seen), np.tile(outer[:2], 2)
    left, top, right, bottom = np.round((inner - origin) / scales).astype(int)
    is_inside = np.zeros(seen.shape[:2], bool)
    is_inside[top:bottom, left:right] = True
    frame = _part(seen, is_inside)
    if frame is None:
        return box
    edges = np.array([0, 0, seen.shape[1], seen.shape[0]])
    is_cut = (outer == 0) | (outer == picture)  # by the picture's own edge, where a part may end
    enlarged = frame * scales + origin
    if ((frame == edges) & ~is_cut).any() or iou(enlarged[None], box[None])[0, 0] < OVERLAP:
        return box
    return np.asarray(enlarged)


def _part(seen: Pixels, is_inside: Array) -> Array | None:
    """Return the frame (4,) of the part with most pixels inside; None where nothing stands out there."""
    import cv2

    if is_inside.all() or not is_inside.any():
        return None
    planes = np.moveaxis(np.asarray(lab(np.ascontiguousarray(seen))), 0, -1)
    smooth = cv2.sepFilter2D(np.ascontiguousarray(planes), cv2.CV_32F, _BINOMIAL, _BINOMIAL).astype(np.float64)
    squares = ((smooth - np.median(smooth[~is_inside], axis=0)) ** 2).sum(axis=2)
    stands_out = squares > np.quantile(squares[~is_inside], STANDING, method="higher")
    count, labels, frames, _ = cv2.connectedComponentsWithStats(stands_out.astype(np.uint8), connectivity=8)
    pixels = np.bincount(labels[is_inside], minlength=count)
    pixels[0] = 0  # what does not stand out
    if not pixels.any():
        return None
    x, y, width, height = frames[pixels.argmax(), :4]
    return np.array([x, y, x + width, y + height])
