"""The projection of a run's features: found on some training pictures before they are extracted, kept in its folder."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from lapsvm.arrays import Array
from lapsvm.catalog import ImageRecord
from lapsvm.errors import ModelFileError, SettingsError
from lapsvm.features import Extractor, Projected, Projection, ShardSet, fit_projection, load_projection

from ..run.context import RunContext
from ..run.dataset import content_hash
from ..run.folder import RunFolder
from .extractors import open_settings_extractor
from .windows import pixels_unless_bad, window_boxes, windows_provenance

PICTURES = 200
WINDOWS = 60  # of each picture
NewProjection = tuple[Projection, dict[str, object]]  # one that is to be saved, and what it was made with


def open_run_extractor(context: RunContext, source: RunFolder | None) -> tuple[Extractor, NewProjection | None]:
    """Return the extractor that the settings name, its features projected if they say so; nothing is written.

    The projection is the one in the run folder, or that of the run whose shards are taken, or is found now. In the
    latter cases it is returned, too, with what it was made with, to be saved in the run folder.

    Raises
    ------
    SettingsError
        If there is one that was made otherwise.
    """
    whole = open_settings_extractor(context.settings.features, context.device, context.named)
    if not context.settings.features.pca:
        return whole, None
    chosen = _chosen(context)
    made_with = {
        "extractor": whole.describe(),
        "windows": windows_provenance(context.settings.windows),
        "pca": context.settings.features.pca,
        "seed": context.settings.seed,
        "pictures": content_hash([record.id for record in chosen]),
    }
    own = None if context.redo else _kept(context.run, made_with)
    if own is not None:
        return Projected(whole, own), None
    projection = None if context.redo or source is None else _kept(source, made_with)
    if projection is None:
        projection = fit_projection(
            _samples(context, whole, chosen), whole.blocks, context.settings.features.pca, whole.halves
        )
        shares = ", ".join(f"{share:.3f}" for share in projection.kept)
        context.reporter.say(f"projection: {projection_sizes(projection)} components keep {shares} of the variance")
    return Projected(whole, projection), (projection, made_with)


def projection_sizes(projection: Projection) -> str:
    """Return how many components each part keeps, as text."""
    return " + ".join(str(part.shape[1]) for part in projection.components)


def projection_of(run: RunFolder, shards: ShardSet) -> Projection | None:
    """Return the projection that a run's shards were made with, or None.

    Raises
    ------
    SettingsError
        If the one in the run folder is another one.
    """
    wanted = shards.provenance["features"]["extractor"].get("components")
    if wanted is None:
        return None
    projection = load_projection(run.projection)
    if projection.fingerprint != wanted:
        raise SettingsError(f"{run.projection} is not what the shards were made with; run lapsvm extract --redo.")
    return projection


def _kept(run: RunFolder, made_with: dict[str, object]) -> Projection | None:
    """Return the projection of a run; None if it has no whole one."""
    if not run.projection.is_file():
        return None
    try:
        return load_projection(run.projection, made_with)
    except ModelFileError:
        return None  # damaged: it is found again


def _chosen(context: RunContext) -> list[ImageRecord]:
    """Return the pictures that the components are found on."""
    records = context.data.records[context.settings.data.train_set]
    order = np.random.default_rng(context.settings.seed).permutation(len(records))[:PICTURES]
    return [records[place] for place in np.sort(order)]


def _samples(context: RunContext, extractor: Extractor, records: list[ImageRecord]) -> Iterator[Array]:
    """Yield the features of some windows of each picture."""

    def measure(record: ImageRecord) -> Array | None:
        pixels = pixels_unless_bad(record, context.settings.data.skip_bad)
        if pixels is None:
            return None
        boxes = window_boxes(pixels, context.settings.windows, context.settings.seed, record.id)
        step = max(1, len(boxes) // WINDOWS)  # windows come best first, so every n-th is a fair sample
        return extractor(pixels, boxes[::step][:WINDOWS])

    with (
        context.reporter.bar("projection", len(records), "pictures") as bar,
        threadpool_limits(1),
        ThreadPoolExecutor(context.threads) as pool,
    ):
        for features in pool.map(measure, records):
            bar.step()
            if features is not None:
                yield features
