"""An exported detector beside the run's own: equal scores of given windows, and what its own windows cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.boxes import iou
from lapsvm.catalog import ImageRecord
from lapsvm.detection import Predictor, score_many
from lapsvm.detection.onnx_file import OnnxDetector
from lapsvm.detection.picture_scores import detect_windows
from lapsvm.detection.prepared import prepare_windows
from lapsvm.errors import DataError
from lapsvm.evaluation import Detections, evaluate_voc
from lapsvm.windows.proposals import picture_windows

from ...results.boxes.known import AnnotatedBoxes

TOLERANCE = 1e-4  # largest difference of two scores
_SAME_PLACE = 0.5  # IoU of two best boxes that agree

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
    """

    record: ImageRecord
    predicted: Found
    exported: Found
    difference: float


def compare_picture(predictor: Predictor, detector: OnnxDetector, record: ImageRecord, *, equal: bool) -> Compared:
    """Return a picture's detections by both.

    Raises
    ------
    DataError
        If `equal` is asked for and the scores of the same windows differ by more than `TOLERANCE`.
    """
    pixels = record.pixels()
    windows = picture_windows(pixels, predictor.windows, predictor.seed)
    picture = prepare_windows(pixels, windows, predictor.windows.max_side, predictor.extractor)
    scores = score_many(predictor.detectors, picture.features())
    difference = float("nan")
    if equal:
        difference = float(np.abs(detector.window_scores(pixels, picture.boxes) - scores).max(initial=0.0))
        if not difference <= TOLERANCE:
            raise DataError(
                f"the exported scores must equal the run's to {TOLERANCE:g}, but those of picture {record.id!r} differ "
                f"by {difference:.2g}; the file is not written."
            )
    own = [
        detect_windows(scores[:, column], picture.boxes, settings)
        for column, settings in enumerate(predictor.detection)
    ]
    return Compared(record, own, detector.detect(pixels), difference)


def summary(compared: Sequence[Compared], classes: Sequence[str], known: AnnotatedBoxes | None) -> Iterator[str]:
    """Yield the lines that say how the file compares with the run."""
    differences = [one.difference for one in compared if not np.isnan(one.difference)]
    yield f"scores of given windows: largest difference {max(differences):.1g} in {len(differences)} pictures"
    yield from _agreement(compared, classes)
    if known is not None:
        yield from _average_precision(compared, classes, known)


def _agreement(compared: Sequence[Compared], classes: Sequence[str]) -> Iterator[str]:
    """Yield the share of pictures of each class where both best boxes are in the same place."""
    same = [
        iou(one.predicted[column][0][:1], one.exported[column][0][:1]).max(initial=0.0) >= _SAME_PLACE
        for one in compared
        for column, name in enumerate(classes)
        if one.record.labels.get(name) == 1
    ]
    if same:
        yield f"own windows: the best box of predict and of the file overlap by half in {sum(same)} of {len(same)}"


def _average_precision(compared: Sequence[Compared], classes: Sequence[str], known: AnnotatedBoxes) -> Iterator[str]:
    """Yield the VOC AP of both, the mean over the classes that the pictures with known boxes show."""
    inside = [one for one in compared if one.record.id in known.pictures]
    ids = [one.record.id for one in inside]
    truth = {name: {key: known.truth[name][key] for key in ids if key in known.truth[name]} for name in classes}
    figures = []
    for by_file in (False, True):
        found = {
            name: _detections(ids, [(one.exported if by_file else one.predicted)[column] for one in inside])
            for column, name in enumerate(classes)
        }
        report = evaluate_voc(found, truth)
        figures.append([report.classes[name].ap_area for name in classes])
    pairs = [
        (own, exported) for own, exported in zip(*figures, strict=True) if own is not None and exported is not None
    ]
    if pairs:
        own, exported = np.mean(np.array(pairs, dtype=np.float64), axis=0)
        yield (
            f"own windows: VOC AP {exported:.3f} in {len(inside)} pictures, {exported - own:+.3f} from predict's "
            f"{own:.3f}; give boxes to the file where that is too low"
        )


def _detections(ids: Sequence[str], found: Found) -> Detections:
    """Return one class's detections in pictures."""
    names = tuple(name for name, (_, scores) in zip(ids, found, strict=True) for _ in scores)
    return Detections(
        names, np.concatenate([scores for _, scores in found]), np.concatenate([boxes for boxes, _ in found])
    )
