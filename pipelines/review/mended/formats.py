"""The files of other programs as pictures with boxes: COCO, YOLO, VOC, Label Studio and CVAT."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import unquote

from lapsvm.box_faults import ROTATED, is_rotated
from lapsvm.coco_files import NO_CATEGORY, read_coco
from lapsvm.errors import AnnotationError, DataError
from lapsvm.files import NOT_PARSED, open_regular
from lapsvm.names.matching import files_of_users, name_in_address
from lapsvm.texts.agreement import agreed
from lapsvm.texts.numbers import whole_number
from lapsvm.texts.reading import read_json, read_text
from lapsvm.voc_files import VocObject, read_voc_file, read_xml

from ...settings.limits import listed, shown
from .yolo_files import LISTS, MARKERS, agreed_names, class_names, label_files, other_names

Corners = tuple[float, ...]
SHARES = (1.0, 1.0)
"""The size of a picture whose corners are shares of its sides."""


DIFFICULT = "with a difficult box"
CROWD_REGION = "with a crowd region"
NO_LABEL = "without a label"
APART = "whose label is apart from its shape"
NO_NUMBER = "of a class number without a name"
UNREADABLE = "that cannot be read"
DRAFT = "in a draft that nobody submitted"
CANCELLED = "that was cancelled, as a skipped task is"
MARKS_NOTHING = "a tag or an answer that marks no place and is passed over"
SEVERAL = "that another one of the same task contradicts"


class MendedBox(NamedTuple):
    """A box: its class, x1, y1, x2, y2, and why it is not one whole object in an upright box; "" if it is.

    With a fault it may have neither class nor corners.
    """

    class_name: str
    corners: Corners
    fault: str = ""


@dataclass(frozen=True)
class MendedPicture:
    """A picture of a file.

    Attributes
    ----------
    names : tuple of str
        Names that it may have below the data folder, the preferred one first; with or without a suffix. Without a name
        it has the remarks on the file.
    size : (width, height) or None
        Size in the units of the corners; None if the file does not say, and they are pixels.
    boxes : tuple of MendedBox
    is_submitted : bool
        Whether the file says that a person has looked at it.
    is_marked : bool
        Whether the file says what boxes it has: those of a person or, unchanged, those of the export.
    remarks : tuple of str
        What is passed over in it, each as the end of a sentence that begins with a number of pictures, or for the file
        as a sentence.
    """

    names: tuple[str, ...]
    size: tuple[float, float] | None
    boxes: tuple[MendedBox, ...]
    is_submitted: bool = False
    is_marked: bool = True
    remarks: tuple[str, ...] = ()

    def says_as(self, other: Self) -> bool:
        """Return whether another record of the same picture says the same of it."""
        return (self.size, {*self.boxes}, self.is_marked) == (other.size, {*other.boxes}, other.is_marked)


def remark(sentence: str) -> MendedPicture:
    """Return a remark on a file."""
    return MendedPicture((), None, (), remarks=(sentence,))


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
        return _read_folder(path)
    if path.suffix in (".yaml", ".yml") or path.name in LISTS:
        return _read("yolo", path)
    return _read("cvat" if path.suffix == ".xml" else "label-studio" if _is_list(path) else "coco", path)


def _read_folder(path: Path) -> tuple[str, list[MendedPicture]]:
    """Return the name of the format of a folder, and its pictures; DataError if it holds none or several formats."""
    found = {
        name: next((item for item in markers if (path / item).exists()), "") for name, (markers, _) in _READERS.items()
    }
    present = {name: marker for name, marker in found.items() if marker}
    if len(present) > 1 and "yolo" in present and not any(label_files(path)):
        del present["yolo"]  # a list of classes alone
    if not present:
        names = ", ".join(marker for markers, _ in _READERS.values() for marker in markers)
        raise DataError(f"--merge {path} must be a folder that lapsvm export wrote, with one of {names}.")
    if len(present) > 1:
        got = " and ".join(present.values())
        raise DataError(f"--merge {path} must hold boxes once, got {got}; name the file that was mended.")
    ((name, marker),) = present.items()
    name, pictures = _read(name, path if name == "yolo" else path / marker)
    return name, [*pictures, *_files_beside(path, name)]


def _files_beside(folder: Path, format_name: str) -> Iterator[MendedPicture]:
    """Yield a remark on other files in a folder that may be those that were mended."""
    own = {*_READERS[format_name][0], *_WRITTEN}
    files = [path.name for path in files_of_users(folder, "*") if path.parent == folder and path.suffix in _MENDED]
    if others := [name for name in files if name not in own]:
        yield remark(f"other files in the folder are not read, name one to merge it: {listed(others)}")


def _is_list(path: Path) -> bool:
    with open_regular(path, "file of annotations") as file:
        return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")


def _coco(path: Path) -> Iterator[MendedPicture]:
    file = read_coco(path, boxes=True)
    boxes = defaultdict[object, list[MendedBox]](list)
    for item in file.annotations:
        fault = item.fault or (CROWD_REGION if item.is_crowd else "")
        boxes[item.image_id].append(MendedBox(file.categories[item.category_id], item.corners or (), fault))
    for key in file.without_category:
        boxes[key].append(MendedBox("", (), NO_CATEGORY))
    for key, name in file.file_names.items():
        yield MendedPicture((name,), file.sizes.get(key), tuple(boxes[key]))
    yield from (remark(f"{count:,} {what}") for what, count in file.remarks.items() if count)


def _voc(folder: Path) -> Iterator[MendedPicture]:
    for path in files_of_users(folder, "*.xml"):
        own = unquote(path.stem)
        names = (own, own.replace("__", "/"))
        try:
            file = read_voc_file(path)
        except AnnotationError:
            yield MendedPicture(names, None, (MendedBox("", (), UNREADABLE),))
        else:
            remarks = ("pictures have parts of objects, which are passed over",) if file.n_parts else ()
            boxes = tuple(map(_voc_box, file.objects))
            yield MendedPicture((*file.names[:1], *names), file.size, boxes, remarks=remarks)


def _voc_box(item: VocObject) -> MendedBox:
    corners = () if isinstance(item.box, str) else item.box
    return MendedBox(item.name, corners, item.fault or (DIFFICULT if item.difficult else ""))


def _yolo(path: Path) -> Iterator[MendedPicture]:
    """Yield the pictures of a folder, whose lists of classes must agree, or of the one list that a person named."""
    if path.is_dir():
        root, names = path, agreed_names(path)
    else:
        root, names = path.parent.parent if path.parent.name == "labels" else path.parent, class_names(path)
        yield from map(remark, other_names(root, path))
    for file, _, possible in label_files(root):
        lines = read_text(file, "file of labels", AnnotationError).splitlines()
        boxes = tuple(_yolo_box(line, names) for line in lines if line.strip())
        yield MendedPicture(possible, SHARES, boxes)


def _yolo_box(line: str, names: Mapping[int, str]) -> MendedBox:
    text, *texts = line.split()
    number = whole_number(text)
    try:
        values = [float(text) for text in texts]
    except ValueError:
        return MendedBox("", (), UNREADABLE)
    if number is None or number not in names:
        return MendedBox("", (), NO_NUMBER)
    if len(values) != 4:
        return MendedBox(names[number], (), shape_fault("polygon") if len(values) >= 6 else UNREADABLE)
    x, y, width, height = values
    return MendedBox(names[number], (x - width / 2, y - height / 2, x + width / 2, y + height / 2))


def shape_fault(shape: str) -> str:
    """Return the fault of an annotation whose shape is no upright box."""
    return f"with a shape that is no upright box ({shape})"


def _label_studio(path: Path) -> Iterator[MendedPicture]:
    for number, task in enumerate(read_json(path, "file of tasks", AnnotationError), start=1):
        try:
            yield _label_studio_task(task)
        except _OTHER_FORM:
            name = task.get("id", number) if isinstance(task, dict) else number
            raise AnnotationError(
                f"{path}: task {shown(name)} must be in the form in which lapsvm export writes it."
            ) from None


def _label_studio_task(task: Mapping[str, Any]) -> MendedPicture:
    """Return the picture of a task, with what was submitted or else, as they were exported, its predictions."""
    given, drafts = task.get("annotations") or [], bool(task.get("drafts"))
    submitted = [item for item in given if not item.get("was_cancelled")]
    predicted = [item for item in task.get("predictions") or [] if isinstance(item, dict)]
    results = agreed(("", _label_studio_result(item)) for item in submitted or predicted)
    boxes, size = results.taken.get("", ((MendedBox("", (), SEVERAL),) if results.unequal else (), None))
    cancelled = len(submitted) < len(given)
    if not submitted:
        unsaid = {DRAFT: drafts, CANCELLED: cancelled and bool(predicted)}
        boxes += tuple(MendedBox("", (), fault) for fault, is_so in unsaid.items() if is_so)
    remarks = {
        "pictures have a draft that nobody submitted beside the annotation that counts": drafts and submitted,
        "pictures have an annotation that was cancelled beside one that counts": cancelled and submitted,
        "pictures were skipped, their annotation is cancelled": cancelled and not submitted and not predicted,
        f"pictures have {MARKS_NOTHING}": any(
            str(region.get("type")) in _NO_SHAPES for item in submitted for region in item["result"]
        ),
    }
    return MendedPicture(
        (name_in_address(task["data"]["image"]),),
        size,
        boxes,
        bool(submitted),
        bool(submitted or predicted or drafts),
        tuple(text for text, is_so in remarks.items() if is_so),
    )


def _label_studio_result(annotation: Mapping[str, Any]) -> tuple[tuple[MendedBox, ...], tuple[float, float] | None]:
    """Return the boxes of an annotation, and the size of the picture; one that differs, if its regions have several."""
    boxes, sizes = list[MendedBox](), list[tuple[float, float]]()
    for region in annotation["result"]:
        found = _label_studio_boxes(region)
        boxes += found
        if any(box.corners for box in found):
            sizes.append((float(region["original_width"]), float(region["original_height"])))
    return tuple(boxes), next((item for item in sizes if item != sizes[0]), sizes[0]) if sizes else None


def _label_studio_boxes(region: Mapping[str, Any]) -> list[MendedBox]:
    """Return a box for each label of a region; none for what is no shape, such as a choice."""
    kind = str(region.get("type"))
    if kind in _NO_SHAPES:
        return []
    if kind in ("rectangle", "labels"):
        return [MendedBox("", (), APART)]
    if kind != "rectanglelabels":
        return [MendedBox("", (), shape_fault(kind.removesuffix("labels") or kind))]
    value = region["value"]
    labels = value.get("rectanglelabels")
    if not isinstance(labels, list) or not labels:
        return [MendedBox("", (), NO_LABEL)]
    width, height = float(region["original_width"]), float(region["original_height"])
    x, y, across, down = (float(value[name]) for name in ("x", "y", "width", "height"))
    corners = (x * width / 100, y * height / 100, (x + across) * width / 100, (y + down) * height / 100)
    is_turned = is_rotated(value.get("rotation")) or is_rotated(region.get("image_rotation"))
    return [MendedBox(str(label), corners, ROTATED if is_turned else "") for label in labels]


def _cvat(path: Path) -> Iterator[MendedPicture]:
    root = read_xml(path)
    if root.tag != "annotations":
        raise AnnotationError(f"{path} must have the root <annotations>, got <{root.tag}>.")
    for image in root.iter("image"):
        width, height = (_number(image.get(side), path) for side in ("width", "height"))
        boxes = tuple(_cvat_box(item, path) for item in image if item.tag != "tag")  # a tag is of the whole picture
        remarks = (f"pictures have {MARKS_NOTHING}",) if image.find("tag") is not None else ()
        yield MendedPicture((image.get("name", ""),), (width, height), boxes, remarks=remarks)
    if tracks := root.findall("track"):
        count = sum(1 for track in tracks for shape in track if shape.get("outside") != "1")
        yield remark(
            f"{count:,} boxes and shapes of {len(tracks):,} tracks are left out, which name frames and no pictures; "
            "export as CVAT for images"
        )


def _cvat_box(shape: Any, path: Path) -> MendedBox:
    label = shape.get("label", "")
    if shape.tag != "box":
        return MendedBox(label, (), shape_fault(str(shape.tag)))
    corners = tuple(_number(shape.get(side), path) for side in ("xtl", "ytl", "xbr", "ybr"))
    fault = ROTATED if is_rotated(shape.get("rotation")) else "" if label else NO_LABEL
    return MendedBox(label, corners, fault)


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
    except _OTHER_FORM:
        raise AnnotationError(f"{path} must be in the form in which lapsvm export writes it.") from None


_OTHER_FORM = (LookupError, TypeError, AttributeError, StopIteration, RuntimeError, OverflowError, *NOT_PARSED)
_MENDED = (".json", ".xml", ".yaml", ".yml")
_WRITTEN = ("exported.json", "results.json", "labels.xml")
"""Files that exports write besides those that come back."""
_NO_SHAPES = frozenset(
    {"choices", "textarea", "rating", "number", "datetime", "taxonomy", "relation", "pairwise", "ranker"}
)
"""What a person says in Label Studio that marks nothing."""

_READERS: Mapping[str, tuple[tuple[str, ...], Callable[[Path], Iterator[MendedPicture]]]] = {
    "yolo": (MARKERS, _yolo),
    "voc": (("Annotations",), _voc),
    "coco": (("annotations.json",), _coco),
    "label-studio": (("tasks.json",), _label_studio),
    "cvat": (("annotations.xml",), _cvat),
}
