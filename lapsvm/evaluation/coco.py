"""COCO ground truth and results: as inputs of the VOC evaluation and back, and COCO's own figures.

Those are computed by faster-coco-eval (the extra ``coco``).
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy
from itertools import compress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lapsvm.annotations.coco import CocoAnnotation, CocoFile, CocoResult
from lapsvm.arrays import Array, Float64
from lapsvm.boxes import areas
from lapsvm.catalog import GroundTruth
from lapsvm.errors import import_optional
from lapsvm.evaluation.boxes.matching import truth_of
from lapsvm.evaluation.detections import Detections
from lapsvm.evaluation.figure import Figure, undefined_figure
from lapsvm.evaluation.intervals import smoothed
from lapsvm.evaluation.tables import COCO_MEASURES, Row

Record = TypeVar("Record", CocoAnnotation, CocoResult)
SIZES = ("", "_small", "_medium", "_large")  # all; areas up to 32^2, up to 96^2, and above, in square pixels
_AREAS = {"_small": 32.0**2, "_medium": 96.0**2, "_large": np.inf}
GROUPS = 40
"""Of pictures, that are left out in turn."""
MAX_DETECTIONS = (1, 10, 100)  # limits per picture and category


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
    detected, annotated = _by_category(results), _by_category(truth.annotations)
    detections = {name: _detections(detected.get(key, [])) for name, key in by_name}
    return detections, {name: _objects(truth, annotated.get(key, [])) for name, key in by_name}


def _by_category(records: Iterable[Record]) -> dict[Hashable, list[Record]]:
    """Return category -> its results or annotations, in their order."""
    by_category: dict[Hashable, list[Record]] = defaultdict(list)
    for record in records:
        by_category[record.category_id].append(record)
    return by_category


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
        for name, of_class in detections.items()
        for image, score, box in zip(of_class.image_ids, of_class.scores.tolist(), of_class.boxes.tolist(), strict=True)
    ]
    categories: dict[Hashable, str] = {name: name for name in detections}
    return CocoFile(Path(), images, categories, tuple(annotations)), results


def _detections(results: Sequence[CocoResult]) -> Detections:
    """Return the detections of one category."""
    return Detections(
        tuple(repr(result.image_id) for result in results),  # so that 12 and "12" remain different
        np.array([result.score for result in results], dtype=np.float64),
        np.array([result.corners for result in results], dtype=np.float64).reshape(-1, 4),
    )


def _objects(file: CocoFile, annotations: Iterable[CocoAnnotation]) -> dict[str, GroundTruth]:
    """Return image id -> objects of one category, by its annotations."""
    objects: dict[Hashable, list[tuple[object, bool]]] = defaultdict(list)
    for annotation in annotations:
        objects[annotation.image_id].append((annotation.corners, annotation.is_crowd))
    nothing = GroundTruth.of_objects([])
    return {repr(key): GroundTruth.of_objects(objects[key]) if key in objects else nothing for key in file.file_names}


def coco_rows(truth: CocoFile, results: Sequence[CocoResult]) -> dict[str, Row]:
    """Return COCO's twelve figures for each category.

    Their means over the categories where they are defined are COCO's own summary.

    Parameters
    ----------
    truth : CocoFile
        Read with boxes. The areas in the file, for instance those of masks, determine the sizes.
    results : sequence of CocoResult

    Returns
    -------
    dict of category name to dict
        The keys of `COCO_MEASURES`: AP over IoU .5 to .95, at .5, at .75 and by size; average recall with 1, 10 and 100
        detections a picture and by size. None where a category has no object (of that size).

    Raises
    ------
    DependencyError
        If faster-coco-eval is not installed.
    """
    names = _sorted_names(truth)
    if not truth.annotations:
        return {name: dict.fromkeys(COCO_MEASURES) for name in names}
    return _rows(_evaluation(truth, results), names)


def coco_figures(truth: CocoFile, results: Sequence[CocoResult]) -> dict[str, dict[str, Figure]]:
    """Return COCO's twelve figures for each category, with what their intervals follow from.

    The pictures are divided into at most `GROUPS` groups, by their order in the file, and evaluated without each: a
    jackknife (J. Shao and D. Tu, The Jackknife and Bootstrap, 1995, section 2.3). Each figure's "draws" are its
    deviations without a group, scaled so that they have the jackknife's variance.

    Arguments and errors are those of `coco_rows`.
    """
    names, n_images = _sorted_names(truth), len(truth.file_names)
    n_groups = min(GROUPS, n_images)
    if not truth.annotations:
        return {name: dict.fromkeys(COCO_MEASURES, undefined_figure(n_groups)) for name in names}
    evaluation = _evaluation(truth, results)
    group = np.arange(n_images) % n_groups
    values = _table(_rows(evaluation, names))
    numbers = range(n_groups if n_groups > 1 else 0)
    without = np.array([_table(_rows(evaluation, names, group != number)) for number in numbers]).reshape(
        -1, *values.shape
    )
    deviations = without - np.ma.masked_invalid(without).mean(axis=0).filled(np.nan)
    draws = values + deviations * (n_groups - 1) / np.sqrt(n_groups)
    units = _pictures_with_objects(truth)
    return {
        name: {
            measure: _figure(values[row, column], draws[:, row, column], units[name, _size(measure)])
            for column, measure in enumerate(COCO_MEASURES)
        }
        for row, name in enumerate(names)
    }


def _figure(value: float, draws: Float64, units: int) -> Figure:
    if np.isnan(value):
        return undefined_figure(len(draws))
    return Figure(float(value), draws, smoothed(float(value), max(units, 1)), max(len(draws), 1))


def _table(rows: Mapping[str, Row]) -> Float64:
    """Return figures as an array (categories, measures), NaN where undefined."""
    return np.array([[np.nan if row[name] is None else row[name] for name in COCO_MEASURES] for row in rows.values()])


def _size(measure: str) -> str:
    """Return the size of objects that a measure is of, one of `SIZES`."""
    return next((size for size in SIZES[1:] if measure.endswith(size)), "")


def _pictures_with_objects(truth: CocoFile) -> Counter[tuple[str, str]]:
    """Count the pictures with an object that counts, by its category and size."""
    pictures = {
        (truth.categories[annotation.category_id], size, annotation.image_id)
        for annotation in truth.annotations
        if not annotation.is_crowd
        for size in ("", next(name for name, most in _AREAS.items() if (annotation.area or 0) <= most))
    }
    return Counter((name, size) for name, size, _ in pictures)


def _sorted_names(truth: CocoFile) -> list[str]:
    return sorted(truth.categories.values())


def _evaluation(truth: CocoFile, results: Sequence[CocoResult]) -> Any:
    """Return an evaluation in which every picture is matched."""
    images = {key: number for number, key in enumerate(truth.file_names, start=1)}
    names = sorted((name, key) for key, name in truth.categories.items())
    categories = {key: number for number, (_, key) in enumerate(names, start=1)}
    objects = [
        {"id": number, **_entry(item, images, categories), "area": item.area, "iscrowd": int(item.is_crowd)}
        for number, item in enumerate(truth.annotations, start=1)
    ]
    dataset = {
        "images": [{"id": number} for number in images.values()],
        "categories": [{"id": number, "name": name} for number, (name, _) in enumerate(names, start=1)],
        "annotations": objects,
    }
    detections = [{**_entry(item, images, categories), "score": item.score} for item in results]
    return _matched(dataset, detections)


def _rows(evaluation: Any, names: Sequence[str], kept: NDArray[np.bool_] | None = None) -> dict[str, Row]:
    """Return the figures of each category over the pictures that are kept, all by default."""
    precision, recall = _accumulate(evaluation, kept)
    return {name: _row(precision[:, :, category], recall[:, category]) for category, name in enumerate(names)}


def _entry(item: Any, images: dict[Any, int], categories: dict[Any, int]) -> dict[str, Any]:
    """Return picture, category and box of an annotation or a result."""
    x1, y1, x2, y2 = item.corners
    box = [x1, y1, x2 - x1, y2 - y1]
    return {"image_id": images[item.image_id], "category_id": categories[item.category_id], "bbox": box}


def load_evaluator() -> Any:
    """Return the package that computes COCO's figures; DependencyError if it is not installed."""
    return import_optional("faster_coco_eval", "COCO's figures need faster-coco-eval", "coco")


