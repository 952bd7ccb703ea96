"""An exported file beside its run: equal scores of given windows, and what the file's own windows cost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.boxes import iou
from lapsvm.catalog import ImageRecord, Pixels
from lapsvm.detection import Predictor
from lapsvm.detection.onnx_file import OnnxDetector
from lapsvm.detection.onnx_file.deciding import decision_number
from lapsvm.detection.picture_scores import detect_windows
from lapsvm.errors import DataError
from lapsvm.evaluation import Detections, evaluate_voc
from lapsvm.evaluation.tables import mean

from ...annotations.known_boxes import AnnotatedBoxes, Truth

COMPARED = 40  # pictures on which the file's own windows are measured
EQUAL = 20  # of these, pictures on which the scores of given windows must be equal
LOST = 0.05  # VOC AP below that of `predict` from which the file's own windows are advised against
ENOUGH = 0.6  # share of pictures with both best boxes in the same place, where no boxes are known
_TOLERANCE = 1e-4  # largest difference of two scores that are equal
_SAME_PLACE = 0.5  # IoU of two best boxes that agree
_ADVICE = "export with --inputs all and give the file the windows of Predictor.propose"

Found = list[tuple[Float64, Float64]]
"""Boxes (m, 4) and scores (m,) of each class."""


@dataclass(frozen=True)
class Compared:
    """One picture's detections by both.

    Attributes
    ----------
    record : ImageRecord
    predicted, exported : Found
        By the run's proposals, and by the file's own windows.
    difference : float
        The largest one of the scores of the run's proposals; NaN where they were not compared.
    decisions : tuple of 2 int, optional
        By both, as numbers of the file; None without a threshold.
    """

    record: ImageRecord
    predicted: Found
    exported: Found
    difference: float
    decisions: tuple[int | None, int | None] | None = None


def compare_picture(
    predictor: Predictor, files: tuple[OnnxDetector, OnnxDetector], shown: tuple[ImageRecord, Pixels], *, equal: bool
) -> Compared:
    """Return a picture's detections by the run and by the first file; the second one scores given windows.

    Raises
    ------
    DataError
        If `equal` is asked for and the scores of the same windows differ by more than `_TOLERANCE`.
    """
    (detector, scorer), (record, pixels) = files, shown
    scored, difference = predictor.scored(pixels), float("nan")
    if equal:
        difference = float(np.abs(scorer.window_scores(pixels, scored.boxes) - scored.scores).max(initial=0.0))
        if not difference <= _TOLERANCE:
            raise DataError(
                f"the exported scores must equal the run's to {_TOLERANCE:g}, but those of picture {record.id!r} "
                f"differ by {difference:.2g}; the file is not written."
            )
    rules = zip(scored.scores.T, predictor.detection, predictor.detectors, strict=True)
    predicted = [detect_windows(of_class, scored.boxes, rule, one.prior, pixels) for of_class, rule, one in rules]
    decision, names = scored.decision(), [one.class_name for one in predictor.detectors]
    decisions = None if decision is None else (decision_number(decision, names), detector.decision(pixels))
    return Compared(record, predicted, detector.detect(pixels), difference, decisions)


def summary(compared: Sequence[Compared], classes: Sequence[str], known: AnnotatedBoxes | None) -> Iterator[str]:
    """Yield the lines that say how the file compares with the run."""
    differences = [pair.difference for pair in compared if not np.isnan(pair.difference)]
    yield f"scores of given windows: largest difference {max(differences):.1g} in {len(differences)} pictures"
    others = other_decisions(compared)
    if others is not None:
        yield f"own windows: the file decides otherwise than predict on {others} of {len(compared)} pictures"
    figures = None if known is None else average_precisions(compared, classes, known)
    if figures is None:
        agreeing = agreement(compared, classes)
        if agreeing is not None and agreeing < ENOUGH:
            differing = f"{1 - agreeing:.0%} of the pictures"
            yield f"own windows: the best boxes of the file and of predict differ in {differing}; {_ADVICE}"
        return
    of_run, exported = figures
    sentence = f"VOC AP {exported:.3f} beside {of_run:.3f} of predict"
    yield f"own windows: {sentence}" + (f"; {_ADVICE}" if exported < of_run - LOST else "")


def other_decisions(compared: Sequence[Compared]) -> int | None:
    """Return on how many pictures both decide differently; None without decisions."""
    pairs = [pair.decisions for pair in compared if pair.decisions is not None]
    return sum(first != second for first, second in pairs) if pairs else None


def agreement(compared: Sequence[Compared], classes: Sequence[str]) -> float | None:
    """Return the share of pictures and their classes where both best boxes are in the same place; None without any."""
    same = [
        iou(pair.predicted[column][0][:1], pair.exported[column][0][:1]).max(initial=0.0) >= _SAME_PLACE
        for pair in compared
        for column, name in enumerate(classes)
        if pair.record.labels.get(name) == 1
    ]
    return float(np.mean(same)) if same else None


def average_precisions(
    compared: Sequence[Compared], classes: Sequence[str], known: AnnotatedBoxes
) -> tuple[float, float] | None:
    """Return the VOC AP of the run and of the file, the mean over the classes that pictures with known boxes show."""
    inside = [pair for pair in compared if pair.record.id in known.pictures]
    ids = {pair.record.id for pair in inside}
    truth = {name: {key: of for key, of in known.truth[name].items() if key in ids} for name in classes}
    of_run = _mean_ap({pair.record.id: pair.predicted for pair in inside}, classes, truth)
    exported = _mean_ap({pair.record.id: pair.exported for pair in inside}, classes, truth)
    return None if of_run is None or exported is None else (of_run, exported)


def _mean_ap(detections: Mapping[str, Found], classes: Sequence[str], truth: Truth) -> float | None:
    """Return the mean VOC AP of the classes that have objects, from picture -> detections."""
    by_class = {
        name: Detections.from_images((key, *of_picture[column]) for key, of_picture in detections.items())
        for column, name in enumerate(classes)
    }
    return mean(result.ap_area for result in evaluate_voc(by_class, truth).classes.values())
