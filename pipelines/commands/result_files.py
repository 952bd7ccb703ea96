"""Figures of result files of any program against a ground truth, with intervals over its pictures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Self

from lapsvm.catalog import GroundTruth, open_dataset
from lapsvm.coco_files import CROWD, fault_sentence, read_coco, read_coco_results
from lapsvm.errors import AnnotationError, StageError
from lapsvm.evaluation import (
    Detections,
    Draws,
    Figure,
    class_table,
    coco_evaluation,
    detection_figures,
    evaluate_voc,
    read_results,
)
from lapsvm.evaluation import coco_figures as coco_figures_of
from lapsvm.evaluation.tables import Row, Table
from lapsvm.ground_truth import TruthByClass
from lapsvm.voc_files import read_objects

from ..compare.differences import measure_table
from ..figures.draws import intervals_entry
from ..run.progress import Reporter
from .box_readings import CORNERS, WIDTHS, placed_boxes, reading_sentence

SEED = 0
"""Of the draws of pictures."""
Truth = Mapping[str, Mapping[str, GroundTruth]]
Figures = Mapping[str, Mapping[str, Figure]]
"""Class -> measure -> figure."""
Rows = Sequence[Mapping[str, Row]]


@dataclass(frozen=True)
class ResultFigures:
    """The figures of one result file, or folder of files.

    Attributes
    ----------
    name : str
    table : dict
        As `class_table`, with "intervals".
    figures : mapping of class name to (mapping of measure to Figure)
    """

    name: str
    table: Table
    figures: Figures

    @classmethod
    def of(cls, name: str, draws: Draws, rows: Rows, figures: Figures) -> Self:
        """Join rows of figures, and the figures over the draws of all pictures."""
        return cls(name, {**class_table(*rows), "intervals": intervals_entry(figures, draws)}, figures)


def drawn_pictures(ids: Iterable[str]) -> Draws:
    """Return the draws of pictures, the same whatever their order."""
    return Draws.of(sorted(ids), SEED)


def voc_columns(
    detections: Mapping[str, Detections], truth: Truth, iou: float, draws: Draws
) -> tuple[Mapping[str, Row], Figures]:
    """Return the VOC figures of each class, and with what their intervals follow from."""
    report = evaluate_voc(detections, truth, iou)
    figures = {
        name: detection_figures(result, detections[name], truth[name], draws) for name, result in report.classes.items()
    }
    return report.rows(), figures


def compared(results: Sequence[ResultFigures], reporter: Reporter) -> dict[str, Any]:
    """Return the figures of several result files and their differences to the first, as `lapsvm compare` does.

    Classes that a result file lacks are left out and named.
    """
    first = results[0]
    shared = [name for name in first.figures if all(name in file.figures for file in results)]
    if not shared:
        raise StageError("evaluate compares VOC figures of result files with a class in common, got none.")
    if others := sorted({name for file in results for name in file.figures} - set(shared)):
        reporter.warn(f"not in every result file and left out of differences: {', '.join(others)}")
    measures = list(first.figures[shared[0]])
    figures = {
        measure: {name: [file.figures[name][measure] for file in results] for name in shared} for measure in measures
    }
    return {
        "runs": [{"name": file.name} for file in results],
        "classes": shared,
        **{key: first.table["intervals"][key] for key in ("level", "draws", "seed")},
        "measures": {measure: measure_table(by_class) for measure, by_class in figures.items()},
        "results": [file.table for file in results],
    }


def voc_figures(root: Path, set_name: str, results: Path, iou: float, quiet: bool) -> ResultFigures:
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
    rows, by_class = voc_columns(detections, truth, iou, draws)
    figures = ResultFigures.of(str(results), draws, [rows], by_class)
    sizes = truth.sizes if isinstance(truth, TruthByClass) else {}
    _say_senseless(Reporter(quiet), results, reading_sentence(placed_boxes(detections.values(), sizes), CORNERS))
    missing = sorted(_annotated_classes(root, next(iter(truth.values()))) - set(detections))
    if missing:
        figures.table["missing"] = missing
        Reporter(quiet).warn(f"{results} has no result file of {', '.join(missing)}; means are without them")
    return figures


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


def coco_figures(
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
    columns = [voc_columns(detections, objects, iou, draws)] if "voc" in metrics else []
    if "coco" in metrics:
        figures = coco_figures_of(file, rows)
        columns.append(({name: values_of(by_measure) for name, by_measure in figures.items()}, figures))
    joined = {name: dict(chain.from_iterable(of[name].items() for _, of in columns)) for name in detections}
    return ResultFigures.of(str(results), draws, [column for column, _ in columns], joined)


def values_of(figures: Mapping[str, Figure]) -> Row:
    """Return the values of figures by measure."""
    return {measure: figure.value for measure, figure in figures.items()}
