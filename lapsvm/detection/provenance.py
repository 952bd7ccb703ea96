"""Provenance of a model: how it was made."""

from collections.abc import Mapping
from typing import Any

from lapsvm.detection.detector import Detector
from lapsvm.errors import ModelFileError

_NUMBERS = ("C", "J", "trim", "duality_gap")
_FOLDS = "held_out_image_ap"


def provenance_value(detector: Detector, *names: str) -> Any:
    """Return the value at the path `names` in a detector's provenance.

    Raises
    ------
    ModelFileError
        If it is missing, as in a detector that a run did not make, or the results of a training are no such results.
    """
    value: Any = detector.provenance
    for name in names:
        if not isinstance(value, Mapping) or name not in value:
            raise ModelFileError(
                f"model {detector.class_name!r} must have the provenance of a run, but {'.'.join(names)} is missing."
            )
        value = value[name]
    if names[0] == "result":
        _check_result(detector)
    return value


def _check_result(detector: Detector) -> None:
    """Raise ModelFileError unless the results in a provenance are numbers where readers expect them."""
    result = detector.provenance["result"]
    try:
        wrong = next((name for name in _NUMBERS if not _is_number(result.get(name))), None)
        for entry in result.get(_FOLDS, ()):
            if not entry["folds"] or not all(map(_is_number, entry["folds"])):
                wrong = _FOLDS
    except (AttributeError, KeyError, TypeError):
        wrong = "result"
    if wrong is not None:
        raise ModelFileError(f"model {detector.class_name!r} is damaged: {wrong} in its provenance is no result.")


def _is_number(value: Any) -> bool:
    """Return whether a value is a finite number, or None."""
    return value is None or (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")
    )
