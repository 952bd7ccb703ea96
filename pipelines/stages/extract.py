"""Stage 1: pictures become shards of windows and their features."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from lapsvm.catalog import ImageRecord
from lapsvm.errors import MissingError, SettingsError
from lapsvm.features import Extractor, save_projection
from lapsvm.objectness import NormalMap, open_objectness

from ..context import RunContext
from ..fitting.refining.prior import check_classes
from ..products.projection import NewProjection, kept_bytes, open_run_extractor
from ..run.dataset import positive_pictures
from ..run.folder import RunFolder
from ..settings.settings import FILE, IMPORTED, NORMAL
from ..shards.annotated import equal_sentences
from ..shards.external import cached_sources, clear_cache
from ..shards.extraction import KeptPictures, SetExtraction
from ..shards.forecast import Forecast, projected_dim
from ..shards.normal import check_normal, run_normal_map
from ..shards.objectness import NO_OBJECTNESS, ObjectnessRequest
from .data_checks.pictures import CheckedData, check_data, report_left_out
from .data_checks.sides import check_sizes, fitted_to
from .shard_sets import claim_shards, make_set, measure_stored


def run(context: RunContext) -> None:
    """Extract the shards of every set, after checking the proposals that files hold."""
    if context.redo or not context.run.has_shards(context.train_set):
        check_sizes(context.settings, context.device)  # shards that are there were made with these sizes
    check_proposals(context)
    extract_sets(context)
    report_proposals(context)


def extract_sets(context: RunContext) -> None:
    """Make the missing shards of every set; SettingsError if there are shards made with other settings."""
    source = None if context.shards_from is None else RunFolder(context.shards_from)
    if source is not None and not source.shards(context.train_set).is_dir():
        raise MissingError(f"run {source.path} of --shards-from has no shards.")
    if context.settings.objectness.source == NORMAL:
        check_normal(context.open_extractor(), context.settings, context.data)
    measuring = _objectness(context)
    data = check_data(context, None if source is None else source.path / "shards")
    _fit_to_pictures(context, data)
    data.sentences += [context.advice] if context.advice else []
    forecast = Forecast(context.workspace, context.settings, context.data, context.stages)
    places = [] if context.redo else [context.run, *([source] if source else [])]
    full = context.open_extractor()
    extractor, projection = _projected(full, context, places, forecast, data.report)
    objectness, normal = _with_normal_map(full, context, places, measuring)
    sets = {}
    for name, records in context.data.records.items():
        folder, other = context.run.shards(name), source.shards(name) if source else None
        request = objectness if name == context.train_set else NO_OBJECTNESS
        sets[name] = SetExtraction(folder, records, context.settings, extractor, context.redo, other, request)
    sets[context.train_set].kept |= projection.kept if projection is not None else {}
    others = [context.run.projection] if projection is not None else []
    to_do = claim_shards(context, sets, [*others, *([context.run.normal_map] if normal else [])])
    if normal is not None:
        normal.save(context.run.normal_map)
    if projection is not None:
        save_projection(context.run.projection, projection.projection, projection.made_with)
        context.run.remove([context.run.projection_sums])
        if projection.timing is not None:
            context.run.save_timing("projection", projection.timing, context.reporter.say)
    context.save_settings()
    data.report()
    n_missing = sum(len(members) for jobs in to_do.values() for _, members in jobs)
    if projection is None or projection.timing is None:  # else it was forecast before the components were fitted
        name = max(sets, key=lambda one: sum(len(members) for _, members in to_do[one]))
        records = [record for _, members in to_do[name] for record in members]
        sets[name].kept |= forecast.features(extractor, records, n_missing, extractor.dim)
    train_jobs = [*to_do[context.train_set], *sets[context.train_set].unmeasured]
    forecast.objectness(objectness, [record for _, members in train_jobs for record in members])
    for name, jobs in sets.items():
        make_set(context, name, f"extract {name}", jobs, to_do[name])
        measure_stored(context, name, jobs)
        report_left_out(context, name)


def _objectness(context: RunContext) -> ObjectnessRequest:
    """Return what measures objectness by the settings, and the positive pictures of the training set.

    A normal map is fitted later, when the sizes of the features are known.
    """
    check_classes(context.settings.objectness, [*context.data.classes, *context.data.denied])
    text = context.settings.objectness.source
    source = None if text == NORMAL else open_objectness(text, device=context.device)
    records = context.data.records[context.train_set]
    return ObjectnessRequest(source, positive_pictures(records, context.data.classes), text)


def _projected(
    full: Extractor, context: RunContext, places: Sequence[RunFolder], forecast: Forecast, report: Callable[[], int]
) -> tuple[Extractor, NewProjection | None]:
    """Return the extractor with the projection of the settings, and a new projection to save, if any.

    Before the projection is fitted the data are reported, and what the command will need.
    """
    pca = context.settings.features.pca

    def before_fit(sample: Sequence[ImageRecord]) -> KeptPictures:
        dim, room = projected_dim(full, pca), kept_bytes()
        return forecast.features(full, sample, report(), dim, room=room, exact=pca >= 1)

    records = context.data.records[context.train_set]
    return open_run_extractor(full, context.workspace, context.settings, records, places, before_fit)


def _with_normal_map(
    full: Extractor, context: RunContext, places: Sequence[RunFolder], request: ObjectnessRequest
) -> tuple[ObjectnessRequest, NormalMap | None]:
    """Return the request, with the normal map if the settings ask for it, and the map if it is to be saved."""
    if context.settings.objectness.source != NORMAL:
        return request, None
    normal, is_new = run_normal_map(full, context.settings, context.data, places, context.reporter)
    return replace(request, source=normal), normal if is_new else None


def _fit_to_pictures(context: RunContext, data: CheckedData) -> None:
    """Choose the sizes for the pictures where nobody gave any, and report what is too small for them."""
    records = context.data.records[context.train_set]
    context.settings, sentence = fitted_to(records, context.settings, is_open=context.sizes_are_open)
    data.sentences += [sentence] if sentence else []


def check_proposals(context: RunContext) -> None:
    """Raise SettingsError if the windows of a run were imported, MissingError if files lack windows of a picture."""
    windows = context.settings.windows
    if windows.method == IMPORTED:
        raise SettingsError(
            f"run folder {context.run.path} holds imported features: there is nothing to extract; run lapsvm train, "
            "or name another --out."
        )
    if windows.method == FILE:
        clear_cache()
        cached_sources(windows.source).check_all(context.data.records)


def report_proposals(context: RunContext) -> None:
    """Report whether windows of files hold the ground truth."""
    dataset = context.data.dataset
    for set_name in context.data.records if context.settings.windows.method == FILE else ():
        for sentence in equal_sentences(dataset, set_name, context.shards(set_name), "take it out of the file"):
            context.reporter.say(sentence)
