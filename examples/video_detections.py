"""Detections in a video, and how many frames a second that takes.

::

    python examples/video_detections.py RUN video.mp4 --every 5 --least 0.5 --drawn drawn.avi

Each frame with a box of at least that probability becomes one line of JSON; the last line, on standard error, has the
frame rate. OpenCV reads the video, so any that it reads will do. As many frames as there are threads are worked on at
a time, and at most twice as many are in memory.
"""

import argparse
import json
import os
import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import cv2

from lapsvm.catalog import Pixels
from lapsvm.detection import Detected, Predictor

Found = dict[str, Detected]


def frames(video: Any, every: int) -> Iterator[tuple[int, Pixels]]:
    """Yield the number and the pixels (h, w, 3), RGB, of every n-th frame."""
    for number in count():
        if not video.grab():  # frames that are left out are not converted
            return
        if number % every == 0:
            yield number, cv2.cvtColor(video.retrieve()[1], cv2.COLOR_BGR2RGB)


def detected(
    predictor: Predictor, pictures: Iterator[tuple[int, Pixels]], threads: int
) -> Iterator[tuple[int, Pixels, Found]]:
    """Yield each frame with its boxes, in order; a video is longer than memory, so few are read ahead."""
    waiting: deque[Any] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for number, pixels in pictures:
            waiting.append((number, pixels, pool.submit(predictor, pixels)))
            if len(waiting) == 2 * threads:
                first, shown, found = waiting.popleft()
                yield first, shown, found.result()
        for first, shown, found in waiting:
            yield first, shown, found.result()


def entries(found: Found) -> list[dict[str, Any]]:
    """Return the boxes of a frame as they are printed."""
    return [
        {"class": name, "box": box.tolist(), "score": float(score), "probability": probability}
        for name, own in found.items()
        for box, score, probability in zip(own.boxes, own.scores, probabilities(own), strict=True)
    ]


def probabilities(own: Detected) -> list[float | None]:
    """Return the probability of each box; None for a model without a calibration."""
    return [None] * len(own.boxes) if own.probabilities is None else own.probabilities.tolist()


def drawn(pixels: Pixels, boxes: list[dict[str, Any]]) -> Any:
    """Return a frame for OpenCV, with its boxes."""
    picture = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    for one in boxes:
        left, top, right, bottom = map(round, one["box"])
        cv2.rectangle(picture, (left, top), (right, bottom), (0, 255, 255), 2)
        cv2.putText(picture, one["class"], (left, max(top - 4, 12)), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (0, 255, 255), 1)
    return picture


def open_writer(path: Path, rate: float, width: int, height: int) -> Any:
    """Return a video that frames can be written to; Motion JPEG, which needs no encoder besides OpenCV."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), rate, (width, height))
    if not writer.isOpened():
        sys.exit(f"--drawn must be a file *.avi that can be written, got {path}.")
    return writer


def read_options() -> argparse.Namespace:
    """Return the arguments of the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a run folder, a model file, or a folder of them")
    parser.add_argument("video", type=Path)
    parser.add_argument("--every", type=int, default=1, help="look at every so many frames")
    parser.add_argument("--least", type=float, help="the least probability of a box")
    parser.add_argument("--most", type=int, default=5, help="the largest number of boxes of a class")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--drawn", type=Path, help="a new video *.avi with the boxes")
    options = parser.parse_args()
    if min(options.every, options.threads) < 1:
        parser.error("--every and --threads must be at least 1.")
    return options


def main() -> None:
    """Print the boxes of the frames, and the frame rate."""
    options = read_options()
    predictor = Predictor.open(options.model, threshold=options.least, max_detections=options.most)
    video = cv2.VideoCapture(str(options.video))
    if not video.isOpened():
        sys.exit(f"the video must be a file that OpenCV reads, got {options.video}.")
    rate, writer, done, start = video.get(cv2.CAP_PROP_FPS) or 25.0, None, 0, perf_counter()
    for number, pixels, found in detected(predictor, frames(video, options.every), options.threads):
        boxes, done = entries(found), done + 1
        if boxes:
            print(json.dumps({"frame": number, "seconds": round(number / rate, 3), "detections": boxes}))
        if options.drawn:
            writer = writer or open_writer(options.drawn, rate / options.every, pixels.shape[1], pixels.shape[0])
            writer.write(drawn(pixels, boxes))
    if writer is not None:
        writer.release()
    seconds = perf_counter() - start
    speed = f"{done} frames in {seconds:.1f} s: {done / seconds:.1f} frames a second; the video has {rate:g}"
    print(speed, file=sys.stderr)


if __name__ == "__main__":
    main()
