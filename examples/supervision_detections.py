"""Detections in new pictures as ``supervision.Detections``.

::

    python examples/supervision_detections.py RUN photo.jpg other.jpg

`lapsvm.detection.Predictor` returns the boxes of every class; `detection_arrays` converts those of one picture to the
arguments of ``supervision.Detections``. Boxes need no change: both formats are 0-based and half-open. The confidence is
the probability, or the score, which has no scale, for a model without a calibration.
"""

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np

from lapsvm.detection import Detected, Predictor


def detection_arrays(found: Mapping[str, Detected]) -> dict[str, Any]:
    """Return the arguments of ``supervision.Detections`` for one picture; classes are numbered in their order."""
    counts = [len(own.boxes) for own in found.values()]
    confidence = [own.scores if own.probabilities is None else own.probabilities for own in found.values()]
    return {
        "xyxy": np.concatenate([own.boxes for own in found.values()]).astype(np.float32),
        "confidence": np.concatenate(confidence).astype(np.float32),
        "class_id": np.repeat(np.arange(len(found)), counts),
        "data": {"class_name": np.repeat(list(found), counts)},
    }


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a run folder, a model file, or a folder of them")
    parser.add_argument("pictures", nargs="+")
    arguments = parser.parse_args()
    try:
        import supervision
    except ImportError:
        supervision = None
        print("supervision is not installed (pip install supervision): the arguments of Detections follow")
    predictor = Predictor.open(arguments.model)
    for picture, found in zip(arguments.pictures, predictor.many(arguments.pictures), strict=True):
        arrays = detection_arrays(found)
        print(picture, arrays if supervision is None else supervision.Detections(**arrays))


if __name__ == "__main__":
    main()
