"""Baselines on the shards of a finished run: MI-SVM, WSDDN and OICR, each as a folder that `lapsvm compare` takes.

    python benchmarks/recipes/baselines.py --run RUN --out DIR --method mi_svm|wsddn|oicr
        [--seed 0 | --seeds 0,1,2] [--root DATA]

DIR gets RUN's settings and shards, and the baseline's detections with their figures; there are no models in it. RUN is
only read. Its demotion applies to MI-SVM only: the softmax over the windows of a picture does the same for WSDDN, and
OICR's heads are used as their authors do, without one. All the other settings of detection are RUN's for every method,
score smoothing and box voting among them, so that methods compare on equal terms; the heads' authors use neither.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from baseline_learners.fit_heads import HeadPictures, fit_heads
from baseline_learners.fit_mi_svm import fit_mi_svm
from baseline_learners.options import HEADS, BaselineOptions, Method
from lapsvm.pipelines.cli.study import Given, Root, study_command
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.fitting.training_bags import training_bags
from lapsvm.pipelines.products.detections import detect_set, publish_results, write_temporary_results
from lapsvm.pipelines.products.models import fit_tasks
from lapsvm.pipelines.products.projection import projection_of
from lapsvm.pipelines.run.dataset import moved
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.settings.checks import check_settings
from lapsvm.pipelines.settings.limits import MAX_SEED
from lapsvm.pipelines.settings.settings import Settings
from lapsvm.pipelines.shards.jobs import copy_shard
from lapsvm.pipelines.stages.registry import run_stage

from lapsvm.arrays import Float64
from lapsvm.detection import score_many
from lapsvm.errors import OptionError
from lapsvm.evaluation import write_json
from lapsvm.features import Shard, open_shards

RECORD = "baseline.json"
OF_HEADS, OF_MI_SVM = ("epochs", "lr", "weight_decay"), ("C", "J")
"""The constants of the methods."""


def run(
    folder: Path, out: Path, method: Method, seed: int = 0, constants: Mapping[str, Any] = MappingProxyType({}), *,
    quiet: bool = False, root: Path | None = None,
) -> None:  # fmt: skip
    """Train a baseline on the shards of the run in `folder`, detect and evaluate with the settings of that run.

    `constants` are fields of `BaselineOptions` with values to choose from; `root` is the folder of the run's data, if
    it has moved. Raises OptionError if `out` holds a run already, or a constant is given that the baseline does not
    have, StageError if `folder` is no run folder.
    """
    for name in constants:
        if name not in (OF_HEADS if method in HEADS else OF_MI_SVM):
            raise OptionError(f"option --{name.replace('_', '-')} is not one of --method {method}.")
    context = _context(folder, out, method, quiet, root)
    train = context.settings.train
    options = BaselineOptions(method, train.folds, train.margin, seed, **constants)
    with context.run.lock():
        take_shards(RunFolder(folder), context.run, list(context.data.records))
        with context.timed("train"):
            score, record = _trained(context, options)
        context.save_settings()
        for set_name in context.data.records:
            _detect(context, set_name, score)
        path = context.run.path / RECORD
        context.run.files.claim([path])
        write_json(path, {"method": options.method, "seed": seed, **record})
        run_stage("evaluate", context)


def _trained(context: RunContext, options: BaselineOptions) -> tuple[Callable[[Shard], Float64], Mapping[str, Any]]:
    """Return the function shard -> scores (n, classes) of its windows, and the record of training."""
    shards = open_shards(context.run.shards(context.settings.data.train_set))
    tasks = fit_tasks(context.stored, shards)
    bags, scale, pairs = training_bags(context.workspace, context.settings, shards)
    if options.method in HEADS:
        return fit_heads(options, tasks, HeadPictures(bags, shards, scale, pairs), context.reporter)
    projection = projection_of(context.run, shards)
    detectors, record = fit_mi_svm(options, tasks, bags, scale, pairs, projection, context.reporter)
    return lambda shard: score_many(detectors, shard.features), record


def _detect(context: RunContext, set_name: str, score: Callable[[Shard], Float64]) -> None:
    """Write the detections of a set, stamped with the shards and settings that decide them."""
    run, shards = context.run, open_shards(context.run.shards(set_name))
    classes, settings = dict.fromkeys(context.data.classes), context.settings.detect
    found = detect_set(shards, classes, score, settings, set_name, context.workspace)
    files = write_temporary_results(run, set_name, found)
    checksums = [header.checksum for header in shards.headers]
    stamp = {"models": {}, "shards": checksums, "settings": asdict(settings)}
    publish_results(run, set_name, files, stamp)


def run_seeds(
    folder: Path, out: Path, method: Method, seeds: Sequence[int],
    constants: Mapping[str, Any] = MappingProxyType({}), *, quiet: bool = False, root: Path | None = None,
) -> None:  # fmt: skip
    """Run several seeds of a head, each in its own folder out/METHOD-SEED.

    The first seed's folds choose the constants of all. Raises OptionError if a folder holds a run already, a seed is
    repeated, or the method is not a head.
    """
    if method not in HEADS:
        raise OptionError(f"option --seeds is for {', '.join(HEADS)}; {method} draws folds alone, see --seed.")
    if len(set(seeds)) < len(seeds):
        raise OptionError(f"option --seeds must name different seeds, got {','.join(map(str, seeds))}.")
    for seed in seeds:
        own = out / f"{method}-{seed}"
        run(folder, own, method, seed, constants, quiet=quiet, root=root)
        chosen = json.loads((own / RECORD).read_text(encoding="utf-8"))
        constants = {**constants, **{name: (chosen[name],) for name in ("epochs", "lr")}}


def _context(folder: Path, out: Path, method: Method, quiet: bool, root: Path | None) -> RunContext:
    """Return the context of a baseline's run; OptionError if its folder holds a run already."""
    source, target = RunFolder(folder), RunFolder(out)
    settings = baseline_settings(source.require_settings("baselines"), method)
    if target.settings_file.exists() or (out / RECORD).exists():
        raise OptionError(f"option --out must be a folder that holds neither a run nor a baseline, got {out}.")
    program = ("python", "benchmarks/recipes/baselines.py")
    settings = moved(check_settings(settings), root)
    return RunContext(target, settings, os.cpu_count() or 1, Reporter(quiet), program=program)


