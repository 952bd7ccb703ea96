"""Formats of a file or two that list pictures by their names: COCO, Label Studio and CVAT.

COCO: annotations.json in the form of ground truth, and results.json with scores. Pictures and categories are numbered
from 1 in their order. ``file_name`` is the path relative to the data folder.

Label Studio: tasks.json with pre-annotations, and labels.xml, the labelling interface they belong to. Boxes are percent
of the picture. Scores stand in ``predictions``, never in annotations. Pictures are named as the local file storage
serves them: ``/data/local-files/?d=<data folder>/<path>``, where the document root is the parent of the data folder.

CVAT: annotations.xml in the format "CVAT for images 1.1"; pictures are named by paths below the data folder.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from lapsvm.arrays import Float64
from lapsvm.detection.export.annotations import AnnotatedPicture, Annotations

LABEL_STUDIO_FILES = "/data/local-files/?d="


def write_coco(annotations: Annotations, folder: Path, copy: bool = False) -> None:  # noqa: ARG001 - as all writers
    """Write annotations.json without scores and results.json with scores."""
    (folder / "annotations.json").write_text(_text(coco_ground_truth(annotations)), encoding="utf-8")
    (folder / "results.json").write_text(_text(coco_results(annotations)), encoding="utf-8")


def coco_ground_truth(annotations: Annotations) -> dict[str, Any]:
    """Return images, categories and annotations as a COCO object."""
    images = [
        {"id": number, "file_name": picture.name, "width": picture.width, "height": picture.height}
        for number, picture in enumerate(annotations.pictures, start=1)
    ]
    categories = [{"id": number + 1, "name": name} for name, number in annotations.class_numbers.items()]
    objects = [
        {"id": number, **_without_scores(result), "area": result["bbox"][2] * result["bbox"][3], "iscrowd": 0}
        for number, result in enumerate(coco_results(annotations), start=1)
    ]
    return {"images": images, "annotations": objects, "categories": categories}


def coco_results(annotations: Annotations) -> list[dict[str, Any]]:
    """Return one object per box, with ``score`` and, if known, ``probability``."""
    numbers = annotations.class_numbers
    results = []
    for image_id, picture in enumerate(annotations.pictures, start=1):
        for index, name in enumerate(picture.classes):
            result = {"image_id": image_id, "category_id": numbers[name] + 1, "bbox": _xywh(picture.boxes[index])}
            result["score"] = float(picture.scores[index])
            if picture.probabilities is not None:
                result["probability"] = float(picture.probabilities[index])
            results.append(result)
    return results


def _without_scores(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without its scores."""
    return {key: result[key] for key in ("image_id", "category_id", "bbox")}


def _xywh(box: Float64) -> list[float]:
    """Return x, y, width and height of a box, whole numbers without a fraction."""
    x1, y1, x2, y2 = box.tolist()
    return [int(value) if value == int(value) else value for value in (x1, y1, x2 - x1, y2 - y1)]


def _text(content: Any) -> str:
    """Return the text of a JSON file."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def write_label_studio(annotations: Annotations, folder: Path, copy: bool = False) -> None:  # noqa: ARG001 - as all
    """Write tasks.json and labels.xml."""
    tasks = [_task(picture) for picture in annotations.pictures]
    (folder / "tasks.json").write_text(_text(tasks), encoding="utf-8")
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


def write_cvat(annotations: Annotations, folder: Path, copy: bool = False) -> None:  # noqa: ARG001 - as all writers
    """Write annotations.xml."""
    (folder / "annotations.xml").write_text("\n".join(_cvat_lines(annotations)) + "\n", encoding="utf-8")


def _cvat_lines(annotations: Annotations) -> Iterator[str]:
    """Yield the lines of the file."""
    yield '<?xml version="1.0" encoding="utf-8"?>'
    yield "<annotations>"
    yield "  <version>1.1</version>"
    yield "  <meta><task>"
    yield f"    <name>{escape(annotations.set_name)}</name>"
    yield f"    <size>{len(annotations.pictures)}</size>"
    yield "    <mode>annotation</mode>"
    yield "    <labels>"
    for name in annotations.classes:
        yield f"      <label><name>{escape(name)}</name><type>rectangle</type><attributes></attributes></label>"
    yield "    </labels>"
    yield "  </task></meta>"
    for number, picture in enumerate(annotations.pictures):
        yield from _cvat_image(number, picture)
    yield "</annotations>"


def _cvat_image(number: int, picture: AnnotatedPicture) -> Iterator[str]:
    """Yield the lines of a picture."""
    name = quoteattr(picture.name)
    yield f'  <image id="{number}" name={name} width="{picture.width}" height="{picture.height}">'
    for label, (x1, y1, x2, y2) in zip(picture.classes, picture.boxes.tolist(), strict=True):
        corners = f'xtl="{x1:.4f}" ytl="{y1:.4f}" xbr="{x2:.4f}" ybr="{y2:.4f}"'
        yield f'    <box label={quoteattr(label)} source="auto" occluded="0" {corners} z_order="0"></box>'
    yield "  </image>"
