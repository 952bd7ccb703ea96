"""Proposals in reduced pictures: recall and time of the first 1,000 windows, by the longer side of what they see.

    LAPSVM_TEST_DATA=DIR python benchmarks/pictures/proposal_side.py

DIR holds ``raccoon`` and ``bccd`` in the VOC layout; 40 pictures of each with a longer side of at least 600 pixels.
CPU seconds of one thread.
"""

import os
from pathlib import Path
from time import thread_time

import numpy as np

from lapsvm.boxes import from_voc, iou
from lapsvm.catalog import read_image
from lapsvm.voc_files import read_objects
from lapsvm.windows import propose
from lapsvm.windows.proposals import enlarged_boxes, reduced

DATA = Path(os.environ["LAPSVM_TEST_DATA"])
SIDES, PICTURES, LEAST = (10**6, 640, 512, 448), 40, 600


def best_overlaps(pixels: np.ndarray, truth: np.ndarray, side: int) -> tuple[np.ndarray, float]:
    """Return each object's best overlap with a window, and the seconds."""
    start = thread_time()
    seen = reduced(pixels, side)
    boxes = propose(seen, max_windows=1000, max_area=0.9)
    seconds = thread_time() - start
    return iou(truth, boxes if seen is pixels else enlarged_boxes(boxes, pixels, seen)).max(axis=1), seconds


def main() -> None:
    print(f"{'pictures':10} {'side':>8} {'objects':>8} {'recall .5':>10} {'recall .7':>10} {'MABO':>6} {'CPU s':>6}")
    for name in ("raccoon", "bccd"):
        found: dict[int, list[tuple[np.ndarray, float]]] = {side: [] for side in SIDES}
        for file in sorted((DATA / name / "Annotations").glob("*.xml")):
            objects = read_objects(file)
            pixels = read_image(next((DATA / name / "JPEGImages").glob(f"{file.stem}.*")))
            if objects and max(pixels.shape) >= LEAST and len(found[SIDES[0]]) < PICTURES:
                truth = from_voc([item.corners for item in objects])
                for side in SIDES:
                    found[side].append(best_overlaps(pixels, truth, side))
        for side, results in found.items():
            best, seconds = np.concatenate([best for best, _ in results]), np.mean([spent for _, spent in results])
            recalls = f"{(best >= 0.5).mean():10.3f} {(best >= 0.7).mean():10.3f} {best.mean():6.3f}"
            print(f"{name:10} {side:8} {len(best):8} {recalls} {seconds:6.3f}", flush=True)


if __name__ == "__main__":
    main()
