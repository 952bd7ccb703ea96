"""An exported detector on pictures, with NumPy and ONNX Runtime only.

::

    lapsvm export --out RUN --format onnx --to detector.onnx
    python examples/onnx_detector.py detector.onnx photo.jpg --least 0.5

lapsvm is not imported. Pillow decodes the picture here; any uint8 array (height, width, 3) in RGB will do.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime


def detections(session: Any, pixels: Any, least: float = 0.0, most: int = 10) -> list[dict[str, Any]]:
    """Return the best boxes of each class in a picture, without boxes of a probability below `least`."""
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
        raise ValueError(f"a picture must be uint8 (height, width, 3), got {pixels.dtype} {pixels.shape}.")
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    names = ["boxes", "classes", "scores", "probabilities"]
    boxes, numbers, scores, probabilities = session.run(names, {"picture": pixels})
    known = [None if np.isnan(one) else float(one) for one in probabilities]  # JSON knows no NaN
    places = np.arange(len(numbers)) - np.searchsorted(numbers, numbers)  # in each class, the best first
    return [
        {"class": classes[number], "box": box.tolist(), "score": float(score), "probability": probability}
        for box, number, score, probability, place in zip(boxes, numbers, scores, known, places, strict=True)
        if place < most and not (probability is not None and probability < least)
    ]


def decision(session: Any, pixels: Any) -> dict[str, Any]:
    """Return the decision on a picture, and the probability of the most probable class; {} if the file has none."""
    metadata = session.get_modelmeta().custom_metadata_map
    if "threshold" not in metadata:
        return {}
    (number,), (probability,) = session.run(["decision", "probability"], {"picture": pixels})
    names = ["unknown", "ok", *json.loads(metadata["classes"])]  # -1, 0, and the classes from 1 on
    return {"decision": names[number + 1], "probability": float(probability)}


def read_picture(path: Path) -> Any:
    """Return a picture as uint8 (height, width, 3), RGB."""
    from PIL import Image, ImageOps

    with Image.open(path) as picture:
        return np.asarray(ImageOps.exif_transpose(picture).convert("RGB"))


def main() -> None:
    """Print the decision on every picture, if the file has one, and the detections as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("detector", type=Path)
    parser.add_argument("pictures", type=Path, nargs="+")
    parser.add_argument("--least", type=float, default=0.0, help="the least probability of a box")
    parser.add_argument("--most", type=int, default=10, help="the largest number of boxes of a class")
    options = parser.parse_args()
    session = onnxruntime.InferenceSession(options.detector, providers=["CPUExecutionProvider"])
    for path in options.pictures:
        pixels = read_picture(path)
        found = detections(session, pixels, options.least, options.most)
        print(json.dumps({"picture": str(path), **decision(session, pixels), "detections": found}))


if __name__ == "__main__":
    main()
