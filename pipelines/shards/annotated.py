"""Annotated boxes among external windows: the only use of annotations before evaluation.

Files of windows made for supervised detectors may contain the annotated boxes. They are counted here, and left out on
request; nothing else of the annotations is used.
"""

from collections.abc import Iterator

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.catalog import Dataset
from lapsvm.errors import AnnotationError
from lapsvm.features import ShardSet

from .external import equal_boxes

SUSPICIOUS = 0.1  # share of objects; selective search proposes none of 418 objects in photographs exactly


def annotated_boxes(dataset: Dataset, set_name: str) -> dict[str, Float64]:
    """Return picture -> boxes of its objects of all classes; empty without annotations."""
    truth = dataset.ground_truth(set_name) or {}
    boxes: dict[str, list[Float64]] = {}
    for pictures in truth.values():
        for image_id, objects in pictures.items():
            boxes.setdefault(image_id, []).append(objects.boxes)
    return {image_id: np.concatenate(arrays) for image_id, arrays in boxes.items()}


def equal_sentences(dataset: Dataset, set_name: str, shards: ShardSet, advice: str) -> Iterator[str]:
    """Yield a sentence if annotated boxes are among the windows, or if the annotations are broken."""
    try:
        annotated = annotated_boxes(dataset, set_name)
    except AnnotationError as error:
        yield f"{set_name}: annotations cannot be compared with the windows: {error}"
        return
    total = equal = 0
    for shard in shards if annotated else ():
        for picture in shard.pictures():
            boxes = annotated[picture.image_id]
            total += len(boxes)
            equal += int(equal_boxes(boxes, np.asarray(picture.boxes, dtype=np.float64)).any(axis=1).sum())
    if equal:
        warning = f": the windows seem to hold the ground truth; {advice}" if equal >= SUSPICIOUS * total else ""
        yield f"{set_name}: {equal:,} of {total:,} annotated objects are windows exactly{warning}"
