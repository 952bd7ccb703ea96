"""The projection of a run's features, fitted on some training pictures and stored in the run folder."""

from collections.abc import Callable, Iterator
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
NewProjection = tuple[Projection, dict[str, object]]  # a projection to save, and its provenance


def open_run_extractor(
    context: RunContext, source: RunFolder | None, before_fit: Callable[[], None] = lambda: None
) -> tuple[Extractor, NewProjection | None]:
    """Return the extractor of the settings, projected if they ask for it, and a new projection to save, if any.

    The projection is loaded from the run folder or `source`, or fitted now, after a call of `before_fit`. Nothing is
    written. Raises SettingsError if
    the stored one has another provenance.
    """
    full = open_settings_extractor(context.settings.features, context.device, context.named)
    if not context.settings.features.pca:
        return full, None
    sample = _sample(context)
    made_with = {
        "extractor": full.describe(),
        "windows": windows_provenance(context.settings.windows),
        "pca": context.settings.features.pca,
        "seed": context.settings.seed,
        "pictures": content_hash([record.id for record in sample]),
    }
    projection = None if context.redo else _stored(context.run, made_with)
    if projection is not None:
        return Projected(full, projection), None
    projection = None if context.redo or source is None else _stored(source, made_with)
    if projection is None:
        before_fit()
        features = _sample_features(context, full, sample)
        projection = fit_projection(features, full.blocks, context.settings.features.pca, full.halves)
        shares = ", ".join(f"{share:.3f}" for share in projection.kept)
        context.reporter.say(f"projection: {projection_sizes(projection)} components keep {shares} of the variance")
    return Projected(full, projection), (projection, made_with)


def projection_sizes(projection: Projection) -> str:
    """Return the number of components of each block, as text."""
    return " + ".join(str(part.shape[1]) for part in projection.components)


def projection_of(run: RunFolder, shards: ShardSet) -> Projection | None:
    """Return the projection of a run's shards, or None; SettingsError if the run folder has another one."""
    fingerprint = shards.provenance["features"]["extractor"].get("components")
    if fingerprint is None:
        return None
    projection = load_projection(run.projection)
    if projection.fingerprint != fingerprint:
        raise SettingsError(f"{run.projection} is not the projection of the shards; run lapsvm extract --redo.")
    return projection


def _stored(run: RunFolder, made_with: dict[str, object]) -> Projection | None:
    """Return the stored projection of a run; None if it is missing or damaged."""
    if not run.projection.is_file():
        return None
    try:
        return load_projection(run.projection, made_with)
    except ModelFileError:
        return None


def _sample(context: RunContext) -> list[ImageRecord]:
    """Return the pictures on which the components are fitted."""
    records = context.data.records[context.settings.data.train_set]
    order = np.random.default_rng(context.settings.seed).permutation(len(records))[:PICTURES]
    return [records[index] for index in np.sort(order)]


def _sample_features(context: RunContext, extractor: Extractor, records: list[ImageRecord]) -> Iterator[Array]:
    """Yield the features of some windows of each picture."""

    def measure(record: ImageRecord) -> Array | None:
        pixels = pixels_unless_bad(record, context.settings.data.skip_bad)
        if pixels is None:
            return None
        boxes = window_boxes(pixels, context.settings.windows, context.settings.seed, record.id)
        step = max(1, len(boxes) // WINDOWS)  # windows are sorted by quality, so every n-th is a fair sample
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
