"""The normal map of a run: fitted to training pictures without a class when shards are made, and stored beside them."""

from collections.abc import Iterator, Sequence

import numpy as np

from lapsvm.catalog import ImageRecord
from lapsvm.errors import LabelsError, ModelFileError, OptionError, SettingsError
from lapsvm.features import Concatenation, Extractor, PooledNetwork
from lapsvm.features.extractors.extractor import COARSE
from lapsvm.objectness import NormalMap
from lapsvm.objectness.normal import LEAST_PICTURES

from ..run.dataset import RunData
from ..run.folder import RunFolder
from ..run.progress import Reporter
from ..settings.settings import Settings
from .windows import pixels_unless_bad

PICTURES = 100


def check_normal(extractor: Extractor, settings: Settings, data: RunData) -> None:
    """Raise OptionError if no network gives maps, LabelsError if too few training pictures lack all classes."""
    normal_network(extractor)
    count = len(_drawn(settings, data))
    if count < LEAST_PICTURES:
        raise LabelsError(
            f"--objectness normal needs at least {LEAST_PICTURES} training pictures of no class, got {count}; take "
            "--objectness none."
        )


def normal_network(extractor: Extractor) -> PooledNetwork:
    """Return a run's first network at its first size, with its fine maps; all of them if it has no fine ones."""
    parts = extractor.parts if isinstance(extractor, Concatenation) else (extractor,)
    networks = [part for part in parts if isinstance(part, PooledNetwork)]
    if not networks:
        raise OptionError("--objectness normal needs features of a network; take --objectness none.")
    return networks[0].finer_than(COARSE) or networks[0]


def run_normal_map(
    extractor: Extractor, settings: Settings, data: RunData, places: Sequence[RunFolder], reporter: Reporter
) -> tuple[NormalMap, bool]:
    """Return the normal map of a run, and whether it is to be saved; nothing is written.

    `places` are the run folder and others that may hold it; none if it is made again. A stored one stays as long as its
    pictures are training pictures of no class, so that added pictures change no number.
    """
    network = normal_network(extractor)
    free = {record.id for record in _free(settings, data)}
    for place in places:
        stored = _stored(place, network)
        if stored is not None and free.issuperset(stored.pictures):
            return stored, place is not places[0]
    return _fitted(network, settings, data, reporter), True


def _stored(run: RunFolder, network: PooledNetwork) -> NormalMap | None:
    """Return the normal map of a run; None if it has none that is intact and of this network."""
    try:
        return NormalMap.load(run.normal_map, network) if run.normal_map.is_file() else None
    except (ModelFileError, SettingsError):
        return None


def _fitted(network: PooledNetwork, settings: Settings, data: RunData, reporter: Reporter) -> NormalMap:
    """Return the normal map of some pictures without a class."""
    records = _drawn(settings, data)
    reporter.say(f"objectness: fitted to {len(records)} training pictures of no class")
    pictures = ((record.id, pixels_unless_bad(record, settings.data.skip_bad)) for record in records)
    known = ((name, pixels) for name, pixels in pictures if pixels is not None)
    return NormalMap.fit(network, known, seed=settings.seed)


def _drawn(settings: Settings, data: RunData) -> list[ImageRecord]:
    """Return the training pictures without a class that the map is fitted to, in the order of the data set."""
    free = list(_free(settings, data))
    order = np.random.default_rng(settings.seed).permutation(len(free))[:PICTURES]
    return [free[place] for place in np.sort(order)]


def _free(settings: Settings, data: RunData) -> Iterator[ImageRecord]:
    """Yield the training pictures that are known to show no class of the run."""
    for record in data.records[settings.data.train_set]:
        if all(record.labels.get(name, 0) == -1 for name in data.classes):
            yield record


def stored_normal_map(run: RunFolder, extractor: Extractor) -> NormalMap:
    """Open the normal map that is stored in a run folder; MissingError, ModelFileError or SettingsError as `load`."""
    return NormalMap.load(run.normal_map, normal_network(extractor))
