"""The detectors of a run."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lapsvm.detection import Detector
from lapsvm.errors import MissingError, ModelFileError, StageError

from ..run.context import RunContext


def load_detectors(context: RunContext, stage: str, file_of: Callable[[str], Path] | None = None) -> list[Detector]:
    """Return the detector of every class of the run, by default the final one; StageError if one is missing."""
    detectors = []
    for name in context.data.classes:
        path = (file_of or context.run.model)(name)
        if not path.is_file():
            maker = "refine" if context.settings.refine.rounds and file_of is None else "train"
            raise StageError(f"{stage} needs a model of {name!r}, but {path} is not there; run lapsvm {maker} first.")
        detectors.append(Detector.load(path))
    return detectors


def available_detectors(context: RunContext) -> dict[str, Detector]:
    """Return class -> the final detector, without classes whose file is missing or damaged."""
    found = {}
    for name in context.data.classes:
        with suppress(MissingError, ModelFileError):
            found[name] = Detector.load(context.run.model(name))
    return found
