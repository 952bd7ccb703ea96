"""Detections of a run as annotations of another program."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.annotations.export import check_export, write_export
from lapsvm.annotations.exported import AnnotatedPicture, Annotations, BoxChoice, clip_boxes
from lapsvm.arrays import Float64, Index
from lapsvm.catalog import ImageRecord
from lapsvm.errors import OptionError, StageError
from lapsvm.evaluation import Detections
from lapsvm.files import check_vacant
from lapsvm.pictures.reading import seen_header
from lapsvm.texts.sentences import counted

from ...cli.answer import Outcome
from ...context import RunContext
from ...products.detections import read_detections, stored_probabilities
from ...run.progress import Reporter
from ...shards.windows import UnusableError, anew_command


@dataclass(frozen=True)
class ClassDetections:
    """Detections of one class, and the rows of each picture.

    Attributes
    ----------
    detections : Detections
    rows : mapping of image id to indices into `detections`
    probabilities : ndarray of shape (n,), float64, or None
        Probability that the picture shows the class; None for models without calibration.
    """

    detections: Detections
    rows: Mapping[str, Index]
    probabilities: Float64 | None = None

    @classmethod
    def grouped(cls, detections: Detections, probabilities: Float64 | None = None) -> "ClassDetections":
        """Return detections grouped by picture, in file order within a picture."""
        rows: dict[str, list[int]] = {}
        for row, image_id in enumerate(detections.image_ids):
            rows.setdefault(image_id, []).append(row)
        return cls(detections, {name: np.array(group, dtype=np.intp) for name, group in rows.items()}, probabilities)


def export_run(options: Mapping[str, Any]) -> Outcome:
    """Write detections of a run, by default of the test set where there is one, for another program.

    Raises StageError if the run has none of the set, or they were made by other models, shards or settings than its
    own; OptionError if the run has no such set, no box is chosen, or labels are needed and unknown; UnusableError if
    pictures have changed their size; and as `write_export`.
    """
    format_name, copy = options["format_name"], options["copy"]
    check_export(format_name, copy, others=["onnx"])
    check_vacant(options["to"])
    choice = BoxChoice(options["threshold"], options["per_class"], options["labelled_only"])
    context = RunContext.opened(options["out"], "export", options["root"], quiet=options["quiet"])
    data = context.data
    chosen_set = checked_set(context, options["set_name"])
    detections = {
        name: ClassDetections.grouped(of_class, stored_probabilities(context.run, chosen_set, name, of_class))
        for name, of_class in read_detections(context.stored, "export", chosen_set).items()
    }
    _check_labels(data.records[chosen_set], choice, chosen_set)
    pictures, n_rotated = _annotated_pictures(context, chosen_set, detections, choice)
    annotations = Annotations(chosen_set, data.classes, pictures)
    if not annotations.n_boxes:
        raise OptionError(f"there must be a box to export, but none of set {chosen_set!r} has {choice}.")
    write_export(annotations, options["to"], format_name, copy=copy)
    _report(annotations, len(data.records[chosen_set]), n_rotated, options["to"], context.reporter)
    figures = {"set": chosen_set, "pictures": len(pictures), "boxes": annotations.n_boxes}
    return Outcome({"annotations": options["to"]}, figures)


def checked_set(context: RunContext, set_name: str | None) -> str:
    """Return the set that a command names, by default the test set where there is one.

    Raises OptionError if it is unknown, StageError if the run has no class.
    """
    if not context.data.classes:
        raise StageError("export needs a class; where good pictures alone decide, lapsvm predict gives the decisions.")
    sets, test_set = context.data.records, context.settings.data.test_set
    if set_name is None:
        return test_set if test_set in sets else context.train_set
    if set_name not in sets:
        raise OptionError(f"option --set must be a set of the run ({', '.join(sets)}), got {set_name!r}.")
    return set_name


def _check_labels(records: Sequence[ImageRecord], choice: BoxChoice, set_name: str) -> None:
    """Raise OptionError if the choice needs labels and no picture has a positive one."""
    if choice.needs_labels and not any(1 in record.labels.values() for record in records):
        raise OptionError(
            f"no picture of set {set_name!r} is labelled with a class; choose boxes with --per-class or --threshold."
        )


def _annotated_pictures(
    context: RunContext, set_name: str, detections: Mapping[str, ClassDetections], choice: BoxChoice
) -> tuple[tuple[AnnotatedPicture, ...], int]:
    """Return the pictures with detections and their chosen boxes, and how many EXIF data rotate.

    Raises UnusableError if pictures have another size than those that the boxes are of.
    """
    n_rotated, pictures, resized, root = 0, [], list[str](), Path(context.settings.data.root)
    shards = context.shards(set_name) if context.run.has_shards(set_name) else None
    hashes = {} if shards is None else shards.hashes
    sizes = {} if shards is None else shards.sizes
    for record in context.data.records[set_name]:
        if any(record.id in of_class.rows for of_class in detections.values()):
            size, is_turned = seen_header(record.path)
            if sizes.get(record.id, size) != size:
                resized.append(record.id)
                continue
            n_rotated += is_turned
            pictures.append(_annotated(record, detections, choice, root, size, hashes.get(record.id, "")))
    if resized:
        (note,) = counted(
            resized, "pictures have changed their size since the run was made, so its boxes are not theirs"
        )
        raise UnusableError(f"{note}; {anew_command(context.run)}.")
    return tuple(pictures), n_rotated


def _report(annotations: Annotations, n_records: int, n_rotated: int, to: Path, reporter: Reporter) -> None:
    """Report the exported boxes, the pictures that were left out, and those that EXIF data rotate."""
    n_pictures = len(annotations.pictures)
    reporter.say(f"{annotations.n_boxes} boxes in {n_pictures} pictures of set {annotations.set_name}: {to}")
    if n_pictures < n_records:
        reporter.say(f"left out: {n_records - n_pictures} pictures in which the run has no detections")
    if n_rotated:
        reporter.say(
            f"{n_rotated} pictures are rotated by their EXIF data: boxes refer to the rotated picture; "
            "programs that ignore EXIF data show it unrotated"
        )


def _annotated(
    record: ImageRecord, detections: Mapping[str, ClassDetections], choice: BoxChoice, root: Path,
    size: tuple[int, int], pixels: str,
) -> AnnotatedPicture:  # fmt: skip
    """Return a picture with the chosen boxes of all classes, clipped to it, the best of each class first."""
    chosen = [
        (name, *_chosen(of_class, record, name, choice))
        for name, of_class in detections.items()
        if record.id in of_class.rows
    ]
    classes = [name for name, rows, _ in chosen for _ in rows]
    boxes = np.concatenate([detections[name].detections.boxes[rows] for name, rows, _ in chosen])
    scores = np.concatenate([detections[name].detections.scores[rows] for name, rows, _ in chosen])
    probabilities = [values for _, _, values in chosen if values is not None]
    clipped, inside = clip_boxes(boxes, *size)
    return AnnotatedPicture(
        _relative_name(root, record), record.path, *size,
        tuple(name for name, kept in zip(classes, inside, strict=True) if kept),
        clipped[inside], scores[inside],
        np.concatenate(probabilities)[inside] if len(probabilities) == len(chosen) else None,
        record.id, pixels,
    )  # fmt: skip


def _chosen(
    detections: ClassDetections, record: ImageRecord, name: str, choice: BoxChoice
) -> tuple[Index, Float64 | None]:
    """Return the rows of the chosen detections of a class in a picture, and their probabilities."""
    rows = detections.rows[record.id]
    probabilities = None if detections.probabilities is None else detections.probabilities[rows]
    kept = choice.indices(detections.detections.scores[rows], probabilities, record.labels.get(name, 0))
    return rows[kept], None if probabilities is None else probabilities[kept]


def _relative_name(root: Path, record: ImageRecord) -> str:
    """Return the path of a picture relative to `root`, or its id and suffix if it is outside."""
    if record.path.is_relative_to(root):
        return record.path.relative_to(root).as_posix()
    return record.id + record.path.suffix
