"""The stages in order: each reads what the one before wrote, so that any of them can be run alone."""

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from lapsvm.bags.stores.memory import as_bytes
from lapsvm.cluster import CONNECT_SECONDS, Cluster, check_executor, open_cluster

from ..run.checks import check_choice, check_settings
from ..run.files import check_apart, check_folders_apart
from ..run.folder import RunFolder
from ..run.progress import Reporter
from ..run.settings import Settings
from ..run.trusted_code import check_trusted

if TYPE_CHECKING:  # importing the learner takes time that `lapsvm --help` has not
    pass

from ..run.context import RunContext

FIRST_STAGES = ("extract", "import")
REALISED = {"train": ("data", "windows", "features"), "tune": ("data", "windows", "features")}
REALISED |= {"refine": (*REALISED["train"], "train"), "detect": (*REALISED["train"], "train", "refine")}
"""Stage -> the tables of settings that the stages before it have made files of already."""


def run_stages(options: Mapping[str, Any], names: Sequence[str], values: Mapping[str, Any], line: str = "") -> None:
    """Run some stages on a run folder.

    Parameters
    ----------
    options : mapping
        Of a verb; "out", "jobs", "device", "quiet", "redo", "shards_from", "memory" and "executor" are
        read here.
    names : sequence of str
        "extract", "import", "train", "tune", "refine", "detect", "evaluate", "report".
    values : mapping
        Dotted settings that were given; others come from the folder's ``run.toml``, or are the defaults.
    line : str, optional
        Printed once the settings are checked.
    """
    run, executor = RunFolder(options["out"]), options.get("executor") or "local"
    check_executor(executor)
    old = run.settings() if names[0] in FIRST_STAGES else run.require_settings(names[0])
    context = RunContext(
        run,
        _checked_for(names, old.with_values(_open_values(old, names[0], values))),
        options.get("jobs") or os.cpu_count() or 1,
        Reporter(options.get("quiet", False)),
        options.get("redo", False),
        options.get("shards_from"),
        memory=_checked_memory(options.get("memory")),
        device=options.get("device", "auto"),
        named=tuple(options.get("extractor") or ()),
        stages=tuple(names),
    )
    if "extract" in names:
        check_trusted(context.settings.features.extractors, context.named)
    check_folders(context)
    if line:
        context.reporter.say(line)
    command = shlex.join([*context.program, *sys.argv[1:2]])
    with run.lock(command), _cluster(context, executor) as context.cluster:
        check_outputs(context)
        for name in names:
            STAGES[name](context)


def _checked_for(names: Sequence[str], settings: Settings) -> Settings:
    """Return the settings of a run if every value keeps its rule, and the stages can be run with them."""
    check_settings(settings)
    if {"train", "tune"} & set(names):
        check_choice(settings.train)
    return settings


def _open_values(old: Settings, stage: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a stage may still set: a recipe's others are those that the run folder was made with."""
    beside = ("features.contrast",) if old.features.beside else ()  # training combines what is stored side by side
    made = REALISED.get(stage, ())
    return {name: value for name, value in values.items() if name.split(".")[0] not in made or name in beside}


def check_folders(context: RunContext) -> None:
    """Raise unless the run folder may be used and the data can be opened; neither folder is made before.

    Raises
    ------
    SettingsError
        If the run folder holds what lapsvm did not write.
    OptionError
        If the run folder lies in the data, or the data in it, and extraction is asked for.
    """
    run, first = context.run, context.stages[0] in FIRST_STAGES
    run.check_is_run()
    if first:
        check_apart(run.path, context.settings.data)
    pictures = {record.path.parent for records in context.data.records.values() for record in records}
    if first and context.data.dataset.name != "digits":
        check_folders_apart(run.path, sorted(pictures))


def check_outputs(context: RunContext) -> None:
    """Raise SettingsError if a file that a stage of the command writes in any case is another program's.

    Shards and models are checked by their stages, once it is known which are to be written.
    """
    run, outputs = context.run, [context.run.settings_file]
    if {"train", "tune", "refine"} & set(context.stages):
        outputs += [run.choices_file, run.resume_file]
    if "tune" in context.stages:
        outputs += run.tuning_files
    if "detect" in context.stages:
        outputs += [file for name in context.data.records for file in run.detection_files(name, context.data.classes)]
    if "evaluate" in context.stages:
        outputs.append(run.evaluation_file)
    if "report" in context.stages:
        outputs.append(run.page)
    run.files.check(outputs)


def _cluster(context: RunContext, executor: str) -> AbstractContextManager[Cluster | None]:
    """Return the processes of an executor, as many as there are jobs where they are started for this run."""
    return open_cluster(executor, context.threads, CONNECT_SECONDS, context.reporter.say)


def _checked_memory(memory: str | None) -> str | None:
    """Return the memory that was given if it is a size; OptionError before any work is done if it is none."""
    as_bytes(memory)
    return memory


def _extract(context: RunContext) -> None:
    from .extract import check_proposals, extract_sets, report_proposals

    check_proposals(context)
    extract_sets(context)
    report_proposals(context)


def _import(context: RunContext) -> None:
    from .import_ import import_sets

    import_sets(context)


def _train(context: RunContext) -> None:
    from .train import train_classes

    train_classes(context)


def _tune(context: RunContext) -> None:
    from .tune import tune_classes

    tune_classes(context)


def _refine(context: RunContext) -> None:
    from .refine import refine_classes

    refine_classes(context)


def _detect(context: RunContext) -> None:
    from .detect import detect_sets

    detect_sets(context)


def _evaluate(context: RunContext) -> None:
    from .evaluate import evaluate_run

    evaluate_run(context)


def _report(context: RunContext) -> None:
    from .report import write_report

    write_report(context)


STAGES: dict[str, Callable[[RunContext], None]] = {
    "extract": _extract,
    "import": _import,
    "train": _train,
    "tune": _tune,
    "refine": _refine,
    "detect": _detect,
    "evaluate": _evaluate,
    "report": _report,
}
