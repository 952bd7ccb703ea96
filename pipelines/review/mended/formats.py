"""The files of other programs as pictures with boxes: COCO, YOLO, VOC, Label Studio and CVAT."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from lapsvm.boxes import from_voc
from lapsvm.coco_files import read_coco
from lapsvm.errors import AnnotationError, DataError
from lapsvm.files import NOT_PARSED, open_regular, read_regular
from lapsvm.voc_files import read_voc_file, read_xml

Corners = tuple[float, ...]
SHARES = (1.0, 1.0)
"""The size of a picture whose corners are shares of its sides."""


class MendedBox(NamedTuple):
    """A box: its class, x1, y1, x2, y2, and whether it is one whole object, upright and not difficult."""

    class_name: str
    corners: Corners
    is_plain: bool = True


@dataclass(frozen=True)
class MendedPicture:
    """A picture of a file.

    Attributes
    ----------
    names : tuple of str
        Names that it may have below the data folder, the preferred one first; with or without a suffix.
    size : (width, height) or None
        Size in the units of the corners; None if the file does not say, and they are pixels.
    boxes : tuple of MendedBox
    is_submitted : bool
        Whether the file says that a person has looked at it.
    """

    names: tuple[str, ...]
    size: tuple[float, float] | None
    boxes: tuple[MendedBox, ...]
    is_submitted: bool = False


def read_mended(path: Path) -> tuple[str, list[MendedPicture]]:
    """Return the name of a format, and the pictures of a file or folder of this format.

    Raises
    ------
    DataError
        If it is of no known format, or breaks a rule of its own.
    MissingError
        If it is not there.
    """
    if path.is_dir():
        found = next((name for name, (marker, _) in _READERS.items() if (path / marker).exists()), None)
        if found is None:
            markers = ", ".join(marker for marker, _ in _READERS.values())
            raise DataError(f"{path} must be a folder that lapsvm export wrote, with one of {markers}.")
        return _read(found, path / _READERS[found][0])
    return _read("cvat" if path.suffix == ".xml" else "label-studio" if _is_list(path) else "coco", path)


def _is_list(path: Path) -> bool:
    with open_regular(path, "file of annotations") as file:
        return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")


def _coco(path: Path) -> Iterator[MendedPicture]:
    file = read_coco(path, boxes=True, strict=False)
    boxes = defaultdict[object, list[MendedBox]](list)
    for one in file.annotations:
        is_plain = one.corners is not None and not one.is_crowd
        box = MendedBox(file.categories[one.category_id], one.corners or (), is_plain)
        boxes[one.image_id].append(box)
    for key, name in file.file_names.items():
        yield MendedPicture((name,), file.sizes.get(key), tuple(boxes[key]))


def _voc(folder: Path) -> Iterator[MendedPicture]:
    for path in sorted(folder.glob("*.xml")):
        file = read_voc_file(path)
        own = unquote(path.stem)
        corners = from_voc(np.array([one.corners for one in file.objects]).reshape(-1, 4)).tolist()
        pairs = zip(file.objects, corners, strict=True)
        boxes = (MendedBox(one.name, tuple(box), not one.difficult) for one, box in pairs)
        yield MendedPicture((*file.names[:1], own, own.replace("__", "/")), file.size, tuple(boxes))


def _yolo(settings: Path) -> Iterator[MendedPicture]:
    names, seen = _yolo_names(settings), dict[str, MendedPicture]()
    labels = settings.parent / "labels"
    for path in sorted(labels.rglob("*.txt")):
        _, *folders, last = path.relative_to(labels).parts
        place = "/".join([*folders, last.removesuffix(".txt")])
        lines = read_regular(path, "file of labels").decode("utf-8", "replace").splitlines()
        boxes = tuple(_yolo_box(path, line, names) for line in lines if line.strip())
        original = re.sub(r"(^|/)images_(?=/)", r"\1images", place)
        picture = MendedPicture((place, original), SHARES, boxes)
        if seen.setdefault(place, picture) != picture:
            raise AnnotationError(f"{path} must have the boxes of the same picture in another part, but they differ.")
    yield from seen.values()


def _yolo_box(path: Path, line: str, names: Mapping[str, str]) -> MendedBox:
    number, *values = line.split()
    if number not in names or len(values) != 4:
        raise AnnotationError(f"{path}: a row must be a class of data.yaml and four numbers, got {line!r}.")
    x, y, width, height = (_number(value, path) for value in values)
    return MendedBox(names[number], (x - width / 2, y - height / 2, x + width / 2, y + height / 2))


def _yolo_names(path: Path) -> dict[str, str]:
    """Return number -> class name of data.yaml: a table, or a list in one line or several."""
    text = read_regular(path, "settings").decode("utf-8", "replace")
    block = re.search(r"^names:[ \t]*(\[.*?\])?[ \t]*\n?((?:[ \t]+.*\n?|- .*\n?)*)", text, re.MULTILINE)
    if block is None:
        raise AnnotationError(f"{path} must have the names of classes.")
    if block[1]:
        found = re.findall(r"'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\"|[^\[\],\s][^\[\],]*", block[1])
        return {str(number): _unquoted(name) for number, name in enumerate(found)}
    rows = [row.strip() for row in block[2].splitlines() if row.strip()]
    pairs = (row.split(":", 1) if not row.startswith("- ") else (str(at), row[2:]) for at, row in enumerate(rows))
    return {number.strip(): _unquoted(name) for number, name in pairs}


def _unquoted(text: str) -> str:
    """Return a word of YAML as text."""
    text = text.strip()
    if text[:1] == "'":
        return text[1:-1].replace("''", "'")
    return str(json.loads(text)) if text[:1] == '"' else text


def _label_studio(path: Path) -> Iterator[MendedPicture]:
    for task in json.loads(read_regular(path, "file of tasks").decode("utf-8-sig")):
        annotations = [one for one in task.get("annotations", []) if not one.get("was_cancelled")]
        predictions = task.get("predictions", [])
        chosen = (annotations or [one for one in predictions if isinstance(one, dict)] or [{"result": []}])[-1]
        regions = [one for one in chosen["result"] if one.get("type") == "rectanglelabels"]
        address = urlsplit(task["data"]["image"])
        name = parse_qs(address.query).get("d", [unquote(address.path)])[0]
        sizes = [(float(one["original_width"]), float(one["original_height"])) for one in regions]
        boxes = [_label_studio_box(one, *size) for one, size in zip(regions, sizes, strict=True)]
        yield MendedPicture((name,), sizes[0] if sizes else None, tuple(boxes), bool(annotations))


def _label_studio_box(region: Mapping[str, Any], width: float, height: float) -> MendedBox:
    value = region["value"]
    x, y, across, down = (float(value[name]) for name in ("x", "y", "width", "height"))
    corners = (x * width / 100, y * height / 100, (x + across) * width / 100, (y + down) * height / 100)
    return MendedBox(str(value["rectanglelabels"][0]), corners, not value.get("rotation"))


def _cvat(path: Path) -> Iterator[MendedPicture]:
    root = read_xml(path)
    if root.tag != "annotations":
        raise AnnotationError(f"{path} must have the root <annotations>, got <{root.tag}>.")
    for image in root.iter("image"):
        width, height = (_number(image.get(side), path) for side in ("width", "height"))
        boxes = (_cvat_box(one, path) for one in image.iter("box"))
        yield MendedPicture((image.get("name", ""),), (width, height), tuple(boxes))


def _cvat_box(box: Any, path: Path) -> MendedBox:
    corners = tuple(_number(box.get(side), path) for side in ("xtl", "ytl", "xbr", "ybr"))
    return MendedBox(box.get("label", ""), corners, not _number(box.get("rotation", "0"), path))


def _number(text: str | None, path: Path) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise AnnotationError(f"{path} must have numbers as sizes and boxes, got {text!r}.") from None


def _read(name: str, path: Path) -> tuple[str, list[MendedPicture]]:
    """Return the name of a format and the pictures of a file; errors on one of another form are one sentence."""
    try:
        return name, list(_READERS[name][1](path))
    except (DataError, OSError):
        raise
    except (LookupError, TypeError, AttributeError, StopIteration, RuntimeError, *NOT_PARSED):
        raise AnnotationError(f"{path} must be in the form in which lapsvm export writes it.") from None


_READERS: Mapping[str, tuple[str, Callable[[Path], Iterator[MendedPicture]]]] = {
    "yolo": ("data.yaml", _yolo),
    "voc": ("Annotations", _voc),
    "coco": ("annotations.json", _coco),
    "label-studio": ("tasks.json", _label_studio),
    "cvat": ("annotations.xml", _cvat),
}
