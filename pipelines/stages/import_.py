"""Stage 1 for windows and features in other programs' files."""

from lapsvm.errors import OptionError

from ..run.context import RunContext
from ..shards.external import Sources, open_sources
from ..shards.importing import SetImport
from .model_checks import check_models


def import_sets(context: RunContext) -> None:
    """Make the shards of every set that are not there yet, and say what became of the windows.

    Raises
    ------
    OptionError, MissingError, ExternalFileError
        If files are not named, not there, break a rule, hold no features, or lack a picture of a set.
    ImageError
        If a picture cannot be read whole, unless the settings say to leave it out.
    SettingsError
        If shards are there that were made otherwise, or from other content.
    """
    sources = open_sources(context.settings.windows.source)
    bare = [source.where for source in sources.opened if not source.has_features]
    if bare:
        raise OptionError(f"{bare[0]} holds windows without features; use lapsvm extract --proposals {bare[0]}.")
    for set_name, records in context.data.records.items():
        sources.check_all([record.id for record in records], set_name)
    first = sources.read(context.data.records[context.settings.data.train_set][0].id)[0]
    works = [SetImport(context, name, sources, first) for name in context.data.records]
    planned = [(work, work.wanted()) for work in works]
    check_models(context, shards_are_done=not any(jobs for _, jobs in planned))
    old = [path for work in works for path in work.old()] if context.redo else []
    new = [path for _, jobs in planned for path, _ in jobs]
    context.run.files.check([*old, *new])  # the last check: from here on files are written
    context.run.remove(old)
    context.run.files.claim(new)
    context.save_settings()
    for work, jobs in planned:
        with context.timed(f"import {work.set_name}") as counts:
            work.make_all(jobs, counts)
        for sentence in work.told():
            context.reporter.say(sentence)
    _say_unused(context, sources)


def _say_unused(context: RunContext, sources: Sources) -> None:
    """Say how many pictures of the files are in no set."""
    records = (record for records in context.data.records.values() for record in records)
    used = {(id(place[0]), place[1]) for place in (sources.find(record.id) for record in records) if place}
    unused = len(sources.places) - len(used)
    if unused:
        context.reporter.say(f"{unused:,} pictures of {sources.named()} are in no set of the run and are passed over")
