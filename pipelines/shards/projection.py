"""The projection of a run's features, fitted on some training pictures and stored in the run folder.

The network need not see these pictures again when their shards are made: what it found is kept, as far as there is
memory. Features are the same either way.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
from threadpoolctl import threadpool_limits

from lapsvm.arrays import Array
from lapsvm.bags.stores.memory import as_bytes
from lapsvm.catalog import ImageRecord
from lapsvm.detection.prepared import PreparedWindows
from lapsvm.errors import ModelFileError, SettingsError
from lapsvm.features import Extractor, Projected, Projection, ShardSet, fit_projection, load_projection
from lapsvm.features.moments import Moments
from lapsvm.features.projection import FORMAT, VERSION, first_halves
from lapsvm.features.shards.shard import as_plain_json
from lapsvm.model_files import read_model

from ..run.context import RunContext
from ..run.dataset import content_hash
from ..run.folder import RunFolder, Timing, measured
from ..run.progress import Bar
from .extraction import KeptPictures, fair_sample, prepare_record
from .extractors import open_settings_extractor
from .forecast import forecast, projected_dim
from .jobs import PREFETCHED
from .prefetch import prefetched
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
    kept: KeptPictures = {}
    timing = None
    if projection is not None and source is not None:
        made_with = read_model(source.projection, FORMAT, VERSION)[0]["made_with"]  # the pictures that it was fitted on
    else:
        ready = _forecast(context, full, sample, before_fit())
        with measured() as timing:
            projection = _fitted(context, full, sample, kept, made_with, ready)
        kept |= ready
        shares = ", ".join(f"{share:.3f}" for share in projection.kept)
        context.reporter.say(f"projection: {projection_sizes(projection)} components keep {shares} of the variance")
    ready = {name: (picture.projected(projection.components), digest) for name, (picture, digest) in kept.items()}
    return Projected(full, projection), NewProjection(projection, made_with, timing, ready)


def _forecast(
    context: RunContext, extractor: Extractor, sample: Sequence[ImageRecord], n_pictures: int
) -> KeptPictures:
    """Report what extraction will need; return the pictures of the sample that were measured for it."""
    pca = context.settings.features.pca
    dim, room = projected_dim(extractor, pca), _room()
    return forecast(context, extractor, sample, n_pictures, dim, room=room, exact=pca >= 1)


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


def _fitted(
    context: RunContext,
    extractor: Extractor,
    records: list[ImageRecord],
    kept: KeptPictures,
    made_with: dict[str, object],
    ready: KeptPictures,
) -> Projection:
    """Return the projection of some windows of each picture; `kept` receives the pictures that there is room for.

    `ready` are pictures that the extractor has seen.

    If the fit is interrupted, or fails, its sums are stored, and the next call goes on from there.
    """
    begun = _stored_sums(context, extractor, made_with)
    done = 0 if begun is None else begun.samples
    sums: list[Moments] = []

    def keep(new: Moments) -> None:
        sums[:] = [new]

    with (
        context.reporter.bar("projection", len(records), "pictures") as bar,
        threadpool_limits(1),
        ThreadPoolExecutor(context.threads) as pool,
        closing(
            prefetched(pool, _prepared(context, extractor, ready), records[done:], PREFETCHED * context.threads)
        ) as results,
    ):
        bar.step(done)
        size, samples = context.settings.features.pca, _samples(context, results, bar, extractor.dim, kept)
        try:
            return fit_projection(samples, extractor.blocks, size, extractor.halves, begun, keep)
        except BaseException:
            if sums:
                context.run.files.claim([context.run.projection_sums])
                sums[0].save(context.run.projection_sums, made_with)
            raise


def _prepared(
    context: RunContext, extractor: Extractor, ready: KeptPictures
) -> Callable[[ImageRecord], tuple[PreparedWindows, str, Array] | None]:
    """Return the function picture -> its windows, its hash, and features of some windows; None if it is left out."""

    def prepare(record: ImageRecord) -> tuple[PreparedWindows, str, Array] | None:
        found = ready.get(record.id) or prepare_record(record, context.settings, extractor)
        if found is None:
            return None
        picture, digest = found
        return picture, digest, picture.features_of(fair_sample(picture))

    return prepare


def _samples(
    context: RunContext,
    results: Iterable[tuple[ImageRecord, tuple[PreparedWindows, str, Array] | None]],
    bar: Bar,
    dim: int,
    kept: KeptPictures,
) -> Iterator[Array]:
    """Yield the features of some windows of each picture (n, dim), none of one that is left out; fill `kept`."""
    room = 0 if context.cluster is not None else _room()  # workers prepare their own pictures
    for record, found in results:
        bar.step()
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
