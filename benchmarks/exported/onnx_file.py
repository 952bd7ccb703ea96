"""An exported detector beside ``predict`` on pictures of a VOC folder: AP of both, and CPU time beside the network's.

    lapsvm export --out RUN --format onnx --to FILE --inputs all
    OPENBLAS_NUM_THREADS=1 python benchmarks/exported/onnx_file.py RUN FILE VOC [--set test] [--pictures 120]

The pictures are evenly spread over the set. "predict" scores its own proposals, "file" its own windows, "file, given
windows" those of predict. AP is the mean over the classes. Network alone: the pictures resized to all sizes of the
recipe, and the passes over them. CPU seconds of one thread, all in turn for each picture, the boxes, classes and
scores of the file alone; windows that are given take no time. Boxes are for evaluation only.
"""

from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Annotated, Any

import cv2
import numpy as np
import typer
from lapsvm.pipelines.cli.study import print_table, study_command

from lapsvm.arrays import Array
from lapsvm.catalog import Pixels, open_dataset
from lapsvm.detection import Predictor
from lapsvm.detection.onnx_file import OnnxDetector
from lapsvm.evaluation import Detections, VocReport, evaluate_voc
from lapsvm.features.extractors.extractor import prepared
from lapsvm.windows.proposals import picture_windows, reduced

ROWS = ("predict", "file", "file, given windows")
OUTPUTS = ["boxes", "classes", "scores"]  # what most callers need; the maps of scores cost time of their own
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


def detections_of(predictor: Predictor, file: OnnxDetector, pixels: Pixels, timed: Timed) -> tuple[Found, ...]:
    """Return the boxes and scores of each class, for every row."""
    timed("network", prepared, predictor.extractor, reduced(pixels, predictor.windows.max_side))
    own = timed("predict", predictor, pixels)
    exported = timed("file", file.run, OUTPUTS, pixels)
    windows = picture_windows(pixels, predictor.windows, predictor.seed).astype(np.float32)
    given = timed("file, given windows", file.run, OUTPUTS, pixels, windows=windows)
    found = [[(boxes[of == number], scores[of == number]) for number in range(len(own))]
             for boxes, of, scores in (exported, given)]  # fmt: skip
    return [(one.boxes, one.scores) for one in own.values()], *found


def report(found: list[Found], classes: list[str], ids: list[str], truth: Any) -> VocReport:
    """Return the evaluation of a row on some pictures."""
    known = {name: {key: truth[name][key] for key in ids} for name in classes}
    columns = (
        ((key, *boxes) for key, boxes in zip(ids, of_class, strict=True)) for of_class in zip(*found, strict=True)
    )
    return evaluate_voc(dict(zip(classes, map(Detections.from_images, columns), strict=True)), known)


@study_command
def main(
    run: Path,
    file: Path,
    voc: Path,
    set_name: Annotated[str, typer.Option("--set")] = "test",
    pictures: Annotated[int, typer.Option(min=1)] = 120,
) -> None:
    """Compare an exported detector with the run that it is of."""
    cv2.setNumThreads(1)
    predictor, session = Predictor.open(run, device="cpu", max_detections=100), OnnxDetector(file.read_bytes())
    classes, timed = [detector.class_name for detector in predictor.detectors], Timed()
    data = open_dataset("voc", voc, classes=classes)
    records = spread(data.records(set_name), pictures)
    found = zip(*(detections_of(predictor, session, record.pixels(), timed) for record in records), strict=True)
    ids, truth = [record.id for record in records], data.ground_truth(set_name)
    tables = {row: report(of_row, classes, ids, truth) for row, of_row in zip(ROWS, found, strict=True)}
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
    rows = (
        [row, *(report.classes[name].ap_11point for name in classes), report.mean_ap_11point, report.mean_ap_area]
        for row, report in tables.items()
    )
    print_table(["windows", *classes, "AP 11-point", "AP area"], rows)
    network = np.array(timed.seconds["network"])
    times = ([name, float(np.mean(own)), *quartiles(own / network)] for name, own in timed.seconds.items())
    print_table(["part", "CPU s a picture", "times the network, median", "quartiles"], times)


def quartiles(ratios: Array) -> tuple[str, str]:
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    return f"{middle:.2f}", f"{low:.2f} to {high:.2f}"


if __name__ == "__main__":
    main()
