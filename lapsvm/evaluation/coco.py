"""Convert COCO ground truth and results to the inputs of the VOC evaluation, and back."""

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

import numpy as np

from lapsvm.boxes import areas
from lapsvm.catalog import GroundTruth
from lapsvm.coco_files import CocoAnnotation, CocoFile, CocoResult
from lapsvm.evaluation.matching import truth_of
from lapsvm.evaluation.results import Detections


def coco_evaluation(
    truth: CocoFile, results: Sequence[CocoResult]
) -> tuple[dict[str, Detections], dict[str, dict[str, GroundTruth]]]:
    """Return COCO ground truth and results as the arguments of `lapsvm.evaluation.evaluate_voc`.

    Parameters
    ----------
    truth : CocoFile
        Read with boxes. Crowd regions become difficult objects.
    results : sequence of CocoResult

    Returns
    -------
    detections : dict of category name to Detections
        All categories, sorted by name; detections in file order.
    ground_truth : dict of category name to dict of image id to GroundTruth
        With an entry for every picture.
    """
    by_name = sorted((name, key) for key, name in truth.categories.items())
    detections = {
        name: _detections([result for result in results if result.category_id == key]) for name, key in by_name
    }
    return detections, {name: _objects(truth, key) for name, key in by_name}


def as_coco(
    detections: Mapping[str, Detections], ground_truth: Mapping[str, Mapping[str, GroundTruth]]
) -> tuple[CocoFile, list[CocoResult]]:
    """Return detections and ground truth as the arguments of `lapsvm.evaluation.coco_rows`.

    Parameters
    ----------
    detections : mapping of class name to Detections
        Their classes become the categories.
    ground_truth : mapping of class name to (mapping of image id to GroundTruth)
        Difficult objects become crowd regions, so that detections on them count neither way; so do small boxes inside
        them, for COCO divides the overlap with a crowd region by the detection's area. The area of an object is that
        of its box.

    Returns
    -------
    truth : CocoFile
        Without a path and file names.
    results : list of CocoResult
        By class, in the given order.

    Raises
    ------
    OptionError
        If a class has no ground truth.
    """
    truths = {name: truth_of(ground_truth, name) for name in detections}
    images: dict[Hashable, str] = dict.fromkeys((image for truth in truths.values() for image in truth), "")
    annotations = [
        CocoAnnotation(image, name, bool(difficult), tuple(box), area)
        for name, truth in truths.items()
        for image, objects in truth.items()
        for box, difficult, area in zip(
            objects.boxes.tolist(), objects.difficult.tolist(), areas(objects.boxes).tolist(), strict=True
        )
    ]
    results = [
        CocoResult(image, name, score, tuple(box))
        for name, found in detections.items()
        for image, score, box in zip(found.image_ids, found.scores.tolist(), found.boxes.tolist(), strict=True)
    ]
    categories: dict[Hashable, str] = {name: name for name in detections}
    return CocoFile(Path(), images, categories, tuple(annotations)), results


def _detections(results: Sequence[CocoResult]) -> Detections:
    """Return the detections of one category."""
    return Detections(
        tuple(_image_id(result.image_id) for result in results),
        np.array([result.score for result in results], dtype=np.float64),
        np.array([result.corners for result in results], dtype=np.float64).reshape(-1, 4),
    )


def _objects(file: CocoFile, category: Hashable) -> dict[str, GroundTruth]:
    """Return image id -> objects of one category."""
    objects: dict[Hashable, list[tuple[object, bool]]] = {key: [] for key in file.file_names}
    for annotation in file.annotations:
        if annotation.category_id == category:
            objects[annotation.image_id].append((annotation.corners, annotation.is_crowd))
    return {
        _image_id(key): GroundTruth(
            np.array([corners for corners, _ in rows], dtype=np.float64).reshape(-1, 4),
            np.array([is_crowd for _, is_crowd in rows], dtype=bool),
        )
        for key, rows in objects.items()
    }


def _image_id(key: Hashable) -> str:
    """Return an id as text; 12 and "12" remain different."""
    return repr(key)
