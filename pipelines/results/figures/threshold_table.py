"""Thresholds of a set with boxes, as scores and as probabilities."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from lapsvm.detection import Detector
from lapsvm.evaluation import Threshold, best_f1, wanted_precision

from ..evaluation import SetEvaluation


def threshold_entry(
    evaluation: SetEvaluation, detectors: Mapping[str, Detector], precision: float
) -> dict[str, Any] | None:
    """Return the thresholds of every class in evaluation.json; None for a set without detection AP.

    Parameters
    ----------
    evaluation : SetEvaluation
    detectors : mapping of class name to Detector
        A class without one has no probabilities.
    precision : float
        The wanted one, in (0, 1].

    Returns
    -------
    dict or None
        {"wanted": precision, "classes": {name: {"best_f1": threshold, "wanted_precision": threshold}}}; a threshold has
        "score", "probability" (None without calibration), "precision", "recall" and "f1", and is None where none
        exists.
    """
    if evaluation.voc is None:
        return None
    classes = {}
    for name, result in evaluation.voc.classes.items():
        found = evaluation.detections[name]
        classes[name] = {
            "best_f1": _entry(best_f1(result, found), detectors.get(name)),
            "wanted_precision": _entry(wanted_precision(result, found, precision), detectors.get(name)),
        }
    return {"wanted": precision, "classes": classes}


def _entry(threshold: Threshold | None, detector: Detector | None) -> dict[str, float | None] | None:
    if threshold is None:
        return None
    probability = None if detector is None else detector.probability([threshold.score])
    return {**asdict(threshold), "probability": None if probability is None else float(probability[0])}
