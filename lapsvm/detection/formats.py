"""JSON form of the detections of a picture, as `lapsvm predict` writes it."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from lapsvm.arrays import as_floats, check_finite, check_same_length
from lapsvm.boxes import as_boxes


def to_json(
    image: str,
    width: int,
    height: int,
    detections: Mapping[str, tuple[ArrayLike, ArrayLike]],
    probabilities: Mapping[str, ArrayLike] | None = None,
) -> dict[str, Any]:
    """Return the detections of one picture as one JSON object.

    Boxes are x1, y1, x2, y2 in pixels from the upper left corner of the picture, 0-based and half-open, so that
    x2 - x1 is the width.

    Parameters
    ----------
    image : str
        Name of the picture.
    width, height : int
        Its size in pixels.
    detections : mapping of class name to (boxes (n, 4), scores (n,))
        As `detect` returns them.
    probabilities : mapping of class name to array-like of shape (n,), optional
        Of the boxes of classes that have some, as `Detector.probability` returns them.

    Returns
    -------
    dict
        ``{"image", "width", "height", "detections": [{"class", "score", "box": [x1, y1, x2, y2]}, ...]}``, sorted
        by descending score over all classes; equal scores in the given order. Detections of classes with
        probabilities have the key ``"probability"``, too.

    Raises
    ------
    ShapeError, NotFiniteError
        If boxes and scores do not fit, or a number is NaN or infinite.
    """
    known = probabilities or {}
    entries = [entry for name, found in detections.items() for entry in _of_class(name, *found, known.get(name))]
    entries.sort(key=lambda entry: -entry["score"])
    return {"image": image, "width": int(width), "height": int(height), "detections": entries}


def _of_class(name: str, boxes: ArrayLike, scores: ArrayLike, probabilities: ArrayLike | None) -> list[dict[str, Any]]:
    """Return the entries of one class."""
    corners, values = as_boxes(boxes), as_floats("scores", scores, 1)
    check_finite("boxes", corners)
    check_same_length("boxes", corners, "scores", values)
    shares = None if probabilities is None else as_floats("probabilities", probabilities, 1)
    if shares is not None:
        check_same_length("boxes", corners, "probabilities", shares)
    more = [{} if shares is None else {"probability": float(shares[row])} for row in range(len(values))]
    rows = zip(values.tolist(), more, corners.tolist(), strict=True)
    return [{"class": name, "score": score, **share, "box": box} for score, share, box in rows]
