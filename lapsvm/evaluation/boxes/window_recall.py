"""How well the windows of pictures cover the annotated objects, whatever a detector makes of them.

No detector finds an object that no window covers, so these are upper bounds. Uijlings, van de Sande, Gevers, Smeulders,
"Selective Search for Object Recognition" (IJCV 2013): the average best overlap (ABO) of a class is the mean, over its
objects, of the largest IoU with a window of the picture; MABO is its mean over the classes.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64
from lapsvm.boxes import as_boxes, iou
from lapsvm.catalog import GroundTruth


def best_overlaps(
    windows: Iterable[tuple[str, ArrayLike]], ground_truth: Mapping[str, Mapping[str, GroundTruth]]
) -> dict[str, Float64]:
    """Return the largest IoU of each object with a window of its picture.

    Parameters
    ----------
    windows : iterable of (image id, array-like of shape (n, 4))
        Pictures with their windows; read once, one at a time. Objects in other pictures do not count.
    ground_truth : mapping of class name to (mapping of image id to GroundTruth)

    Returns
    -------
    dict of class name to ndarray of shape (objects that are not difficult,), float64
        In the order of the pictures in `windows`; 0 in a picture without a window.
    """
    overlaps: dict[str, list[Float64]] = {name: [np.empty(0)] for name in ground_truth}
    for image, boxes in windows:
        present = {name: truth[image] for name, truth in ground_truth.items() if len(truth[image].boxes)}
        for name, truth in present.items():
            objects = as_boxes(truth.boxes)[~np.asarray(truth.difficult, dtype=bool)]
            overlaps[name].append(iou(objects, as_boxes(boxes)).max(axis=1, initial=0.0))
    return {name: np.concatenate(values) for name, values in overlaps.items()}
