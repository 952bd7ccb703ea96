"""Correct localisation: in how many of a class's pictures the best window is on an object.

Deselaers, Alexe, Ferrari, "Localizing objects while learning their appearance" (ECCV 2010). What a paper's number
means depends on details that it seldom states. The default here is what the code of OICR and of PCL counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64, Index
from lapsvm.catalog import GroundTruth
from lapsvm.evaluation.matching import TRUE_POSITIVE, Objects, OverlapRule, match, truth_of
from lapsvm.evaluation.results import Detections
from lapsvm.evaluation.tables import Row, mean


@dataclass(frozen=True, eq=False)
class ClassCorLoc:
    """CorLoc of one class over its m pictures with an object.

    Attributes
    ----------
    image_ids : tuple of m str
        In the order of the ground truth.
    hits : ndarray of shape (m,), bool
    overlaps : ndarray of shape (m,), float64
        Largest overlap of the best window with an object; 0 without a window.
    windows : ndarray of shape (m,), intp
        Index of the best window in the detections; -1 without one.
    """

    image_ids: tuple[str, ...]
    hits: NDArray[np.bool_]
    overlaps: Float64
    windows: Index

    @property
    def corloc(self) -> float | None:
        """Share of the pictures that are hits; None if there is no picture with an object."""
        return float(self.hits.mean()) if len(self.hits) else None


@dataclass(frozen=True, eq=False)
class CorLocReport:
    """CorLoc of all classes.

    Attributes
    ----------
    classes : dict of class name to ClassCorLoc
    """

    classes: dict[str, ClassCorLoc]

    @property
    def mean_corloc(self) -> float | None:
        """The mean over the classes that have a picture with an object; None without one."""
        return mean(result.corloc for result in self.classes.values())

    def rows(self) -> dict[str, Row]:
        """Return class name -> {"corloc": value}."""
        return {name: {"corloc": result.corloc} for name, result in self.classes.items()}


def corloc(
    detections: Mapping[str, Detections],
    ground_truth: Mapping[str, Mapping[str, GroundTruth]],
    iou_threshold: float = 0.5,
    *,
    strict: bool = True,
    difficult: bool = True,
    plus_one: bool = True,
) -> CorLocReport:
    """Return how often the best window of a picture is on an object of its class.

    A picture counts if it has an object of the class. Its one window is the detection with the largest score, the
    first among equals; without a window the picture is a miss. Windows in other pictures of the set do not matter.

    Parameters
    ----------
    detections : mapping of class name to Detections
        The best window of every picture, or any detections: only the best of each picture is looked at.
    ground_truth : mapping of class name to (mapping of image id to GroundTruth)
    iou_threshold : float, default 0.5
    strict : bool, default True
        Whether the overlap must be greater than the threshold (OICR, PCL) or only reach it (PASCAL criterion).
    difficult : bool, default True
        Whether difficult objects count, as pictures and as objects to hit (OICR, PCL).
    plus_one : bool, default True
        As in `evaluate_voc`.

    Returns
    -------
    CorLocReport

    Raises
    ------
    ResultsError, OptionError, InputError
        As `evaluate_voc`.
    """
    rule = OverlapRule(iou_threshold, strict, plus_one)
    classes = {}
    for name, found in detections.items():
        objects = Objects.pack(truth_of(ground_truth, name))
        classes[name] = _class_corloc(found, objects.plain() if difficult else objects.easy(), rule, name)
    return CorLocReport(classes)


def _class_corloc(detections: Detections, objects: Objects, rule: OverlapRule, name: str) -> ClassCorLoc:
    """Return the CorLoc of one class over the pictures that have one of `objects`."""
    images = objects.numbers(detections.image_ids, name)
    windows = np.full(len(objects.pictures), -1, dtype=np.intp)
    best_last = detections.order()[::-1]
    windows[images[best_last]] = best_last  # written from worst to best: the first maximum stays
    chosen = windows[windows >= 0]
    best = Detections(
        tuple(detections.image_ids[i] for i in chosen), detections.scores[chosen], detections.boxes[chosen]
    )
    order, matches = match(best, objects, rule, name)
    hits, overlaps = np.zeros(len(windows), dtype=bool), np.zeros(len(windows))
    hits[images[chosen[order]]] = matches.outcome == TRUE_POSITIVE
    overlaps[images[chosen[order]]] = matches.overlap
    counted = np.diff(objects.offsets) > 0
    ids = tuple(image for image, number in objects.pictures.items() if counted[number])
    return ClassCorLoc(ids, hits[counted], overlaps[counted], windows[counted])
