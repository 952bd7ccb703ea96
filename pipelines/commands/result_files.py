"""Figures of result files of any program against a ground truth."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.box_faults import EMPTY, SHARES, are_shares
from lapsvm.catalog import open_dataset
from lapsvm.coco_files import CROWD, fault_sentence, read_coco, read_coco_results
from lapsvm.errors import AnnotationError, StageError
from lapsvm.evaluation import Detections, class_table, coco_evaluation, coco_rows, evaluate_voc, read_results
from lapsvm.ground_truth import TruthByClass
from lapsvm.voc_files import read_objects

from ..run.progress import Reporter


def voc_table(root: Path, set_name: str, results: Path, iou: float, quiet: bool) -> dict[str, Any]:
    """Return the table of comp3/comp4 files against a ground truth in VOC layout.

    Parameters
    ----------
    root : Path
        Needs ImageSets/Main/<set>.txt and Annotations only.
    set_name : str
    results : Path
        The classes are those of its files; others that have objects in the set are named.
    iou : float
    quiet : bool
    """
    detections = read_results(results, set_name)
    truth = open_dataset("voc", root, classes=tuple(detections), test_set=set_name, boxes_only=True).ground_truth(
        set_name
    )
    if truth is None:
        raise StageError(f"evaluate needs annotations, but {root} has none for the set {set_name!r}.")
    if isinstance(truth, TruthByClass):
        _say_left_out(Reporter(quiet), str(root), truth.sentence, is_empty=truth.is_empty)
    table = class_table(evaluate_voc(detections, truth, iou).rows())
    _say_matchless(Reporter(quiet), results, detections.values())
    missing = sorted(_annotated_classes(root, next(iter(truth.values()))) - set(detections))
    if missing:
        table["missing"] = missing
        Reporter(quiet).warn(f"{results} has no result file of {', '.join(missing)}; means are without them")
    return table


def _say_matchless(reporter: Reporter, where: Path, detections: Iterable[Detections]) -> None:
    """Say how many detections match no object because their boxes have no area, or are no pixels."""
    boxes = np.concatenate([np.empty((0, 4)), *(of_class.boxes for of_class in detections)])
    counts = {EMPTY: int((boxes[:, :2] >= boxes[:, 2:]).any(axis=1).sum()), SHARES: len(boxes) * are_shares(boxes)}
    if fault := next((fault for fault, count in counts.items() if count), ""):
        reporter.warn(f"{where}: {counts[fault]:,} of {len(boxes):,} detections are {fault}, which matches no object")


def _say_left_out(reporter: Reporter, where: str, sentence: str, *, is_empty: bool) -> None:
    """Say which annotations are left out; AnnotationError if none is left."""
    if is_empty:
        raise AnnotationError(f"{where} must have a usable box, but {sentence}.")
    if sentence:
        reporter.warn(f"{where}: {sentence}")


def _annotated_classes(root: Path, image_ids: Iterable[str]) -> set[str]:
    """Return the classes that have an object in some pictures."""
    files = (root / "Annotations" / f"{image_id}.xml" for image_id in image_ids)
    return {item.name for file in files for item in read_objects(file)}


def coco_table(
    truth: Path, results: Path, iou: float, metrics: Sequence[str] = ("voc",), quiet: bool = True
) -> dict[str, Any]:
    """Return the table of COCO results against COCO annotations.

    Parameters
    ----------
    truth, results : Path
        JSON files; the classes are the categories of `truth`.
    iou : float
        For the figures of VOC.
    metrics : sequence of "voc", "coco"
    quiet : bool, default True
    """
    file = read_coco(truth, boxes=True)
    usable = tuple(annotation for annotation in file.annotations if annotation.corners is not None)
    rows = read_coco_results(results, file)
    if file.faults.keys() - {CROWD}:
        _say_left_out(Reporter(quiet), str(truth), fault_sentence(file), is_empty=not usable)
    file = replace(file, annotations=usable)
    detections, objects = coco_evaluation(file, rows)
    _say_matchless(Reporter(quiet), results, detections.values())
    columns = [evaluate_voc(detections, objects, iou).rows()] if "voc" in metrics else []
    columns += [coco_rows(file, rows)] if "coco" in metrics else []
    return class_table(*columns)
