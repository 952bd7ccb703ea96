"""Stage 5: figures of a run, or of anybody's result files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from lapsvm.catalog import GroundTruth, ImageRecord, open_dataset
from lapsvm.coco_files import read_coco, read_coco_results
from lapsvm.errors import OptionError, StageError
from lapsvm.evaluation import (
    CorLocReport,
    Detections,
    VocReport,
    class_table,
    coco_evaluation,
    coco_rows,
    corloc,
    evaluate_voc,
    image_average_precision,
    read_results,
    run_table,
    write_json,
)

from .stages import Context

TITLES = {
    "ap_11point": "AP 11-point",
    "ap_area": "AP area",
    "corloc": "CorLoc",
    "image_ap": "image AP",
    "coco_ap": "COCO AP",
    "coco_ap50": "AP50",
    "coco_ap75": "AP75",
    "coco_ar100": "AR100",
    "npos": "objects",
}
METRICS = ("voc", "coco")
NO_BOXES = "no boxes are known: detection AP and CorLoc are left out, image-level AP stands alone"


@dataclass(frozen=True)
class SetEvaluation:
    """What is known of one set.

    Attributes
    ----------
    detections : dict of class name to Detections
    truth : ground truth, or None where no boxes are known
    voc : VocReport or None
        On a test set with boxes.
    located : CorLocReport or None
        On a training set with boxes.
    image_ap : dict of class name to float or None
    """

    detections: dict[str, Detections]
    truth: Mapping[str, Mapping[str, GroundTruth]] | None
    voc: VocReport | None
    located: CorLocReport | None
    image_ap: dict[str, float | None]

    def table(self) -> dict[str, Any]:
        """Return the set's part of evaluation.json."""
        columns = [report.rows() for report in (self.voc, self.located) if report is not None]
        return class_table(*columns, {name: {"image_ap": value} for name, value in self.image_ap.items()})


def evaluate_run(context: Context) -> None:
    """Write evaluation.json and print the table."""
    with context.timed("evaluate"):
        sets = {name: evaluate_set(context, name) for name in context.data.records}
        table = run_table({name: found.table() for name, found in sets.items()})
        context.run.files.claim([context.run.evaluation_file])
        write_json(context.run.evaluation_file, table)
    for name, found in sets.items():
        if found.truth is None:
            context.reporter.say(f"set {name}: {NO_BOXES}")
        if not context.reporter.quiet:
            print_table(table["sets"][name], f"{name} set")


def evaluate_set(context: Context, set_name: str) -> SetEvaluation:
    """Evaluate one set of a run: AP on the test set, CorLoc on the training set, image-level AP on both."""
    folder = context.run.detections(set_name)
    if not any(folder.glob("*.txt")):
        raise StageError(f"evaluate needs detections, but {folder} holds none; run lapsvm detect first.")
    found = read_results(folder, set_name)
    missing = [name for name in context.data.classes if name not in found]
    if missing:
        raise StageError(
            f"evaluate needs detections of {missing[0]!r}, but {folder} has none; run lapsvm detect first."
        )
    found = {name: found[name] for name in context.data.classes}
    records = context.data.records[set_name]
    truth = context.data.dataset.ground_truth(set_name)
    trained_on = set_name == context.settings.data.train_set
    return SetEvaluation(
        detections=found,
        truth=truth,
        voc=None if truth is None or trained_on else evaluate_voc(found, truth),
        located=corloc(found, truth) if truth is not None and trained_on else None,
        image_ap={name: image_level_ap(records, name, detections) for name, detections in found.items()},
    )


def image_level_ap(records: Sequence[ImageRecord], class_name: str, found: Detections) -> float | None:
    """Return the AP of ranking pictures by their best window; None without positives or negatives.

    Pictures without a window (those left out as unreadable) have no score and are not ranked.
    """
    best = best_scores(found)
    ranked = [record for record in records if record.id in best and record.labels.get(class_name, 0) != 0]
    labels = [record.labels[class_name] for record in ranked]
    return image_average_precision([best[record.id] for record in ranked], labels)


def best_scores(found: Detections) -> dict[str, float]:
    """Return picture -> score of its best window."""
    best: dict[str, float] = {}
    for image_id, score in zip(found.image_ids, found.scores.tolist(), strict=True):
        best[image_id] = max(score, best.get(image_id, score))
    return best


def evaluate_files(root: Path, set_name: str, results: Path, iou: float, json_file: Path | None, quiet: bool) -> None:
    """Evaluate comp3/comp4 files against a ground truth in VOC layout.

    Parameters
    ----------
    root : Path
        Needs ImageSets/Main/<set>.txt and Annotations only.
    set_name : str
    results : Path
        The classes are those of its files.
    iou : float
    json_file : Path or None
    quiet : bool
    """
    found = read_results(results, set_name)
    truth = open_dataset("voc", root, classes=tuple(found), test_set=set_name, boxes_only=True).ground_truth(set_name)
    if truth is None:
        raise StageError(f"evaluate needs annotations, but {root} has none for the set {set_name!r}.")
    table = class_table(evaluate_voc(found, truth, iou).rows())
    if json_file is not None:
        write_json(json_file, table)
    if not quiet:
        print_table(table, f"{set_name} set, IoU {iou:g}")


def chosen_metrics(text: str) -> tuple[str, ...]:
    """Return the names of a comma list; OptionError for one that is not known."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in METRICS:
            raise OptionError(f"option --metrics must be of {', '.join(METRICS)}, got {name!r}.")
    return names


def evaluate_coco(
    truth: Path, results: Path, iou: float, json_file: Path | None, quiet: bool, metrics: Sequence[str] = ("voc",)
) -> None:
    """Evaluate COCO results against COCO annotations.

    Parameters
    ----------
    truth, results : Path
        JSON files; the classes are the categories of `truth`.
    iou : float
        For the figures of VOC.
    json_file : Path or None
    quiet : bool
    metrics : sequence of "voc", "coco"
    """
    file = read_coco(truth, boxes=True)
    rows = read_coco_results(results, file)
    columns = [evaluate_voc(*coco_evaluation(file, rows), iou).rows()] if "voc" in metrics else []
    columns += [coco_rows(file, rows)] if "coco" in metrics else []
    table = class_table(*columns)
    if json_file is not None:
        write_json(json_file, table)
    if not quiet:
        print_table(table, f"{results.name}, IoU {iou:g}")


def print_table(table: Mapping[str, Any], title: str) -> None:
    """Print classes and means on standard output."""
    measures = [name for name in TITLES if any(name in row for row in table["classes"].values())]
    printed = Table(title=title, title_justify="left")
    printed.add_column("class")
    for name in measures:
        printed.add_column(TITLES[name], justify="right")
    for class_name, row in table["classes"].items():
        printed.add_row(class_name, *(_shown(row.get(name)) for name in measures))
    printed.add_section()
    printed.add_row("mean", *("" if name == "npos" else _shown(table["mean"].get(name)) for name in measures))
    Console(highlight=False, markup=False, emoji=False).print(printed)


def _shown(value: float | None) -> str:
    """Return a number as a table shows it."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3f}"
