"""Data sets of labelled pictures without boxes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lapsvm.catalog import GroundTruth, ImageRecord, PresentClasses
from lapsvm.errors import LabelsError

from .names import check_set, image_id_of, order_sets


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

    Raises
    ------
    LabelsError
        If two pictures of the set differ only in their suffix, so that they would share an id.
    """
    records: dict[str, ImageRecord] = {}
    shared_classes = dict.fromkeys(classes)
    for relative, path, positive in pictures:
        image_id = image_id_of(relative)
        if image_id in records:
            other = records[image_id].path.name
            raise LabelsError(f"picture {path} must differ from {other} in more than its suffix: ids leave it out.")
        records[image_id] = ImageRecord(image_id, path, PresentClasses(shared_classes, positive))
    return list(records.values())
