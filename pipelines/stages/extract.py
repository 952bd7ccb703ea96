"""Stage 1: pictures become shards of windows and their features."""

from collections.abc import Callable, Sequence
from typing import Any

from lapsvm.errors import MissingError, SettingsError
from lapsvm.features import save_projection

from ..run.context import RunContext
from ..run.folder import RunFolder
from ..run.settings import FILE, IMPORTED
from ..shards.annotated import equal_sentences
from ..shards.external import forget, opened_sources
from ..shards.extraction import SetExtraction, _extract_set, take
from ..shards.integrity import ShardJob, with_damaged
from ..shards.projection import open_run_extractor
from .model_checks import check_models

Extract = Callable[[RunContext, "SetExtraction", Sequence[ShardJob], str, dict[str, Any]], None]


def extract_sets(context: RunContext) -> None:
    """Make the shards of every set that are not there yet.

    Raises
    ------
    ImageError, MissingError
        If a picture cannot be read whole, unless the settings say to leave it out.
    SettingsError
        If shards are there that were made otherwise.
    """
    source = None if context.shards_from is None else RunFolder(context.shards_from)
    if source is not None and not source.shards(context.settings.data.train_set).is_dir():
        raise MissingError(f"run {source.path} of --shards-from has no shards.")
    extractor, projection = open_run_extractor(context, source)
    works = {
        name: SetExtraction(
            context.run.shards(name),
            records,
            context.settings,
            extractor,
            context.redo,
            source.shards(name) if source else None,
        )
        for name, records in context.data.records.items()
    }
    wanted = {name: _wanted(context, name, work) for name, work in works.items()}
    takes = {name: work.to_take(wanted[name]) for name, work in works.items()}
    check_models(context, shards_are_done=not any(wanted.values()) and not any(takes.values()))
    old = [path for work in works.values() for path in work.old()] if context.redo else []
    new = [path for jobs in wanted.values() for path, _ in jobs]
    new += [path for pairs in takes.values() for _, path in pairs]
    new += [context.run.projection] if projection is not None else []
    context.run.files.check([*old, *new])  # the last check: from here on files are written
    context.run.remove(old)
    context.run.files.claim(new)
    if projection is not None:
        save_projection(context.run.projection, *projection)
    context.save_settings()
    for set_name, work in works.items():
        for taken, path in takes[set_name]:
            take(taken, path)
        with context.timed(f"extract {set_name}") as counts:
            extract = _extract_set if context.cluster is None else _elsewhere()
            extract(context, work, wanted[set_name], f"extract {set_name}", counts)
        for image_id in work.left_out():
            context.reporter.say(f"picture {image_id} is left out: it cannot be read whole")


def _wanted(context: RunContext, set_name: str, work: SetExtraction) -> list[ShardJob]:
    """Return the shards of a set that are to be made: missing ones, and those of which a byte is not as written."""
    own = {work.now(path): (path, records) for path, records in work.jobs}
    there = [(now, records) for now, (_, records) in own.items()]
    to_do = [(work.now(path), records) for path, records in work.to_do()]
    found = with_damaged(context.reporter, f"check {set_name}", there, to_do, context.threads)
    return [own[now] for now, _ in found]


def _elsewhere() -> Extract:
    """Return what has a cluster extract, which builds on this file."""
    from ..shards.cluster import extract_on_cluster

    return extract_on_cluster


def check_proposals(context: RunContext) -> None:
    """Raise unless the windows of a run can be extracted: not if they were imported, or files lack some.

    Raises
    ------
    SettingsError, MissingError, ExternalFileError
    """
    windows = context.settings.windows
    if windows.method == IMPORTED:
        raise SettingsError(
            f"run folder {context.run.path} holds imported features, so that there is nothing to extract; run lapsvm "
            "train and what follows, or name another --out."
        )
    if windows.method == FILE:
        forget()
        sources = opened_sources(windows.source)
        for set_name, records in context.data.records.items():
            sources.check_all([record.id for record in records], set_name)


def report_proposals(context: RunContext) -> None:
    """Say whether windows that came from files hold the ground truth."""
    for set_name in context.data.records if context.settings.windows.method == FILE else ():
        for sentence in equal_sentences(context, set_name, "take it out of the file"):
            context.reporter.say(sentence)