def baseline_settings(settings: Settings, method: Method) -> Settings:
    """Return a run's settings without refinement, and for heads without demotion."""
    return settings.with_values({"refine.rounds": 0, **({"detect.demotion": 0.0} if method in HEADS else {})})


def take_shards(source: RunFolder, target: RunFolder, sets: list[str]) -> None:
    """Link the shards of some sets, and their projection, into another run folder."""
    files = [source.projection] if source.projection.is_file() else []
    files += [file for name in sets for file in sorted(source.shards(name).glob("*.safetensors"))]
    for file in files:
        path = target.path / file.relative_to(source.path)
        target.files.claim([path])
        if not path.exists():  # from before an interruption
            copy_shard(file, path)


@study_command
def main(
    folder: Annotated[Path, Given("--run", help="Folder of a finished run.")],
    out: Annotated[Path, Given(help="Folder for the results, a run folder.")],
    method: Annotated[Method, Given(help="Baseline to train.")],
    seed: Annotated[int | None, Given(low=0, high=MAX_SEED, help="Seed of folds, first weights and order.")] = None,
    seeds: Annotated[
        str, Given(help="Seeds of a head, as in 0,1,2: a run each in OUT, with the first one's constants.")
    ] = "",
    epochs: Annotated[str, Given(help="Passes of the heads to choose from, as in 5,10,20.")] = "",
    lr: Annotated[str, Given(help="Steps of the heads to choose from, as in .003,.01.")] = "",
    weight_decay: Annotated[float | None, Given(low=0, help="Weight of |w|^2 / 2 in each step.")] = None,
    C: Annotated[str, Given("--C", help="C of mi_svm to choose from.")] = "",
    J: Annotated[str, Given("--J", help="J of mi_svm to choose from.")] = "",
    quiet: Annotated[bool, Given("--quiet", help="No progress and no tables.")] = False,
    root: Root = None,
) -> None:
    """Train a baseline on the shards of a run and evaluate it."""
    given = {"epochs": _numbers("epochs", epochs, int), "lr": _numbers("lr", lr), "C": _numbers("C", C)}
    given |= {"J": _numbers("J", J), "weight_decay": weight_decay}
    constants = {name: value for name, value in given.items() if value is not None}
    if seeds and seed is not None:
        raise OptionError(f"options --seeds and --seed must not go together, got {seeds!r} and {seed}.")
    if seeds:
        run_seeds(folder, out, method, _seeds(seeds), constants, quiet=quiet, root=root)
        return
    run(folder, out, method, seed or 0, constants, quiet=quiet, root=root)


def _numbers(name: str, text: str, kind: type[float] = float) -> tuple[float, ...] | None:
    """Return numbers above 0 with commas between them, None for none; OptionError if one is none."""
    try:
        values = tuple(map(kind, text.split(","))) if text else None
    except ValueError:
        values = (0,)
    if values is not None and min(values) <= 0:
        raise OptionError(f"option --{name} must be numbers above 0, got {text!r}.")
    return values


def _seeds(text: str) -> list[int]:
    """Return the seeds; OptionError if one is none."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) <= MAX_SEED for word in words):
        raise OptionError(f"option --seeds must be whole numbers from 0 to {MAX_SEED}, got {text!r}.")
    return [int(word) for word in words]


if __name__ == "__main__":
    main()
