"""What the protocols share: their options, their repetitions, and the run from pictures to tables."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import typer

from lapsvm.arrays import Index
from lapsvm.errors import OptionError
from lapsvm.evaluation import write_json
from lapsvm.files import write_atomically

from ...cli.application import call
from ...cli.parameters import taking, with_defaults
from ...cli.parsing import setting_values
from ...run.checks import check_settings
from ...run.context import RunContext
from ...run.folder import RunFolder
from ...run.limits import MAX_DRAWS, MAX_NUMBER
from ...run.options import COUNT, COUNT_FROM_1, Option, Range, options_of
from ...run.ownership import table_files
from ...run.progress import Reporter
from ...run.settings import Settings
from ...stages.extract import extract_sets
from ...stages.registry import check_folders
from .cells import Cells
from .methods import Grids, Method, Start, methods_named
from .oracle_windows import counts, oracle_share, oracle_windows
from .pictures import load_pictures
from .study import Study, describe
from .tables import Results, label, markdown, table

Numbers = tuple[float, ...]

PROTOCOL = (
    Option("methods", "--methods", str, "The learners; the first one is the reference.",
           default="latent_ap,latent_svm"),
    Option("shares", "--shares", str, "The percentages of positive pictures whose window is known.", default="0"),
    Option("swap", "--swap", bool, "Train every learner on the windows that each one chose, too; after S = 0.",
           default=False),
    Option("first", "--first", int, "The number of a picture's windows to use.", rule=COUNT_FROM_1, default=100),
    Option("pictures", "--pictures", int, "The number of pictures to train on; all by default.",
           rule=Range(2, MAX_NUMBER)),
    Option("rank_C", "--C", str, "The values of C for rank losses.", default="0.1,1,10,100,1000"),
    Option("hinge_C", "--hinge-C", str, "The values of C for the hinge loss.", default="0.001,0.01,0.1,1,10"),
    Option("hinge_J", "--J", str, "The weights of positives, times labelled pictures per positive one.",
           default="0.1,0.3,1"),
    Option("hinge_c", "--c", str, "The shares of a negative's windows to trim.", default="0"),
    Option("fold_count", "--folds", int, "The folds for choosing constants.", rule=Range(2, MAX_NUMBER), default=5),
    Option("starts", "--starts", int, "The number of random starts; 0: from the means.", rule=COUNT, default=0),
    Option("top", "--top", float, "The number of windows that represent a positive picture.", default=1.0),
    Option("draws", "--draws", int, "The bootstrap draws of the pictures.", rule=Range(1, MAX_DRAWS), default=500),
    Option("seeds", "--seeds", int, "The number of repetitions; with --data digits.", rule=COUNT_FROM_1, default=1),
)  # fmt: skip
LEFT_OUT = ("recipe", "proposals", "executor", "device", "redo")  # of the options of `extract`
TAKEN = tuple(
    option for option in options_of("extract") if option.panel != "External files" and option.name not in LEFT_OUT
)


@dataclass(frozen=True)
class Plan:
    """What a protocol compares."""

    name: str
    methods: tuple[Method, ...]
    shares: Numbers
    swap: bool
    grids: Grids
    start: Start
    first: int
    pictures: int | None
    folds: int
    draws: int
    seeds: tuple[int, ...]

    @property
    def titles(self) -> dict[str, str]:
        """The learners' titles by name."""
        return {method.name: method.title for method in self.methods}


