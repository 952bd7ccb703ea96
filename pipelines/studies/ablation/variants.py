"""What each part of a recipe gives: a finished run once more, with one thing changed at a time, on its own shards.

    python -m lapsvm.pipelines.studies.ablation.variants --run RUN --out DIR [--parts NAME,NAME] [--starts 5]

Every variant is a run folder, DIR/NAME, that continues where it was stopped; RUN stays as it is. A variant takes RUN's
shards, and its models too, as far as the change leaves them valid. `--starts n` adds n random starts of training as one
row; a generator's pictures depend on the seed as starts do, so there draws of the data are repeated instead. Parts that
are as RUN has them already are left out. DIR/parts.json and DIR/parts.md hold what is printed: the means over the
classes with percentile intervals over draws of the pictures, the differences to RUN with theirs, and CPU seconds of
training and refinement. Windows and features are the shards' own; what they give needs runs of their own, which
`python -m lapsvm.pipelines.studies.ablation.repetitions` puts side by side.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from lapsvm.errors import LapsvmError, OptionError
from lapsvm.files import write_atomically

from ...cli.parameters import PATH
from ...run.checks import check_settings
from ...run.context import RunContext
from ...run.folder import RunFolder
from ...run.limits import MAX_DRAWS
from ...run.ownership import table_files
from ...run.progress import Reporter
from ...run.settings import Settings
from ...shards.jobs import copy_shard
from ...stages.registry import run_stage
from .rows import Row, rows_markdown, rows_table, write_rows

Values = Mapping[str, Any]

PARTS: dict[str, Values] = {
    "as-it-is": {},
    "no-contrast": {"features.contrast": 0.0},
    "contrast-0.35": {"features.contrast": 0.35},
    "contrast-0.65": {"features.contrast": 0.65},
    "one-window": {"train.top": 1.0},
    "ten-windows": {"train.top": 10.0},
    "twenty-windows": {"train.top": 20.0},
    "a-twentieth": {"train.top": 0.05},
    "C-by-image-ap": {"train.margin": 0.0},
    "C-by-agreement": {"train.margin": 0.0, "train.criterion": "agreement"},
    "C-0.3": {"train.C": (0.3,)},
    "C-10": {"train.C": (10.0,)},
    "centre-start": {"train.init": "centre"},
    "multifold": {"train.multifold": 5},
    "no-refinement": {"refine.rounds": 0},
    "two-rounds": {"refine.rounds": 2},
    "one-model": {"refine.average": False},
    "on-candidates": {"train.candidates": 20},
    "closer": {"train.tol": 0.001},
    "one-near-window": {"refine.top": 1.0},
    "far-windows-too": {"refine.neg_min_iou": 0.0},
    "all-candidates": {"refine.candidates": 0},
    "no-demotion": {"detect.demotion": 0.0},
    "no-box-voting": {"detect.box_voting": 0.0},
    "ndcg": {"train.loss": "ndcg"},
    "auc": {"train.loss": "auc"},
    "hinge": {
        "train.learner": "latent_svm",
        "train.C": (0.0005, 0.0015, 0.005, 0.015, 0.05, 0.15, 0.5, 1.5, 5.0),
        "train.J": (1.0,),
        "train.J_relative": True,
        "refine.C": 0.5,
    },
}
"""Name of a variant -> the settings that differ from the run's."""

MODEL_SETTINGS = ("features.", "train.", "seed")
FINAL_SETTINGS = (*MODEL_SETTINGS, "refine.")


@dataclass(frozen=True)
class Variant:
    """One run to be made."""

    name: str
    values: Values


