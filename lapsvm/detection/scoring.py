"""What decides the scores of a picture beside the weights of its models, which a threshold on them depends on.

It is computed here alone, from what a model records and from what a prediction uses: windows and their seed, the
extractor, and the settings of detection that change a score.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from lapsvm.detection.detector import Detector, provenance_value
from lapsvm.features import Extractor, recorded_description
from lapsvm.settings import DetectSettings, ProposalSettings
from lapsvm.windows.proposals import WINDOWS_VERSION

DETECTION = "detection"  # the entry of a detector's provenance with the fields of `DetectSettings`
SEARCHED = "selective_search", "mixed"
"""The methods whose windows change with `WINDOWS_VERSION`."""
_OF_WINDOWS = (*(entry.name for entry in fields(ProposalSettings)), "seed")
_OF_DETECTION = "demotion", "score_smoothing"  # the others choose and move boxes


def recorded_scoring(detector: Detector) -> dict[str, Any]:
    """Return what a model records, as plain JSON; ModelFileError if no run made it."""
    windows, features = (provenance_value(detector, "shards", name) for name in ("windows", "features"))
    extractor = features.get("extractor", {})
    return _scoring(windows, extractor.get("of", extractor), provenance_value(detector, DETECTION))


def used_scoring(windows: ProposalSettings, seed: int, extractor: Extractor, rule: DetectSettings) -> dict[str, Any]:
    """Return what a prediction uses, as plain JSON."""
    proposed = {**asdict(windows), "seed": seed, "version": WINDOWS_VERSION}
    return _scoring(proposed, recorded_description(extractor), asdict(rule))


def _scoring(windows: Mapping[str, Any], extractor: Mapping[str, Any], rule: Mapping[str, Any]) -> dict[str, Any]:
    names = (*_OF_WINDOWS, "version") if windows.get("method") in SEARCHED else _OF_WINDOWS
    return {
        "windows": {name: windows[name] for name in names if name in windows},
        "extractor": dict(extractor),
        "detection": {name: rule[name] for name in _OF_DETECTION if name in rule},
    }
