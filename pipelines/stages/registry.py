"""The stages in order; each reads the files of the one before, so any of them can be run alone."""

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from lapsvm.bags.stores.memory import as_bytes
from lapsvm.cluster import CONNECT_SECONDS, check_executor, open_cluster
from lapsvm.errors import LapsvmError, MissingError
from lapsvm.features import open_shards
from lapsvm.features.extractors.specs import check_trusted
from lapsvm.files import write_atomically

from ..annotations.known_boxes import BoxSource, check_boxes
from ..cli.answer import Outcome, is_wanted
from ..cli.parsing import chosen_metrics, named_extractors, thread_count
from ..context import RunContext
from ..run.folder import RunFolder
from ..run.ownership import check_apart, check_folders_apart
from ..run.progress import Reporter
from ..settings.checks import check_settings
from ..settings.packages import check_packages
from ..settings.recipes import resolved, sizes_are_open, windows_are_open
from ..settings.settings import Settings
from .outcome import stage_outcome

Stage = Callable[[RunContext], None]
FIRST_STAGES = ("extract", "import")
_OF_SHARDS = ("data", "windows", "features", "objectness.source")
USED_TABLES: dict[str, tuple[str, ...]] = {
    "train": _OF_SHARDS,
    "tune": _OF_SHARDS,
    "refine": (*_OF_SHARDS, "train"),
    "detect": (*_OF_SHARDS, "train", "refine"),
}
"""Stage -> the settings, and tables of them, that earlier stages have used already."""
OF_CLASSES = ("train", "tune", "refine", "detect", "evaluate")
"""The stages that have nothing to do in a run of good pictures alone."""
OF_CONTEXT = ("redo", "shards_from", "memory", "device", "precision", "card")
"""The options that stages find in their context."""
RELOCATABLE = ("data.root", "data.boxes")
"""The settings that a later stage may set, because files have moved."""


def run_stages(options: Mapping[str, Any], names: Sequence[str], given: Mapping[str, Any]) -> Outcome:
    """Run the stages `names` on the run folder ``options["out"]``.

    `given` are the dotted settings of the command line; others come from its recipe, then from the folder's
    ``run.toml``, or are the defaults.
    """
    run, executor = RunFolder(options["out"]), options.get("executor") or "local"
    stored = run.settings() if run.settings_file.is_file() else None
    values, line = resolved(options.get("recipe"), names[0], given, stored)
    check_executor(executor)
    check_packages(executor=executor)
    as_bytes(options.get("memory"))  # raises OptionError unless it is a size
    old = run.settings() if names[0] in FIRST_STAGES else run.require_settings(names[0])
    context = RunContext(
        run,
        check_settings(old.with_values(_open_values(old, names[0], values))),
        thread_count(options),
        Reporter(options.get("quiet", False)),
        named=named_extractors(options),
        stages=tuple(names),
        metrics=chosen_metrics(options.get("metrics") or "voc"),
        sizes_are_open=sizes_are_open(given, values),
        windows_are_open=windows_are_open(options.get("recipe"), given, values),
        advice=line,
        **{name: options[name] for name in OF_CONTEXT if name in options},
    )
    if "extract" in names:
        check_trusted(context.settings.features.extractors, context.named)
        check_packages(extractors=context.settings.features.extractors, objectness=context.settings.objectness.source)
    check_folders(context)
    places = _new_places(context, old, values)
    if "evaluate" in names[1:]:  # hours after the first stage
        check_boxes(BoxSource(run, context.data, context.settings.data.boxes, context.reporter.say))
    if line and names[0] != "extract":
        context.reporter.say(line)
    if names[0] in FIRST_STAGES and context.taught.sentence:
        context.reporter.say(context.taught.sentence)
    command = shlex.join([*context.program, *sys.argv[1:2]])
    cluster = open_cluster(executor, context.threads, CONNECT_SECONDS, context.reporter.say)
    with run.lock(command), cluster as context.cluster:
        check_outputs(context)
        with _taken_verdicts(context, options["verdicts"]) if options.get("verdicts") else nullcontext():
            _ = context.verdicts  # read before the first stage: training takes them
            if names[0] not in FIRST_STAGES and places:
                run.save_settings(old.with_values(places), context.command_line)
            run_stage(names[0], context)
        for name in names[1:]:
            run_stage(name, context)
        if len(names) > 1:
            _say_times(context)
        return stage_outcome(context) if is_wanted() else Outcome()


