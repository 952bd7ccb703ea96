"""COCO's average precision and recall, computed by faster-coco-eval (the extra ``coco``)."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from lapsvm.arrays import Array
from lapsvm.coco_files import CocoFile, CocoResult
from lapsvm.errors import DependencyError, install_extra
from lapsvm.evaluation.tables import Row

SIZES = ("", "_small", "_medium", "_large")  # all; areas up to 32^2, up to 96^2, and above, in square pixels
MAX_DETECTIONS = (1, 10, 100)  # limits per picture and category
COCO_MEASURES = (
    "coco_ap", "coco_ap50", "coco_ap75", "coco_ap_small", "coco_ap_medium", "coco_ap_large",
    "coco_ar1", "coco_ar10", "coco_ar100", "coco_ar_small", "coco_ar_medium", "coco_ar_large",
)  # fmt: skip
"""In the order of COCO's own summary."""


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
    images = {key: number for number, key in enumerate(truth.file_names, start=1)}
    names = sorted((name, key) for key, name in truth.categories.items())
    categories = {key: number for number, (_, key) in enumerate(names, start=1)}
    if not truth.annotations:
        return {name: dict.fromkeys(COCO_MEASURES) for name, _ in names}
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
    precision, recall = _accumulate(dataset, detections)
    return {name: _row(precision[:, :, category], recall[:, category]) for category, (name, _) in enumerate(names)}


def _entry(item: Any, images: dict[Any, int], categories: dict[Any, int]) -> dict[str, Any]:
    """Return picture, category and box of an annotation or a result."""
    x1, y1, x2, y2 = item.corners
    box = [x1, y1, x2 - x1, y2 - y1]
    return {"image_id": images[item.image_id], "category_id": categories[item.category_id], "bbox": box}


def _accumulate(dataset: dict[str, Any], results: list[dict[str, Any]]) -> tuple[Array, Array]:
    """Return precision (IoU, recall, category, size, limit) and recall (IoU, category, size, limit); -1: undefined."""
    try:
        from faster_coco_eval import COCO, COCOeval_faster
    except ImportError:
        raise DependencyError(f"COCO's figures need faster-coco-eval: {install_extra('coco')}.") from None
    logging.getLogger("faster_coco_eval").setLevel(logging.WARNING)
    truth = COCO(dataset)
    detections = truth.loadRes(results) if results else COCO({**dataset, "annotations": []})
    evaluation = COCOeval_faster(truth, detections, "bbox")
    evaluation.params.maxDets = list(MAX_DETECTIONS)
    evaluation.evaluate()
    evaluation.accumulate()
    return np.asarray(evaluation.eval["precision"]), np.asarray(evaluation.eval["recall"])


def _row(precision: Array, recall: Array) -> Row:
    """Return the figures of a category from its precision (IoU, recall, size, limit) and recall (IoU, size, limit)."""
    last = len(MAX_DETECTIONS) - 1
    values = {f"coco_ap{size}": precision[:, :, index, last] for index, size in enumerate(SIZES)}
    values |= {"coco_ap50": precision[0, :, 0, last], "coco_ap75": precision[5, :, 0, last]}
    values |= {f"coco_ar{limit}": recall[:, 0, index] for index, limit in enumerate(MAX_DETECTIONS)}
    values |= {f"coco_ar{size}": recall[:, index, last] for index, size in enumerate(SIZES) if size}
    return {name: _mean(values[name]) for name in COCO_MEASURES}


def _mean(values: Array) -> float | None:
    """Return the mean of the defined values, or None if there are none."""
    defined = values[values > -1]
    return float(defined.mean()) if defined.size else None
