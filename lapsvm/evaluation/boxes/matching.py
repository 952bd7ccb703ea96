"""Matching of detections with objects by the rules of the VOC devkit, for all pictures of a class."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lapsvm._ext import voc_matching as _kernel
from lapsvm.arrays import Float64, Index, as_flags, check_finite
from lapsvm.boxes import as_boxes, to_voc
from lapsvm.catalog import GroundTruth
from lapsvm.errors import InputError, OptionError, ResultsError, ShapeError
from lapsvm.evaluation.detections import Detections, ImageIds

TRUE_POSITIVE, IGNORED, FALSE_POSITIVE = 1, 0, -1


@dataclass(frozen=True)
class OverlapRule:
    """The criterion by which a box detects an object.

    Attributes
    ----------
    iou_threshold : float, default 0.5
        In (0, 1].
    strict : bool, default False
        False: IoU >= threshold (the devkit). True: IoU > threshold (py-faster-rcnn, detectron2, OICR, PCL).
    plus_one : bool, default True
        True: sides are xmax - xmin + 1 in VOC coordinates (the devkit). False: xmax - xmin.
    """

    iou_threshold: float = 0.5
    strict: bool = False
    plus_one: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.iou_threshold <= 1:
            raise InputError(f"iou_threshold must be greater than 0 and at most 1, got {self.iou_threshold}.")


@dataclass(frozen=True, eq=False)
class Objects:
    """The objects of one class in m pictures, concatenated.

    Attributes
    ----------
    pictures : dict of image id to its number in 0..m-1
    boxes : ndarray of shape (n, 4), float64
        VOC coordinates, so that rounding agrees with the devkit for overlaps of exactly one half.
    offsets : ndarray of shape (m + 1,), intp
        Picture i has the rows offsets[i]:offsets[i + 1].
    difficult : ndarray of shape (n,), uint8
    """

    pictures: dict[str, int]
    boxes: Float64
    offsets: Index
    difficult: NDArray[np.uint8]

    @classmethod
    def pack(cls, ground_truth: Mapping[str, GroundTruth]) -> "Objects":
        """Return the objects of a mapping of image id to GroundTruth, in its order.

        Raises
        ------
        ShapeError
            If a picture's boxes and flags differ in number.
        NotFiniteError
            If a coordinate or a flag is NaN or infinite.
        InputError
            If a flag is neither True nor False.
        """
        for image, truth in ground_truth.items():
            if len(truth.boxes) != len(truth.difficult):
                raise ShapeError(
                    f"ground truth of {image!r} must have as many difficult flags as boxes, "
                    f"got {len(truth.difficult)} and {len(truth.boxes)}."
                )
        counts = [len(truth.boxes) for truth in ground_truth.values()]
        filled = [truth for truth in ground_truth.values() if len(truth.boxes)]
        boxes = joined_boxes(ground_truth)
        return cls(
            {image: number for number, image in enumerate(ground_truth)},
            np.ascontiguousarray(to_voc(boxes)),
            np.concatenate([[0], np.cumsum(counts, dtype=np.intp)]).astype(np.intp),
            as_flags(
                "difficult flags", np.concatenate([np.empty(0, bool), *(truth.difficult for truth in filled)])
            ).astype(np.uint8),
        )

    def easy(self) -> "Objects":
        """Return the objects that are not difficult."""
        kept = self.difficult == 0
        before = np.concatenate([[0], np.cumsum(kept)])
        return Objects(self.pictures, self.boxes[kept], before[self.offsets], self.difficult[kept])

    def without_flags(self) -> "Objects":
        """Return the same objects, none of them marked difficult."""
        return Objects(self.pictures, self.boxes, self.offsets, np.zeros_like(self.difficult))

    def numbers(self, image_ids: ImageIds, class_name: str) -> Index:
        """Return the number of each detection's picture, intp of shape (k,).

        Raises
        ------
        ResultsError
            If the ground truth has no such picture.
        """
        numbers = image_ids.numbers_in(self.pictures)
        if len(numbers) and numbers.min() < 0:
            raise ResultsError(
                f"detections of class {class_name!r} must be in pictures of the evaluated set, "
                f"got {image_ids[int(np.argmin(numbers))]!r}."
            )
        return numbers


@dataclass(frozen=True, eq=False)
class Matches:
    """The outcomes of detections, best first.

    Attributes
    ----------
    outcome : ndarray of shape (n,), int8
        1: true positive, -1: false positive, 0: ignored (matched with a difficult object).
    partner : ndarray of shape (n,), intp
        Row of the matched object in `Objects`, or -1. A second detection of an object has the same partner.
    overlap : ndarray of shape (n,), float64
        The largest overlap with any object of the class, 0 without one.
    """

    outcome: NDArray[np.int8]
    partner: Index
    overlap: Float64


def match(detections: Detections, objects: Objects, rule: OverlapRule, class_name: str) -> tuple[Index, Matches]:
    """Pair detections with objects, from best to worst (VOCevaldet.m).

    The candidate of a detection is the object of its picture with the largest overlap, the first in the file among
    equals. If the overlap suffices, the detection is ignored for a difficult object, a true positive for an unmatched
    object, and a false positive for an object that is already matched.

    Parameters
    ----------
    detections : Detections
    objects : Objects
    rule : OverlapRule
    class_name : str
        Name for error messages.

    Returns
    -------
    order : ndarray of shape (n,), intp
        Indices of the detections from best to worst.
    matches : Matches
        In that order.

    Raises
    ------
    ResultsError
        If a detection is in a picture that the ground truth lacks.
    """
    order = detections.order()
    images = objects.numbers(detections.image_ids, class_name)[order]
    boxes = np.ascontiguousarray(to_voc(detections.boxes)[order])
    pixel = 1.0 if rule.plus_one else 0.0
    matches = _kernel.match(
        boxes, images, objects.boxes, objects.offsets, objects.difficult, rule.iou_threshold, rule.strict, pixel
    )
    return order, Matches(*matches)


def joined_boxes(ground_truth: Mapping[str, GroundTruth]) -> Float64:
    """Return the boxes (n, 4) of all pictures, in their order, 0-based and half-open.

    Raises
    ------
    NotFiniteError
        If a coordinate is NaN or infinite.
    """
    filled = [truth.boxes for truth in ground_truth.values() if len(truth.boxes)]
    boxes = as_boxes(np.concatenate([np.empty((0, 4)), *filled]), "ground truth")
    check_finite("ground truth", boxes)
    return boxes


def truth_of(ground_truth: Mapping[str, Mapping[str, GroundTruth]], class_name: str) -> Mapping[str, GroundTruth]:
    """Return the ground truth of a class.

    Raises
    ------
    OptionError
        If the class has no ground truth.
    """
    if class_name not in ground_truth:
        raise OptionError(
            f"class {class_name!r} has detections but no ground truth; it has {', '.join(sorted(ground_truth))}."
        )
    return ground_truth[class_name]
