"""Label Studio: tasks.json with pre-annotations, and labels.xml, the labelling interface they belong to.

Boxes are percent of the picture. Scores stand in ``predictions``, never in annotations. Pictures are named as the local
file storage serves them: ``/data/local-files/?d=<data folder>/<path>``, where the document root is the parent of the
data folder.
"""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from lapsvm.detection.export.annotations import AnnotatedPicture, Annotations

PREFIX = "/data/local-files/?d="


def write_label_studio(annotations: Annotations, folder: Path, copy: bool = False) -> None:  # noqa: ARG001 - as all
    """Write tasks.json and labels.xml."""
    tasks = [_task(picture) for picture in annotations.pictures]
    text = json.dumps(tasks, ensure_ascii=False, allow_nan=False, indent=1)
    (folder / "tasks.json").write_text(text + "\n", encoding="utf-8")
    labels = "".join(f"    <Label value={quoteattr(name)}/>\n" for name in annotations.classes)
    (folder / "labels.xml").write_text(
        '<View>\n  <Image name="image" value="$image"/>\n  <RectangleLabels name="label" toName="image">\n'
        f"{labels}  </RectangleLabels>\n</View>\n",
        encoding="utf-8",
    )


def _task(picture: AnnotatedPicture) -> dict[str, Any]:
    """Return the task of a picture; one without boxes has no prediction."""
    data_folder = _data_folder(picture)
    task: dict[str, Any] = {"data": {"image": PREFIX + quote(f"{data_folder}{picture.name}")}}
    if len(picture.boxes):
        values = picture.scores if picture.probabilities is None else picture.probabilities
        results = [_region(picture, place, float(values[place])) for place in range(len(picture.boxes))]
        task["predictions"] = [{"model_version": "lapsvm", "score": float(values.max()), "result": results}]
    return task


def _data_folder(picture: AnnotatedPicture) -> str:
    """Return the name of the folder that a picture's name starts from, with a slash; empty if it lies elsewhere."""
    folders = picture.path.as_posix().removesuffix(f"/{picture.name}")
    return f"{Path(folders).name}/" if folders != picture.path.as_posix() and Path(folders).name else ""


def _region(picture: AnnotatedPicture, place: int, score: float) -> dict[str, Any]:
    """Return one rectangle of a prediction."""
    x1, y1, x2, y2 = picture.boxes[place].tolist()
    across, down = 100 / picture.width, 100 / picture.height
    return {
        "id": f"box{place + 1}",
        "type": "rectanglelabels",
        "from_name": "label",
        "to_name": "image",
        "original_width": picture.width,
        "original_height": picture.height,
        "image_rotation": 0,
        "score": score,
        "value": {
            "x": x1 * across, "y": y1 * down, "width": (x2 - x1) * across, "height": (y2 - y1) * down,
            "rotation": 0, "rectanglelabels": [picture.classes[place]],
        },
    }  # fmt: skip
