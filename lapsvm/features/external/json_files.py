"""Windows from JSON: a table by picture, or a list of proposals as COCO's tools write them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lapsvm.errors import ExternalFileError
from lapsvm.features.external.arrays import is_index, open_npy
from lapsvm.features.external.windows import (
    TRUTH_NAME,
    ArrayNames,
    BoxConvention,
    ExternalSource,
    ExternalWindows,
    checked_windows,
)
from lapsvm.files import NOT_PARSED, read_regular


@dataclass(frozen=True)
class JsonTable:
    """A JSON object: picture -> an object with boxes and perhaps features and ``gt``, or a list of boxes.

    Attributes
    ----------
    where : str
    entries : mapping of name to an entry
    names : ArrayNames
    convention : BoxConvention
    has_features : bool
    """

    where: str
    entries: Mapping[str, Any]
    names: ArrayNames
    convention: BoxConvention
    has_features: bool

    @property
    def keys(self) -> tuple[str, ...]:
        """The pictures' names."""
        return tuple(self.entries)

    def read(self, key: str, features: bool = True) -> ExternalWindows:
        """Return the windows of a picture."""
        where, entry = f"{self.where}, picture {key}", self.entries[key]
        if isinstance(entry, list):
            entry = {self.names.boxes or "boxes": entry}
        if not isinstance(entry, dict):
            raise ExternalFileError(f"{where} must be an object or a list of boxes, got {type(entry).__name__}.")
        boxes = entry[self.names.boxes_in(entry, where)]
        name = self.names.features_in(entry, where) if features else None
        if features and self.has_features and name is None:
            raise ExternalFileError(f"{where} must hold features as the other pictures do, got boxes alone.")
        return checked_windows(where, boxes, None if name is None else entry[name], entry.get(TRUTH_NAME))


def open_json(path: Path, names: ArrayNames) -> ExternalSource:
    """Open a JSON file: a table by picture, a list of proposals, or an index of ``.npy`` files.

    A table is ``{"000012": {"boxes": [[x1, y1, x2, y2], ...], "features": [[...], ...]}}``; features may be left out,
    and so may the inner object: ``{"000012": [[x1, y1, x2, y2], ...]}``. Boxes are 0-based and half-open. A list is
    ``[{"image_id": 12, "bbox": [x, y, width, height], "score": 0.9}, ...]``; where all have a score, the best come
    first. An index is that of `lapsvm.features.external.arrays.open_npy`.

    Raises
    ------
    ExternalFileError
        If it is no JSON, has a key twice, holds annotations of objects, or is something else.
    """
    content = _content(path)
    if is_index(content):
        return open_npy(path, names)
    if isinstance(content, list):
        return JsonTable(str(path), _grouped(content, str(path)), names, BoxConvention("xywh"), has_features=False)
    if not isinstance(content, dict) or not content:
        raise ExternalFileError(f"{path} must hold an object or a list of pictures, got {type(content).__name__}.")
    if "annotations" in content:
        raise ExternalFileError(f"{path} holds annotations, which are ground truth and no proposals.")
    first = next(iter(content.values()))
    has_features = isinstance(first, dict) and names.features_in(first, str(path)) is not None
    return JsonTable(str(path), content, names, BoxConvention(), has_features)


def _content(path: Path) -> Any:
    """Return the content of a file, with no key twice."""

    def unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise ExternalFileError(f"{path} must name each picture once, got {key!r} twice.")
            found[key] = value
        return found

    try:
        return json.loads(read_regular(path, "file").decode("utf-8-sig"), object_pairs_hook=unique)
    except ExternalFileError:
        raise
    except NOT_PARSED as error:
        raise ExternalFileError(f"{path} is truncated, or no JSON: {error}.") from None


def _grouped(proposals: Sequence[Any], where: str) -> dict[str, dict[str, Any]]:
    """Return picture -> its boxes, in file order, or by falling score where all have one."""
    found: dict[str, list[Any]] = {}
    for place, one in enumerate(proposals):
        if not isinstance(one, dict) or not isinstance(one.get("image_id"), int | str) or "bbox" not in one:
            raise ExternalFileError(f"{where}: entry {place} must have an image_id and a bbox, got {_shown(one)}.")
        found.setdefault(str(one["image_id"]), []).append(one)
    for key, own in found.items():
        if all(isinstance(one.get("score"), int | float) for one in own):
            if any(one["score"] != one["score"] for one in own):
                raise ExternalFileError(f"{where}, picture {key}: scores must be numbers, got NaN.")
            own.sort(key=lambda one: -one["score"])
    return {key: {"boxes": [one["bbox"] for one in own]} for key, own in found.items()}


def _shown(entry: Any) -> str:
    """Return an entry for a sentence, without what is nested in it."""
    return f"the keys {', '.join(list(entry)[:9])}" if isinstance(entry, dict) else f"a {type(entry).__name__}"
