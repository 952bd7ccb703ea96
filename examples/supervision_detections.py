"""Boxes for new pictures as ``supervision.Detections``.

::

    python examples/supervision_detections.py RUN/models photo.jpg other.jpg

``lapsvm predict`` gives JSON; `detection_arrays` turns one picture of it into the arrays that
``supervision.Detections`` takes. Boxes need no change: both count pixels from 0, with x2 and y2 behind the box. A score
is not a probability; where ``predict`` gives a probability, that is the confidence.
"""

import argparse
import json
import subprocess
import sys
from typing import Any

import numpy as np


def predictions(model: str, pictures: list[str], options: list[str]) -> list[dict[str, Any]]:
    """Return what ``lapsvm predict`` says of some pictures."""
    command = [sys.executable, "-m", "lapsvm.pipelines", "predict", "--model", model, *pictures, *options]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def detection_arrays(picture: dict[str, Any], classes: list[str]) -> dict[str, Any]:
    """Return the arguments of ``supervision.Detections`` for one picture."""
    found = picture["detections"]
    return {
        "xyxy": np.array([one["box"] for one in found], dtype=np.float32).reshape(-1, 4),
        "confidence": np.array([one.get("probability", one["score"]) for one in found], dtype=np.float32),
        "class_id": np.array([classes.index(one["class"]) for one in found], dtype=int),
        "data": {"class_name": np.array([one["class"] for one in found], dtype=str)},
    }


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a model file, or a folder of them")
    parser.add_argument("pictures", nargs="+")
    given, options = parser.parse_known_args()
    found = predictions(given.model, given.pictures, options)
    classes = sorted({one["class"] for picture in found for one in picture["detections"]})
    try:
        import supervision
    except ImportError:
        supervision = None
        print("supervision is not installed (pip install supervision): these are its arguments")
    for picture in found:
        arguments = detection_arrays(picture, classes)
        print(picture["image"], arguments if supervision is None else supervision.Detections(**arguments))


if __name__ == "__main__":
    main()
