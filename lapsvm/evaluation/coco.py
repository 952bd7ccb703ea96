"""COCO ground truth and results as the evaluation of this room takes them."""

from collections.abc import Hashable, Sequence

import numpy as np

from lapsvm.catalog import GroundTruth
from lapsvm.coco_files import CocoFile, CocoResult
from lapsvm.evaluation.results import Detections


def coco_evaluation(
    truth: CocoFile, results: Sequence[CocoResult]
) -> tuple[dict[str, Detections], dict[str, dict[str, GroundTruth]]]:
    """Return a pair of COCO files as `lapsvm.evaluation.evaluate_voc` takes them.

    Parameters
    ----------
    truth : CocoFile
        Read with boxes. Crowd regions become difficult objects.
    results : sequence of CocoResult

    Returns
    -------
    detections : dict of category name to Detections
        Of every category, by name, in file order.
    ground_truth : dict of category name to dict of image id to GroundTruth
        With an entry for every picture.
    """
    by_name = sorted((name, key) for key, name in truth.categories.items())
    detections = {name: _detections([one for one in results if one.category_id == key]) for name, key in by_name}
    return detections, {name: _objects(truth, key) for name, key in by_name}


def _detections(found: Sequence[CocoResult]) -> Detections:
    """Return the detections of one category."""
    return Detections(
        tuple(_image_id(one.image_id) for one in found),
        np.array([one.score for one in found], dtype=np.float64),
        np.array([one.corners for one in found], dtype=np.float64).reshape(-1, 4),
    )


def _objects(file: CocoFile, category: Hashable) -> dict[str, GroundTruth]:
    """Return image id -> objects of one category."""
    own: dict[Hashable, list[tuple[object, bool]]] = {key: [] for key in file.file_names}
    for one in file.annotations:
        if one.category_id == category:
            own[one.image_id].append((one.corners, one.is_crowd))
    return {
        _image_id(key): GroundTruth(
            np.array([corners for corners, _ in rows], dtype=np.float64).reshape(-1, 4),
            np.array([is_crowd for _, is_crowd in rows], dtype=bool),
        )
        for key, rows in own.items()
    }


def _image_id(key: Hashable) -> str:
    """Return an id as text; 12 and "12" stay apart."""
    return repr(key)
