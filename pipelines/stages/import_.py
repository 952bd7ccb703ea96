"""Stage 1 for windows and features in external files."""

from lapsvm.errors import OptionError

from ..context import RunContext
from ..settings.recipes import FOR_IMPORTED
from ..shards.external import Sources, open_sources
from ..shards.importing import SetImport
from .data_checks.pictures import DataCheck, report_left_out
from .shard_sets import ShardSets


def run(context: RunContext) -> None:
    """Import the missing shards of every set, and report what was left out.

    Raises OptionError, MissingError or ExternalFileError for bad files, ImageError for unreadable pictures unless the
    settings leave them out, SettingsError if there are shards made with other settings or from other content.
    """
    sources = open_sources(context.settings.windows.source)
    if bare := [source.where for source in sources.opened if not source.has_features]:
        raise OptionError(f"{bare[0]} holds windows without features; use lapsvm extract --proposals {bare[0]}.")
    sources.check_all(context.data.records)
    inputs = context.workspace, context.settings, context.data, context.stages
    data = DataCheck(*inputs, context.redo).check()
    first = sources.read(context.data.records[context.train_set][0].id)[0]
    given = context.data, context.settings, sources, first
    sets = {name: SetImport(context.run, name, *given, redo=context.redo) for name in context.data.records}
    shards = ShardSets(context.stored, context.workspace, sets, context.stages, context.redo)
    to_do = shards.claim()
    context.save_settings()
    for name, jobs in sets.items():
        shards.make(name, f"import {name}", to_do[name])
        for sentence in jobs.summary():
            context.reporter.say(sentence)
        report_left_out(name, jobs.records, context.shards(name), context.reporter)
    data.report()
    _report_unused(context, sources)
    if any(to_do.values()) and not context.settings.refine.rounds:
        context.reporter.say(FOR_IMPORTED)


def _report_unused(context: RunContext, sources: Sources) -> None:
    """Report how many pictures of the files are in no set."""
    records = (record for records in context.data.records.values() for record in records)
    used = {(id(entry[0]), entry[1]) for entry in (sources.find(record.id) for record in records) if entry}
    if unused := len(sources.entries) - len(used):
        context.reporter.say(f"{unused:,} pictures of {sources.description} are in no set of the run and are ignored")
