"""Folders of pictures with a metadata table, in the layout of Hugging Face's ImageFolder.

::

    ROOT/<set>/metadata.jsonl    or metadata.csv: one row per picture of the set
    ROOT/metadata.jsonl          the same for one set

A row has ``file_name``, the path of the picture relative to the table, and the labels: ``label`` (one), ``labels``
(several), or ``objects`` with ``categories`` (or ``category``) and ``bbox``: boxes of x, y, width and height in pixels,
which only evaluation reads. Boxes that it cannot use are left out and counted, also those that an angle in a list
``rotation`` beside them turns. Numeric labels become names: "0", "1" and so on, 1.0 the name "1". The words background,
good, negative, negatives, none, normal, ok, nan, null, n/a and <NA> (in any case) as a label mean no class.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from lapsvm.annotations.coco import corners_of_bbox
from lapsvm.box_faults import NOT_NUMBERS, ROTATED, is_rotated
from lapsvm.catalog import truth_by_class
from lapsvm.errors import AnnotationError, LabelsError, MissingError
from lapsvm.files import is_named
from lapsvm.ground_truth import ObjectRow, TruthByClass
from lapsvm.names.kinds import is_system_name
from lapsvm.texts.agreement import agreed
from lapsvm.texts.reading import read_text

from .labelled import LabelledPictures, count_unnamed, labelled_records
from .names import (
    check_file_name,
    check_folder,
    check_picture_path,
    check_set,
    choose_classes,
    image_id_of,
    table_label,
)
from .tables import csv_rows, parsed

TABLES = ("metadata.jsonl", "metadata.csv")
_LABEL_COLUMNS = ("label", "labels", "objects")
_CATEGORIES = ("categories", "category")


@dataclass(frozen=True)
class MetadataRow:
    """One picture of a table.

    Attributes
    ----------
    where : str
        File and line.
    file_name : str
    labels : tuple of str
        In file order; a class of several objects is repeated.
    objects : mapping
        Unparsed, empty if there are none; only `ImageFolder.ground_truth` parses their boxes.
    """

    where: str
    file_name: str
    labels: tuple[str, ...]
    objects: Mapping[str, Any]

    def says_as(self, other: Self) -> bool:
        """Return whether another row of the picture has the same labels and objects, in any order of the labels."""
        return sorted(self.labels) == sorted(other.labels) and self.objects == other.objects


@dataclass(frozen=True)
class ImageFolder(LabelledPictures):
    """A data set in this layout; its records do not look at boxes.

    Attributes
    ----------
    rows : mapping of set name to the rows of its table
    """

    rows: Mapping[str, Sequence[MetadataRow]] = field(default_factory=dict)

    def ground_truth(self, set_name: str) -> TruthByClass | None:
        """Return class -> picture id -> objects, for evaluation, and what was left out.

        None if no row of the set has boxes.

        Raises
        ------
        OptionError
            If there is no such set.
        AnnotationError
            If only some rows have boxes, or a row has not one box per category.
        """
        check_set(set_name, self.sets)
        rows = self.rows[set_name]
        if not any("bbox" in row.objects for row in rows):
            return None
        return truth_by_class({image_id_of(row.file_name): _boxes(row) for row in rows}, self.classes)


def open_imagefolder(
    root: str | Path,
    *,
    classes: Sequence[str] | None = None,
    train_set: str = "trainval",
    test_set: str = "test",  # noqa: ARG001 - part of the interface of readers
) -> ImageFolder:
    """Open folders of pictures with tables of metadata.

    Parameters
    ----------
    root : str or Path
    classes : sequence of str, optional
        Default: all labels, by name.
    train_set : str
        Name of the set of a table directly in `root`.
    test_set : str
        Not used: the folders name the sets.

    Returns
    -------
    ImageFolder

    Raises
    ------
    MissingError
        If `root` does not exist or has no table.
    LabelsError
        If a table is unreadable or has no label column, a row breaks a rule, or two pictures differ only in their
        suffix.
    OptionError
        If a class does not exist.
    """
    root = check_folder("data folder", root)
    folders = {train_set: root} if _tables(root) else _folders(root)
    if not folders:
        raise MissingError(f"data folder {root} holds no {' or '.join(TABLES)}, nor does a folder in it.")
    rows = {name: _read_rows(folder) for name, folder in folders.items()}
    labels = {label for of_set in rows.values() for row in of_set for label in row.labels}
    if not labels:
        raise LabelsError(f"no table in {root} gives a picture a label.")
    chosen = choose_classes(classes, labels)
    records = {
        name: labelled_records(((row.file_name, folder / row.file_name, {*row.labels}) for row in rows[name]), chosen)
        for name, folder in folders.items()
    }
    return ImageFolder("imagefolder", chosen, records, partial(count_unnamed, folders.values(), records), rows)


def _folders(root: Path) -> dict[str, Path]:
    """Return the folders of sets by name: those with a table."""
    return {
        folder.name: folder for folder in sorted(root.iterdir()) if not is_system_name(folder.name) and _tables(folder)
    }


def _tables(folder: Path) -> list[Path]:
    """Return the tables in a folder."""
    return [folder / name for name in TABLES if is_named(folder / name)]


def _read_rows(folder: Path) -> list[MetadataRow]:
    """Return the rows of the tables in a folder, a picture once; LabelsError if rows of a picture differ."""
    rows = list[MetadataRow]()
    for path in _tables(folder):
        text = read_text(path, "table", LabelsError)
        values = list(_json_rows(path, text) if path.suffix == ".jsonl" else _csv_rows(path, text))
        if not values:
            raise LabelsError(f"table {path} names no picture.")
        rows += [_row(where, item) for where, item in values]
    agreement = agreed(((row.file_name, row) for row in rows), same=MetadataRow.says_as)
    for first, row, *_ in agreement.unequal.values():
        what = f"a picture must be named once, or with the same labels and boxes, got {row.file_name!r} again"
        raise LabelsError(f"{row.where}: {what} after {first.where}.")
    return list(agreement.taken.values())


def _json_rows(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """Yield the location and the value of each line."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, parsed(where, line)


