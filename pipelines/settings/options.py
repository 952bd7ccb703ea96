"""The one table of options behind parameters, checks, help texts and docs/reference/options.md.

Here are those of settings, made from the fields of `settings`, and those of stages and of several verbs; a verb with a
file of its own adds the options that it alone has. A default is that of the setting unless the entry has one, which
only options without a setting do. This module imports next to nothing, because `lapsvm --help` reads it.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from lapsvm.settings import DEVICES, Range

from .limits import MAX_JOBS
from .option import REQUIRED, SET, Option, Several, setting_options

STAGES = "run extract import train tune refine detect"
FITTING = "train tune refine"
ANSWERING = f"{STAGES} report compare predict export review verify threshold demo"
REPEATED = Several.REPEATED

PANELS = (
    "Run", "Data", "Windows", "External files", "Features", "Objectness", "Training", "Refinement", "Detection",
    "A run", "Result files of any program", "Figures", "False alarms", "Comparison", "Prediction", "Export",
    "Verification", "Verdicts of a person", "Machine",
)  # fmt: skip
"""The panels in the order of help and of the page."""

RUN_FOLDER = Option("out", "--out", Path, "The run folder.", default=REQUIRED)
SETTINGS: dict[str, Option] = {option.field: option for option in setting_options()}
"""Dotted setting -> its option."""


def panel(name: str, *options: Option, main: str = "*") -> tuple[Option, ...]:
    """Return options in one panel; `main` is for options without their own."""
    return tuple(replace(option, panel=name, main=option.main or main) for option in options)


_FIRST: tuple[Option, ...] = (
    *panel(
        "Run",
        replace(RUN_FOLDER, verbs=f"{STAGES} report verify"),
        replace(RUN_FOLDER, default=Path("demo-run"), verbs="demo"),
        Option("card", "--card", bool, "Also write RUN/card.md: hashes of data and models, figures, the commands that "
               "repeat them.", default=False, verbs="report"),
        Option("recipe", "--recipe", str, "auto (best with a network, plain with hog), plain, best or a file *.toml: "
               "settings that other options override. Default: auto where a run begins.",
               verbs="run extract train refine detect"),
    ),
    replace(SETTINGS["windows.source.files"], name="sources", flags="", panel="External files", verbs="import",
            main="*"),
    Option("metrics", "--metrics", str, "voc, coco or voc,coco, for a run or with --coco; a run always has voc's. voc "
           "by default.", panel="Figures", verbs="run evaluate", main="evaluate"),
    Option("jobs", "--jobs", int, "The number of threads; all cores by default.", rule=Range(1, MAX_JOBS),
           panel="Machine", verbs=f"{STAGES} verify review compare predict demo", main="*"),
)  # fmt: skip
_LAST: tuple[Option, ...] = (
    Option("shards_from", "--shards-from", Path, "A run whose shards are copied where they fit.", panel="Features",
           verbs="run extract"),
    Option("verdicts", "--verdicts", Path, "Add the verdicts of a file to those of the run before.",
           panel="Verdicts of a person", verbs=f"run {FITTING}", main="refine"),
    *panel(
        "Machine",
        Option("device", "--device", str, "Where networks and passes run; auto: GPUs if all windows fit.",
               default="auto", rule=DEVICES, verbs=f"run extract {FITTING} predict demo", main="*"),
        Option("memory", "--memory", str, "The memory for windows in training, such as 8G; 80 % of what is free by "
               "default.", verbs=f"run {FITTING} review", main=f"{FITTING} review"),
        Option("executor", "--executor", str, "local; dask: as many processes as --jobs; dask:tcp://HOST:8786: the "
               "workers of a scheduler. local by default.", verbs=f"run extract {FITTING}"),
        Option("assignments", SET, str, "Any setting that --help-settings lists, by its dotted name; several times.",
               several=REPEATED, default=(), verbs=f"{STAGES} predict", main="tune refine detect predict"),
        Option("as_json", "--json", bool, "Print one JSON object on standard output: what was made and where, figures, "
               "the next command.", default=False, verbs=ANSWERING, main=ANSWERING.removeprefix("run ")),
        Option("quiet", "--quiet", bool, "No progress, no summary.", default=False, verbs="*", main="*"),
        Option("redo", "--redo", bool, "Discard what the stages made before.", default=False, verbs=f"{STAGES} demo",
               main="*"),
        main="",
    ),
)  # fmt: skip
_OF_VERBS: list[Option] = []
OPTIONS: list[Option] = []
"""The table, in the order of help and of docs/reference/options.md."""


def add_options(verb: str = "", options: Iterable[Option] = ()) -> None:
    """Add options that one verb alone has to the table."""
    _OF_VERBS.extend(replace(option, verbs=verb) for option in options)
    table = (*_FIRST, *SETTINGS.values(), *_OF_VERBS, *_LAST)
    OPTIONS[:] = sorted(table, key=lambda option: PANELS.index(option.panel))


add_options()


def options_of(verb: str) -> tuple[Option, ...]:
    """Return the options that a verb takes."""
    return tuple(option for option in OPTIONS if _is_for(option, verb) and not option.is_named)


def settings_of(verb: str) -> dict[str, Option]:
    """Return the settings that ``--set`` of a verb takes: dotted name -> its option; `run` takes all."""
    taken = SETTINGS.values() if verb == "run" else (option for option in OPTIONS if _is_for(option, verb))
    return {option.field: option for option in taken if option.field}


def _is_for(option: Option, verb: str) -> bool:
    return option.verbs == "*" or verb in option.verbs.split()


def shown_in_help(option: Option, verb: str) -> bool:
    """Return whether ``--help`` of a verb shows an option."""
    return option.main == "*" or verb in option.main.split()
