"""The function that writes a format atomically, and exported.json beside it.

That file has the boxes as they were written, and the pictures that they are of. Another program's files may be mended
beside it: what differs is what a person changed.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.annotations.exported import AnnotatedPicture, Annotations
from lapsvm.annotations.table import FORMATS
from lapsvm.errors import DataError, LapsvmError, OptionError
from lapsvm.files import NOT_PARSED, SMALL_FILE, new_folder, read_regular
from lapsvm.pictures.reading import MAX_SIDE

EXPORTED = "exported.json"


def check_export(format_name: str, copy: bool, others: Iterable[str] = ()) -> None:
    """Raise OptionError unless the format is known, and `copy` is False for formats without pictures.

    `others` are formats that the caller writes itself, for the sentence.
    """
    if format_name not in FORMATS:
        names = ", ".join([*FORMATS, *others])
        raise OptionError(f"the parameter format_name must be one of {names}, got {format_name!r}.")
    if copy and not FORMATS[format_name].with_pictures:
        names = " or ".join(name for name, kind in FORMATS.items() if kind.with_pictures)
        raise OptionError(f"the parameter copy goes with a format that holds pictures ({names}), got {format_name}.")


def write_export(annotations: Annotations, folder: str | Path, format_name: str, *, copy: bool = False) -> None:
    """Write annotations as another program reads them, and exported.json if their pictures have an id.

    Parameters
    ----------
    annotations : Annotations
    folder : str or Path
        Must be empty or not exist. It appears with all that belongs in it, or not at all.
    format_name : str
        A name of `lapsvm.annotations.table.FORMATS`.
    copy : bool, default False
        Whether pictures are copied into the folder; otherwise they are links. For "yolo" and "voc".

    Raises
    ------
    OptionError
        If the format is not known, or takes no pictures, or the folder is not empty.
    InputError
        If the format cannot hold a name.
    MissingError
        If a picture that belongs in the folder is no file.
    WriteError
        If the system refuses, for instance because the disk is full.
    """
    check_export(format_name, copy)
    chosen = FORMATS[format_name]
    module = chosen.load()
    annotations.check_names(format_name, module.can_hold)
    with new_folder(folder) as temporary:
        module.write(annotations, temporary, *([copy] if chosen.with_pictures else []))
        _write_exported(annotations, temporary)


def _write_exported(annotations: Annotations, folder: Path) -> None:
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
        If it is not as `write_export` writes it.
    """
    content = read_regular(path, "record of an export", SMALL_FILE)
    try:
        return {entry["name"]: _picture(entry) for entry in json.loads(content)["pictures"]}
    except (LapsvmError, KeyError, TypeError, OverflowError, *NOT_PARSED):
        raise DataError(f"{path} must be as lapsvm export writes it; export again.") from None


def _entry(picture: AnnotatedPicture) -> dict[str, Any]:
    fields = {name: getattr(picture, name) for name in ("id", "name", "pixels", "width", "height", "classes")}
    return {**fields, "boxes": picture.boxes.tolist()}


def _picture(entry: dict[str, Any]) -> AnnotatedPicture:
    boxes = np.array(entry["boxes"], dtype=np.float64).reshape(-1, 4)
    return AnnotatedPicture(
        name=str(entry["name"]),
        path=Path(entry["name"]),
        width=_side(entry["width"]),
        height=_side(entry["height"]),
        classes=tuple(map(str, entry["classes"])),
        boxes=boxes,
        scores=np.zeros(len(boxes)),
        id=str(entry["id"]),
        pixels=str(entry["pixels"]),
    )


def _side(value: Any) -> int:
    """Return the width or height of a picture; ValueError if no picture is that large."""
    if not 0 < int(value) <= MAX_SIDE:
        raise ValueError(value)
    return int(value)
