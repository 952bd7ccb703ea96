"""Proposals in reduced pictures: recall and time of the first 1,000 windows, by the longer side of what they see.

    LAPSVM_TEST_DATA=DIR python benchmarks/pictures/proposal_side.py

DIR holds ``raccoon`` and ``bccd`` in the VOC layout; 40 pictures of each with a longer side of at least 600 pixels.
CPU seconds of one thread.
"""

import os
from pathlib import Path
from time import thread_time

import numpy as np
from lapsvm.pipelines.shards.reduction import enlarged_boxes, reduced

from lapsvm.boxes import iou
from lapsvm.catalog import open_dataset
from lapsvm.windows import propose

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
        data = open_dataset("voc", DATA / name)
        records, truth = data.records(data.sets[0]), data.ground_truth(data.sets[0]) or {}
        found: dict[int, list[tuple[np.ndarray, float]]] = {side: [] for side in SIDES}
        for record in records:
            boxes = np.concatenate([objects[record.id].boxes for objects in truth.values()])
            pixels = (
                record.pixels() if len(boxes) and len(found[SIDES[0]]) < PICTURES else np.empty((1, 1, 3), np.uint8)
            )
            if max(pixels.shape) >= LEAST:
                for side in SIDES:
                    found[side].append(best_overlaps(pixels, boxes, side))
        for side, results in found.items():
            best, seconds = np.concatenate([best for best, _ in results]), np.mean([spent for _, spent in results])
            recalls = f"{(best >= 0.5).mean():10.3f} {(best >= 0.7).mean():10.3f} {best.mean():6.3f}"
            print(f"{name:10} {side:8} {len(best):8} {recalls} {seconds:6.3f}", flush=True)


if __name__ == "__main__":
    main()
