"""Data sets of labelled pictures without boxes, and the files in their folders that a reader ignores."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lapsvm.catalog import HEIC, HEIC_ADVICE, PICTURE_SUFFIXES, GroundTruth, ImageRecord, PresentClasses
from lapsvm.errors import LabelsError
from lapsvm.files import as_on_disk, is_system_name

from .names import check_set, image_id_of, order_sets

SUFFIXES = frozenset(PICTURE_SUFFIXES)
"""Suffixes of pictures, in either case; other files are skipped."""
DEPTH = 2  # the folders of sets, and in them those of classes
HIDDEN, BARE, UNNAMED = "hidden", "without a suffix", "pictures in no row of the table"


@dataclass(frozen=True)
class LabelledPictures:
    """A data set without boxes, in memory.

    Attributes
    ----------
    name : str
    classes : tuple of str
    pictures : mapping of set name to its records, in order
    ignored : callable
        Returns kind -> number of the files in the data folder that the reader ignores.
    """

    name: str
    classes: tuple[str, ...]
    pictures: Mapping[str, Sequence[ImageRecord]]
    ignored: Callable[[], dict[str, int]] = dict

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the sets."""
        return order_sets(self.pictures)

    def records(self, set_name: str) -> list[ImageRecord]:
        """Return the pictures of a set.

        Raises
        ------
        OptionError
            If there is no such set.
        """
        check_set(set_name, self.sets)
        return list(self.pictures[set_name])

    def ignored_files(self) -> dict[str, int]:
        """Return kind -> number of the files in the data folder that the reader ignores."""
        return self.ignored()

    def ground_truth(self, set_name: str) -> dict[str, dict[str, GroundTruth]] | None:
        """Return None: no boxes are known.

        Raises
        ------
        OptionError
            If there is no such set.
        """
        check_set(set_name, self.sets)
        return None


def labelled_records(pictures: Iterable[tuple[str, Path, set[str]]], classes: Sequence[str]) -> list[ImageRecord]:
    """Return records of (relative path, file, names of its classes): +1 for those classes, -1 for the others.

    A file whose name has its accents in the other form (NFC, NFD) than the path is found.

    Raises
    ------
    LabelsError
        If two pictures of the set are one, or differ only in their suffix, so that they would share an id.
    """
    records: dict[str, ImageRecord] = {}
    shared_classes = dict.fromkeys(classes)
    for relative, named, positive in pictures:
        path = as_on_disk(named)
        image_id = image_id_of(relative)
        if image_id in records:
            other = records[image_id].path.name
            if path == records[image_id].path:
                raise LabelsError(f"picture {path} must be listed once, got it twice.")
            raise LabelsError(f"picture {path} must differ from {other} in more than its suffix: ids leave it out.")
        records[image_id] = ImageRecord(image_id, path, PresentClasses(shared_classes, positive))
    return list(records.values())


def count_ignored(root: Path) -> dict[str, int]:
    """Return kind -> number of files in a folder of sets or classes that are no pictures, the most frequent kind first.

    A kind is a suffix in lower case, "hidden" (files and folders that systems leave) or "without a suffix". Links are
    followed, hidden folders are not read.
    """
    counts = Counter(kind for kind in _kinds(root, DEPTH) if kind not in SUFFIXES)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def ignored_note(root: Path) -> str:
    """Return what a folder of sets or classes holds in place of pictures, as the end of a sentence; "" for nothing."""
    counts = count_ignored(root)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in list(counts.items())[:3])
    advice = f"; {HEIC_ADVICE}" if counts.keys() & set(HEIC) else ""
    return f", but files that are not read: {kinds}{advice}" if counts else ""


def count_unnamed(roots: Iterable[Path], records: Mapping[str, Sequence[ImageRecord]]) -> dict[str, int]:
    """Return the number of pictures below folders that are in no row of a table, as {kind: number}; {} for none.

    `records` are those of the rows, by set.
    """
    known = {os.path.normpath(record.path) for of_set in records.values() for record in of_set}
    files = (os.path.join(folder, name) for root in roots for folder, _, names in os.walk(root) for name in names)
    count = sum(_kind(os.path.basename(file)) in SUFFIXES and os.path.normpath(file) not in known for file in files)
    return {UNNAMED: count} if count else {}


def _kind(name: str) -> str:
    """Return the kind of a file by its name."""
    return HIDDEN if is_system_name(name) else os.path.splitext(name)[1].lower() or BARE


def _kinds(folder: Path, depth: int) -> Iterator[str]:
    """Yield the kind of each file, and "hidden" for each hidden folder."""
    for entry in os.scandir(folder):
        if is_system_name(entry.name) or not entry.is_dir():
            yield _kind(entry.name)
        elif depth:
            yield from _kinds(Path(entry.path), depth - 1)
