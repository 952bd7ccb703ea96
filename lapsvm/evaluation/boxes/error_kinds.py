"""Why detections are wrong and objects are missed: six kinds of errors, and the AP that each of them costs.

The kinds are those of Bolya, Foley, Hays, Hoffman, "TIDE: A General Toolbox for Identifying Object Detection Errors"
(ECCV 2020), with the matching of the VOC devkit. Counting the errors among the npos best detections (npos is the number
of objects) follows Hoiem, Chodpathumwan, Dai, "Diagnosing Error in Object Detectors" (ECCV 2012).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from lapsvm._ext import boxes as _kernel
from lapsvm.arrays import Float64, Index
from lapsvm.boxes import as_boxes
from lapsvm.catalog import GroundTruth
from lapsvm.errors import InputError
from lapsvm.evaluation.average_precision import average_precision_area
from lapsvm.evaluation.boxes.matching import FALSE_POSITIVE, IGNORED, TRUE_POSITIVE, truth_of
from lapsvm.evaluation.boxes.voc import ClassResult, VocReport
from lapsvm.evaluation.detections import Detections
from lapsvm.evaluation.tables import Row

BACKGROUND_IOU = 0.1


class ErrorKind(StrEnum):
    """The kinds of errors; the first five are of false positives, the last one is of objects."""

    CLASS = "class"
    LOCALISATION = "localisation"
    BOTH = "both"
    DUPLICATE = "duplicate"
    BACKGROUND = "background"
    MISSED = "missed"


KINDS = tuple(ErrorKind)
NO_ERROR = -1


@dataclass(frozen=True, eq=False)
class ClassErrors:
    """The errors of one class with n detections.

    Attributes
    ----------
    kinds : ndarray of shape (n,), int8
        Index into `KINDS` of each detection, best first; -1 for those that are correct or ignored.
    missed : int
        Objects that count as missed.
    npos : int
        Objects that are not difficult.
    gains : mapping of ErrorKind to float or None
        Rise of the AP (area) if all errors of the kind were mended; None where it is undefined.
    n_correct, n_correct_top : int
        True positives, and those among the npos best detections.
    n_top : mapping of ErrorKind to int
        Errors among the npos best detections; for MISSED `missed`.
    """

    kinds: NDArray[np.int8]
    missed: int
    npos: int
    gains: Mapping[ErrorKind, float | None]
    n_correct: int
    n_correct_top: int
    n_top: Mapping[ErrorKind, int]

    def count(self, kind: ErrorKind) -> int:
        """Return the number of errors of a kind among all detections."""
        return self.missed if kind == ErrorKind.MISSED else int((self.kinds == KINDS.index(kind)).sum())

    def row(self) -> dict[str, Row]:
        """Return "correct" and each kind -> {"count", "top", "ap_gain"}, plain values for JSON."""
        rows: dict[str, Row] = {"correct": {"count": self.n_correct, "top": self.n_correct_top, "ap_gain": None}}
        for kind in KINDS:
            rows[str(kind)] = {"count": self.count(kind), "top": self.n_top[kind], "ap_gain": self.gains[kind]}
        return rows


def error_kinds(
    report: VocReport,
    detections: Mapping[str, Detections],
    ground_truth: Mapping[str, Mapping[str, GroundTruth]],
    iou_threshold: float = 0.5,
    background_iou: float = BACKGROUND_IOU,
) -> dict[str, ClassErrors]:
    """Return the kinds of errors of every class.

    The first rule that applies decides the kind of a false positive. Its *own* overlap is the largest IoU with an
    object of its class, its *other* overlap the largest with an object of another class, difficult objects included.

    1. Duplicate: the own overlap suffices, but a better detection has matched the object.
    2. Localisation: the own overlap is at least `background_iou`.
    3. Class: the other overlap is at least `iou_threshold`.
    4. Both: the other overlap is at least `background_iou`.
    5. Background: all other false positives.

    An object that is not difficult is missed unless a true positive matches it, or it is the nearest object of a
    localisation error, or of a class error of another class. The gain of a kind is the rise of the AP (area) without
    the errors of that kind: false positives are left out, except that the best localisation error of an object that no
    detection matches becomes a true positive; missed objects do not count as objects.

    Parameters
    ----------
    report : VocReport
        Of the same detections and ground truth.
    detections : mapping of class name to Detections
    ground_truth : mapping of class name to (mapping of image id to GroundTruth)
        Every class lists the same pictures. Objects of classes that it lacks are unknown: detections on them are
        background.
    iou_threshold : float, default 0.5
        That of the report.
    background_iou : float, default 0.1
        Below `iou_threshold`.

    Returns
    -------
    dict of class name to ClassErrors

    Raises
    ------
    OptionError
        If a class of the report has no ground truth.
    InputError
        If the thresholds are not 0 < background_iou < iou_threshold <= 1.
    """
    if not 0 < background_iou < iou_threshold <= 1:
        raise InputError(
            "background_iou must be greater than 0 and less than iou_threshold, "
            f"got {background_iou} and {iou_threshold}."
        )
    for name in report.classes:
        truth_of(ground_truth, name)
    objects = _Objects.pack(ground_truth)
    by_class = {
        name: _class_kinds(result, detections[name], objects, name, (iou_threshold, background_iou))
        for name, result in report.classes.items()
    }
    confused = np.concatenate([np.empty(0, np.intp), *(kinds.confused for kinds in by_class.values())])
    return {name: _class_errors(report.classes[name], kinds, objects, confused) for name, kinds in by_class.items()}


@dataclass(frozen=True, eq=False)
class _Objects:
    """The k objects of all classes, by picture."""

    pictures: dict[str, int]
    boxes: Float64
    picture: Index
    owner: Index
    difficult: NDArray[np.bool_]
    names: tuple[str, ...]

    @classmethod
    def pack(cls, ground_truth: Mapping[str, Mapping[str, GroundTruth]]) -> "_Objects":
        pictures = {image: number for number, image in enumerate(next(iter(ground_truth.values())))}
        rows = [
            (number, owner, truth[image])
            for owner, truth in enumerate(ground_truth.values())
            for image, number in pictures.items()
            if len(truth[image].boxes)
        ]
        rows.sort(key=lambda row: row[:2])
        sizes = [len(truth.boxes) for _, _, truth in rows]
        return cls(
            pictures,
            as_boxes(np.concatenate([np.empty((0, 4)), *(truth.boxes for _, _, truth in rows)])),
            np.repeat(np.array([number for number, _, _ in rows], dtype=np.intp), sizes),
            np.repeat(np.array([owner for _, owner, _ in rows], dtype=np.intp), sizes),
            np.concatenate([np.empty(0, bool), *(truth.difficult for _, _, truth in rows)]).astype(bool),
            tuple(ground_truth),
        )

    def nearest(self, boxes: Float64, images: Index, mask: NDArray[np.bool_]) -> tuple[Float64, Index]:
        """Return each box's largest IoU with an object of `mask` in its picture, and the object's row (-1: none)."""
        rows = np.flatnonzero(mask)
        offsets = np.searchsorted(self.picture[rows], np.arange(len(self.pictures) + 1))
        best, nearest = _kernel.nearest(boxes, images, self.boxes[rows], offsets)
        return best, np.append(rows, -1)[nearest]


@dataclass(frozen=True, eq=False)
class _Kinds:
    """Kinds of the detections, best first; rows of the objects of localisation and class errors; all objects found."""

    kinds: NDArray[np.int8]
    nearest: Index
    confused: Index
    own: Index
    matched: Index


def _class_kinds(
    result: ClassResult, detections: Detections, objects: _Objects, name: str, thresholds: tuple[float, float]
) -> _Kinds:
    """Return the kinds of one class's detections."""
    enough, background = thresholds
    outcome = result.matches.outcome
    images = detections.image_ids.numbers_in(objects.pictures)[result.order]
    boxes, is_own = detections.boxes[result.order], objects.owner == objects.names.index(name)
    kinds, nearest = np.full(len(outcome), NO_ERROR, dtype=np.int8), np.full(len(outcome), -1, dtype=np.intp)
    wrong = np.flatnonzero(outcome == FALSE_POSITIVE)
    overlap, row = objects.nearest(boxes[wrong], images[wrong], is_own)
    other, other_row = objects.nearest(boxes[wrong], images[wrong], ~is_own)
    rules = [result.matches.partner[wrong] >= 0, overlap >= background, other >= enough, other >= background]
    names = (ErrorKind.DUPLICATE, ErrorKind.LOCALISATION, ErrorKind.CLASS, ErrorKind.BOTH)
    kinds[wrong] = np.select(rules, [KINDS.index(kind) for kind in names], KINDS.index(ErrorKind.BACKGROUND))
    nearest[wrong] = row
    right = np.flatnonzero(outcome == TRUE_POSITIVE)
    _, matched = objects.nearest(boxes[right], images[right], is_own)
    confused = other_row[kinds[wrong] == KINDS.index(ErrorKind.CLASS)]
    return _Kinds(kinds, nearest, confused, np.flatnonzero(is_own & ~objects.difficult), matched)


