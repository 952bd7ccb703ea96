"""Boxes from PASCAL VOC annotation files, for evaluation only: image-level labels come from lists."""

import os
from collections.abc import Sequence
from pathlib import Path

from lapsvm.boxes import from_voc
from lapsvm.catalog import GroundTruth, truth_by_class
from lapsvm.errors import AnnotationError
from lapsvm.voc_files import read_objects


def has_annotations(folder: Path, image_ids: Sequence[str]) -> bool:
    """Return whether any of the pictures has an annotation file in `folder`."""
    names = _names(folder)
    return any(f"{image_id}.xml" in names for image_id in image_ids)


def read_ground_truth(
    folder: Path, image_ids: Sequence[str], classes: Sequence[str]
) -> dict[str, dict[str, GroundTruth]]:
    """Return class -> picture id -> objects for every picture and class, empty where there are none.

    Raises
    ------
    AnnotationError
        If a picture has no annotation file, or a file is broken; it names the first.
    """
    names = _names(folder)
    for image_id in image_ids:
        if f"{image_id}.xml" not in names:
            raise AnnotationError(f"annotation {folder / image_id}.xml is not there.")
    objects = {image_id: _objects(folder / f"{image_id}.xml") for image_id in image_ids}
    return truth_by_class(objects, classes)


def _names(folder: Path) -> set[str]:
    """Return the file names in a folder; none if it does not exist."""
    return set(os.listdir(folder)) if folder.is_dir() else set()


def _objects(path: Path) -> list[tuple[str, object, bool]]:
    """Return the class, the corners and the difficulty of each object of a file."""
    return [(item.name, from_voc([item.corners])[0], item.difficult) for item in read_objects(path)]
