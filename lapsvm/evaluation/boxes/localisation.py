"""Where the best window of each picture lies: CorLoc and pointing.

Correct localisation is the share of a class's pictures whose best window is on an object: Deselaers, Alexe, Ferrari,
"Localizing objects while learning their appearance" (ECCV 2010). Published numbers depend on details that papers rarely
state. The defaults follow the code of OICR and PCL.

Pointing asks less: whether the centre of that window is in an object. It is the pointing game of Zhang et al.,
"Top-down neural attention by excitation backprop" (ECCV 2016), with the centre as the point and no tolerance.

docs/explanation/evaluation.md lists the conventions and the differences of other implementations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64, Index
from lapsvm.catalog import GroundTruth
from lapsvm.evaluation.boxes.matching import TRUE_POSITIVE, Objects, OverlapRule, joined_boxes, match, truth_of
from lapsvm.evaluation.detections import Detections
from lapsvm.evaluation.tables import CORLOC, POINTING, Row, mean

_NO_WINDOWS, _NO_OVERLAPS = np.empty(0, np.intp), np.empty(0)


@dataclass(frozen=True, eq=False)
class ClassHits:
    """Hits and misses of one class over its m pictures with an object.

    Attributes
    ----------
    image_ids : tuple of m str
        In the order of the ground truth.
    hits : ndarray of shape (m,), bool
    windows : ndarray of shape (m,), intp
        Index of the best window in the detections; -1 without one. Empty if no window is asked for.
    overlaps : ndarray of shape (m,), float64
        Largest overlap of the best window with an object, 0 without a window. Of CorLoc alone.
    """

    image_ids: tuple[str, ...]
    hits: NDArray[np.bool_]
    windows: Index = field(default_factory=lambda: _NO_WINDOWS)
    overlaps: Float64 = field(default_factory=lambda: _NO_OVERLAPS)

    @property
    def share(self) -> float | None:
        """Share of hits, or None without a picture with an object."""
        return float(self.hits.mean()) if len(self.hits) else None

    @property
    def corloc(self) -> float | None:
        """The share under the name that it has had since the first release."""
        return self.share


@dataclass(frozen=True, eq=False)
class HitsReport:
    """Hits of all classes.

    Attributes
    ----------
    measure : str
        The key of their share in tables.
    classes : dict of class name to ClassHits
    """

    measure: str
    classes: dict[str, ClassHits]

    @property
    def mean(self) -> float | None:
        """Mean share over the classes with a picture with an object, or None without such a class."""
        return mean(result.share for result in self.classes.values())

    @property
    def mean_corloc(self) -> float | None:
        """The mean under the name that it has had since the first release."""
        return self.mean

    def rows(self) -> dict[str, Row]:
        """Return class name -> {measure: share}."""
        return {name: {self.measure: result.share} for name, result in self.classes.items()}


def corloc(
    detections: Mapping[str, Detections],
    ground_truth: Mapping[str, Mapping[str, GroundTruth]],
    iou_threshold: float = 0.5,
    *,
    strict: bool = True,
    difficult: bool = True,
    plus_one: bool = True,
) -> HitsReport:
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
    HitsReport

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
    return HitsReport(CORLOC, classes)


def _class_corloc(detections: Detections, objects: Objects, rule: OverlapRule, name: str) -> ClassHits:
    """Return the CorLoc of one class over the pictures that have one of `objects`."""
    windows = _best_windows(detections, objects, name)
    pictures = np.flatnonzero(windows >= 0)
    order, matches = match(detections.taken(windows[pictures]), objects, rule, name)
    hits, overlaps = np.zeros(len(windows), dtype=bool), np.zeros(len(windows))
    hits[pictures[order]] = matches.outcome == TRUE_POSITIVE
    overlaps[pictures[order]] = matches.overlap
    ids, counted = _with_objects(objects)
    return ClassHits(ids, hits[counted], windows[counted], overlaps[counted])


def pointing(detections: Mapping[str, Detections], ground_truth: Mapping[str, Mapping[str, GroundTruth]]) -> HitsReport:
    """Return for each class the share of pictures whose best window has its centre in an object of the class.

    The pictures, their best windows and the objects are those of `corloc`; difficult objects count as any other. Boxes
    are half-open: a centre on the left or upper edge of an object is in it, one on the right or lower edge is not. An
    inverted window has no centre and is a miss.

    Parameters
    ----------
    detections : mapping of class name to Detections
        The best window of every picture, or all detections: only the best one of each picture counts.
    ground_truth : mapping of class name to (mapping of image id to GroundTruth)

    Returns
    -------
    HitsReport

    Raises
    ------
    ResultsError, OptionError, InputError
        As `evaluate_voc`.
    """
    classes = {
        name: _class_pointing(of_class, truth_of(ground_truth, name), name) for name, of_class in detections.items()
    }
    return HitsReport(POINTING, classes)


def _class_pointing(detections: Detections, truth: Mapping[str, GroundTruth], name: str) -> ClassHits:
    """Return the pointing of one class over the pictures that have an object."""
    objects = Objects.pack(truth)
    windows = _best_windows(detections, objects, name)
    pictures = np.repeat(np.arange(len(windows)), np.diff(objects.offsets))  # of every object
    has_window = windows[pictures] >= 0
    pictures, boxes = pictures[has_window], joined_boxes(truth)[has_window]
    hits = np.zeros(len(windows), dtype=bool)
    hits[pictures[_hold_centres(boxes, detections.boxes[windows[pictures]])]] = True
    ids, counted = _with_objects(objects)
    return ClassHits(ids, hits[counted], windows[counted])


def _hold_centres(boxes: Float64, windows: Float64) -> NDArray[np.bool_]:
    """Return whether boxes (n, 4) hold the centre of the window in the same row; False for an inverted window."""
    first, last = windows[:, :2], windows[:, 2:]
    centres = first / 2 + last / 2  # the sum of two large coordinates would overflow
    return np.asarray(((first <= last) & (boxes[:, :2] <= centres) & (centres < boxes[:, 2:])).all(axis=1))


def _best_windows(detections: Detections, objects: Objects, name: str) -> Index:
    """Return the index of each picture's best detection, the first among equals; -1 without one."""
    images = objects.numbers(detections.image_ids, name)
    windows = np.full(len(objects.pictures), -1, dtype=np.intp)
    best_last = detections.order()[::-1]
    windows[images[best_last]] = best_last  # from worst to best, so that the first maximum remains
    return windows


def _with_objects(objects: Objects) -> tuple[tuple[str, ...], NDArray[np.bool_]]:
    """Return the ids of the pictures with an object, and their mask among all pictures."""
    counted = np.diff(objects.offsets) > 0
    return tuple(image for image, number in objects.pictures.items() if counted[number]), counted
