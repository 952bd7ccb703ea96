"""Average precision of detections, with the semantics of the PASCAL VOC devkit (VOCevaldet.m, VOCap.m).

docs/explanation/evaluation.md lists the conventions and the differences of other implementations.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64, Index, check_choice
from lapsvm.catalog import GroundTruth
from lapsvm.evaluation.average_precision import RECALL_GRIDS, average_precision_11point, average_precision_area
from lapsvm.evaluation.boxes.matching import (
    FALSE_POSITIVE,
    TRUE_POSITIVE,
    Matches,
    Objects,
    OverlapRule,
    match,
    truth_of,
)
from lapsvm.evaluation.detections import Detections
from lapsvm.evaluation.tables import AP_11POINT, AP_AREA, NPOS, Row, mean


@dataclass(frozen=True, eq=False)
class ClassResult:
    """The evaluation of one class with n detections; arrays are sorted from best to worst.

    Attributes
    ----------
    npos : int
        Objects that are not difficult.
    ap_11point, ap_area : float or None
        Average precision of VOC2007, and of VOC2010 and later; None if npos is 0.
    recall, precision : ndarray of shape (n,), float64
        After each detection; 0 where the devkit divides by 0 (npos 0, or nothing counted so far).
    order : ndarray of shape (n,), intp
        Index of the detection in its file.
    matches : Matches
        Outcome of each detection.
    """

    npos: int
    ap_11point: float | None
    ap_area: float | None
    recall: Float64
    precision: Float64
    order: Index
    matches: Matches

    @property
    def tp(self) -> NDArray[np.bool_]:
        """Mask (n,) of the true positives, best first."""
        return np.asarray(self.matches.outcome == TRUE_POSITIVE)

    @property
    def fp(self) -> NDArray[np.bool_]:
        """Mask (n,) of the false positives, best first."""
        return np.asarray(self.matches.outcome == FALSE_POSITIVE)

    @property
    def aps(self) -> dict[str, float | None]:
        """The two average precisions by their keys in tables."""
        return {AP_11POINT: self.ap_11point, AP_AREA: self.ap_area}

    def row(self) -> Row:
        """Return the class's row of the table: ap_11point, ap_area, npos."""
        return {**self.aps, NPOS: self.npos}


@dataclass(frozen=True, eq=False)
class VocReport:
    """The evaluation of all classes.

    Attributes
    ----------
    classes : dict of class name to ClassResult
    """

    classes: dict[str, ClassResult]

    @property
    def mean_ap_11point(self) -> float | None:
        """Mean over the classes with an object, or None without such a class."""
        return mean(result.ap_11point for result in self.classes.values())

    @property
    def mean_ap_area(self) -> float | None:
        """Mean over the classes with an object, or None without such a class."""
        return mean(result.ap_area for result in self.classes.values())

    def rows(self) -> dict[str, Row]:
        """Return class name -> row of the table."""
        return {name: result.row() for name, result in self.classes.items()}


def evaluate_voc(
    detections: Mapping[str, Detections],
    ground_truth: Mapping[str, Mapping[str, GroundTruth]],
    iou_threshold: float = 0.5,
    *,
    strict: bool = False,
    plus_one: bool = True,
    grid: str = "matlab",
) -> VocReport:
    """Evaluate detections class by class.

    Detections are sorted by descending score, equal scores in file order. Each is matched with the object of its
    picture and class that has the largest overlap; see `lapsvm.evaluation.boxes.matching.match`.

    Parameters
    ----------
    detections : mapping of class name to Detections
        The evaluated classes; a class without detections gets 0.
    ground_truth : mapping of class name to (mapping of image id to GroundTruth)
        With an entry for every picture of the set, also for those without an object.
    iou_threshold : float, default 0.5
    strict : bool, default False
        Whether the overlap must exceed the threshold (py-faster-rcnn, OICR) or only reach it (devkit).
    plus_one : bool, default True
        Whether sides are xmax - xmin + 1 in VOC coordinates (devkit) or xmax - xmin.
    grid : {"matlab", "octave", "exact"}, default "matlab"
        See `lapsvm.evaluation.average_precision`.

    Returns
    -------
    VocReport

    Raises
    ------
    ResultsError
        If a detection is in a picture that the ground truth lacks.
    OptionError
        If a class has no ground truth, or the grid is unknown.
    InputError
        If the threshold is not in (0, 1], or an array breaks its rule.
    """
    rule = OverlapRule(iou_threshold, strict, plus_one)
    check_choice("grid", grid, RECALL_GRIDS)
    classes = {}
    for name, class_detections in detections.items():
        objects = Objects.pack(truth_of(ground_truth, name))
        classes[name] = _evaluate_class(class_detections, objects, rule, name, grid)
    return VocReport(classes)


def _evaluate_class(detections: Detections, objects: Objects, rule: OverlapRule, name: str, grid: str) -> ClassResult:
    """Return the evaluation of one class."""
    order, matches = match(detections, objects, rule, name)
    npos = int((objects.difficult == 0).sum())
    tp = np.cumsum(matches.outcome == TRUE_POSITIVE)
    counted = np.cumsum(matches.outcome != 0)
    recall, precision = tp / max(npos, 1), tp / np.maximum(counted, 1)
    if npos == 0:
        return ClassResult(0, None, None, recall, precision, order, matches)
    points = average_precision_11point(recall, precision, grid)
    return ClassResult(npos, points, average_precision_area(recall, precision), recall, precision, order, matches)
