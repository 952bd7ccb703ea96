"""Label Studio: tasks.json with pre-annotations, and labels.xml, the labelling interface they belong to.

Boxes are percent of the picture. Scores stand in ``predictions``, never in annotations. Pictures are named as the local
file storage serves them: ``/data/local-files/?d=<data folder>/<path>``, where the document root is the parent of the
data folder.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from lapsvm.annotations.exported import AnnotatedPicture, Annotations
from lapsvm.annotations.names import is_xml_line as can_hold
from lapsvm.annotations.pictures import (
    MARKS_NOTHING,
    NO_LABEL,
    OTHER_FORM,
    AnnotatedFile,
    FileBox,
    FilePicture,
    shape_fault,
)
from lapsvm.box_faults import ROTATED, is_rotated
from lapsvm.errors import AnnotationError
from lapsvm.files import open_regular
from lapsvm.names.matching import name_in_address
from lapsvm.texts.agreement import agreed
from lapsvm.texts.reading import read_json
from lapsvm.texts.sentences import shown

__all__ = ["can_hold", "owns", "read", "write"]
LABEL_STUDIO_FILES = "/data/local-files/?d="
APART = "whose label is apart from its shape"
DRAFT = "in a draft that nobody submitted"
CANCELLED = "that was cancelled, as a skipped task is"
SEVERAL = "that another one of the same task contradicts"
_NO_SHAPES = frozenset(
    {"choices", "textarea", "rating", "number", "datetime", "taxonomy", "relation", "pairwise", "ranker"}
)
"""What a person says in Label Studio that marks nothing."""


def owns(path: Path) -> bool:
    """Return whether a named file is of this format: a list of JSON."""
    if path.suffix.lower() != ".json":
        return False
    with open_regular(path, "file of annotations") as file:
        return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")


def read(path: Path) -> AnnotatedFile:
    """Return the pictures of a file of tasks."""
    pictures = []
    for number, task in enumerate(read_json(path, "file of tasks", AnnotationError), start=1):
        try:
            pictures.append(_picture(task))
        except OTHER_FORM:
            name = task.get("id", number) if isinstance(task, dict) else number
            raise AnnotationError(
                f"{path}: task {shown(name)} must be in the form in which lapsvm export writes it."
            ) from None
    return AnnotatedFile(pictures)


def _picture(task: Mapping[str, Any]) -> FilePicture:
    """Return the picture of a task, with what was submitted or else, as they were exported, its predictions."""
    given, drafts = task.get("annotations") or [], bool(task.get("drafts"))
    submitted = [item for item in given if not item.get("was_cancelled")]
    predicted = [item for item in task.get("predictions") or [] if isinstance(item, dict)]
    results = agreed(("", _result(item)) for item in submitted or predicted)
    boxes, size = results.taken.get("", ((FileBox("", (), SEVERAL),) if results.unequal else (), None))
    cancelled = len(submitted) < len(given)
    if not submitted:
        unsaid = {DRAFT: drafts, CANCELLED: cancelled and bool(predicted)}
        boxes += tuple(FileBox("", (), fault) for fault, is_so in unsaid.items() if is_so)
    remarks = {
        "pictures have a draft that nobody submitted beside the annotation that counts": drafts and submitted,
        "pictures have an annotation that was cancelled beside one that counts": cancelled and submitted,
        "pictures were skipped, their annotation is cancelled": cancelled and not submitted and not predicted,
        f"pictures have {MARKS_NOTHING}": any(
            str(region.get("type")) in _NO_SHAPES for item in submitted for region in item["result"]
        ),
    }
    return FilePicture(
        (name_in_address(task["data"]["image"]),),
        size,
        boxes,
        bool(submitted),
        bool(submitted or predicted or drafts),
        tuple(text for text, is_so in remarks.items() if is_so),
    )


def _result(annotation: Mapping[str, Any]) -> tuple[tuple[FileBox, ...], tuple[float, float] | None]:
    """Return the boxes of an annotation, and the size of the picture; one that differs, if its regions have several."""
    boxes, sizes = list[FileBox](), list[tuple[float, float]]()
    for region in annotation["result"]:
        of_region = _region_boxes(region)
        boxes += of_region
        if any(box.corners for box in of_region):
            sizes.append((float(region["original_width"]), float(region["original_height"])))
    return tuple(boxes), next((item for item in sizes if item != sizes[0]), sizes[0]) if sizes else None


def _region_boxes(region: Mapping[str, Any]) -> list[FileBox]:
    """Return a box for each label of a region; none for what is no shape, such as a choice."""
    kind = str(region.get("type"))
    if kind in _NO_SHAPES:
        return []
    if kind in ("rectangle", "labels"):
        return [FileBox("", (), APART)]
    if kind != "rectanglelabels":
        return [FileBox("", (), shape_fault(kind.removesuffix("labels") or kind))]
    value = region["value"]
    labels = value.get("rectanglelabels")
    if not isinstance(labels, list) or not labels:
        return [FileBox("", (), NO_LABEL)]
    width, height = float(region["original_width"]), float(region["original_height"])
    x, y, across, down = (float(value[name]) for name in ("x", "y", "width", "height"))
    corners = (x * width / 100, y * height / 100, (x + across) * width / 100, (y + down) * height / 100)
    is_turned = is_rotated(value.get("rotation")) or is_rotated(region.get("image_rotation"))
    return [FileBox(str(label), corners, ROTATED if is_turned else "") for label in labels]


def write(annotations: Annotations, folder: Path) -> None:
    """Write tasks.json and labels.xml."""
    tasks = [_task(picture) for picture in annotations.pictures]
    text = json.dumps(tasks, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    (folder / "tasks.json").write_text(text, encoding="utf-8")
    labels = "".join(f"    <Label value={quoteattr(name)}/>\n" for name in annotations.classes)
    (folder / "labels.xml").write_text(
        '<View>\n  <Image name="image" value="$image"/>\n  <RectangleLabels name="label" toName="image">\n'
        f"{labels}  </RectangleLabels>\n</View>\n",
        encoding="utf-8",
    )


def _task(picture: AnnotatedPicture) -> dict[str, Any]:
    """Return the task of a picture; one without boxes has no prediction."""
    data_folder = _data_folder(picture)
    task: dict[str, Any] = {"data": {"image": LABEL_STUDIO_FILES + quote(f"{data_folder}{picture.name}")}}
    if len(picture.boxes):
        values = picture.scores if picture.probabilities is None else picture.probabilities
        results = [_region(picture, index, float(values[index])) for index in range(len(picture.boxes))]
        task["predictions"] = [{"model_version": "lapsvm", "score": float(values.max()), "result": results}]
    return task


def _data_folder(picture: AnnotatedPicture) -> str:
    """Return the name of the folder that a picture's name starts from, with a slash; empty if it lies outside."""
    folders = picture.path.as_posix().removesuffix(f"/{picture.name}")
    return f"{Path(folders).name}/" if folders != picture.path.as_posix() and Path(folders).name else ""


def _region(picture: AnnotatedPicture, index: int, score: float) -> dict[str, Any]:
    """Return one rectangle of a prediction."""
    x1, y1, x2, y2 = picture.boxes[index].tolist()
    across, down = 100 / picture.width, 100 / picture.height
    return {
        "id": f"box{index + 1}",
        "type": "rectanglelabels",
        "from_name": "label",
        "to_name": "image",
        "original_width": picture.width,
        "original_height": picture.height,
        "image_rotation": 0,
        "score": score,
        "value": {
            "x": x1 * across, "y": y1 * down, "width": (x2 - x1) * across, "height": (y2 - y1) * down,
            "rotation": 0, "rectanglelabels": [picture.classes[index]],
        },
    }  # fmt: skip
