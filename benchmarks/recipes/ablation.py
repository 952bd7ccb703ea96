"""An ablation: a finished run is repeated with one setting changed at a time, on its shards.

    python benchmarks/recipes/ablation.py --run RUN --out DIR [--variants NAME,NAME] [--starts 5]

Every variant is a run folder, DIR/NAME, that resumes after an interruption; RUN stays unchanged. A variant reuses RUN's
shards, and RUN's models where the change leaves them valid. `--starts n` adds n random starts of training as one row; a
generator's pictures depend on the seed as starts do, so draws of the data are repeated instead there. Variants whose
settings RUN has already are left out. The table is printed and written to DIR/variants.json and DIR/variants.md:
means over the classes with percentile intervals over draws of the pictures, differences to RUN with theirs, and CPU
seconds of training and refinement. Windows and features stay those of the shards; `repetitions` compares runs in which
they differ. `--root` names the folder of RUN's data, if they have moved.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import click
from baselines import take_shards
from lapsvm.pipelines.cli.parsing import split_names
from lapsvm.pipelines.cli.study import Given, Root, study_command
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.run.dataset import moved
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.ownership import table_files
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.settings.checks import check_settings
from lapsvm.pipelines.settings.limits import MAX_DRAWS
from lapsvm.pipelines.settings.settings import Settings
from lapsvm.pipelines.stages.registry import run_stage
from rows import Row, print_rows, rows_table, write_rows

from lapsvm.errors import OptionError
from lapsvm.files import write_atomically

Values = Mapping[str, Any]

_CONSTANTS = (0.3, 1.0, 3.0, 10.0)

VARIANTS: dict[str, Values] = {
    "unchanged": {},
    "no-contrast": {"features.contrast": 0.0},
    "contrast-0.35": {"features.contrast": 0.35},
    "contrast-0.65": {"features.contrast": 0.65},
    "top-1": {"train.top": 1.0},
    "top-10": {"train.top": 10.0},
    "top-20": {"train.top": 20.0},
    "top-0.05": {"train.top": 0.05},
    "C-by-image-ap": {"train.C": _CONSTANTS, "train.margin": 0.0},
    "C-by-margin": {"train.C": _CONSTANTS, "train.margin": 0.05},
    "C-0.3": {"train.C": (0.3,)},
    "C-10": {"train.C": (10.0,)},
    "no-refinement": {"refine.rounds": 0},
    "one-refinement": {"refine.rounds": 1},
    "two-refinements": {"refine.rounds": 2},
    "refine-C-10": {"refine.C": 10.0},
    "no-refine-voting": {"refine.box_voting": False},
    "no-refine-smoothing": {"refine.score_smoothing": 0.0},
    "candidates-20": {"train.candidates": 20},
    "tol-0.001": {"train.tol": 0.001},
    "refine-top-1": {"refine.top": 1.0},
    "refine-top-20": {"refine.top": 20.0},
    "no-neg-min-iou": {"refine.neg_min_iou": 0.0},
    "no-neg-part-iou": {"refine.neg_part_iou": 1.0},
    "refine-all-candidates": {"refine.candidates": 0},
    "no-demotion": {"detect.demotion": 0.0},
    "no-box-voting": {"detect.box_voting": 0.0},
    "no-score-smoothing": {"detect.score_smoothing": 0.0},
    "all-context": {"refine.context_share": 1.0},
    "no-objectness": {"objectness.source": "none"},
    "objectness-3": {"objectness.weight": 3.0},
    "objectness-4": {"objectness.weight": 4.0},
    "ndcg": {"train.loss": "ndcg"},
    "auc": {"train.loss": "auc"},
    "hinge": {
        "train.learner": "latent_svm",
        "train.C": (0.0005, 0.0015, 0.005, 0.015, 0.05, 0.15, 0.5, 1.5, 5.0),
        "train.margin": 0.05,
        "train.J": (1.0,),
        "train.J_relative": True,
        "refine.C": 0.5,
    },
}
"""Name of a variant -> the settings that differ from the run's."""

MODEL_SETTINGS = ("features.", "train.", "seed")
FINAL_SETTINGS = (*MODEL_SETTINGS, "refine.", "objectness.")


class Variant(NamedTuple):
    """A run to make: its name, and the settings that differ."""

    name: str
    values: Values


