"""What a model says of how it was made; one that somebody saved without saying is refused in a sentence."""

from collections.abc import Mapping
from typing import Any

from lapsvm.detection import Detector
from lapsvm.errors import ModelFileError


def provenance_value(detector: Detector, *names: str) -> Any:
    """Return a part of a detector's provenance: the value under the first name, under the second in it, and so on.

    Raises
    ------
    ModelFileError
        If it is not there.
    """
    value: Any = detector.provenance
    for name in names:
        if not isinstance(value, Mapping) or name not in value:
            raise ModelFileError(
                f"model {detector.class_name!r} must say in its provenance what a run writes there, but "
                f"{'.'.join(names)} is missing."
            )
        value = value[name]
    return value
