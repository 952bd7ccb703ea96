"""Provenance of a model: how it was made."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lapsvm.detection import Detector
from lapsvm.errors import ModelFileError

if TYPE_CHECKING:
    from .detectors import HeadOfClass


def provenance_value(detector: "Detector | HeadOfClass", *names: str) -> Any:
    """Return the value at the path `names` in a detector's provenance.

    Raises
    ------
    ModelFileError
        If it is missing, as in a detector that a run did not make.
    """
    value: Any = detector.provenance
    for name in names:
        if not isinstance(value, Mapping) or name not in value:
            raise ModelFileError(
                f"model {detector.class_name!r} must have the provenance of a run, but {'.'.join(names)} is missing."
            )
        value = value[name]
    return value
