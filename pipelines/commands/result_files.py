"""Figures of result files of any program against a ground truth, with intervals over its pictures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from lapsvm.annotations.coco import CROWD, fault_sentence, read_coco, read_coco_results
from lapsvm.annotations.voc import read_objects
from lapsvm.catalog import GroundTruth, open_dataset
from lapsvm.errors import AnnotationError, StageError
from lapsvm.evaluation import (
    Detections,
    Draws,
    Figure,
    Figures,
    MeasuredClass,
    coco_evaluation,
    coco_figures,
    evaluate_voc,
    read_results,
)
from lapsvm.evaluation.measures import Pictures
from lapsvm.evaluation.tables import Table
from lapsvm.ground_truth import TruthByClass

from ..compare.differences import measure_table, shared_measures
from ..figures.compute import voc_figures
from ..run.progress import Reporter
from .box_readings import CORNERS, WIDTHS, placed_boxes, reading_sentence

SEED = 0
"""Of the draws of pictures."""
Truth = Mapping[str, Mapping[str, GroundTruth]]


@dataclass(frozen=True)
class ResultFigures:
    """The figures of one result file, or folder of files.

    Attributes
    ----------
    name : str
    figures : Figures
    missing : sequence of str
        Classes of the ground truth that it lacks.
    """

    name: str
    figures: Figures
    missing: Sequence[str] = ()

    @classmethod
    def of(
        cls, name: str, draws: Draws, joint: Mapping[str, Mapping[str, Figure]], missing: Sequence[str] = ()
    ) -> Self:
        """Return class -> figures that are computed together, over the draws of all pictures."""
        classes = {of_class: MeasuredClass(joint=row) for of_class, row in joint.items()}
        return cls(name, Figures.of(name, Pictures.TEST, classes, draws), missing)

    @property
    def table(self) -> Table:
        """The figures as JSON."""
        return self.figures.to_json() | ({"missing": list(self.missing)} if self.missing else {})


def drawn_pictures(ids: Iterable[str]) -> Draws:
    """Return the draws of pictures, the same whatever their order."""
    return Draws.of(sorted(ids), SEED)


def devkit_figures(
    detections: Mapping[str, Detections], truth: Truth, iou: float, draws: Draws
) -> dict[str, dict[str, Figure]]:
    """Return class -> the figures of VOC."""
    report = evaluate_voc(detections, truth, iou)
    return {name: voc_figures(result, detections[name], truth[name], draws) for name, result in report.classes.items()}


def compared(results: Sequence[ResultFigures], reporter: Reporter) -> dict[str, Any]:
    """Return the figures of several result files and their differences to the first, as `lapsvm compare` does.

    Classes that a result file lacks are left out and named.
    """
    first = results[0]
    shared = [name for name in first.figures.classes if all(name in file.figures.classes for file in results)]
    if not shared:
        raise StageError("evaluate compares VOC figures of result files with a class in common, got none.")
    if others := sorted({name for file in results for name in file.figures.classes} - set(shared)):
        reporter.warn(f"not in every result file and left out of differences: {', '.join(others)}")
    figures, tables = [file.figures.select(shared) for file in results], [file.table for file in results]
    return {
        "runs": [{"name": file.name} for file in results],
        "classes": shared,
        **{key: tables[0]["intervals"][key] for key in ("level", "draws", "seed")},
        "measures": {key: measure_table(figures, key) for key in shared_measures(figures)},
        "results": tables,
    }


def figures_of_folder(root: Path, set_name: str, results: Path, iou: float, quiet: bool) -> ResultFigures:
    """Return the figures of comp3/comp4 files against a ground truth in VOC layout.

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
    draws = drawn_pictures(next(iter(truth.values())))
    joint = devkit_figures(detections, truth, iou, draws)
    sizes = truth.sizes if isinstance(truth, TruthByClass) else {}
    _say_senseless(Reporter(quiet), results, reading_sentence(placed_boxes(detections.values(), sizes), CORNERS))
    missing = sorted(_annotated_classes(root, next(iter(truth.values()))) - set(detections))
    if missing:
        Reporter(quiet).warn(f"{results} has no result file of {', '.join(missing)}; means are without them")
    return ResultFigures.of(str(results), draws, joint, missing)


def _say_senseless(reporter: Reporter, where: Path, sentence: str) -> None:
    """Say how many detections have boxes that make no sense, if any."""
    if sentence:
        reporter.warn(f"{where}: {sentence}")


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


def figures_of_coco(
    truth: Path, results: Path, iou: float, metrics: Sequence[str] = ("voc",), quiet: bool = True
) -> ResultFigures:
    """Return the figures of COCO results against COCO annotations.

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
    sizes = {repr(key): size for key, size in file.sizes.items()}
    _say_senseless(Reporter(quiet), results, reading_sentence(placed_boxes(detections.values(), sizes), WIDTHS))
    draws = drawn_pictures(map(repr, file.file_names))
    joint: dict[str, dict[str, Figure]] = {name: {} for name in detections}
    if "voc" in metrics:
        joint = devkit_figures(detections, objects, iou, draws)
    if "coco" in metrics:
        of_coco = coco_figures(file, rows)
        joint = {name: {**row, **of_coco[name]} for name, row in joint.items()}
    return ResultFigures.of(str(results), draws, joint)