def command(name: str, about: str, **defaults: Any) -> Callable[[list[str] | None], None]:
    """Return the function ``main(arguments)`` of a protocol, with defaults of its own."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

    def protocol(options: dict[str, Any]) -> None:
        run_protocol(plan_of(name, options), options)

    protocol.__doc__ = about
    app.command(name)(taking(protocol, with_defaults((*TAKEN, *PROTOCOL), defaults), name=name))
    return lambda arguments=None: call(app, sys.argv[1:] if arguments is None else arguments)


def plan_of(name: str, options: dict[str, Any]) -> Plan:
    """Return what the options ask for.

    Raises
    ------
    OptionError
        If one breaks its rule.
    """
    shares = _numbers("--shares", options["shares"], 0, 100)
    at_least_zero = {key: _numbers(option, options[key], 0, float("inf")) for key, option in
                     (("rank_C", "--C"), ("hinge_C", "--hinge-C"), ("hinge_J", "--J"))}  # fmt: skip
    first_seed = options["seed"] or 0
    if options["seeds"] > 1 and (options["data"] != "digits" or options["root"]):
        raise OptionError("option --seeds needs --data digits without --root: each seed draws pictures of its own.")
    if options["swap"] and 0 not in shares:
        raise OptionError(f"option --swap needs 0 among --shares, got {options['shares']!r}.")
    return Plan(
        name,
        tuple(methods_named([one.strip() for one in options["methods"].split(",")])),
        shares,
        options["swap"],
        Grids(*at_least_zero.values(), _numbers("--c", options["hinge_c"], 0, 1)),
        Start(options["starts"], options["top"]),
        options["first"],
        options["pictures"],
        options["fold_count"],
        options["draws"],
        tuple(range(first_seed, first_seed + options["seeds"])),
    )


def _numbers(option: str, text: str, low: float, high: float) -> Numbers:
    """Return the different numbers of an option, in the order given."""
    try:
        numbers = tuple(dict.fromkeys(float(item) for item in text.split(",")))
    except ValueError:
        raise OptionError(f"option {option} must be numbers separated by commas, got {text!r}.") from None
    if not all(low <= number <= high for number in numbers):
        raise OptionError(f"option {option} must be between {low:g} and {high:g}, got {text!r}.")
    return numbers


def run_protocol(plan: Plan, options: dict[str, Any]) -> None:
    """Run every cell that is not there yet, write NAME.json and NAME.md into the folder, and print the tables."""
    table_files(options["out"], plan.name, "protocol", write=False)
    results: list[Results] = []
    for seed in plan.seeds:
        context = _context(options, plan, seed)
        with context.run.held():
            extract_sets(context)
            results.append(_repetition(context, plan, seed))
    found = table(plan, results)
    text = markdown(found)
    as_json, as_text = table_files(options["out"], plan.name, "protocol")
    write_json(as_json, found)
    write_atomically(as_text, text.encode())
    if not options["quiet"]:
        typer.echo(text)


def _context(options: dict[str, Any], plan: Plan, seed: int) -> RunContext:
    """Return one repetition's run folder, its settings those of the run whose shards are taken, if there is one."""
    run, source = RunFolder(options["out"] / f"seed{seed}"), options["shards_from"]
    if source is not None and RunFolder(source / run.path.name).settings_file.is_file():
        source = source / run.path.name  # a protocol's folder, which has a run for every seed
    given = setting_values(options) | {"seed": seed}
    if run.settings_file.is_file():
        base = run.settings()
    elif source is not None:
        base = RunFolder(source).require_settings("a protocol")
    else:
        base = Settings().with_values({"windows.max_windows": plan.first})
    if given.get("data.name") == "digits" and not (base.data.root or "data.root" in given):
        given["data.root"] = str((run.path / "data").resolve())
    program = ("python", "-m", f"lapsvm.pipelines.studies.protocols.{plan.name}")
    context = RunContext(
        run,
        check_settings(base.with_values(given)),
        options["jobs"] or os.cpu_count() or 1,
        Reporter(options["quiet"]),
        shards_from=source,
        program=program,
        named=tuple(options.get("extractor") or ()),
        stages=("extract",),
    )
    check_folders(context)
    return context


def _repetition(context: RunContext, plan: Plan, seed: int) -> Results:
    """Return the cells of one seed: learners on shares of right windows, and on the windows that each one chose."""
    study = _study(context, plan, seed)
    cells = Cells(context.run, describe(study), context.reporter.say)
    right = {name: oracle_windows(study.train, name) for name in study.train.labels}
    results: Results = {"known": {}, "cells": {}}

    def fill(key: float | str, known: dict[str, Index]) -> None:
        """Make the cells of all learners with the same known windows."""
        told = {name: counts(right[name], known[name], y) for name, y in study.train.labels.items()}
        results["known"][key], results["cells"][key] = told, {}
        for method in plan.methods:
            cell = cells.get(method.name, key, partial(study.cell, method, known))
            results["cells"][key][method.name] = cell
            line = f"{method.title} took {cell['cpu_seconds']:g} CPU s"
            context.reporter.say(f"seed {seed}, windows known {label(plan.titles, key)}: {line}")

    for share in plan.shares:
        fill(share, {name: oracle_share(own, share, (seed, place)) for place, (name, own) in enumerate(right.items())})
    for source in plan.methods if plan.swap else ():
        chosen = results["cells"][0.0][source.name]["classes"]
        fill(source.name, {name: np.array(chosen[name]["windows"]) for name in right})
    return results


def _study(context: RunContext, plan: Plan, seed: int) -> Study:
    """Return the pictures of a repetition with all that its cells share."""
    settings, reporter = context.settings, context.reporter
    train, scale = load_pictures(context, settings.data.train_set, plan.first, plan.pictures)
    test, _ = load_pictures(context, settings.data.test_set, plan.first, scale=scale)
    return Study(train, test, plan.grids, plan.start, plan.folds, plan.draws, seed, settings.detect, reporter)
