"""Data sets of labelled pictures without boxes, and the files in their folders that a reader ignores."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lapsvm.catalog import HEIC_ADVICE, GroundTruth, ImageRecord, PresentClasses
from lapsvm.errors import LabelsError
from lapsvm.names.kinds import HEIC, is_picture_name, is_system_name, suffix_of
from lapsvm.names.matching import FilesOnDisk

from .names import check_set, image_id_of, order_sets

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
    has_good : bool
        Whether a table calls some pictures good, ok or normal.
    """

    name: str
    classes: tuple[str, ...]
    pictures: Mapping[str, Sequence[ImageRecord]]
    ignored: Callable[[], dict[str, int]] = dict
    has_good: bool = field(default=False, kw_only=True)

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

    A file is found as `FilesOnDisk` finds it: the form of accents and the case of letters do not count.

    Raises
    ------
    LabelsError
        If two pictures of the set are one, or differ only in their suffix, so that they would share an id.
    """
    records: dict[str, ImageRecord] = {}
    shared_classes, files, listed = dict.fromkeys(classes), FilesOnDisk(), set[Path]()
    for relative, named, positive in pictures:
        path = files.find(named)
        image_id = image_id_of(relative)
        if path in listed:
            raise LabelsError(f"picture {path} must be listed once, got it twice.")
        listed.add(path)
        if image_id in records:
            other = records[image_id].path.name
            raise LabelsError(f"picture {path} must differ from {other} in more than its suffix: ids leave it out.")
        records[image_id] = ImageRecord(image_id, path, PresentClasses(shared_classes, positive))
    return list(records.values())


def count_ignored(root: Path) -> dict[str, int]:
    """Return kind -> number of files in a folder of sets or classes that are no pictures, the most frequent kind first.

    A kind is a suffix in lower case, "hidden" (files and folders that systems leave) or "without a suffix". Links are
    followed, hidden folders are not read.
    """
    counts = Counter(_kind(name) for name in _names(root, DEPTH) if not is_picture_name(name))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def ignored_note(root: Path) -> str:
    """Return the content of a folder without pictures, as the end of a sentence; "" for nothing."""
    counts = count_ignored(root)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in list(counts.items())[:3])
    advice = f"; {HEIC_ADVICE}" if counts.keys() & set(HEIC) else ""
    return f", but files that are not read: {kinds}{advice}" if counts else ""


def count_unnamed(roots: Iterable[Path], records: Mapping[str, Sequence[ImageRecord]]) -> dict[str, int]:
    """Return the number of pictures below folders that are in no row of a table, as {kind: number}; {} for none.

    `records` are those of the rows, by set.
    """
    known = {os.path.normpath(record.path) for of_set in records.values() for record in of_set}
    count = sum(os.path.normpath(picture) not in known for root in roots for picture in _pictures_below(root))
    return {UNNAMED: count} if count else {}


def _pictures_below(root: Path) -> Iterator[str]:
    """Yield the pictures below a folder, without those in folders of the system."""
    for folder, inside, names in os.walk(root):
        inside[:] = [name for name in inside if not is_system_name(name)]
        yield from (os.path.join(folder, name) for name in names if is_picture_name(name))


def _kind(name: str) -> str:
    """Return the kind of a file by its name."""
    return HIDDEN if is_system_name(name) else suffix_of(name) or BARE


def _names(folder: Path, depth: int) -> Iterator[str]:
    """Yield the name of each file, and of each hidden folder."""
    for entry in os.scandir(folder):
        if is_system_name(entry.name) or not entry.is_dir():
            yield entry.name
        elif depth:
            yield from _names(Path(entry.path), depth - 1)
