"""Evaluation of the result files of a run."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lapsvm.arrays import Index
from lapsvm.catalog import GroundTruth, ImageRecord
from lapsvm.evaluation import (
    CorLocReport,
    Detections,
    PointingReport,
    VocReport,
    class_table,
    corloc,
    evaluate_voc,
    image_auroc,
    image_average_precision,
    pointing,
)
from lapsvm.evaluation.tables import Row

from ..context import StoredRun
from ..products.detections import read_detections
from ..results.known_boxes import BoxSource, Truth, known_boxes
from ..run.dataset import has_pictures_of_no_class

NO_BOXES = "no boxes are known: detection AP and CorLoc are left out"


@dataclass(frozen=True)
class SetEvaluation:
    """Detections and figures of one set.

    Attributes
    ----------
    name : str
    records : mapping of id to ImageRecord
        All pictures of the set.
    detections : dict of class name to Detections
        Of all pictures. `voc`, `corloc` and `pointing` refer to their rows.
    located : dict of class name to Detections
        Those in pictures of `boxed`; all of them where no boxes are known.
    truth : ground truth, or None where no boxes are known
        With an entry for every picture; an empty one where its boxes are not known.
    boxed : frozenset of str
        Pictures whose boxes are known and that could be read: detection AP, CorLoc and pointing are over these.
    left_out : tuple of str
        Pictures that have no detections, for they could not be read. No figure is over these.
    voc : VocReport or None
        On a test set with boxes.
    corloc : CorLocReport or None
        On a training set with boxes.
    pointing : PointingReport or None
        Where `corloc` is.
    image_ap : dict of class name to float or None
        None without a picture with the class, or without one that lacks it: every order is perfect then.
    image_auroc : dict of class name to float or None
        Empty unless `has_pictures_of_no_class` says yes.
    faults_note : str
        A sentence on boxes of the data set that cannot be used; "" if all can.
    """

    name: str
    records: Mapping[str, ImageRecord]
    detections: dict[str, Detections]
    located: dict[str, Detections]
    truth: Truth | None
    boxed: frozenset[str]
    left_out: tuple[str, ...]
    voc: VocReport | None
    corloc: CorLocReport | None
    pointing: PointingReport | None
    image_ap: dict[str, float | None]
    image_auroc: dict[str, float | None]
    faults_note: str = ""

    @property
    def known_truth(self) -> Truth | None:
        """The ground truth with entries for the pictures of `boxed` alone; None where no boxes are known."""
        if self.truth is None:
            return None
        return {name: {i: of[i] for i in of if i in self.boxed} for name, of in self.truth.items()}

    def image_level(self, name: str) -> dict[str, float | None]:
        """Return the image-level figures of a class, by measure."""
        whole = {"image_ap": self.image_ap, "image_auroc": self.image_auroc}
        return {measure: of[name] for measure, of in whole.items() if name in of}

    def table(self, *more: Mapping[str, Row]) -> dict[str, Any]:
        """Return the classes, means and counts of pictures for evaluation.json; `more` are further columns."""
        columns = [report.rows() for report in (self.voc, self.corloc, self.pointing) if report is not None]
        table = class_table(*columns, {name: self.image_level(name) for name in self.image_ap}, *more)
        return table | {"pictures": len(self.records), "left_out": len(self.left_out), "with_boxes": len(self.boxed)}

    @property
    def boxes_note(self) -> str:
        """A sentence on the pictures whose boxes are known; "" if all are."""
        if self.truth is None:
            return f"set {self.name}: {NO_BOXES}"
        if len(self.boxed) == len(self.records) - len(self.left_out):
            return ""
        count = f"{len(self.boxed):,} of {len(self.records):,}"
        return f"set {self.name}: boxes are known of {count} pictures; detection AP and CorLoc are over these"

    @property
    def left_out_note(self) -> str:
        """A sentence on the pictures that are in no figure; "" if there are none."""
        count = f"{len(self.left_out):,} of {len(self.records):,}"
        note = f"set {self.name}: {count} pictures are left out of all figures, because they have no detections"
        return note if self.left_out else ""


def evaluate_set(stored: StoredRun, boxes: BoxSource, set_name: str) -> SetEvaluation:
    """Evaluate one set of a run: AP on the test set, CorLoc and pointing on the training set, image AP on both."""
    detections = read_detections(stored, "evaluate", set_name)
    records = {record.id: record for record in stored.data.records[set_name]}
    detected = {image_id for of_class in detections.values() for image_id in of_class.image_ids.distinct()}
    known = known_boxes(boxes, set_name)
    boxed = frozenset(() if known is None else known.pictures & detected)
    others = frozenset(records if boxed else ()) - boxed  # a picture of no record is refused below
    outside = dict.fromkeys(others, 0)
    rows = {name: np.flatnonzero(found.image_ids.numbers_in(outside) < 0) for name, found in detections.items()}
    located = {name: found.taken(rows[name]) for name, found in detections.items()} if others else detections
    truth = None if known is None or not boxed else _without(known.truth, others)
    trained_on, is_sorted = set_name == stored.train_set, has_pictures_of_no_class(stored.data, set_name)
    ranked = {name: _labelled_bests(records, name, of_class) for name, of_class in detections.items()}
    return SetEvaluation(
        name=set_name,
        records=records,
        detections=detections,
        located=located,
        truth=truth,
        boxed=boxed,
        left_out=tuple(image_id for image_id in records if image_id not in detected),
        voc=None if truth is None or trained_on else _voc(located, rows, truth),
        corloc=corloc(detections, truth) if truth is not None and trained_on else None,
        pointing=pointing(detections, truth) if truth is not None and trained_on else None,
        image_ap={name: _image_ap(*pictures) for name, pictures in ranked.items()},
        image_auroc={name: image_auroc(*of) for name, of in ranked.items()} if is_sorted else {},
        faults_note=f"set {set_name}: {known.note}" if known is not None and known.note else "",
    )


def _image_ap(scores: Sequence[float], labels: Sequence[int]) -> float | None:
    """Return the image AP of a class; None where no picture lacks it."""
    return image_average_precision(scores, labels) if -1 in labels else None


def _without(truth: Truth, others: Collection[str]) -> Truth:
    """Return ground truth without the objects in other pictures."""
    if not others:
        return truth
    none = GroundTruth.of_objects([])
    return {
        name: {image: none if image in others else objects for image, objects in of_class.items()}
        for name, of_class in truth.items()
    }


def _voc(located: Mapping[str, Detections], rows: Mapping[str, Index], truth: Truth) -> VocReport:
    """Return the figures of the devkit over pictures with boxes, with the rows of all detections."""
    report = evaluate_voc(located, truth)
    return VocReport({name: replace(result, order=rows[name][result.order]) for name, result in report.classes.items()})


def _labelled_bests(
    records: Mapping[str, ImageRecord], class_name: str, detections: Detections
) -> tuple[list[float], list[int]]:
    """Return the best score and the label of each labelled picture; those without a window have no score."""
    best = detections.best_scores()
    labels = {image: record.labels.get(class_name, 0) for image, record in records.items() if image in best}
    ranked = [image for image, label in labels.items() if label != 0]
    return [best[image] for image in ranked], [labels[image] for image in ranked]
