"""Pictures and a table of their labels, ROOT/labels.csv, without boxes.

::

    image,label,set
    cats/one.jpg,cat,trainval
    both.jpg,cat,trainval
    both.jpg,dog,trainval
    street.jpg,,test

One row per picture and class; the label is empty for a picture of no class. The words background, good, negative,
negatives, none, normal, ok, nan, null, n/a and <NA> (in any case) stand for an empty one, and 1.0 for the label 1. The
column ``set`` is optional.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lapsvm.errors import LabelsError
from lapsvm.names.kinds import is_good_name
from lapsvm.texts.agreement import agreed
from lapsvm.texts.reading import read_text

from .labelled import LabelledPictures, count_unnamed, labelled_records
from .names import check_file_name, check_folder, check_picture_path, choose_classes, table_label
from .tables import csv_rows

TABLE = "labels.csv"
_HEADERS = (["image", "label"], ["image", "label", "set"])


class _Row(NamedTuple):
    """One row and its location; `label` is "" for a picture without a class, whatever is `written`."""

    where: str
    image: str
    label: str
    set_name: str
    written: str = ""


def open_csv(
    root: str | Path,
    *,
    classes: Sequence[str] | None = None,
    train_set: str = "trainval",
    test_set: str = "test",  # noqa: ARG001 - part of the interface of readers
) -> LabelledPictures:
    """Open a folder with a table of labels.

    The table is UTF-8 text, with or without a byte order mark, with commas, or the semicolons or tabs of some
    spreadsheets, and quotes where they are needed; blank lines and white space around a value are ignored. The column
    image is the path relative to `root`, with ``/`` between folders. Its id is that path without the suffix; white
    space and ``%`` in it are written as ``%20``, ``%25`` and so on, because a line of a result file splits at white
    space. Pictures are in the order of their first rows.

    Parameters
    ----------
    root : str or Path
    classes : sequence of str, optional
        Default: all labels in the table, by name.
    train_set : str
        Name of the set of a table without the column ``set``.
    test_set : str
        Not used: the table names the sets.

    Returns
    -------
    LabelledPictures

    Raises
    ------
    MissingError
        If `root` or its table does not exist.
    LabelsError
        If the table is unreadable; has another header, a row of another length, a path that is empty, absolute or
        leaves `root`, no picture or no label; if a picture is in two sets, or has a label and an empty one; or two
        pictures differ only in their suffix.
    OptionError
        If a class does not exist.
    """
    root = check_folder("data folder", root)
    rows = list(_rows(root / TABLE, train_set))
    sets, has_good = _sets(iter(rows)), any(is_good_name(row.written) for row in rows)
    labels = {label for pictures in sets.values() for positive in pictures.values() for label in positive}
    if not labels:
        raise LabelsError(f"table {root / TABLE} gives no picture a label.")
    chosen = choose_classes(classes, labels)
    records = {
        set_name: labelled_records(((image, root / image, labels) for image, labels in pictures.items()), chosen)
        for set_name, pictures in sets.items()
    }
    return LabelledPictures("csv", chosen, records, partial(count_unnamed, [root], records), has_good=has_good)


def _rows(path: Path, default_set: str) -> Iterator[_Row]:
    """Yield the checked rows below the header."""
    rows = csv_rows(path, read_text(path, "table of labels", LabelsError))
    where, header = next(rows, (str(path), []))
    if not header:
        raise LabelsError(f"table {path} is empty: its header must be image,label or image,label,set.")
    if header not in _HEADERS:
        raise LabelsError(f"{where}: the header must be image,label or image,label,set, got {','.join(header)!r}.")
    for where, (image, written, *set_name) in rows:
        label = table_label(written, where)
        yield _checked(_Row(where, image, label, set_name[0] if set_name else default_set, written))


def _checked(row: _Row) -> _Row:
    """Return a row with a normalised path; LabelsError unless its path, label and set are valid."""
    path = check_picture_path(row.image, row.where)
    if not row.set_name:
        raise LabelsError(f"{row.where}: set must be a name, got ''.")
    check_file_name("class", row.label, row.where)
    check_file_name("set", row.set_name, row.where)
    return row._replace(image=path)


def _sets(rows: Iterator[_Row]) -> dict[str, dict[str, set[str]]]:
    """Return set -> path of a picture -> its labels; LabelsError if rows contradict each other."""
    labels = defaultdict[str, set[str]](set)
    agreement = agreed(((row.image, row) for row in _remembered(rows, labels)), same=_agree)
    for image, (first, row, *_) in agreement.unequal.items():
        where = f"{row.where}: {image!r}"
        if row.set_name != first.set_name:
            raise LabelsError(f"{where} must be in one set, got {row.set_name!r} after {first.set_name!r}.")
        raise LabelsError(
            f"{where} must have an empty label in its only row, got {row.written!r} after {first.written!r}."
        )
    sets: dict[str, dict[str, set[str]]] = {}
    for image, row in agreement.taken.items():
        sets.setdefault(row.set_name, {})[image] = labels[image]
    return sets


def _remembered(rows: Iterator[_Row], labels: Mapping[str, set[str]]) -> Iterator[_Row]:
    """Yield rows, and add their labels to their pictures' labels."""
    for row in rows:
        labels[row.image].update({row.label} - {""})
        yield row


def _agree(item: _Row, other: _Row) -> bool:
    """Return whether two rows of a picture can be true together: in one set, both with a label or both without."""
    return (item.set_name, item.label == "") == (other.set_name, other.label == "")
