"""exported.json: the boxes as `lapsvm export` wrote them, and the pictures that they are of.

Beside it another program's files may be mended: what differs is what a person changed.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.detection.export.annotations import AnnotatedPicture, Annotations
from lapsvm.errors import DataError, LapsvmError
from lapsvm.files import NOT_PARSED, SMALL_FILE, read_regular

EXPORTED = "exported.json"


def write_exported(annotations: Annotations, folder: Path) -> None:
    """Write the file, unless no picture has an id: then there is no run that could take boxes back."""
    if any(picture.id for picture in annotations.pictures):
        content = {"set": annotations.set_name, "pictures": [_entry(picture) for picture in annotations.pictures]}
        (folder / EXPORTED).write_text(json.dumps(content) + "\n", encoding="utf-8")


def read_exported(path: Path) -> dict[str, AnnotatedPicture]:
    """Return picture name -> picture as it was exported; scores are 0, and `path` is the name.

    Raises
    ------
    MissingError
        If there is no such file.
    DataError
        If it is not as `write_exported` writes it.
    """
    content = read_regular(path, "record of an export", SMALL_FILE)
    try:
        return {entry["name"]: _picture(entry) for entry in json.loads(content)["pictures"]}
    except (LapsvmError, KeyError, TypeError, *NOT_PARSED):
        raise DataError(f"{path} must be as lapsvm export writes it; export again.") from None


def _entry(picture: AnnotatedPicture) -> dict[str, Any]:
    fields = {name: getattr(picture, name) for name in ("id", "name", "pixels", "width", "height", "classes")}
    return {**fields, "boxes": picture.boxes.tolist()}


def _picture(entry: dict[str, Any]) -> AnnotatedPicture:
    boxes = np.array(entry["boxes"], dtype=np.float64).reshape(-1, 4)
    return AnnotatedPicture(
        name=str(entry["name"]),
        path=Path(entry["name"]),
        width=int(entry["width"]),
        height=int(entry["height"]),
        classes=tuple(map(str, entry["classes"])),
        boxes=boxes,
        scores=np.zeros(len(boxes)),
        id=str(entry["id"]),
        pixels=str(entry["pixels"]),
    )
