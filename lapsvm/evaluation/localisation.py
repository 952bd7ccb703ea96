"""Where the best window of each picture lies: CorLoc.

Correct localisation is the share of a class's pictures whose best window is on an object: Deselaers, Alexe, Ferrari,
"Localizing objects while learning their appearance" (ECCV 2010). Published numbers depend on details that papers rarely
state. The defaults follow the code of OICR and PCL.

docs/explanation/evaluation.md lists the conventions and the differences of other implementations.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64, Index
from lapsvm.catalog import GroundTruth
from lapsvm.evaluation.detections import Detections
from lapsvm.evaluation.matching import TRUE_POSITIVE, Objects, OverlapRule, match, truth_of
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
        """Share of hits, or None without a picture with an object."""
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
        """Mean over the classes with a picture with an object, or None without such a class."""
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
    """Return for each class the share of pictures whose best window is on an object of the class.

    Only pictures with an object of the class count. The best window of a picture is the detection with the largest
    score, the first among equals. A picture without a window is a miss.

    Parameters
    ----------
    detections : mapping of class name to Detections
        The best window of every picture, or all detections: only the best one of each picture counts.
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
    for name, class_detections in detections.items():
        objects = Objects.pack(truth_of(ground_truth, name))
        counted = objects.without_flags() if difficult else objects.easy()
        classes[name] = _class_corloc(class_detections, counted, rule, name)
    return CorLocReport(classes)


def _class_corloc(detections: Detections, objects: Objects, rule: OverlapRule, name: str) -> ClassCorLoc:
    """Return the CorLoc of one class over the pictures that have one of `objects`."""
    images = objects.numbers(detections.image_ids, name)
    windows = np.full(len(objects.pictures), -1, dtype=np.intp)
    best_last = detections.order()[::-1]
    windows[images[best_last]] = best_last  # from worst to best, so that the first maximum remains
    chosen = windows[windows >= 0]
    order, matches = match(detections.taken(chosen), objects, rule, name)
    hits, overlaps = np.zeros(len(windows), dtype=bool), np.zeros(len(windows))
    hits[images[chosen[order]]] = matches.outcome == TRUE_POSITIVE
    overlaps[images[chosen[order]]] = matches.overlap
    counted = np.diff(objects.offsets) > 0
    ids = tuple(image for image, number in objects.pictures.items() if counted[number])
    return ClassCorLoc(ids, hits[counted], overlaps[counted], windows[counted])
