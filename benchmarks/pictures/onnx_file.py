"""An exported detector beside ``predict`` on pictures of a VOC folder: AP of both, and CPU time beside the network's.

    lapsvm export --out RUN --format onnx --to FILE
    OPENBLAS_NUM_THREADS=1 python benchmarks/pictures/onnx_file.py RUN FILE VOC [--set test] [--pictures 120]

The pictures are evenly spread over the set. "predict" scores its own proposals, "file" its own windows, "file, given
windows" those of predict. AP is the mean over the classes. Network alone: the pictures resized to all sizes of the
recipe, and the passes over them. CPU seconds of one thread, all in turn for each picture, the boxes, classes and
scores of the file alone; windows that are given take no time. Boxes are for evaluation only.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

import cv2
import numpy as np
import onnxruntime

from lapsvm.arrays import Array
from lapsvm.catalog import Pixels, open_dataset
from lapsvm.detection import Predictor
from lapsvm.evaluation import Detections, VocReport, evaluate_voc
from lapsvm.features.extractors.extractor import prepared
from lapsvm.windows.proposals import picture_windows, reduced

ROWS = ("predict", "file", "file, given windows")
Found = list[tuple[Array, Array]]


class Timed:
    """Seconds of each part, one per picture."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def __call__(self, name: str, work: Any, *arguments: Any, **named: Any) -> Any:
        """Return what work gives."""
        start = process_time()
        result = work(*arguments, **named)
        self.seconds.setdefault(name, []).append(process_time() - start)
        return result


def detections_of(predictor: Predictor, file: Any, pixels: Pixels, timed: Timed) -> tuple[Found, ...]:
    """Return the boxes and scores of each class, for every row."""
    timed("network", prepared, predictor.extractor, reduced(pixels, predictor.windows.max_side))
    own = timed("predict", predictor, pixels)
    exported = timed("file", exported_boxes, file, pixels)
    windows = picture_windows(pixels, predictor.windows, predictor.seed).astype(np.float32)
    return (
        [(one.boxes, one.scores) for one in own.values()],
        by_class(exported, len(own)),
        by_class(timed("file, given windows", exported_boxes, file, pixels, windows=windows), len(own)),
    )


def open_file(file: Path | bytes) -> Any:
    """Return a session, of one thread, of a file or its content."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def exported_boxes(file: Any, pixels: Pixels, **more: Array) -> list[Array]:
    """Return the outputs that most callers need; the maps of scores cost time of their own."""
    return list(file.run(["boxes", "classes", "scores"], {"picture": np.ascontiguousarray(pixels), **more}))


def by_class(outputs: list[Array], count: int) -> Found:
    """Return the boxes and scores of each class."""
    boxes, classes, scores = outputs
    return [(boxes[classes == number], scores[classes == number]) for number in range(count)]


def reports(found: dict[str, list[Found]], classes: list[str], ids: list[str], truth: Any) -> dict[str, VocReport]:
    """Return the evaluation of every row on some pictures."""
    known = {name: {key: truth[name][key] for key in ids} for name in classes}
    return {
        row: evaluate_voc(
            {
                name: Detections.from_images((key, *one[column]) for key, one in zip(ids, pictures, strict=True))
                for column, name in enumerate(classes)
            },
            known,
        )
        for row, pictures in found.items()
    }


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("run", "file", "voc"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--set", default="test")
    parser.add_argument("--pictures", type=int, default=120)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    predictor = Predictor.open(options.run, device="cpu", max_detections=100)
    file = open_file(options.file)
    classes, timed = [detector.class_name for detector in predictor.detectors], Timed()
    data = open_dataset("voc", options.voc, classes=classes)
    every = data.records(options.set)
    records = spread(every, options.pictures)
    found: dict[str, list[Found]] = {row: [] for row in ROWS}
    for record in records:
        for row, one in zip(ROWS, detections_of(predictor, file, record.pixels(), timed), strict=True):
            found[row].append(one)
    tables = reports(found, classes, [record.id for record in records], data.ground_truth(options.set))
    print_tables(tables, timed, len(records))


def spread(records: Sequence[Any], count: int) -> list[Any]:
    """Return so many records, evenly spread."""
    places = np.linspace(0, len(records) - 1, min(count, len(records))).round().astype(int)
    return [records[place] for place in places]


def print_tables(tables: dict[str, VocReport], timed: Timed, count: int) -> None:
    """Print AP by class, and the times."""
    classes = list(tables[ROWS[0]].classes)
    objects = ", ".join(f"{name} {result.npos}" for name, result in tables[ROWS[0]].classes.items())
    print(f"{count} pictures; objects: {objects}")
    print(f"| windows | {' | '.join(classes)} | AP 11-point | AP area |\n|{'---|' * (len(classes) + 3)}")
    for row, report in tables.items():
        each = [*(report.classes[name].ap_11point for name in classes), report.mean_ap_11point, report.mean_ap_area]
        print(f"| {row} | {' | '.join('-' if value is None else f'{value:.3f}' for value in each)} |")
    print("| part | CPU s a picture | times the network, median | quartiles |\n|---|---|---|---|")
    network = np.array(timed.seconds["network"])
    for name, seconds in timed.seconds.items():
        low, middle, high = np.quantile(np.array(seconds) / network, [0.25, 0.5, 0.75])
        print(f"| {name} | {np.mean(seconds):.3f} | {middle:.2f} | {low:.2f} to {high:.2f} |")


if __name__ == "__main__":
    main()
