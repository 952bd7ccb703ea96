"""Slow, readable twins of the compiled matching and reading, of the two average precisions, and of pointing."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64, Index
from lapsvm.catalog import GroundTruth
from lapsvm.evaluation import Detections

from .regions import flood

Box = Sequence[float]


def overlap(a: Box, b: Box, pixel: float) -> float:
    """Return the IoU of two VOC boxes as VOCevaldet.m computes it; 0 where they do not meet."""
    width = min(a[2], b[2]) - max(a[0], b[0]) + pixel
    height = min(a[3], b[3]) - max(a[1], b[1]) + pixel
    shared = width * height
    if width <= 0 or height <= 0 or shared <= 0:
        return 0.0
    area_a = (a[2] - a[0] + pixel) * (a[3] - a[1] + pixel)
    area_b = (b[2] - b[0] + pixel) * (b[3] - b[1] + pixel)
    return shared / (area_a + area_b - shared)


def match(
    boxes: Float64,
    images: Index,
    objects: Float64,
    offsets: Index,
    difficult: NDArray[np.uint8],
    threshold: float,
    strict: bool,
    pixel: float,
) -> tuple[NDArray[np.int8], Index, Float64]:
    """Pair detections, best first, with objects.

    Parameters
    ----------
    boxes : ndarray of shape (n, 4)
        VOC coordinates.
    images : ndarray of shape (n,)
        Picture of each detection, 0..m-1.
    objects : ndarray of shape (k, 4)
    offsets : ndarray of shape (m + 1,)
        Picture i has the objects offsets[i]:offsets[i + 1].
    difficult : ndarray of shape (k,)
    threshold : float
    strict : bool
        Whether the overlap must be greater than the threshold, not only reach it.
    pixel : float
        Number of pixels that is added to the difference of two edges, 1 in the devkit.

    Returns
    -------
    outcome, partner, overlap : ndarrays of shape (n,)
        See `lapsvm.evaluation.boxes.matching.Matches`.
    """
    taken: set[int] = set()
    outcomes, partners, overlaps = [], [], []
    for box, image in zip(boxes.tolist(), images.tolist(), strict=True):
        rows = range(offsets[image], offsets[image + 1])
        values = [overlap(box, objects[row].tolist(), pixel) for row in rows]
        largest = max(values, default=0.0)
        enough = largest > 0 and (largest > threshold if strict else largest >= threshold)
        partner = rows[values.index(largest)] if enough else -1
        outcomes.append(_outcome(partner, difficult, taken))
        partners.append(partner)
        overlaps.append(largest)
    return np.array(outcomes, dtype=np.int8), np.array(partners, dtype=np.intp), np.array(overlaps, dtype=np.float64)


def _outcome(partner: int, difficult: NDArray[np.uint8], taken: set[int]) -> int:
    """Return 1, 0 or -1 for a detection that found object `partner` (-1: none), and mark the object as taken."""
    if partner >= 0 and difficult[partner]:
        return 0
    if partner < 0 or partner in taken:
        return -1
    taken.add(partner)
    return 1


def pointing_hits(found: Detections, truth: Mapping[str, GroundTruth]) -> list[bool]:
    """Return for every picture with an object whether the centre of its first best detection lies in one."""
    best: dict[str, tuple[float, Box]] = {}
    for image, score, box in zip(found.image_ids, found.scores.tolist(), found.boxes.tolist(), strict=True):
        if image not in best or score > best[image][0]:
            best[image] = score, box
    return [
        image in best and any(has_centre(one, best[image][1]) for one in objects.boxes.tolist())
        for image, objects in truth.items()
        if len(objects.boxes)
    ]


def has_centre(box: Box, window: Box) -> bool:
    """Return whether a half-open box holds the centre of a window; an inverted window has none."""
    if window[0] > window[2] or window[1] > window[3]:
        return False
    x, y = (window[0] + window[2]) / 2, (window[1] + window[3]) / 2
    return box[0] <= x < box[2] and box[1] <= y < box[3]


def average_precision_11point(recall: Sequence[float], precision: Sequence[float], grid: Sequence[float]) -> float:
    """Return the mean over the grid of the best precision at that recall or above (VOC2007)."""
    reached = [[p for p, r in zip(precision, recall, strict=True) if r >= level] for level in grid]
    return sum(max(values, default=0.0) for values in reached) / len(grid)


def average_precision_area(recall: Sequence[float], precision: Sequence[float]) -> float:
    """Return the area under the monotone envelope of precision, as a sum over recall steps (VOC2010 and later)."""
    area = 0.0
    for i, reached in enumerate(recall):
        step = reached - (recall[i - 1] if i else 0.0)
        area += step * max(precision[i:])
    return area


def read_lines(text: bytes) -> tuple[Float64, Index, list[bytes], list[tuple[int, int, int, int]]]:
    """Return every line that is not blank as an odd one, so that Python alone reads the file."""
    odd, start = [], 0
    for number, line in enumerate(text.split(b"\n"), start=1):
        if line.strip(b" \t"):
            odd.append((len(odd), number, start, start + len(line)))
        start += len(line) + 1
    return np.zeros((len(odd), 5)), np.full(len(odd), -1), [], odd


def pixel_figures(values: Sequence[Float64], masks: Sequence[NDArray[np.bool_]]) -> tuple[float, float]:
    """Return pixel AUROC and PRO of a few small pictures, threshold by threshold.

    Regions are found by walking from pixel to pixel. The curves are joined by straight lines.
    """
    joined, inside = np.concatenate([one.ravel() for one in values]), np.concatenate([one.ravel() for one in masks])
    regions = [
        (own, region)
        for own, mask in zip(values, masks, strict=True)
        for region in flood(zip(*np.nonzero(mask), strict=True))
    ]
    false, true, overlap = [0.0], [0.0], [0.0]
    for threshold in sorted(set(joined.tolist()), reverse=True):
        false.append(float((joined[~inside] >= threshold).mean()))
        true.append(float((joined[inside] >= threshold).mean()))
        overlap.append(float(np.mean([np.mean([own[pixel] >= threshold for pixel in one]) for own, one in regions])))
    return _area_up_to(false, true, 1.0), _area_up_to(false, overlap, 0.3)


def _area_up_to(x: Sequence[float], y: Sequence[float], limit: float) -> float:
    """Return the mean height of a curve of straight lines from 0 to `limit`, piece by piece."""
    area = 0.0
    for x1, x2, y1, y2 in zip(x, x[1:], y, y[1:], strict=False):
        if x1 >= limit or x1 == x2:
            continue
        end = min(x2, limit)
        height = y1 + (y2 - y1) * (end - x1) / (x2 - x1)
        area += (end - x1) * (y1 + height) / 2
    return area / limit
