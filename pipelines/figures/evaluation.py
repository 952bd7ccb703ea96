"""Evaluation of the result files of a run."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from lapsvm.arrays import Index
from lapsvm.catalog import GroundTruth, ImageRecord
from lapsvm.evaluation import (
    Detections,
    HitsReport,
    Ranking,
    VocReport,
    corloc,
    evaluate_voc,
    pointing,
)

from ..annotations.known_boxes import BoxSource, Truth, known_boxes
from ..context import StoredRun
from ..products.detections import read_detections
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
    corloc : HitsReport or None
        On a training set with boxes.
    pointing : HitsReport or None
        Where `corloc` is.
    rankings : dict of class name to Ranking
        All pictures by their best scores; those that are not labelled, or have no window, are not ranked.
    has_none : bool
        Whether some pictures show no class.
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
    corloc: HitsReport | None
    pointing: HitsReport | None
    rankings: dict[str, Ranking]
    has_none: bool
    faults_note: str = ""

    @property
    def known_truth(self) -> Truth | None:
        """The ground truth with entries for the pictures of `boxed` alone; None where no boxes are known."""
        if self.truth is None:
            return None
        return {name: {i: of[i] for i in of if i in self.boxed} for name, of in self.truth.items()}

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of pictures for evaluation.json."""
        return {"pictures": len(self.records), "left_out": len(self.left_out), "with_boxes": len(self.boxed)}

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
    trained_on = set_name == stored.train_set
    return SetEvaluation(
        name=set_name,
        records=records,
        detections=detections,
        located=located,
        truth=truth,
        boxed=boxed,
        left_out=tuple(image_id for image_id in records if detections and image_id not in detected),
        voc=None if truth is None or trained_on else _voc(located, rows, truth),
        corloc=corloc(detections, truth) if truth is not None and trained_on else None,
        pointing=pointing(detections, truth) if truth is not None and trained_on else None,
        rankings={name: _ranking(records, name, of_class) for name, of_class in detections.items()},
        has_none=has_pictures_of_no_class(stored.data, set_name),
        faults_note=f"set {set_name}: {known.note}" if known is not None and known.note else "",
    )


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


def _ranking(records: Mapping[str, ImageRecord], class_name: str, detections: Detections) -> Ranking:
    """Return all pictures with the scores of their best windows."""
    best = detections.best_scores()
    labels = [record.labels.get(class_name, 0) if image in best else 0 for image, record in records.items()]
    return Ranking(list(records), [best.get(image, 0.0) for image in records], labels)
