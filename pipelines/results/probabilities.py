"""Probabilities of a run's stored detections, by the models that made them."""

import json

from lapsvm.arrays import Float64
from lapsvm.detection import Detector
from lapsvm.errors import LapsvmError
from lapsvm.evaluation import Detections

from ..fitting.window_subset import weights_hash
from ..run.folder import STAMP, RunFolder


def stored_probabilities(run: RunFolder, set_name: str, class_name: str, detections: Detections) -> Float64 | None:
    """Return the probability of each stored detection of a class.

    A detection's score is that of its result file, so that demotion lowers the probability of all but the best box of
    a picture; the best box has the probability that the picture shows the class.

    Parameters
    ----------
    run : RunFolder
    set_name, class_name : str
    detections : Detections
        Of this set and class.

    Returns
    -------
    ndarray of shape (n,), float64, or None
        None if the class's model has no calibration, is missing, or did not make the detections.
    """
    try:
        detector = Detector.load(run.model(class_name))
        stamp = json.loads((run.detections(set_name) / STAMP).read_bytes())
        if stamp["models"].get(class_name) != weights_hash(detector):
            return None
    except (LapsvmError, OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None
    return detector.probability(detections.scores)
