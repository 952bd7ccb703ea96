"""Baselines on the shards of a finished run: MI-SVM, WSDDN and OICR, each as a run folder.

    python benchmarks/recipes/baselines.py --run RUN --out DIR --method mi_svm|wsddn|oicr
        [--seed 0 | --seeds 0,1,2] [--root DATA]

DIR becomes a run on RUN's shards, with RUN's settings but for the learner: trained, detected and evaluated as
`lapsvm run --learner METHOD` does. RUN is only read. Its demotion applies to MI-SVM only: the softmax over the windows
of a picture does the same for WSDDN, and OICR's heads are used as their authors do, without one. All the
other settings of detection are RUN's for every method, score smoothing and box voting among them, so that methods
compare on equal terms; the heads' authors use neither.
"""

import json
import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer
from lapsvm.pipelines.cli.parameters import PATH
from lapsvm.pipelines.cli.parsing import setting_values
from lapsvm.pipelines.cli.study import Root, study_command
from lapsvm.pipelines.run.checks import check_settings
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.dataset import moved
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.limits import MAX_SEED
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.run.settings import HEADS, Settings
from lapsvm.pipelines.shards.jobs import copy_shard
from lapsvm.pipelines.stages.registry import run_stage

from lapsvm.errors import OptionError

C_VALUES = (0.05, 0.5, 5.0)
J_VALUES = (1.0, 3.0)
"""MI-SVM's constants to choose from, for features with a mean norm of 1."""

OF_HEADS = ("train.epochs", "train.lr", "train.weight_decay")
"""The settings of heads."""


class Method(StrEnum):
    """Names of the baselines."""

    MI_SVM = "mi_svm"
    WSDDN = "wsddn"
    OICR = "oicr"


def run(
    folder: Path, out: Path, method: Method, seed: int = 0, constants: Mapping[str, Any] = MappingProxyType({}), *,
    quiet: bool = False, root: Path | None = None,
) -> None:  # fmt: skip
    """Train a baseline on the shards of the run in `folder`, detect and evaluate with the settings of that run.

    `constants` are settings, such as "train.epochs" or "train.C", with values to choose from; `root` is the folder of
    the run's data, if it has moved.

    Raises
    ------
    OptionError
        If `out` holds a run already.
    StageError
        If `folder` is no run folder.
    """
    context = _context(folder, out, method, seed, constants, quiet, root)
    with context.run.lock():
        take_shards(RunFolder(folder), context.run, list(context.data.records))
        for stage in ("train", "detect", "evaluate"):
            run_stage(stage, context)


def run_seeds(
    folder: Path, out: Path, method: Method, seeds: Sequence[int],
    constants: Mapping[str, Any] = MappingProxyType({}), *, quiet: bool = False, root: Path | None = None,
) -> None:  # fmt: skip
    """Do what `run` does for several seeds of a head, each in its own folder out/METHOD-SEED.

    The first seed's folds choose the constants of all.

    Raises
    ------
    OptionError
        If a folder holds a run already, a seed is repeated, or the method is not a head.
    """
    if method.value not in HEADS:
        raise OptionError(f"option --seeds is for {', '.join(HEADS)}; {method.value} draws folds alone, see --seed.")
    if len(set(seeds)) < len(seeds):
        raise OptionError(f"option --seeds must name different seeds, got {','.join(map(str, seeds))}.")
    for seed in seeds:
        own = out / f"{method.value}-{seed}"
        run(folder, own, method, seed, constants, quiet=quiet, root=root)
        chosen = json.loads(RunFolder(own).baseline_file.read_text(encoding="utf-8"))
        constants = {**constants, **{f"train.{name}": (chosen[name],) for name in ("epochs", "lr")}}


def _context(
    folder: Path, out: Path, method: Method, seed: int, constants: Mapping[str, Any], quiet: bool, root: Path | None
) -> RunContext:
    """Return the context of a baseline's run; OptionError if its folder holds a run already."""
    source, target = RunFolder(folder), RunFolder(out)
    own = baseline_settings(source.require_settings("baselines"), method, seed, constants)
    settings = moved(check_settings(own), root)
    if target.settings_file.exists() or target.baseline_file.exists():
        raise OptionError(f"option --out must be a folder that holds neither a run nor a baseline, got {out}.")
    program = ("python", "benchmarks/recipes/baselines.py")
    return RunContext(target, settings, os.cpu_count() or 1, Reporter(quiet), program=program)


def baseline_settings(settings: Settings, method: Method, seed: int, constants: Mapping[str, Any]) -> Settings:
    """Return a run's settings with a baseline in the place of its learner.

    Raises OptionError if a constant is given that the baseline does not have.
    """
    own = OF_HEADS if method.value in HEADS else ("train.C", "train.J", "train.J_relative")
    for name in constants:
        if name not in own:
            raise OptionError(
                f"option --{name.partition('.')[2].replace('_', '-')} is not one of --method {method.value}."
            )
    values: dict[str, Any] = {"train.learner": method.value, "train.head_seed": seed, "refine.rounds": 0}
    if method.value in HEADS:
        values |= {"detect.demotion": 0.0}
    else:
        values |= {"train.C": C_VALUES, "train.J": J_VALUES, "train.J_relative": False}
    return settings.with_values({**values, **constants})


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
    folder: Annotated[Path, typer.Option("--run", help="Folder of a finished run.")],
    out: Annotated[Path, typer.Option(help="Folder for the results, a run folder.", **PATH)],
    method: Annotated[Method, typer.Option(help="Baseline to train.")],
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=MAX_SEED, show_default="0", help="Seed of folds, first weights and order."),
    ] = None,
    seeds: Annotated[
        str, typer.Option(help="Seeds of a head, as in 0,1,2: a run each in OUT, with the first one's constants.")
    ] = "",
    epochs: Annotated[str, typer.Option(help="Passes of the heads to choose from, as in 5,10,20.")] = "",
    lr: Annotated[str, typer.Option(help="Steps of the heads to choose from, as in .003,.01.")] = "",
    weight_decay: Annotated[float | None, typer.Option(min=0, help="Weight of |w|^2 / 2 in each step.")] = None,
    C: Annotated[str, typer.Option("--C", help="C of mi_svm to choose from.")] = "",
    J: Annotated[str, typer.Option("--J", help="J of mi_svm to choose from.")] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no tables.")] = False,
    root: Root = None,
) -> None:
    """Train a baseline on the shards of a run and evaluate it."""
    texts = {name: text or None for name, text in (("epochs", epochs), ("lr", lr), ("C", C), ("J", J))}
    given: dict[str, Any] = {"weight_decay": weight_decay, **texts}
    if seeds and seed is not None:
        raise OptionError(f"options --seeds and --seed must not go together, got {seeds!r} and {seed}.")
    if seeds:
        run_seeds(folder, out, method, _seeds(seeds), setting_values(given), quiet=quiet, root=root)
        return
    run(folder, out, method, seed or 0, setting_values(given), quiet=quiet, root=root)


def _seeds(text: str) -> list[int]:
    """Return the seeds; OptionError if one is none."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) <= MAX_SEED for word in words):
        raise OptionError(f"option --seeds must be whole numbers from 0 to {MAX_SEED}, got {text!r}.")
    return [int(word) for word in words]


if __name__ == "__main__":
    main()
