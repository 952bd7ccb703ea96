"""Compare our selective search with OpenCV's: boxes, recall, and CPU time in one process.

OpenCV's selective search is in its contrib wheel only, which must not meet the plain wheel in one environment. So make
a throw-away environment, and install lapsvm into it without what it depends on:

    python -m venv contrib
    contrib/bin/pip install numpy pillow defusedxml opencv-contrib-python-headless
    contrib/bin/pip install --no-deps .
    LAPSVM_TEST_DATA=DIR contrib/bin/python benchmarks/pictures/proposals.py

DIR holds voc2007_vehicles_cat, a part of VOC2007 in its own layout. Times are process CPU time on one thread; the two
methods take turns on each picture of 500 x 375, the better of three turns counts (quality mode: one turn), medians over
pictures. Recall is on the pictures in their own size.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from defusedxml.ElementTree import parse
from PIL import Image

from lapsvm.boxes import from_voc, iou
from lapsvm.windows import propose
from lapsvm.windows.proposals import tidy

CAPS = (500, 1000, 2000, None)
Boxes = Any


def main() -> None:
    cv2.setNumThreads(1)
    root = Path(os.environ["LAPSVM_TEST_DATA"]) / "voc2007_vehicles_cat"
    names = (root / "ImageSets/Main/test.txt").read_text().split()
    chosen = sorted(np.random.default_rng(0).choice(names, 60, replace=False))
    print(f"Python {sys.version.split()[0]}, NumPy {np.__version__}, OpenCV {cv2.__version__}")
    speed(root, chosen[::5])
    quality(root, chosen)


def speed(root: Path, names: list[str]) -> None:
    """Print CPU times and their ratios."""
    print(f"\n{len(names)} pictures of 500 x 375")
    print("| mode | ours, ms | OpenCV, ms | ratio of the medians | least ratio of a picture |\n|---|---|---|---|---|")
    for mode, turns in (("single", 3), ("fast", 3), ("quality", 1)):
        times = [_times(_pixels(root, name, (500, 375)), mode, turns) for name in names]
        ours, theirs = (1e3 * statistics.median(column) for column in zip(*times, strict=True))
        least = min(other / own for own, other in times)
        print(f"| {mode} | {ours:.0f} | {theirs:.0f} | {theirs / ours:.1f} | {least:.1f} |", flush=True)


def _times(image: Any, mode: str, turns: int) -> tuple[float, float]:
    """Return the CPU seconds of both on one picture, taken in turns."""
    ours, theirs = [], []
    for _ in range(turns):
        ours.append(_seconds(lambda: propose(image, mode=mode, max_windows=None)))
        theirs.append(_seconds(lambda: opencv(image, mode)))
    return min(ours), min(theirs)


def _seconds(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def opencv(image: Any, mode: str) -> Boxes:
    """Return OpenCV's boxes in its own order."""
    search = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
    search.setBaseImage(np.ascontiguousarray(image[:, :, ::-1]))
    names = {"single": "SingleStrategy", "fast": "SelectiveSearchFast", "quality": "SelectiveSearchQuality"}
    getattr(search, f"switchTo{names[mode]}")()
    boxes = np.asarray(search.process(), dtype=np.float32)
    boxes[:, 2:] += boxes[:, :2]
    return boxes


def quality(root: Path, names: list[str]) -> None:
    """Print recall at IoU 0.5, at 0.7 and the mean of the best overlaps, of the first boxes."""
    objects = [_objects(root / f"Annotations/{name}.xml") for name in names]
    pictures = [_pixels(root, name) for name in names]
    heads = [f"first {cap}" if cap else "all" for cap in CAPS]
    print(f"\n{len(names)} pictures, {sum(map(len, objects))} objects of all classes, difficult ones left out")
    print(f"| method | boxes | {' | '.join(heads)} |\n|---|---|{'---|' * len(heads)}")
    theirs = [opencv(image, "fast") for image in pictures]
    rows = {
        "ours, fast": [propose(image, max_windows=None) for image in pictures],
        "ours, fast, min_side 0": [propose(image, max_windows=None, min_side=0) for image in pictures],
        "ours, quality": [propose(image, mode="quality", max_windows=None) for image in pictures],
        "OpenCV fast, own order": theirs,
        "OpenCV fast, reversed": [boxes[::-1] for boxes in theirs],
        "OpenCV fast, reversed, sides >= 20": [tidy(boxes[::-1], 2**15, 2**15, 20) for boxes in theirs],
        "grid": [propose(image, "grid", mode="quality", max_windows=None) for image in pictures],
    }
    for name, found in rows.items():
        cells = " | ".join(_row(objects, found, cap) for cap in CAPS)
        print(f"| {name} | {np.mean([len(boxes) for boxes in found]):.0f} | {cells} |", flush=True)


def _row(objects: list[Boxes], found: list[Boxes], cap: int | None) -> str:
    best = np.concatenate([iou(truth, boxes[:cap]).max(axis=1) for truth, boxes in zip(objects, found, strict=True)])
    return f"{(best >= 0.5).mean():.3f} / {(best >= 0.7).mean():.3f} / {best.mean():.3f}"


def _objects(path: Path) -> Boxes:
    sides = ("xmin", "ymin", "xmax", "ymax")
    objects = [one for one in parse(path).iter("object") if one.findtext("difficult") != "1"]
    return from_voc([[float(one.find("bndbox").findtext(side)) for side in sides] for one in objects])


def _pixels(root: Path, name: str, size: tuple[int, int] | None = None) -> Any:
    picture = Image.open(root / f"JPEGImages/{name}.jpg").convert("RGB")
    return np.array(picture.resize(size) if size else picture)


if __name__ == "__main__":
    main()