def _matched(dataset: dict[str, Any], results: list[dict[str, Any]]) -> Any:
    """Return an evaluation of faster-coco-eval with the matches of each picture."""
    package = load_evaluator()
    logging.getLogger("faster_coco_eval").setLevel(logging.WARNING)
    truth = package.COCO(dataset)
    detections = truth.loadRes(results) if results else package.COCO({**dataset, "annotations": []})
    evaluation = package.COCOeval_faster(truth, detections, "bbox", separate_eval=True)
    evaluation.params.maxDets = list(MAX_DETECTIONS)
    evaluation.evaluate()
    return evaluation


def _accumulate(evaluation: Any, kept: NDArray[np.bool_] | None) -> tuple[Array, Array]:
    """Return precision (IoU, recall, category, size, limit) and recall (IoU, category, size, limit); -1: undefined."""
    if kept is not None:
        evaluation = copy(evaluation)
        evaluation._paramsEval = copy(evaluation._paramsEval)
        evaluation._paramsEval.imgIds = list(np.array(evaluation.params.imgIds)[kept])
        # matches are of categories, sizes and pictures, the last of which change fastest
        n_kinds = len(evaluation._evalImgs_cpp) // len(kept)
        evaluation._evalImgs_cpp = list(compress(evaluation._evalImgs_cpp, np.tile(kept, n_kinds)))
    evaluation.accumulate()
    return np.asarray(evaluation.eval["precision"]), np.asarray(evaluation.eval["recall"])


def _row(precision: Array, recall: Array) -> Row:
    """Return the figures of a category from its precision (IoU, recall, size, limit) and recall (IoU, size, limit)."""
    last = len(MAX_DETECTIONS) - 1
    values = {f"coco_ap{size}": precision[:, :, index, last] for index, size in enumerate(SIZES)}
    values |= {f"coco_ap{iou}": precision[row, :, 0, last] for iou, row in ((50, 0), (75, 5))}
    values |= {f"coco_ar{limit}": recall[:, 0, index] for index, limit in enumerate(MAX_DETECTIONS)}
    values |= {f"coco_ar{size}": recall[:, index, last] for index, size in enumerate(SIZES) if size}
    return {name: _mean(values[name]) for name in COCO_MEASURES}


def _mean(values: Array) -> float | None:
    """Return the mean of the defined values, or None if there are none."""
    defined = values[values > -1]
    return float(defined.mean()) if defined.size else None
