"""Detection settings in model files, so that a model detects the same outside its run folder.

The entry "detection" of a detector's provenance holds the fields of `DetectSettings`. Training writes it, and
`lapsvm detect` with other options replaces it; the weights, the rest of the provenance and the probabilities stay the
same, because the score of a picture's best box is that of its best window, whatever the settings.
"""

from dataclasses import asdict, replace
from pathlib import Path

from lapsvm.detection import Detector
from lapsvm.detection.model_sources import DETECTION
from lapsvm.errors import ModelFileError

from ..run.folder import RunFolder
from ..run.settings import DetectSettings


def outdated_models(run: RunFolder, classes: tuple[str, ...], settings: DetectSettings) -> dict[Path, Detector]:
    """Return the run's models that record other detection settings than `settings`, with `settings` instead."""
    expected = asdict(settings)
    outdated = {}
    for path in [file_of(name) for file_of in (run.first_model, run.model) for name in classes]:
        detector = _load(path)
        if detector is not None and detector.provenance.get(DETECTION) != expected:
            outdated[path] = replace(detector, provenance={**detector.provenance, DETECTION: expected})
    return outdated


def _load(path: Path) -> Detector | None:
    """Return the detector in a file; None if the file is missing or damaged, because training replaces it."""
    try:
        return Detector.load(path) if path.is_file() else None
    except ModelFileError:
        return None
