"""The inputs of a picture's scores, on which a threshold depends: models, windows, extractor, settings of detection.

They are computed here alone, from the record of a model and for a prediction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from hashlib import blake2b
from typing import Any

import numpy as np

from lapsvm.detection.detector import Detector, provenance_value
from lapsvm.features import Extractor, recorded_description, settings_difference
from lapsvm.inspection.threshold import AlarmThreshold
from lapsvm.settings import DetectSettings, ProposalSettings
from lapsvm.windows.proposals import WINDOWS_VERSION

DETECTION = "detection"  # the entry of a detector's provenance with the fields of `DetectSettings`
SEARCHED = "selective_search", "mixed", "small"
"""The methods whose windows change with `WINDOWS_VERSION`."""
_OF_WINDOWS = (*(entry.name for entry in fields(ProposalSettings)), "seed")
_OF_DETECTION = "demotion", "score_smoothing"  # the others choose and move boxes


def recorded_scoring(detector: Detector) -> dict[str, Any]:
    """Return the inputs of scores that a model records, as plain JSON; ModelFileError if no run made it."""
    windows, features = (provenance_value(detector, "shards", name) for name in ("windows", "features"))
    extractor = features.get("extractor", {})
    return _scoring(windows, extractor.get("of", extractor), provenance_value(detector, DETECTION))


def used_scoring(windows: ProposalSettings, seed: int, extractor: Extractor, rule: DetectSettings) -> dict[str, Any]:
    """Return the inputs of scores in a prediction, as plain JSON."""
    proposed = {**asdict(windows), "seed": seed, "version": WINDOWS_VERSION}
    return _scoring(proposed, recorded_description(extractor), asdict(rule))


def _scoring(windows: Mapping[str, Any], extractor: Mapping[str, Any], rule: Mapping[str, Any]) -> dict[str, Any]:
    names = (*_OF_WINDOWS, "version") if windows.get("method") in SEARCHED else _OF_WINDOWS
    return {
        "windows": {name: windows[name] for name in names if name in windows},
        "extractor": dict(extractor),
        "detection": {name: rule[name] for name in _OF_DETECTION if name in rule},
    }


def model_hash(detector: Detector) -> str:
    """Return a hash of a model's weights and its calibration, 32 hex digits."""
    calibration = None if detector.calibration is None else (detector.calibration.slope, detector.calibration.offset)
    digest = blake2b(repr((detector.class_name, detector.intercept, calibration)).encode(), digest_size=16)
    for array in (detector.coef, np.asarray(detector.scale)):
        digest.update(np.ascontiguousarray(array, "<f8").tobytes())
    return digest.hexdigest()


def picture_detectors(alarm: AlarmThreshold | None, detectors: Sequence[Detector]) -> list[Detector]:
    """Return the picture models of a threshold as detectors, in the order of some classes."""
    models = {} if alarm is None else alarm.pictures
    names = [detector.class_name for detector in detectors]
    return [Detector(name, models[name].coef) for name in names if name in models]


def threshold_fits(alarm: AlarmThreshold, detectors: Sequence[Detector]) -> bool:
    """Return whether a threshold was chosen for all of some models, and knows whole pictures by their features."""
    dims = {name: len(model.coef) for name, model in alarm.pictures.items()}
    return all(
        alarm.models.get(detector.class_name) == model_hash(detector)
        and dims.get(detector.class_name) in (None, len(detector.whole.coef))
        for detector in detectors
    )


def scoring_difference(alarm: AlarmThreshold, detector: Detector, used: Mapping[str, Any] | None = None) -> str:
    """Return the inputs of scores that differ between a threshold and a prediction, for a sentence; "" without any.

    Parameters
    ----------
    alarm : AlarmThreshold
    detector : Detector
        A model that it fits.
    used : mapping, optional
        The result of `used_scoring`; by default the record of the detector.
    """
    recorded = recorded_scoring(detector)
    return settings_difference(recorded if alarm.scoring is None else alarm.scoring, recorded if used is None else used)
