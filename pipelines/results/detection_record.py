"""How a model detects, kept in its own file, so that a model that is copied out of its run detects as it did there.

The record is the part "detection" of a detector's provenance: the settings of `DetectSettings`. Training writes it, and
`lapsvm detect` with other options writes it again; weights, and what decides them, stay as they are.
"""

from dataclasses import asdict, replace
from pathlib import Path

from lapsvm.detection import Detector
from lapsvm.errors import InputError, ModelFileError

from ..run.checks import check_detection
from ..run.folder import RunFolder
from ..run.settings import DetectSettings, Settings

KEY = "detection"


def recorded_detect_settings(detector: Detector, path: Path) -> DetectSettings | None:
    """Return how a model detects; None if its file does not say, as those of old versions do not.

    Raises
    ------
    ModelFileError
        If what it says breaks a rule.
    """
    stored = detector.provenance.get(KEY)
    if stored is None:
        return None
    try:
        values = {f"detect.{name}": value for name, value in stored.items()}
        return check_detection(Settings().with_values(values, source=f"model {path}").detect)
    except (InputError, AttributeError) as error:
        raise ModelFileError(f"model {path} must record how it detects, got {stored!r:.80}: {error}") from None


def outdated_models(run: RunFolder, classes: tuple[str, ...], settings: DetectSettings) -> dict[Path, Detector]:
    """Return the whole models of a run that record other settings of detection, with these settings instead."""
    wanted = asdict(settings)
    found = {}
    for path in [place(name) for place in (run.first_model, run.model) for name in classes]:
        detector = _whole(path)
        if detector is not None and detector.provenance.get(KEY) != wanted:
            found[path] = replace(detector, provenance={**detector.provenance, KEY: wanted})
    return found


def _whole(path: Path) -> Detector | None:
    """Return the detector of a file; None if there is none, or it is damaged, which is for training to mend."""
    try:
        return Detector.load(path) if path.is_file() else None
    except ModelFileError:
        return None