def _class_errors(result: ClassResult, errors: _Kinds, objects: _Objects, confused: Index) -> ClassErrors:
    """Return the errors of one class; `confused` are the objects that detections of wrong classes lie on."""
    badly_placed = errors.nearest[errors.kinds == KINDS.index(ErrorKind.LOCALISATION)]
    missed = np.setdiff1d(errors.own, np.concatenate([errors.matched, badly_placed, confused]))
    best = errors.kinds[result.matches.outcome != IGNORED][: result.npos]
    n_top = {kind: int((best == number).sum()) for number, kind in enumerate(KINDS)}
    return ClassErrors(
        errors.kinds,
        len(missed),
        result.npos,
        dict(_gains(result, errors, objects, len(missed))),
        len(errors.matched),
        int((best == NO_ERROR).sum()),
        n_top | {ErrorKind.MISSED: len(missed)},
    )


def _gains(
    result: ClassResult, errors: _Kinds, objects: _Objects, missed: int
) -> Iterator[tuple[ErrorKind, float | None]]:
    """Yield each kind with the rise of the AP without its errors."""
    outcome = result.matches.outcome
    for number, kind in enumerate(KINDS):
        mended = np.where(errors.kinds == number, IGNORED, outcome)
        if kind == ErrorKind.LOCALISATION:
            mended[_moved(errors, objects)] = TRUE_POSITIVE
        after = _area(mended, result.npos - missed * (kind == ErrorKind.MISSED))
        yield kind, None if after is None or result.ap_area is None else max(0.0, after - result.ap_area)


def _moved(errors: _Kinds, objects: _Objects) -> Index:
    """Return the best localisation error of each object that no detection matches."""
    wrong = np.flatnonzero(errors.kinds == KINDS.index(ErrorKind.LOCALISATION))
    rows, first = np.unique(errors.nearest[wrong], return_index=True)
    return wrong[first[~np.isin(rows, errors.matched) & ~objects.difficult[rows]]]


def _area(outcome: NDArray[np.int8], npos: int) -> float | None:
    """Return the AP (area) of outcomes, best first; None without an object."""
    if npos == 0:
        return None
    right = np.cumsum(outcome == TRUE_POSITIVE)
    return average_precision_area(right / npos, right / np.maximum(np.cumsum(outcome != IGNORED), 1))
