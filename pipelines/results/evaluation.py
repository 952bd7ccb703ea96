"""Evaluation of the result files of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lapsvm.catalog import GroundTruth, ImageRecord
from lapsvm.errors import StageError
from lapsvm.evaluation import (
    CorLocReport,
    Detections,
    VocReport,
    class_table,
    corloc,
    evaluate_voc,
    image_average_precision,
    read_results,
)
from lapsvm.evaluation.tables import Row

from ..run.context import RunContext

NO_BOXES = "no boxes are known: detection AP and CorLoc are left out"


@dataclass(frozen=True)
class SetEvaluation:
    """Detections and figures of one set.

    Attributes
    ----------
    detections : dict of class name to Detections
    truth : ground truth, or None where no boxes are known
    voc : VocReport or None
        On a test set with boxes.
    corloc : CorLocReport or None
        On a training set with boxes.
    image_ap : dict of class name to float or None
    """

    detections: dict[str, Detections]
    truth: Mapping[str, Mapping[str, GroundTruth]] | None
    voc: VocReport | None
    corloc: CorLocReport | None
    image_ap: dict[str, float | None]

    def table(self, *more: Mapping[str, Row]) -> dict[str, Any]:
        """Return the classes and means of the set in evaluation.json; `more` are further columns."""
        columns = [report.rows() for report in (self.voc, self.corloc) if report is not None]
        return class_table(*columns, {name: {"image_ap": value} for name, value in self.image_ap.items()}, *more)


def evaluate_set(context: RunContext, set_name: str) -> SetEvaluation:
    """Evaluate one set of a run: AP on the test set, CorLoc on the training set, image-level AP on both."""
    folder = context.run.detections(set_name)
    if not any(folder.glob("*.txt")):
        raise StageError(f"evaluate needs detections, but {folder} holds none; run lapsvm detect first.")
    detections = read_results(folder, set_name)
    missing = [name for name in context.data.classes if name not in detections]
    if missing:
        raise StageError(
            f"evaluate needs detections of {missing[0]!r}, but {folder} has none; run lapsvm detect first."
        )
    detections = {name: detections[name] for name in context.data.classes}
    records = context.data.records[set_name]
    truth = context.data.dataset.ground_truth(set_name)
    trained_on = set_name == context.settings.data.train_set
    return SetEvaluation(
        detections=detections,
        truth=truth,
        voc=None if truth is None or trained_on else evaluate_voc(detections, truth),
        corloc=corloc(detections, truth) if truth is not None and trained_on else None,
        image_ap={name: image_level_ap(records, name, of_class) for name, of_class in detections.items()},
    )


def image_level_ap(records: Sequence[ImageRecord], class_name: str, detections: Detections) -> float | None:
    """Return the AP of ranking pictures by their best window; None without positives or negatives.

    Pictures without a window (unreadable ones) have no score and are not ranked.
    """
    best = best_scores(detections)
    ranked = [record for record in records if record.id in best and record.labels.get(class_name, 0) != 0]
    labels = [record.labels[class_name] for record in ranked]
    return image_average_precision([best[record.id] for record in ranked], labels)


def best_scores(detections: Detections) -> dict[str, float]:
    """Return picture -> score of its best window."""
    best: dict[str, float] = {}
    for image_id, score in zip(detections.image_ids, detections.scores.tolist(), strict=True):
        best[image_id] = max(score, best.get(image_id, score))
    return best
