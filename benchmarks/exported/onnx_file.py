"""An exported detector beside ``predict`` on pictures of a VOC folder: AP of both, and CPU time beside the network's.

    lapsvm export --out RUN --format onnx --to FILE --inputs all
    OPENBLAS_NUM_THREADS=1 python benchmarks/exported/onnx_file.py RUN FILE VOC [--set test] [--pictures 120]

The pictures are evenly spread over the set. AP is the mean over the classes. Network alone: the pictures resized to all
sizes of the recipe, and the passes over them. CPU seconds of one thread, all in turn for each picture, the boxes,
classes and scores of the file alone; windows that are given take no time. Boxes are for evaluation only.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Annotated, Any

import cv2
import numpy as np
from lapsvm.pipelines.cli.study import Cell, Given, Into, print_table, study_command

from lapsvm.arrays import Array
from lapsvm.catalog import Pixels, open_dataset
from lapsvm.detection import Predictor
from lapsvm.detection.onnx_file import OnnxDetector
from lapsvm.evaluation import Detections, VocReport, evaluate_voc
from lapsvm.features.extractors.extractor import prepared
from lapsvm.windows.proposals import picture_windows, reduced

ROWS = ("of `predict`", "the file's", "of `predict`, given to the file")
TITLES = ("windows", "AP 11-point", "AP area", "CPU s a picture", "times the network")
OUTPUTS = ["boxes", "classes", "scores"]  # what most callers need; the maps of scores cost time of their own
Found = list[tuple[Array, Array]]


class Timed:
    """Seconds of each part, one per picture."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def __call__(self, name: str, work: Any, *arguments: Any, **named: Any) -> Any:
        """Return the result of work."""
        start = process_time()
        result = work(*arguments, **named)
        self.seconds.setdefault(name, []).append(process_time() - start)
        return result


def detections_of(predictor: Predictor, file: OnnxDetector, pixels: Pixels, timed: Timed) -> tuple[Found, ...]:
    """Return the boxes and scores of each class, for every row."""
    timed("network", prepared, predictor.extractor, reduced(pixels, predictor.windows.max_side))
    own = timed(ROWS[0], predictor, pixels)
    exported = timed(ROWS[1], file.run, OUTPUTS, pixels)
    windows = picture_windows(pixels, predictor.windows, predictor.seed).astype(np.float32)
    given = timed(ROWS[2], file.run, OUTPUTS, pixels, windows=windows)
    found = [[(boxes[of == number], scores[of == number]) for number in range(len(own))]
             for boxes, of, scores in (exported, given)]  # fmt: skip
    return [(one.boxes, one.scores) for one in own.values()], *found


def report(found: Iterable[Found], truth: dict[str, dict[str, Any]]) -> VocReport:
    """Return the evaluation of what is found in the pictures of the truth, in their order."""
    detections = {
        name: Detections.from_images((key, *boxes) for key, boxes in zip(truth[name], of_class, strict=True))
        for name, of_class in zip(truth, zip(*found, strict=True), strict=True)
    }
    return evaluate_voc(detections, truth)


@study_command
def main(
    run: Path, file: Path, voc: Path, set_name: Annotated[str, Given("--set")] = "test",
    pictures: Annotated[int, Given(low=1)] = 120, into: Into = None,
) -> None:  # fmt: skip
    """Compare an exported detector with the run that it is of."""
    cv2.setNumThreads(1)
    predictor, session = Predictor.open(run, device="cpu", max_detections=100), OnnxDetector(file.read_bytes())
    classes, timed = [detector.class_name for detector in predictor.detectors], Timed()
    data = open_dataset("voc", voc, classes=classes)
    records, objects = spread(data.records(set_name), pictures), data.ground_truth(set_name)
    found = (detections_of(predictor, session, record.pixels(), timed) for record in records)
    truth = {name: {record.id: objects[name][record.id] for record in records} for name in classes}
    print_table(TITLES, rows(found, truth, timed.seconds), into)
    print(f"{len(records)} pictures; the network alone takes {fmean(timed.seconds['network']):.3f} CPU s")


def rows(found: Iterable[tuple[Found, ...]], truth: Any, seconds: dict[str, list[float]]) -> Iterator[list[Cell]]:
    """Yield AP and times of every row, from what is found in each picture."""
    for name, of_row in zip(ROWS, zip(*found, strict=True), strict=True):
        result, ratio = report(of_row, truth), np.median(np.divide(seconds[name], seconds["network"]))
        yield [name, result.mean_ap_11point, result.mean_ap_area, fmean(seconds[name]), f"{ratio:.1f}"]


def spread(records: Sequence[Any], count: int) -> list[Any]:
    """Return a number of records, evenly spread."""
    places = np.linspace(0, len(records) - 1, min(count, len(records))).round().astype(int)
    return [records[place] for place in places]


if __name__ == "__main__":
    main()
