"""Detections whose boxes make no sense in their pictures, and in which other order their numbers would."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.box_faults import EMPTY, OUTSIDE, REACH, SHARES, are_shares
from lapsvm.evaluation import Detections
from lapsvm.ground_truth import Size

CORNERS, WIDTHS = "x1, y1, x2, y2", "x, y, width, height"
_READINGS: Mapping[str, Callable[[Float64, Float64, Float64, Float64], Sequence[Float64]]] = {
    CORNERS: lambda a, b, c, d: (a, b, c, d),
    WIDTHS: lambda a, b, c, d: (a, b, a + c, b + d),
    "x, y of the middle, width, height": lambda a, b, c, d: (a - c / 2, b - d / 2, a + c / 2, b + d / 2),
    "y1, x1, y2, x2": lambda a, b, c, d: (b, a, d, c),
    "y, x, height, width": lambda a, b, c, d: (b, a, b + d, a + c),
}
"""What four numbers may mean, and the corners of a box that they then are."""
_FEW = 0.02
"""Share of boxes without sense from which another order of the numbers is looked for."""
_MANY = 0.1
"""Share of boxes mostly outside of their pictures from which these are named: detectors may reach out a little."""


class PlacedBoxes(NamedTuple):
    """Boxes (n, 4), and the width and height of the picture of each, (n, 2); infinite where they are not known."""

    boxes: Float64
    sizes: Float64


def placed_boxes(detections: Iterable[Detections], sizes: Mapping[str, Size]) -> PlacedBoxes:
    """Return the boxes of detections of all classes with the sizes of their pictures."""
    boxes, places = [np.empty((0, 4))], [np.empty((0, 2))]
    for of_class in detections:
        names = of_class.image_ids.names
        known = np.array([sizes.get(name, (np.inf, np.inf)) for name in names], np.float64).reshape(-1, 2)
        boxes.append(of_class.boxes)
        places.append(known[of_class.image_ids.places])
    return PlacedBoxes(np.concatenate(boxes), np.concatenate(places))


def reading_sentence(placed: PlacedBoxes, reading: str) -> str:
    """Return how many boxes make no sense as they are read, and what their numbers may be; "" if all do.

    Parameters
    ----------
    placed : PlacedBoxes
    reading : {CORNERS, WIDTHS}
        In which order the file has its four numbers.
    """
    total, counts = len(placed.boxes), _counts(placed)
    fault = next((name for name, count in counts.items() if count), "")
    if not fault:
        return ""
    other = "" if fault == SHARES or counts[fault] < _FEW * total else _fitting(placed, reading)
    if fault == OUTSIDE and not other and np.sum(_inside_shares(placed) < 0.5) < _MANY * total:
        return ""
    asked = f"; are their numbers {other}, and not {reading}?" if other else ""
    effect = "matches objects badly" if fault == OUTSIDE else "matches no object"
    return f"{counts[fault]:,} of {total:,} detections are {fault}, which {effect}{asked}"


def _counts(placed: PlacedBoxes) -> dict[str, int]:
    """Return fault -> number of boxes, the gravest first."""
    boxes, limits = placed
    is_empty = (boxes[:, :2] >= boxes[:, 2:]).any(axis=1)
    n_shares = len(boxes) * are_shares(boxes)
    return {EMPTY: int(is_empty.sum()), SHARES: n_shares, OUTSIDE: int((~_fits(boxes, limits) & ~is_empty).sum())}


def _fits(boxes: Float64, limits: Float64) -> Array:
    """Return whether each box has an area and lies in its picture, but for `REACH`."""
    low, high = boxes[:, :2], boxes[:, 2:]
    return np.asarray(((low < high) & (low >= -REACH) & (high <= limits + REACH)).all(axis=1))


def _inside_shares(placed: PlacedBoxes) -> Float64:
    """Return which share of each box lies in its picture."""
    low, high = placed.boxes[:, :2], placed.boxes[:, 2:]
    inside = np.clip(np.minimum(high, placed.sizes) - np.maximum(low, 0), 0, None).prod(axis=1)
    areas = np.clip(high - low, 0, None).prod(axis=1)
    return np.asarray(np.divide(inside, areas, out=np.zeros_like(areas), where=areas > 0))


def _fitting(placed: PlacedBoxes, reading: str) -> str:
    """Return the first other order of the numbers in which all boxes lie in pictures of known sizes; "" for none."""
    if not np.isfinite(placed.sizes).all():
        return ""
    numbers = placed.boxes.copy()
    if reading == WIDTHS:
        numbers[:, 2:] -= numbers[:, :2]
    others = (name for name in _READINGS if name != reading)
    return next(
        (name for name in others if _fits(np.stack(_READINGS[name](*numbers.T), axis=1), placed.sizes).all()), ""
    )
