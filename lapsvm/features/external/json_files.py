"""Windows from JSON: a table by picture, or a list of proposals in COCO's result format."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lapsvm.annotations.coco import as_id
from lapsvm.errors import ExternalFileError
from lapsvm.features.external.windows import ArrayNames, BoxConvention, ExternalSource, ExternalWindows
from lapsvm.texts.reading import read_json


def _source(
    where: str, entries: Mapping[str, Any], names: ArrayNames, convention: BoxConvention, has_features: bool
) -> ExternalSource:
    """Return the source of a table: name of a picture -> its boxes, or an object with arrays."""

    def read(key: str, features: bool) -> ExternalWindows:
        location, entry = f"{where}, picture {key}", entries[key]
        if isinstance(entry, list):
            entry = {names.boxes or "boxes": entry}
        if not isinstance(entry, dict):
            raise ExternalFileError(f"{location} must be an object or a list of boxes, got {type(entry).__name__}.")
        return names.windows(location, entry, features)

    return ExternalSource(where, tuple(entries), convention, has_features, read)


def open_json(path: Path, names: ArrayNames) -> ExternalSource:
    """Open a JSON file: a table by picture, or a list of proposals.

    A table is ``{"000012": {"boxes": [[x1, y1, x2, y2], ...], "features": [[...], ...]}}``; features are optional, as
    are ``gt`` and ``objectness``, and so is the inner object: ``{"000012": [[x1, y1, x2, y2], ...]}``. Boxes are
    0-based and half-open. A list is ``[{"image_id": 12, "bbox": [x, y, width, height], "score": 0.9}, ...]``; if all
    have a score, they are sorted by it, best first.

    Raises
    ------
    ExternalFileError
        If it is no JSON, repeats a key, holds annotations of objects, or has another structure.
    """
    content = read_json(path, "file", ExternalFileError, unique=True)
    if isinstance(content, list) and content:
        return _source(str(path), _grouped(content, str(path)), names, BoxConvention("xywh"), has_features=False)
    if not isinstance(content, dict) or not content:
        got = type(content).__name__ if content else "none"
        raise ExternalFileError(f"{path} must hold an object or a list of pictures, got {got}.")
    if "annotations" in content:
        raise ExternalFileError(f"{path} holds annotations, which are ground truth and no proposals.")
    first = next(iter(content.values()))
    has_features = isinstance(first, dict) and names.features_in(first, str(path)) is not None
    return _source(str(path), content, names, BoxConvention(), has_features)


def _grouped(proposals: Sequence[Any], where: str) -> dict[str, dict[str, Any]]:
    """Return the boxes of each picture, in file order, or by falling score if all have one."""
    by_picture: dict[str, list[Any]] = {}
    for number, entry in enumerate(proposals):
        image_id = as_id(entry.get("image_id")) if isinstance(entry, dict) else None
        if image_id is None or "bbox" not in entry:
            raise ExternalFileError(f"{where}: entry {number} must have an image_id and a bbox, got {str(entry)[:80]}.")
        by_picture.setdefault(str(image_id), []).append(entry)
    for key, entries in by_picture.items():
        if all(isinstance(entry.get("score"), int | float) for entry in entries):
            if any(entry["score"] != entry["score"] for entry in entries):
                raise ExternalFileError(f"{where}, picture {key}: scores must be numbers, got NaN.")
            entries.sort(key=lambda entry: -entry["score"])
    return {key: {"boxes": [entry["bbox"] for entry in entries]} for key, entries in by_picture.items()}
