"""Detection settings in model files, so that a model detects the same outside its run folder.

The entry "detection" of a detector's provenance holds the fields of `DetectSettings`. Training writes it, and
`lapsvm detect` with other options replaces it; the weights, the rest of the provenance and the probabilities stay the
same, because the score of a picture's best box is that of its best window, whatever the settings.
"""

from dataclasses import asdict, replace
from pathlib import Path

from lapsvm.detection import Detector
from lapsvm.errors import InputError, ModelFileError

from ..run.checks import check_detection
from ..run.folder import RunFolder
from ..run.settings import DetectSettings, Settings
from .provenance import provenance_value

KEY = "detection"


def recorded_detect_settings(detector: Detector, path: Path) -> DetectSettings:
    """Return the detection settings in the provenance of `detector`.

    Raises
    ------
    ModelFileError
        If they are missing, or one breaks a rule.
    """
    stored = provenance_value(detector, KEY)
    try:
        values = {f"detect.{name}": value for name, value in stored.items()}
        return check_detection(Settings().with_values(values, source=f"model {path}").detect)
    except (InputError, AttributeError) as error:
        raise ModelFileError(f"model {path} must record valid detection settings: {error}") from None


def outdated_models(run: RunFolder, classes: tuple[str, ...], settings: DetectSettings) -> dict[Path, Detector]:
    """Return the run's models that record other detection settings than `settings`, with `settings` instead."""
    expected = asdict(settings)
    outdated = {}
    for path in [file_of(name) for file_of in (run.first_model, run.model) for name in classes]:
        detector = _load(path)
        if detector is not None and detector.provenance.get(KEY) != expected:
            outdated[path] = replace(detector, provenance={**detector.provenance, KEY: expected})
    return outdated


def _load(path: Path) -> Detector | None:
    """Return the detector in a file; None if the file is missing or damaged, because training replaces it."""
    try:
        return Detector.load(path) if path.is_file() else None
    except ModelFileError:
        return None
