"""Detections in new pictures as ``supervision.Detections``.

::

    python examples/supervision_detections.py RUN photo.jpg other.jpg

``lapsvm predict`` writes JSON; `detection_arrays` converts one picture of it to the arguments of
``supervision.Detections``. Boxes need no change: both formats are 0-based and half-open. The confidence is the
probability that ``predict`` writes, or the score, which has no scale, for a model without a calibration.
"""

import argparse
import json
import subprocess
import sys
from typing import Any

import numpy as np


def predictions(model: str, pictures: list[str], options: list[str]) -> list[dict[str, Any]]:
    """Return the JSON of ``lapsvm predict`` for some pictures."""
    command = [sys.executable, "-m", "lapsvm.pipelines", "predict", "--model", model, *pictures, *options]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    pictures_json: list[dict[str, Any]] = json.loads(done.stdout)
    return pictures_json


def detection_arrays(picture: dict[str, Any], classes: list[str]) -> dict[str, Any]:
    """Return the arguments of ``supervision.Detections`` for one picture."""
    detections = picture["detections"]
    return {
        "xyxy": np.array([detection["box"] for detection in detections], dtype=np.float32).reshape(-1, 4),
        "confidence": np.array([item.get("probability", item["score"]) for item in detections], dtype=np.float32),
        "class_id": np.array([classes.index(detection["class"]) for detection in detections], dtype=int),
        "data": {"class_name": np.array([detection["class"] for detection in detections], dtype=str)},
    }


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a run folder, a model file, or a folder of them")
    parser.add_argument("pictures", nargs="+")
    arguments, options = parser.parse_known_args()
    predicted = predictions(arguments.model, arguments.pictures, options)
    classes = sorted({detection["class"] for picture in predicted for detection in picture["detections"]})
    try:
        import supervision
    except ImportError:
        supervision = None
        print("supervision is not installed (pip install supervision): the arguments of Detections follow")
    for picture in predicted:
        arrays = detection_arrays(picture, classes)
        print(picture["image"], arrays if supervision is None else supervision.Detections(**arrays))


if __name__ == "__main__":
    main()