def variant_rows(settings: Settings, names: Sequence[str], starts: int) -> list[list[Variant]]:
    """Return the variants of every row, without those whose settings the run has already, except "unchanged"."""
    if settings.refine.rounds == 0:
        names = [name for name in names if not any(key.startswith("refine.") for key in VARIANTS[name])]
    flat = settings.flat()
    rows = [
        [Variant(name, VARIANTS[name])]
        for name in names
        if not VARIANTS[name] or any(flat[key] != value for key, value in VARIANTS[name].items())
    ]
    random = [Variant(f"start-{seed}", {"train.init": "random", "seed": seed}) for seed in range(starts)]
    return [*rows, random] if random else rows


def make(source: RunFolder, out: Path, variant: Variant, reporter: Reporter, root: Path | None = None) -> Path:
    """Return the finished run of a variant; `root` is the folder of the data, if they have moved."""
    settings = check_settings(moved(source.settings(), root).with_values(variant.values))
    run = RunFolder(out / variant.name)
    program = ("python", "benchmarks/recipes/ablation.py")
    context = RunContext(run, settings, os.cpu_count() or 1, reporter, program=program)
    with run.lock():
        take_shards(source, run, [settings.data.train_set, settings.data.test_set])
        _take_models(source, run, variant.values)
        context.save_settings()
        for stage in ("train", "refine", "detect", "evaluate"):
            run_stage(stage, context)
    return run.path


def _take_models(source: RunFolder, run: RunFolder, values: Values) -> None:
    """Copy the models that the changed settings leave valid, with their held-out scores and timings."""
    unrefined = values.get("refine.rounds") == 0 and source.first_models.is_dir()
    for stage, folder, target, settings in (
        ("train", source.first_models, run.models if unrefined else run.first_models, MODEL_SETTINGS),
        ("refine", source.models, run.models, FINAL_SETTINGS),
    ):
        if not folder.is_dir() or target.exists() or any(key.startswith(settings) for key in values):
            continue
        _copy_files(folder, run, target)
        _copy_files(source.models_of_folds, run, run.models_of_folds)
        if stage == "refine":
            _copy_files(source.held_out_scores, run, run.held_out_scores)
        stages = ("train", "refine") if stage == "refine" else ("train",)
        timings = {name: entry for name, entry in source.timings().items() if name in stages}
        run.write(run.timings_file, json.dumps(run.timings() | timings, indent=1) + "\n")


def _copy_files(folder: Path, run: RunFolder, target: Path) -> None:
    for file in sorted(folder.glob("*.safetensors")):
        run.files.claim([target / file.name])
        write_atomically(target / file.name, file.read_bytes())


def run(
    folder: Path, out: Path, names: Sequence[str], starts: int, draws: int, *,
    quiet: bool = False, root: Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Make the variants that do not exist yet, write the table into `out`, and return it.

    `root` is the folder of the run's data, if it has moved. Raises OptionError if `out` is a run folder, StageError if
    `folder` is none.
    """
    source = RunFolder(folder)
    settings = source.require_settings("an ablation")
    if RunFolder(out).settings_file.exists():
        raise OptionError(f"option --out must be a folder for several runs, got the run folder {out}.")
    table_files(out, "variants", write=False)
    rows = []
    for variants in variant_rows(settings, names, starts):
        runs = [make(source, out, variant, Reporter(True), root) for variant in variants]
        rows.append(Row(variants[0].name if len(variants) == 1 else f"{len(variants)} random starts", runs))
        if not quiet:
            click.echo(f"{rows[-1].name} is done", err=True)
    table = rows_table(rows, draws)
    write_rows(out, "variants", table)
    return table


@study_command
def main(
    folder: Annotated[Path, Given("--run", help="Folder of a finished run.")],
    out: Annotated[Path, Given(help="Folder for the variants, each a run folder.")],
    variants: Annotated[str, Given(help="Variants, separated by commas.")] = ",".join(VARIANTS),
    starts: Annotated[int, Given(low=0, help="Random starts, as one more row.")] = 0,
    draws: Annotated[int, Given(low=1, high=MAX_DRAWS, help="Bootstrap draws of the pictures.")] = 1000,
    quiet: Annotated[bool, Given("--quiet", help="No progress and no table.")] = False,
    root: Root = None,
) -> None:
    """Repeat a run with one setting changed at a time."""
    names = split_names("option --variants", variants, VARIANTS)
    table = run(folder, out, names, starts, draws, quiet=quiet, root=root)
    if not quiet:
        print_rows(table)


if __name__ == "__main__":
    main()
