"""COCO: annotations.json in the form of ground truth, and results.json with scores.

Pictures and categories are numbered from 1 in their order. ``file_name`` is the path relative to the data folder.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from lapsvm.annotations.coco import NO_CATEGORY, read_coco
from lapsvm.annotations.exported import Annotations
from lapsvm.annotations.names import is_text as can_hold
from lapsvm.annotations.pictures import AnnotatedFile, FileBox, FilePicture
from lapsvm.arrays import Float64
from lapsvm.ground_truth import TWICE

__all__ = ["can_hold", "owns", "read", "write"]
CROWD_REGION = "with a crowd region"


def owns(path: Path) -> bool:
    """Return whether a named file may be of this format: the others are asked first."""
    return path.suffix.lower() == ".json"


def read(path: Path) -> AnnotatedFile:
    """Return the pictures of a file; a crowd region is difficult."""
    file = read_coco(path, boxes=True)
    boxes = defaultdict[object, list[FileBox]](list)
    for item in file.annotations:
        difficult = CROWD_REGION if item.is_crowd else ""
        boxes[item.image_id].append(
            FileBox(file.categories[item.category_id], item.corners or (), item.fault, difficult)
        )
    for key in file.without_category:
        boxes[key].append(FileBox("", (), NO_CATEGORY))
    names = file.file_names.items()
    pictures = [FilePicture((name or str(key),), file.sizes.get(key), tuple(boxes[key])) for key, name in names]
    remarks = tuple(f"{count:,} {subject}" for subject, count in file.remarks.items() if count)
    return AnnotatedFile(pictures, remarks, {TWICE: file.n_twice}, file.faults.get(NO_CATEGORY, 0))


def write(annotations: Annotations, folder: Path) -> None:
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