def variants(settings: Settings, names: Sequence[str], starts: int) -> list[list[Variant]]:
    """Return the runs of every row; what the run has already is left out, but for "as-it-is"."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise OptionError(f"option --parts must name some of {', '.join(PARTS)}, got {unknown[0]!r}.")
    if settings.refine.rounds == 0:
        names = [name for name in names if not any(key.startswith("refine.") for key in PARTS[name])]
    flat = settings.flat()
    rows = [
        [Variant(name, PARTS[name])]
        for name in names
        if not PARTS[name] or any(flat[key] != value for key, value in PARTS[name].items())
    ]
    randomly = [Variant(f"start-{seed}", {"train.init": "random", "seed": seed}) for seed in range(starts)]
    return [*rows, randomly] if randomly else rows


def make(source: RunFolder, out: Path, variant: Variant, reporter: Reporter) -> Path:
    """Return the finished run of a variant."""
    settings = check_settings(source.settings().with_values(variant.values))
    run = RunFolder(out / variant.name)
    program = ("python", "-m", "lapsvm.pipelines.studies.ablation.variants")
    context = RunContext(run, settings, os.cpu_count() or 1, reporter, program=program)
    with run.lock():
        _take_shards(source, run, settings)
        _take_models(source, run, variant.values)
        context.save_settings()
        for stage in ("train", "refine", "detect", "evaluate"):
            run_stage(stage, context)
    return run.path


def _take_shards(source: RunFolder, run: RunFolder, settings: Settings) -> None:
    """Link the shards of both sets, and the components that they were made with."""
    files = [source.projection] if source.projection.is_file() else []
    for set_name in (settings.data.train_set, settings.data.test_set):
        files += sorted(source.shards(set_name).glob("*.safetensors"))
    for file in files:
        target = run.path / file.relative_to(source.path)
        if not target.exists():
            run.files.claim([target])
            copy_shard(file, target)


def _take_models(source: RunFolder, run: RunFolder, values: Values) -> None:
    """Copy the models that the change leaves as they are, and how long they took."""
    unrefined = values.get("refine.rounds") == 0 and source.first_models.is_dir()
    for stage, folder, target, settings in (
        ("train", source.first_models, run.models if unrefined else run.first_models, MODEL_SETTINGS),
        ("refine", source.models, run.models, FINAL_SETTINGS),
    ):
        if not folder.is_dir() or target.exists() or any(key.startswith(settings) for key in values):
            continue
        for file in sorted(folder.glob("*.safetensors")):
            run.files.claim([target / file.name])
            write_atomically(target / file.name, file.read_bytes())
        stages = ("train", "refine") if stage == "refine" else ("train",)
        taken = {name: entry for name, entry in source.timings().items() if name in stages}
        run.write(run.timings_file, json.dumps(run.timings() | taken, indent=1) + "\n")


def run(
    folder: Path, out: Path, names: Sequence[str], starts: int, draws: int, *, quiet: bool = False
) -> dict[str, Any]:
    """Make the variants that are not there yet, and return the table, which is written into `out`.

    Raises
    ------
    OptionError
        If a part is not known, or `out` is a run folder itself.
    StageError
        If `folder` is no run folder.
    """
    source = RunFolder(folder)
    settings = source.require_settings("parts")
    if RunFolder(out).settings_file.exists():
        raise OptionError(f"option --out must be a folder for several runs, got the run folder {out}.")
    table_files(out, "parts", "rows", write=False)
    rows = []
    for row in variants(settings, names, starts):
        made = [make(source, out, variant, Reporter(True)) for variant in row]
        rows.append(Row(row[0].name if len(row) == 1 else f"{len(row)} random starts", made))
        if not quiet:
            typer.echo(f"{rows[-1].name} is done", err=True)
    table = rows_table(rows, draws)
    write_rows(out, "parts", table)
    return table


def main(
    folder: Annotated[Path, typer.Option("--run", help="Folder of a finished run.")],
    out: Annotated[Path, typer.Option(help="Folder for the variants, a run folder each.", **PATH)],
    parts: Annotated[str, typer.Option(help="Variants, separated by commas.")] = ",".join(PARTS),
    starts: Annotated[int, typer.Option(min=0, help="Random starts, as one more row.")] = 0,
    draws: Annotated[int, typer.Option(min=1, max=MAX_DRAWS, help="Bootstrap draws of the pictures.")] = 1000,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no table.")] = False,
) -> None:
    """Change one part of a run at a time."""
    try:
        names = [name.strip() for name in parts.split(",") if name.strip()]
        table = run(folder, out, names, starts, draws, quiet=quiet)
    except LapsvmError as error:
        typer.echo(f"parts: {error}", err=True)
        sys.exit(2)
    if not quiet:
        typer.echo(rows_markdown(table))


if __name__ == "__main__":
    typer.run(main)