@contextmanager
def _taken_verdicts(context: RunContext, given: Path) -> Iterator[None]:
    """Take the verdicts of a file into the run while its first stage runs; if that fails the run's own stay."""
    file = context.run.verdicts_file
    before = file.read_bytes() if file.is_file() else None
    try:
        context.merge_verdicts(given)
        yield
    except LapsvmError:
        if before is None:
            context.run.remove([file])
            context.run.files.forget([file])
        elif file.read_bytes() != before:
            write_atomically(file, before)
        raise


def _say_times(context: RunContext) -> None:
    """Report the wall time of a command by stage."""
    from lapsvm.report.tables import duration

    if seconds := context.save_other_time():
        parts = ", ".join(f"{stage} {duration(value)}" for stage, value in seconds.items())
        context.reporter.say(f"time: {duration(sum(seconds.values()))} in all: {parts}")


def run_stage(name: str, context: RunContext) -> None:
    """Run one stage: `run` of its module, imported now because importing the learner takes long.

    The products after the features are small, and BLAS threads that wait for more of them take whole cores. A stage of
    classes does nothing where there is none, which a sentence says once.
    """
    if name in OF_CLASSES and not context.data.classes:
        if name == next(stage for stage in context.stages if stage in OF_CLASSES):
            command = f"lapsvm threshold --out {shlex.quote(str(context.run.path))}"
            context.reporter.say(f"{name}: no class has pictures yet; by {command} good pictures alone decide")
        return
    stage: Stage = import_module(".import_" if name == "import" else f".{name}", __package__).run
    with nullcontext() if name in FIRST_STAGES else threadpool_limits(1, user_api="blas"):
        stage(context)


def _open_values(old: Settings, stage: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a stage may still set; the run folder was made with the others."""
    combined = ("features.contrast",) if old.features.store_context else ()  # training subtracts it
    used = USED_TABLES.get(stage, ())
    open_ones = (*combined, *RELOCATABLE)
    closed = [name for name in values if {name, name.split(".")[0]} & set(used) and name not in open_ones]
    return {name: value for name, value in values.items() if name not in closed}


def check_folders(context: RunContext) -> None:
    """Raise SettingsError if the run folder is another program's, OptionError if it overlaps the folders of the data.

    Nothing is written before.
    """
    run, first = context.run, context.stages[0] in FIRST_STAGES
    run.check_is_run()
    if first:
        check_apart(run.path, context.settings.data)
    pictures = {record.path.parent for records in context.data.records.values() for record in records}
    pictures -= {record.path.parent for record in context.taught.records}
    if first and context.data.dataset.name != "digits":
        check_folders_apart(run.path, sorted(pictures))


def check_outputs(context: RunContext) -> None:
    """Raise SettingsError if a file that the stages always write is another program's.

    Shards and models are checked by their stages, which know which of them they write.
    """
    run, outputs = context.run, [context.run.settings_file]
    if {"train", "tune", "refine"} & set(context.stages):
        outputs += [run.choices_file, run.resume_file]
    if "tune" in context.stages:
        outputs.append(run.tuning_file)
    if "detect" in context.stages:
        outputs += [file for name in context.data.records for file in run.detection_files(name, context.data.classes)]
    if "evaluate" in context.stages:
        outputs.append(run.evaluation_file)
    if "report" in context.stages:
        outputs.append(run.page)
    run.files.check(outputs)


def _new_places(context: RunContext, old: Settings, values: Mapping[str, Any]) -> dict[str, str]:
    """Return where files are now: the data, if they have moved, and boxes for evaluation.

    `old` are the settings of the run folder, `values` those that the command line gives. Raises MissingError if the
    boxes are not there, or a picture of the run is not in the new folder of the data.
    """
    before = old.flat()
    new = {name: values[name] for name in RELOCATABLE if values.get(name, before[name]) != before[name]}
    boxes = new.get("data.boxes")
    if boxes and not Path(boxes).exists():
        raise MissingError(f"boxes {boxes} are not there; --boxes names a COCO file or a folder of VOC files.")
    made_again = context.redo and context.stages[0] in FIRST_STAGES
    if "data.root" in new and before["data.root"] and not made_again:
        _check_pictures(context)
    return new


def _check_pictures(context: RunContext) -> None:
    """Raise MissingError if a picture of the run's shards is not in the data set."""
    for set_name, records in context.data.records.items():
        ids = {record.id for record in records}
        stored = open_shards(context.run.shards(set_name)).image_ids if context.run.has_shards(set_name) else ()
        if missing := [image_id for image_id in stored if image_id not in ids]:
            raise MissingError(
                f"data folder {context.settings.data.root} must have the pictures of the run, but lacks "
                f"{len(missing):,} of set {set_name!r}, such as {missing[0]!r}; use another --out for other pictures."
            )
