"""Boxes from PASCAL VOC annotation files, for evaluation only: image-level labels come from lists."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lapsvm.boxes import from_voc
from lapsvm.catalog import GroundTruth
from lapsvm.errors import AnnotationError
from lapsvm.voc_files import VocObject, read_objects


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
    empty = _ground_truth([])
    truth: dict[str, dict[str, GroundTruth]] = {name: dict.fromkeys(image_ids, empty) for name in classes}
    for image_id in image_ids:
        objects = read_objects(folder / f"{image_id}.xml")
        for name in {item.name for item in objects}.intersection(truth):
            truth[name][image_id] = _ground_truth([item for item in objects if item.name == name])
    return truth


def _names(folder: Path) -> set[str]:
    """Return the file names in a folder; none if it does not exist."""
    return set(os.listdir(folder)) if folder.is_dir() else set()


def _ground_truth(objects: Sequence[VocObject]) -> GroundTruth:
    """Return objects of one class as arrays."""
    boxes = from_voc([item.corners for item in objects])
    return GroundTruth(boxes, np.array([item.difficult for item in objects], dtype=bool))
