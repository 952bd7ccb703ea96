"""Detections of a picture as JSON can hold them: what `lapsvm predict` writes."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from lapsvm.arrays import as_floats, check_finite, check_same_length
from lapsvm.boxes import as_boxes


def to_json(
    image: str, width: int, height: int, detections: Mapping[str, tuple[ArrayLike, ArrayLike]]
) -> dict[str, Any]:
    """Return the detections of one picture as one JSON object.

    Boxes are in the house's convention: x1, y1, x2, y2 in pixels from the upper left corner of the picture, 0-based,
    x2 and y2 one past the last pixel, so that x2 - x1 is the width.

    Parameters
    ----------
    image : str
        Name of the picture.
    width, height : int
        Its size in pixels.
    detections : mapping of class name to (boxes (n, 4), scores (n,))
        As `detect` returns them.

    Returns
    -------
    dict
        ``{"image", "width", "height", "detections": [{"class", "score", "box": [x1, y1, x2, y2]}, ...]}``, the best
        score of all classes first; equal scores in the order given.

    Raises
    ------
    ShapeError, NotFiniteError
        If boxes and scores do not fit, or a number is NaN or infinite.
    """
    found = [one for name, (boxes, scores) in detections.items() for one in _of_class(name, boxes, scores)]
    found.sort(key=lambda one: -one["score"])
    return {"image": image, "width": int(width), "height": int(height), "detections": found}


def _of_class(name: str, boxes: ArrayLike, scores: ArrayLike) -> list[dict[str, Any]]:
    """Return the objects of one class."""
    places, values = as_boxes(boxes), as_floats("scores", scores, 1)
    check_finite("boxes", places)
    check_same_length("boxes", places, "scores", values)
    pairs = zip(values.tolist(), places.tolist(), strict=True)
    return [{"class": name, "score": score, "box": box} for score, box in pairs]
