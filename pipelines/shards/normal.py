"""The normal map of a run: fitted to training pictures of no class when shards are made, and stored beside them."""

from collections.abc import Iterable, Iterator

import numpy as np

from lapsvm.catalog import ImageRecord
from lapsvm.errors import LabelsError, ModelFileError, OptionError, SettingsError
from lapsvm.features import Concatenation, PooledNetwork
from lapsvm.features.extractors.extractor import COARSE, open_sized_extractor
from lapsvm.objectness import NormalMap
from lapsvm.objectness.normal import LEAST_PICTURES

from ..run.context import RunContext
from ..run.folder import RunFolder
from ..run.settings import NORMAL, FeatureSettings
from .windows import pixels_unless_bad

PICTURES = 100


def check_normal(context: RunContext) -> None:
    """Raise OptionError if no network gives maps, LabelsError if too few training pictures are of no class."""
    if context.settings.objectness.source != NORMAL:
        return
    normal_network(context.settings.features, context.device, context.named)
    count = len(_drawn(context))
    if count < LEAST_PICTURES:
        raise LabelsError(
            f"--objectness normal needs at least {LEAST_PICTURES} training pictures of no class, got {count}; take "
            "--objectness none."
        )


def normal_network(features: FeatureSettings, device: str, named: Iterable[str]) -> PooledNetwork:
    """Return the run's first network at its first size, with its fine maps; all of them if it has no fine ones."""
    opened = open_sized_extractor(features.extractors, features.networks, device, tuple(named))
    parts = opened.parts if isinstance(opened, Concatenation) else (opened,)
    networks = [part for part in parts if isinstance(part, PooledNetwork)]
    if not networks:
        raise OptionError("--objectness normal needs features of a network; take --objectness none.")
    return networks[0].finer_than(COARSE) or networks[0]


def run_normal_map(context: RunContext, source: RunFolder | None) -> tuple[NormalMap, bool]:
    """Return the normal map of a run, and whether it is to be saved; nothing is written.

    That of the run folder or of `source` stays as long as its pictures are training pictures of no class, so that
    added pictures change no number.
    """
    network = normal_network(context.settings.features, context.device, context.named)
    free = {record.id for record in _free(context)}
    for run in [] if context.redo else [one for one in (context.run, source) if one is not None]:
        stored = _stored(run, network)
        if stored is not None and free.issuperset(stored.pictures):
            return stored, run is not context.run
    return _fitted(context, network), True


def _stored(run: RunFolder, network: PooledNetwork) -> NormalMap | None:
    """Return the normal map of a run; None if it has none that is intact and of this network."""
    try:
        return NormalMap.load(run.normal_map, network) if run.normal_map.is_file() else None
    except (ModelFileError, SettingsError):
        return None


def _fitted(context: RunContext, network: PooledNetwork) -> NormalMap:
    """Return the normal map of some pictures of no class."""
    records = _drawn(context)
    context.reporter.say(f"objectness: fitted to {len(records)} training pictures of no class")
    pictures = ((record.id, pixels_unless_bad(record, context.settings.data.skip_bad)) for record in records)
    known = ((name, pixels) for name, pixels in pictures if pixels is not None)
    return NormalMap.fit(network, known, seed=context.settings.seed)


def _drawn(context: RunContext) -> list[ImageRecord]:
    """Return the training pictures of no class that the map is fitted to, in the order of the data set."""
    free = list(_free(context))
    order = np.random.default_rng(context.settings.seed).permutation(len(free))[:PICTURES]
    return [free[place] for place in np.sort(order)]


def _free(context: RunContext) -> Iterator[ImageRecord]:
    """Yield the training pictures that are known to show no class of the run."""
    classes = context.data.classes
    for record in context.data.records[context.train_set]:
        if all(record.labels.get(name, 0) == -1 for name in classes):
            yield record


def stored_normal_map(features: FeatureSettings, run: RunFolder, device: str, named: Iterable[str]) -> NormalMap:
    """Open the normal map that is stored in a run folder; MissingError, ModelFileError or SettingsError as `load`."""
    return NormalMap.load(run.normal_map, normal_network(features, device, named))
