"""Stage 1: pictures become shards of windows and their features."""

from lapsvm.errors import MissingError, SettingsError
from lapsvm.features import Extractor
from lapsvm.objectness import open_objectness
from lapsvm.settings import FILE, IMPORTED, NORMAL

from ..context import RunContext
from ..fitting.refining.prior import check_classes
from ..run.dataset import RunData, positive_pictures
from ..run.folder import RunFolder, Timing, measured
from ..settings.recipes import from_network
from ..settings.settings import ObjectnessSettings, Settings
from ..shards.annotated import equal_sentences
from ..shards.external import cached_sources, clear_cache
from ..shards.forecast import Forecast
from ..shards.normal import check_normal
from ..shards.objectness import ObjectnessRequest
from .data_checks.pictures import CheckedData, DataCheck, report_left_out
from .data_checks.sides import check_sizes, fitted_to
from .extraction import Extraction
from .shard_sets import ShardSets
from .window_choice import fitted_windows


def run(context: RunContext) -> None:
    """Extract the shards of every set, after checking the proposals that files hold."""
    if context.redo or not context.run.has_shards(context.train_set):
        check_sizes(context.settings, context.device)  # shards that are there were made with these sizes
    check_proposals(context)
    extract_sets(context)
    report_proposals(context)


def extract_sets(context: RunContext) -> None:
    """Make the missing shards of every set; SettingsError if there are shards made with other settings."""
    data, plan, trial = _planned(context)
    shards = ShardSets(context.stored, context.workspace, plan.sets, context.stages, context.redo)
    to_do = shards.claim(plan.fitted_files)
    plan.save_fitted()
    context.save_settings()
    if trial is not None:
        context.run.save_timing("choose windows", trial, context.reporter.say)
    data.report()
    plan.say_cost(to_do)
    for name, records in context.data.records.items():
        shards.make(name, f"extract {name}", to_do[name])
        shards.measure(name)
        report_left_out(name, records, context.shards(name), context.reporter)


def _planned(context: RunContext) -> tuple[CheckedData, Extraction, Timing | None]:
    """Return the checked data, the products to make, and what a trial of windows took; nothing is fitted or written."""
    source = None if context.shards_from is None else RunFolder(context.shards_from)
    if source is not None and not source.shards(context.train_set).is_dir():
        raise MissingError(f"run {source.path} of --shards-from has no shards.")
    if context.settings.objectness.source == NORMAL:
        check_normal(context.open_extractor(), context.settings, context.data)
    measuring = _objectness(context.settings.objectness, context.data, context.train_set, context.device)
    inputs = context.workspace, context.settings, context.data, context.stages
    data = DataCheck(*inputs, context.redo).check(None if source is None else source.path / "shards")
    records = context.data.records[context.train_set]
    context.settings, sentence = fitted_to(records, context.settings, is_open=context.sizes_are_open)
    data.sentences += filter(None, (sentence, context.advice))
    workspace, full, trial = context.workspace, context.open_extractor(), None
    if context.windows_are_open and context.data.classes and from_network(context.settings.features.extractors):
        data.report()
        context.settings, trial = _with_windows(context, source, full)
    settings = context.settings
    forecast = Forecast(workspace, settings, context.data, context.stages)
    plan = Extraction(workspace, settings, context.data, forecast, full, measuring, source, context.redo, data.report)
    return data, plan, trial


def _with_windows(
    context: RunContext, source: RunFolder | None, extractor: Extractor
) -> tuple[Settings, Timing | None]:
    """Return the settings with the windows of stored shards, or those that suit the pictures, and a trial's timing."""
    settings = context.settings
    for run in (None if context.redo else context.run, source):
        if run is not None and run.has_shards(context.train_set):
            made = run.settings().windows
            chosen = {"windows.method": made.method, "windows.proposal_side": made.proposal_side}
            return settings.with_values(chosen) if made.method == "small" else settings, None
    with measured() as timing:
        settings, sentence = fitted_windows(context.workspace, settings, context.data, extractor)
    if not sentence:
        return settings, None
    context.reporter.say(sentence)
    return settings, timing


def _objectness(settings: ObjectnessSettings, data: RunData, train_set: str, device: str) -> ObjectnessRequest:
    """Return the request for the objectness of the training set's positive pictures.

    A normal map is fitted later, when the sizes of the features are known.
    """
    check_classes(settings, [*data.classes, *data.denied])
    source = None if settings.source == NORMAL else open_objectness(settings.source, device=device)
    return ObjectnessRequest(source, positive_pictures(data.records[train_set], data.classes), settings.source)


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
