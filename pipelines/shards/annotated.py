"""Whether windows from elsewhere hold the ground truth: the one look at annotations before evaluation.

Files of windows are made for training supervised detectors too, and may hold the annotated boxes among the proposals.
Here they are counted, and left out on request; nothing else of the annotations is used.
"""

from collections.abc import Iterator

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.errors import AnnotationError
from lapsvm.features import open_shards

from ..run.context import RunContext
from .external import equal_boxes

SUSPICIOUS = 0.1  # share of objects; selective search met none of 418 in photographs to the pixel


def annotated_boxes(context: RunContext, set_name: str) -> dict[str, Float64]:
    """Return picture -> boxes of its objects of all classes; nothing if none are known."""
    truth = context.data.dataset.ground_truth(set_name) or {}
    found: dict[str, list[Float64]] = {}
    for pictures in truth.values():
        for image_id, objects in pictures.items():
            found.setdefault(image_id, []).append(objects.boxes)
    return {image_id: np.concatenate(boxes) for image_id, boxes in found.items()}


def equal_sentences(context: RunContext, set_name: str, advice: str) -> Iterator[str]:
    """Yield how many annotated objects are windows exactly, if some are; annotations that are broken stop nothing."""
    try:
        annotated = annotated_boxes(context, set_name)
    except AnnotationError as error:
        yield f"{set_name}: nobody knows whether the windows hold the ground truth: {error}"
        return
    total = equal = 0
    for shard in open_shards(context.run.shards(set_name)) if annotated else ():
        parts = np.split(shard.boxes.astype(np.float64), shard.offsets[1:-1])
        for image_id, windows in zip(shard.image_ids, parts, strict=True):
            boxes = annotated[image_id]
            total += len(boxes)
            equal += int(equal_boxes(boxes, windows).any(axis=1).sum())
    if equal:
        warning = f": the windows seem to hold the ground truth; {advice}" if equal >= SUSPICIOUS * total else ""
        yield f"{set_name}: {equal:,} of {total:,} annotated objects are windows exactly{warning}"
