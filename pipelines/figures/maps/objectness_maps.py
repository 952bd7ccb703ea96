"""Maps of what stands out, for `lapsvm predict --heatmap` and the page: by the source that models record."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, cast

from lapsvm.arrays import Float32
from lapsvm.catalog import ImageRecord, Pixels
from lapsvm.detection import Detector
from lapsvm.errors import LapsvmError, SettingsError, naming
from lapsvm.features import settings_difference
from lapsvm.features.extractors.extractor import open_sized_extractor
from lapsvm.objectness import ObjectnessSource, open_described
from lapsvm.settings import IMPORTED, NO_SOURCE, NORMAL

from ...run.folder import RunFolder
from ...run.progress import Reporter
from ...settings.settings import Settings
from ...shards.normal import stored_normal_map


class MapSource(Protocol):
    """A source of objectness that computes a map."""

    def map(self, pixels: Pixels) -> Float32:
        """Return a map (rows, columns) of any resolution over a picture (h, w, 3), in 0..1."""


@dataclass(frozen=True)
class ObjectnessMaps:
    """Maps of what stands out in pictures of a run, for any number of threads; each picture's is computed once.

    Attributes
    ----------
    open_source : callable returning a MapSource or None
        Called when the first map is wanted; None where none can be shown.
    """

    open_source: Callable[[], MapSource | None]
    _source: list[MapSource | None] = field(default_factory=list, init=False, repr=False)
    _known: dict[str, Float32] = field(default_factory=dict, init=False, repr=False)
    _turns: dict[str, Lock] = field(default_factory=dict, init=False, repr=False)
    _guard: Lock = field(default_factory=Lock, init=False, repr=False)

    def of_picture(self, record: ImageRecord) -> Float32 | None:
        """Return the map of a picture, (rows, columns) in 0..1; None where none can be shown."""
        with self._guard:
            if not self._source:
                self._source.append(self.open_source())
            turn = self._turns.setdefault(record.id, Lock())
        source = self._source[0]
        if source is None:
            return None
        with turn:
            if record.id not in self._known:
                pixels = record.pixels()
                with naming(f"what stands out of picture {record.id}"):
                    self._known[record.id] = source.map(pixels)
            return self._known[record.id]


def open_recorded(
    detectors: Sequence[Detector], files: Sequence[Path], device: str, reporter: Reporter
) -> MapSource | None:
    """Open the source of objectness by which models were refined.

    Parameters
    ----------
    detectors : sequence of Detector
    files : sequence of Path
        Their files; where a description does not name its source, the run folder of the file does.
    device : str
    reporter : Reporter
        Says in one line why a source that models record shows no maps.

    Returns
    -------
    MapSource or None
        None if no model records a source, or its maps cannot be shown.
    """
    pairs = zip(map(_recorded, detectors), files, strict=True)
    recorded = [(description, file) for description, file in pairs if description is not None]
    if not recorded:
        return None
    first, file = recorded[0]
    try:
        if any(settings_difference(other, first) for other, _ in recorded):
            raise SettingsError("the models record different sources.")
        with reporter.warnings():
            source = _open(first, file, device)
    except LapsvmError as error:
        reporter.say(f"what stands out is not drawn: {error}")
        return None
    if not callable(getattr(source, "map", None)):
        reporter.say("what stands out is not drawn: its source has regions, and no map.")
        return None
    return cast(MapSource, source)


def _open(description: Mapping[str, Any], model: Path, device: str) -> ObjectnessSource:
    """Return the source that is described; that of a run folder, if it is fitted to the run's pictures."""
    text, run = _run_text(model), RunFolder(model.resolve().parent.parent)
    if text != NORMAL:
        return open_described(description, text, device=device)
    features = run.settings().features
    source = stored_normal_map(run, open_sized_extractor(features.extractors, features.networks, device))
    if difference := settings_difference(description, source.describe()):
        raise SettingsError(f"{run.normal_map} must be the source that is described, which has {difference}.")
    return source


def _recorded(detector: Detector) -> Mapping[str, Any] | None:
    """Return the description of the source by which a model was refined; None if there is none that can be opened."""
    training = detector.provenance.get("training")
    used = training.get("objectness") if isinstance(training, Mapping) else None
    source = used.get("source") if isinstance(used, Mapping) else None
    return source if isinstance(source, Mapping) and source.get("kind") != IMPORTED else None


def _run_text(model: Path) -> str | None:
    """Return the source of objectness that the run folder of a model file names; None if there is no such text."""
    settings = model.resolve().parent.parent / "run.toml"
    text = Settings.read(settings).objectness.source if settings.is_file() else NO_SOURCE
    return None if text == NO_SOURCE else text
