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


def detections(session: Any, pixels: Any, **more: Any) -> list[dict[str, Any]]:
    """Return the boxes of a picture; `more` are inputs of the file such as windows or max_boxes."""
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    names = ["boxes", "classes", "scores", "probabilities"]
    boxes, numbers, scores, probabilities = session.run(names, {"picture": pixels, **more})
    known = [None if np.isnan(one) else float(one) for one in probabilities]  # JSON knows no NaN
    return [
        {"class": classes[number], "box": box.tolist(), "score": float(score), "probability": probability}
        for box, number, score, probability in zip(boxes, numbers, scores, known, strict=True)
    ]


def read_picture(path: Path) -> Any:
    """Return a picture as uint8 (height, width, 3), RGB."""
    from PIL import Image, ImageOps

    with Image.open(path) as picture:
        return np.asarray(ImageOps.exif_transpose(picture).convert("RGB"))


def main() -> None:
    """Print the detections of every picture as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("detector", type=Path)
    parser.add_argument("pictures", type=Path, nargs="+")
    parser.add_argument("--least", type=float, default=0.0, help="the least probability of a box")
    parser.add_argument("--most", type=int, default=10, help="the largest number of boxes of a class")
    options = parser.parse_args()
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3  # it warns of every input that may be left out
    session = onnxruntime.InferenceSession(options.detector, quiet, providers=["CPUExecutionProvider"])
    limits = {
        "probability_threshold": np.array([options.least], np.float32),
        "max_boxes": np.array([options.most], np.int64),
    }
    for path in options.pictures:
        print(json.dumps({"picture": str(path), "detections": detections(session, read_picture(path), **limits)}))


if __name__ == "__main__":
    main()
