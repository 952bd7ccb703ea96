"""Run variants of a recipe over all development sets: `python benchmarks/recipes/variants.py DATA OUT`.

    python benchmarks/recipes/variants.py DATA OUT --variants best,one-refinement,ceiling
    python benchmarks/recipes/variants.py DATA OUT --variants VARIANTS.toml --sets voc,tiles --shards-from OTHER_OUT

DATA is described in `development_sets`. A variant is a name (of `OWN`, of the ablation, or "ceiling": the supervised
one), "parts" for every part of the recipe removed alone, or a table of a TOML file: dotted settings that differ from
recipe `best`, such as `["refine-C-2"]` and below `"refine.C" = 2.0`. Windows and features are extracted once for each
set, into OUT/runs/SET/best, or by a variant that changes them. Each finished pair is a line of OUT/results.jsonl, which
a rerun keeps. Test pictures are extracted and measured only with `--test`; `table.py` shows the results.
"""

import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from ablation import VARIANTS, Variant, make
from development_sets import DevelopmentSet, development_sets
from figures import figures_of, run_figures
from lapsvm.pipelines.cli.study import Given, study_command
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.run.dataset import NO_SET
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.settings.checks import check_settings
from lapsvm.pipelines.settings.recipes import BEST
from lapsvm.pipelines.settings.settings import Settings
from lapsvm.pipelines.stages.registry import run_stage
from shared_extraction import extract_all
from supervised_ceiling import detections_of, held_out_detections

from lapsvm.features.extractors.efficientnet import KIND
from lapsvm.objectness.u2netp import KIND as SALIENCY
from lapsvm.settings import NO_SOURCE

OWN: dict[str, Mapping[str, Any]] = {"best": {}}
CEILING = "ceiling"
PARTS = (
    "best", "C-0.3", "C-10", "top-1", "no-contrast", "no-refinement", "one-refinement", "refine-C-10", "refine-top-1",
    "refine-all-candidates", "no-refine-voting", "no-refine-smoothing", "all-context", "no-objectness",
    "no-neg-min-iou", "no-neg-part-iou", "no-demotion", "no-score-smoothing", "no-box-voting",
)  # fmt: skip
STAGES = ("train", "refine", "detect", "evaluate")


class Shared(NamedTuple):
    """What the runs of a command share."""

    out: Path
    shards_from: Path | None
    test: bool
    threads: int


@study_command
def main(
    data: Path,
    out: Path,
    sets: Annotated[str, Given(help="Names, separated by commas; all by default.")] = "",
    variants: Annotated[str, Given(help="Names and TOML files, separated by commas.")] = "parts,ceiling",
    base: Annotated[Path | None, Given(help="A TOML file whose [base] is in place of best's settings.")] = None,
    shards_from: Annotated[Path | None, Given(help="The OUT of another command, whose shards serve.")] = None,
    extra: Annotated[list[str] | None, Given(help="A further set.", metavar="NAME=ROOT")] = None,
    test: Annotated[bool, Given("--test", help="Measure on test.")] = False,
    threads: int = os.cpu_count() or 1,
) -> None:
    """Run the missing variants."""
    warnings.simplefilter("ignore")
    given = Shared(out, shards_from, test, threads)
    more = {name: Path(root).resolve() for name, _, root in (text.partition("=") for text in extra or ())}
    of_sets = development_sets(data.resolve(), out.resolve() / "sets", more, sets.split(",") if sets else [])
    named, shared = read_variants(variants), _tables(base).get("base", {}) if base else {}
    results, on = out / "results.jsonl", "test" if test else "trainval"
    done = {(line["set"], line["variant"], line["on"]) for line in read_results(results)}
    missing = [(one, name) for one in of_sets.values() for name in named if (one.name, name, on) not in done]
    for source in dict.fromkeys(_source(name, named[name]) for _, name in missing):
        needed = dict.fromkeys(one for one, name in missing if _source(name, named[name]) == source)
        extract_all(_context(given, one, source, shared | named.get(source, {})) for one in needed)
    for one, name in missing:
        line = _measured(given, one, name, named[name], on)
        with results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{one.name}, {name}: {_brief(line)}", flush=True)


def read_variants(text: str) -> dict[str, Mapping[str, Any]]:
    """Return variant -> settings, from names and TOML files separated by commas."""
    known, found = {**VARIANTS, **OWN, CEILING: {}}, {}
    for name in text.split(","):
        if name.endswith(".toml"):
            found |= _tables(Path(name))
        else:
            found |= {part: known[part] for part in (PARTS if name == "parts" else (name,))}
    return found


def _tables(file: Path) -> dict[str, dict[str, Any]]:
    """Return table -> dotted settings of a TOML file."""
    tables: dict[str, dict[str, Any]] = {}
    for key, value in Settings.values_in(file).items():
        name, _, setting = key.partition(".")
        tables.setdefault(name, {})[setting] = value
    return tables


def read_results(file: Path) -> list[dict[str, Any]]:
    """Return the lines of a results file; none if it is not there."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def _source(variant: str, values: Mapping[str, Any]) -> str:
    """Return the variant in whose run folder the shards are."""
    own = any(key.startswith(("windows.", "features.")) and key != "features.contrast" for key in values)
    return variant if own else "best"


def _context(given: Shared, one: DevelopmentSet, variant: str, values: Mapping[str, Any]) -> RunContext:
    """Return the context of a run on a set that has its own shards."""
    settings = Settings().with_values({
        **BEST,
        "features.extractors": ("hog" if one.reader == "digits" else KIND,),
        "objectness.source": NO_SOURCE if one.reader == "digits" else SALIENCY,
        "data.name": one.reader,
        "data.root": str(one.root),
        "data.classes": one.classes,
        "data.test_set": "test" if given.test else NO_SET,
        "data.skip_bad": True,
        "seed": one.seed,
        **values,
    })  # fmt: skip
    run = RunFolder(given.out / "runs" / one.name / variant)
    other = None if given.shards_from is None else given.shards_from / "runs" / one.name / variant
    shards_from = other if other is not None and other.is_dir() else None
    return RunContext(
        run, check_settings(settings), given.threads, Reporter(), shards_from=shards_from, stages=("extract",)
    )


def _measured(given: Shared, one: DevelopmentSet, variant: str, values: Mapping[str, Any], on: str) -> dict[str, Any]:
    """Return the line of a set and a variant, after running what is missing."""
    source = RunFolder(given.out / "runs" / one.name / _source(variant, values))
    settings = source.settings().with_values({"data.test_set": "test" if given.test else NO_SET})
    context = RunContext(source, settings, given.threads, Reporter(True))
    line = {"set": one.name, "group": one.group, "variant": variant, "on": on, "values": dict(values)}
    if variant == CEILING:
        found = detections_of(context, on) if given.test else held_out_detections(context)
        return line | figures_of(found, context.data.dataset.ground_truth(on))
    if variant == source.path.name:
        with source.lock():
            context.save_settings()
            for stage in STAGES:
                run_stage(stage, context)
    else:
        own = dict(values) | {"data.test_set": settings.data.test_set}
        run = RunFolder(make(source, source.path.parent, Variant(variant, own), Reporter(True)))
        context = replace(context, run=run, settings=run.settings())
    return line | run_figures(context, on)


def _brief(line: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in line["mean"].items() if value is not None)


if __name__ == "__main__":
    main()
