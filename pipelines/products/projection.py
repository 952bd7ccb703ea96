"""The projection of a run's features, fitted on some training pictures and stored in the run folder.

The network need not see these pictures again when their shards are made: what it found is kept, as far as there is
memory. Features are the same either way.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from lapsvm.arrays import Array
from lapsvm.bags.stores.memory import as_bytes
from lapsvm.catalog import ImageRecord
from lapsvm.detection.prepared import PreparedWindows
from lapsvm.errors import ModelFileError, SettingsError
from lapsvm.features import (
    Extractor,
    Projected,
    Projection,
    ShardSet,
    fit_projection,
    load_projection,
    recorded_description,
)
from lapsvm.features.projection import FORMAT, VERSION, Moments
from lapsvm.features.shards.shard import as_plain_json
from lapsvm.model_files import read_model

from ..context import Workspace
from ..run.dataset import content_hash
from ..run.folder import RunFolder, Timing, measured
from ..run.progress import Reporter
from ..settings.settings import Settings
from ..shards.extraction import KeptPictures, fair_sample, prepare_record
from ..shards.prefetch import on_threads
from ..shards.windows import windows_provenance

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
    full: Extractor, workspace: Workspace, settings: Settings, records: Sequence[ImageRecord],
    places: Sequence[RunFolder] = (), before_fit: Callable[[Sequence[ImageRecord]], KeptPictures] = lambda _: {},
) -> tuple[Extractor, NewProjection | None]:  # fmt: skip
    """Return an extractor, projected if the settings ask for it, and a new projection to save, if any.

    Nothing is written but the sums of a fit that is interrupted.

    Parameters
    ----------
    full : Extractor
        That of the settings, without a projection.
    workspace : Workspace
    settings : Settings
    records : sequence of ImageRecord
        The training pictures, on some of which the projection is fitted.
    places : sequence of RunFolder, default ()
        The run folder, and others that may hold the projection; none if it is fitted again. A stored one stays when
        pictures are added.
    before_fit : callable, optional
        Is called with the pictures of the fit before it, and returns those that the extractor has seen.

    Raises
    ------
    SettingsError
        If the stored projection has another provenance.
    """
    pca = settings.features.pca
    if not pca:
        return full, None
    sample = _sample(records, settings.seed)
    made_with = {
        "extractor": recorded_description(full),
        "windows": windows_provenance(settings.windows),
        "pca": pca,
        "seed": settings.seed,
        "pictures": content_hash([record.id for record in sample]),
    }
    stored = ((place, _stored(place, made_with)) for place in places)
    place, projection = next(((place, one) for place, one in stored if one is not None), (None, None))
    if projection is not None and place is places[0]:
        return Projected(full, projection), None
    kept, timing = KeptPictures(), None
    if projection is not None and place is not None:
        made_with = read_model(place.projection, FORMAT, VERSION)[0]["made_with"]  # the pictures that it was fitted on
    else:
        ready = before_fit(sample)
        with measured() as timing:
            earlier = _stored_sums(workspace.folder, workspace.reporter, full, made_with) if places else None
            projection, kept = _fitted(workspace, settings, full, sample, made_with, ready, earlier)
        shares = ", ".join(f"{share:.3f}" for share in projection.kept)
        sizes = " + ".join(str(part.shape[1]) for part in projection.components)
        workspace.reporter.say(f"projection: {sizes} components keep {shares} of the variance")
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
    except SettingsError as error:
        raise SettingsError(f"{str(error).rstrip('.')}; use another --out, or --redo.") from None


def _sample(records: Sequence[ImageRecord], seed: int) -> list[ImageRecord]:
    """Return the pictures on which the components are fitted."""
    order = np.random.default_rng(seed).permutation(len(records))[:PICTURES]
    return [records[index] for index in np.sort(order)]


def _fitted(
    workspace: Workspace, settings: Settings, extractor: Extractor, records: list[ImageRecord],
    made_with: dict[str, object], ready: KeptPictures, earlier: Moments | None,
) -> tuple[Projection, KeptPictures]:  # fmt: skip
    """Return the projection of some windows of each picture, and the pictures that there is room for.

    `ready` are pictures that the extractor has seen; they are kept, too. `earlier` are the sums of an interrupted fit.

    If the fit is interrupted, or fails, its sums are stored, and the next call goes on from there.
    """
    run, reporter = workspace.folder, workspace.reporter
    kept, sums = KeptPictures(), deque[Moments](maxlen=1)
    n_bytes = 0 if workspace.cluster is not None else kept_bytes()  # workers prepare their own pictures

    def prepared(record: ImageRecord) -> tuple[PreparedWindows, str, Array] | None:
        found = ready.get(record.id) or prepare_record(record, settings, extractor)
        return None if found is None else (*found, found[0].features(fair_sample(found[0])))

    remaining = records[0 if earlier is None else earlier.samples :]
    with on_threads(reporter, "projection", prepared, remaining, workspace.threads) as (_, results):
        samples = _samples(results, extractor.dim, kept, n_bytes)
        try:
            projection = fit_projection(
                samples, extractor.blocks, settings.features.pca, earlier, sums.append, workspace.threads
            )
        except BaseException:
            if sums:
                run.files.claim([run.projection_sums])
                sums[0].save(run.projection_sums, made_with)
            raise
    return projection, kept | ready


def _samples(
    results: Iterable[tuple[ImageRecord, tuple[PreparedWindows, str, Array] | None]],
    dim: int,
    kept: KeptPictures,
    n_bytes: int,
) -> Iterator[Array]:
    """Yield the features of some windows of each picture (n, dim), none of one that is left out.

    Fill `kept` with at most `n_bytes` of pictures.
    """
    for record, found in results:
        if found is None:
            yield np.empty((0, dim))
            continue
        picture, digest, rows = found
        n_bytes -= picture.seen.nbytes
        if n_bytes >= 0:
            kept[record.id] = picture, digest
        yield rows


def _stored_sums(
    run: RunFolder, reporter: Reporter, extractor: Extractor, made_with: dict[str, object]
) -> Moments | None:
    """Return the sums of an interrupted fit, if they are those of this one."""
    path = run.projection_sums
    if not run.files.owns(path):
        return None
    try:
        earlier = Moments.load(path, as_plain_json(made_with), [block.inside for block in extractor.blocks])
    except ModelFileError:
        return None
    if earlier is not None:
        reporter.say(f"projection: goes on after {earlier.samples:,} pictures")
    return earlier


def kept_bytes() -> int:
    """Return how many bytes of pictures may be kept."""
    most = as_bytes(None)
    return KEPT_BYTES if most is None else min(KEPT_BYTES, most // 4)