def _csv_rows(path: Path, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the location and the values of each row; lists and objects in a cell are JSON."""
    rows = csv_rows(path, text)
    _, header = next(rows, ("", []))
    for where, row in rows:
        values: dict[str, Any] = dict(zip(header, row, strict=True))
        for name in ("labels", "objects"):
            if values.get(name, "").startswith(("[", "{")):
                values[name] = parsed(where, values[name])
        yield where, values


def _row(where: str, values: Any) -> MetadataRow:
    """Return the checked row of a table."""
    if not isinstance(values, dict) or not isinstance(values.get("file_name"), str):
        raise LabelsError(f"{where}: a row must have a file_name, got {str(values)[:60]}.")
    if not any(column in values for column in _LABEL_COLUMNS):
        raise LabelsError(f"{where}: a row must have one of {', '.join(_LABEL_COLUMNS)}, got {', '.join(values)}.")
    name = check_picture_path(values["file_name"], where)
    objects = values.get("objects") or {}
    if not isinstance(objects, dict):
        raise LabelsError(f"{where}: objects must be an object with categories and bbox, got {str(objects)[:60]!r}.")
    several = values.get("labels") or []
    listed = [label.strip() for label in several.split(",")] if isinstance(several, str) else several
    single = values.get("label")
    raw = [*([] if single in (None, "") else [single]), *_list(where, "labels", listed)]
    labels = tuple(named for label in raw if (named := table_label(_name(where, label), where)))
    labels += tuple(_name(where, label) for label in _categories(where, objects))
    for label in labels:
        check_file_name("class", label, where)
    return MetadataRow(where, name, labels, objects)


def _list(where: str, what: str, values: Any) -> list[Any]:
    """Return `values`; LabelsError unless it is a list."""
    if not isinstance(values, list):
        raise LabelsError(f"{where}: {what} must be a list, got {str(values)[:60]!r}.")
    return values


def _categories(where: str, objects: Mapping[str, Any]) -> list[Any]:
    """Return the category of each object."""
    if not objects:
        return []
    for key in _CATEGORIES:
        if key in objects:
            return _list(where, key, objects[key])
    raise LabelsError(f"{where}: objects must have {' or '.join(_CATEGORIES)}, got {', '.join(objects)}.")


def _name(where: str, label: Any) -> str:
    """Return the name of a label; LabelsError unless it is text or a whole number."""
    if isinstance(label, str) and label:
        return label
    if isinstance(label, int) and not isinstance(label, bool):
        return str(label)
    if isinstance(label, float) and (label.is_integer() or math.isnan(label)):  # of a table of numbers with gaps
        return "nan" if math.isnan(label) else str(int(label))
    raise LabelsError(f"{where}: a label must be a name or a whole number, got {label!r}.")


def _boxes(row: MetadataRow) -> list[ObjectRow]:
    """Return the class of each object of a row, and its corners or why it has none; no object is difficult."""
    if "bbox" not in row.objects:
        raise AnnotationError(f"{row.where}: a row must have boxes because other rows of its set have, got none.")
    names, boxes = [_name(row.where, label) for label in _categories(row.where, row.objects)], row.objects["bbox"]
    if not isinstance(boxes, list) or len(boxes) != len(names):
        raise AnnotationError(f"{row.where}: bbox must be a list of one box per category, got {str(boxes)[:60]}.")
    angles = row.objects.get("rotation") or [None] * len(boxes)
    if not isinstance(angles, list) or len(angles) != len(boxes):
        raise AnnotationError(f"{row.where}: rotation must be a list of one angle per box, got {str(angles)[:60]}.")
    corners = [ROTATED if is_rotated(angle) else _corners(box) for box, angle in zip(boxes, angles, strict=True)]
    return [(name, box, False) for name, box in zip(names, corners, strict=True)]


def _corners(box: Any) -> object:
    """Return (x1, y1, x2, y2) of a box (x, y, width, height), or why it has none."""
    if isinstance(box, list) and len(box) == 5 and corners_of_bbox(box[:4]):  # the last number is an angle
        return ROTATED
    return corners_of_bbox(box) or NOT_NUMBERS
