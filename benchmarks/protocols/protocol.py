"""The options of protocols, their repetitions, and the way from pictures to tables."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import click
import numpy as np
from cell_tables import Results, label, markdown, protocol_table
from cells import Cells
from lapsvm.datasets.digits import open_digits
from lapsvm.pipelines.cli.parameters import verb_command
from lapsvm.pipelines.cli.parsing import named_extractors, setting_values, split_names
from lapsvm.pipelines.cli.study import study_command
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.ownership import table_files
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.settings.checks import check_settings
from lapsvm.pipelines.settings.limits import MAX_DRAWS
from lapsvm.pipelines.settings.option import Option
from lapsvm.pipelines.settings.options import options_of, settings_of
from lapsvm.pipelines.settings.settings import Settings
from lapsvm.pipelines.stages.extract import extract_sets
from lapsvm.pipelines.stages.registry import check_folders
from methods import METHODS, Grids, Start
from oracle_windows import counts, oracle_share, oracle_windows
from pictures import load_pictures
from study import ProtocolOptions, Study, describe

from lapsvm.arrays import Index
from lapsvm.errors import OptionError
from lapsvm.evaluation import write_json
from lapsvm.files import write_atomically
from lapsvm.settings import COUNT, COUNT_FROM_1, MAX_NUMBER, Range

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
    Option("quick", "--quick", bool, "Twelve drawn pictures in any set's place, few windows, one constant.",
           default=False),
)  # fmt: skip
QUICK = {
    "data": "voc", "classes": "six,three", "windows": "grid", "max_windows": 4, "shards_from": None,
    "objectness": "none", "rank_C": "10", "hinge_C": "0.1", "hinge_J": "1", "fold_count": 2, "draws": 20, "seeds": 1,
}  # fmt: skip
LEFT_OUT = ("recipe", "proposals", "executor", "device", "redo")  # of the options of `extract`
TAKEN = tuple(
    option for option in options_of("extract") if option.panel != "External files" and option.name not in LEFT_OUT
)


def command(name: str, about: str, **defaults: Any) -> Callable[..., None]:
    """Return the function ``main(arguments)`` of a protocol; `defaults` replace the shared ones."""

    def protocol(options: dict[str, Any]) -> None:
        if options["quick"]:
            options |= QUICK | {"extractor": options["extractor"] or ["hog"], "root": options["out"] / "data"}
            open_digits(options["root"], n_train=12, n_test=10)
        run_protocol(protocol_options(name, options), options)

    protocol.__doc__ = about
    options = [replace(one, default=defaults.get(one.name, one.default)) for one in (*TAKEN, *PROTOCOL)]
    return study_command(verb_command(name, protocol, options, settings_of("extract")))


def protocol_options(name: str, options: dict[str, Any]) -> ProtocolOptions:
    """Return the parsed options of a protocol; OptionError if one breaks its rule."""
    names = split_names("option --methods", options["methods"], METHODS)
    if len(set(names)) < len(names):
        raise OptionError(f"option --methods must name each learner once, got {', '.join(names)}.")
    shares = _numbers("--shares", options["shares"], 0, 100)
    at_least_zero = {key: _numbers(option, options[key], 0, float("inf")) for key, option in
                     (("rank_C", "--C"), ("hinge_C", "--hinge-C"), ("hinge_J", "--J"))}  # fmt: skip
    first_seed = options["seed"] or 0
    if options["seeds"] > 1 and (options["data"] != "digits" or options["root"]):
        raise OptionError("option --seeds needs --data digits without --root: each seed draws pictures of its own.")
    if options["swap"] and 0 not in shares:
        raise OptionError(f"option --swap needs 0 among --shares, got {options['shares']!r}.")
    return ProtocolOptions(
        name,
        tuple(METHODS[method] for method in names),
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


def _numbers(option: str, text: str, low: float, high: float) -> tuple[float, ...]:
    """Return the distinct numbers of an option, in their order."""
    try:
        numbers = tuple(dict.fromkeys(float(item) for item in text.split(",")))
    except ValueError:
        raise OptionError(f"option {option} must be numbers separated by commas, got {text!r}.") from None
    if not all(low <= number <= high for number in numbers):
        raise OptionError(f"option {option} must be between {low:g} and {high:g}, got {text!r}.")
    return numbers


def run_protocol(protocol: ProtocolOptions, options: dict[str, Any]) -> None:
    """Make the missing cells, write NAME.json and NAME.md into the output folder, and print the tables."""
    table_files(options["out"], protocol.name, write=False)
    results: list[Results] = []
    for seed in protocol.seeds:
        context = _context(options, protocol, seed)
        with context.run.lock():
            extract_sets(context)
            results.append(_repetition(context, protocol, seed))
    table = protocol_table(protocol, results)
    text = markdown(table)
    as_json, as_text = table_files(options["out"], protocol.name)
    write_json(as_json, table)
    write_atomically(as_text, text.encode())
    if not options["quiet"]:
        click.echo(text)


def _context(options: dict[str, Any], protocol: ProtocolOptions, seed: int) -> RunContext:
    """Return the context of one repetition; its settings are those of the run of --shards-from, if that is given."""
    run, source = RunFolder(options["out"] / f"seed{seed}"), options["shards_from"]
    if source is not None and RunFolder(source / run.path.name).settings_file.is_file():
        source = source / run.path.name  # a folder of a protocol has a run for every seed
    given = setting_values(options) | {"seed": seed}
    if run.settings_file.is_file():
        base = run.settings()
    elif source is not None:
        base = RunFolder(source).require_settings("a protocol")
    else:
        base = Settings().with_values({"windows.max_windows": protocol.first})
    if given.get("data.name") == "digits" and not (base.data.root or "data.root" in given):
        given["data.root"] = str((run.path / "data").resolve())
    program = ("python", f"benchmarks/protocols/{protocol.name}.py")
    context = RunContext(
        run, check_settings(base.with_values(given)), options["jobs"] or os.cpu_count() or 1,
        Reporter(options["quiet"]), shards_from=source, program=program, named=named_extractors(options),
        stages=("extract",),
    )  # fmt: skip
    check_folders(context)
    return context


def _repetition(context: RunContext, protocol: ProtocolOptions, seed: int) -> Results:
    """Return the cells of one seed: learners on shares of oracle windows, and on the windows of each learner."""
    study = _study(context, protocol, seed)
    cells = Cells(context.run, describe(study), context.reporter.say)
    oracle = {name: oracle_windows(study.train, name) for name in study.train.labels}
    results: Results = {"given": {}, "cells": {}}

    def fill(key: float | str, given: dict[str, Index]) -> None:
        """Make the cells of all learners with the same given windows."""
        results["given"][key] = {name: counts(oracle[name], given[name], y) for name, y in study.train.labels.items()}
        results["cells"][key] = {}
        for method in protocol.methods:
            cell = cells.get(method.name, key, partial(study.cell, method, given))
            results["cells"][key][method.name] = cell
            line = f"{method.title} took {cell['cpu_seconds']:g} CPU s"
            context.reporter.say(f"seed {seed}, given windows {label(protocol.titles, key)}: {line}")

    for share in protocol.shares:
        fill(share, {name: oracle_share(oracle[name], share, (seed, index)) for index, name in enumerate(oracle)})
    for source in protocol.methods if protocol.swap else ():
        chosen = results["cells"][0.0][source.name]["classes"]
        fill(source.name, {name: np.array(chosen[name]["windows"]) for name in oracle})
    return results


def _study(context: RunContext, protocol: ProtocolOptions, seed: int) -> Study:
    """Return the pictures and settings that the cells of a repetition share."""
    data = context.settings.data
    train, scale = load_pictures(context, data.train_set, protocol.first, protocol.pictures)
    test, _ = load_pictures(context, data.test_set, protocol.first, scale=scale)
    return Study(train, test, protocol, seed, context.settings.detect, context.reporter)
