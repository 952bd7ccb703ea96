"""The projection of a run's features, fitted on some training pictures and stored in the run folder.

The network need not see these pictures again when their shards are made: what it found is kept, as far as there is
memory. Features are the same either way.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from lapsvm.arrays import Array
from lapsvm.bags.stores.memory import as_bytes
from lapsvm.catalog import ImageRecord
from lapsvm.detection.prepared import PreparedWindows
from lapsvm.errors import ModelFileError, SettingsError
from lapsvm.features import Extractor, Projected, Projection, ShardSet, fit_projection, load_projection
from lapsvm.features.extractors.extractor import open_sized_extractor
from lapsvm.features.projection import FORMAT, VERSION, Moments, first_halves
from lapsvm.features.shards.shard import as_plain_json
from lapsvm.model_files import read_model

from ..run.context import RunContext
from ..run.dataset import content_hash
from ..run.folder import RunFolder, Timing, measured
from .extraction import KeptPictures, fair_sample, prepare_record
from .forecast import forecast, projected_dim
from .prefetch import on_threads
from .windows import windows_provenance

PICTURES = 200
KEPT_BYTES = 2**31  # of pictures at most, and a fifth of the free memory


@dataclass(frozen=True)
class NewProjection:
    """A projection to save, its provenance, the time of its fit, and the pictures of it as far as they are kept."""

    projection: Projection
    made_with: dict[str, object]
    timing: Timing | None
    kept: KeptPictures = field(repr=False)


def open_run_extractor(
    context: RunContext, source: RunFolder | None, before_fit: Callable[[], int] = int
) -> tuple[Extractor, NewProjection | None]:
    """Return the extractor of the settings, projected if they ask for it, and a new projection to save, if any.

    The projection is loaded from the run folder or `source`, or fitted now, after a call of `before_fit`, which returns
    the number of pictures to extract. A stored one stays when pictures are added. Nothing is written but the sums of a
    fit that is interrupted. Raises SettingsError if the stored one has another provenance.
    """
    features = context.settings.features
    full = open_sized_extractor(features.extractors, features.networks, context.device, context.named)
    if not features.pca:
        return full, None
    sample = _sample(context)
    made_with = {
        "extractor": full.describe(),
        "windows": windows_provenance(context.settings.windows),
        "pca": features.pca,
        "seed": context.settings.seed,
        "pictures": content_hash([record.id for record in sample]),
    }
    projection = None if context.redo else _stored(context.run, made_with)
    if projection is not None:
        return Projected(full, projection), None
    projection = None if context.redo or source is None else _stored(source, made_with)
    kept, timing = KeptPictures(), None
    if projection is not None and source is not None:
        made_with = read_model(source.projection, FORMAT, VERSION)[0]["made_with"]  # the pictures that it was fitted on
    else:
        n_pictures, dim = before_fit(), projected_dim(full, features.pca)
        ready = forecast(context, full, sample, n_pictures, dim, room=_room(), exact=features.pca >= 1)
        with measured() as timing:
            projection, kept = _fitted(context, full, sample, made_with, ready)
        shares = ", ".join(f"{share:.3f}" for share in projection.kept)
        sizes = " + ".join(str(part.shape[1]) for part in projection.components)
        context.reporter.say(f"projection: {sizes} components keep {shares} of the variance")
    ready = {name: (picture.projected(projection.components), digest) for name, (picture, digest) in kept.items()}
    return Projected(full, projection), NewProjection(projection, made_with, timing, ready)


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
    try:
        return load_projection(run.projection, made_with) if run.projection.is_file() else None
    except ModelFileError:
        return None


def _sample(context: RunContext) -> list[ImageRecord]:
    """Return the pictures on which the components are fitted."""
    records = context.data.records[context.train_set]
    order = np.random.default_rng(context.settings.seed).permutation(len(records))[:PICTURES]
    return [records[index] for index in np.sort(order)]


def _fitted(
    context: RunContext, extractor: Extractor, records: list[ImageRecord], made_with: dict[str, object],
    ready: KeptPictures,
) -> tuple[Projection, KeptPictures]:  # fmt: skip
    """Return the projection of some windows of each picture, and the pictures that there is room for.

    `ready` are pictures that the extractor has seen; they are kept, too.

    If the fit is interrupted, or fails, its sums are stored, and the next call goes on from there.
    """
    begun = _stored_sums(context, extractor, made_with)
    kept, sums = KeptPictures(), deque[Moments](maxlen=1)

    def prepared(record: ImageRecord) -> tuple[PreparedWindows, str, Array] | None:
        found = ready.get(record.id) or prepare_record(record, context.settings, extractor)
        return None if found is None else (*found, found[0].features(fair_sample(found[0])))

    remaining = records[0 if begun is None else begun.samples :]
    with on_threads(context.reporter, "projection", prepared, remaining, context.threads) as (_, results):
        size, samples = context.settings.features.pca, _samples(context, results, extractor.dim, kept)
        try:
            projection = fit_projection(samples, extractor.blocks, size, extractor.halves, begun, sums.append)
        except BaseException:
            if sums:
                context.run.files.claim([context.run.projection_sums])
                sums[0].save(context.run.projection_sums, made_with)
            raise
    return projection, kept | ready


def _samples(
    context: RunContext,
    results: Iterable[tuple[ImageRecord, tuple[PreparedWindows, str, Array] | None]],
    dim: int,
    kept: KeptPictures,
) -> Iterator[Array]:
    """Yield the features of some windows of each picture (n, dim), none of one that is left out; fill `kept`."""
    room = 0 if context.cluster is not None else _room()  # workers prepare their own pictures
    for record, found in results:
        if found is None:
            yield np.empty((0, dim))
            continue
        picture, digest, rows = found
        room -= picture.seen.nbytes
        if room >= 0:
            kept[record.id] = picture, digest
        yield rows


def _stored_sums(context: RunContext, extractor: Extractor, made_with: dict[str, object]) -> Moments | None:
    """Return the sums of an interrupted fit, if they are those of this one."""
    path = context.run.projection_sums
    if context.redo or not context.run.files.owns(path):
        return None
    try:
        begun = Moments.load(path, as_plain_json(made_with), first_halves(extractor.blocks, extractor.halves))
    except ModelFileError:
        return None
    if begun is not None:
        context.reporter.say(f"projection: goes on after {begun.samples:,} pictures")
    return begun


def _room() -> int:
    """Return how many bytes of pictures may be kept."""
    most = as_bytes(None)
    return KEPT_BYTES if most is None else min(KEPT_BYTES, most // 4)
