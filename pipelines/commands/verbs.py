"""The command line: one verb per stage, and `run` and `demo` for all of them.

Every expected failure, option parsing included, is one line on standard error and exit status 2.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lapsvm.errors import OptionError

from ..cli.application import call, check_device
from ..cli.machine_options import EXECUTOR, MEMORY
from ..cli.option_tables import COMMON, DATA, DETECT, FEATURES, OUT, PATH, RECIPE, REFINE, TRAIN, VERIFY, WINDOWS
from ..cli.options import setting_values, taking
from ..cli.source_options import IMPORT, PROPOSALS, source_values
from ..run.limits import MAX_DRAWS, MAX_JOBS, MAX_NUMBER, MAX_SEED

DRAW_NOTHING = ("detect", "evaluate", "report")
ALL_STAGES = ("extract", "train", "refine", "detect", "evaluate", "report")

app = typer.Typer(
    name="lapsvm",
    help="Object detectors from image-level labels, trained on average precision itself.",
    no_args_is_help=False,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 2 an expected failure, 130 interrupted."""
    given = sys.argv[1:] if arguments is None else arguments
    call(app, given or ["--help"])


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Object detectors from image-level labels, trained on average precision itself."""
    if version:
        from lapsvm import __version__

        typer.echo(__version__)
        raise typer.Exit


def _stages(options: dict[str, Any], names: tuple[str, ...], **defaults: Any) -> None:
    """Run some stages with the options of a verb; `defaults` are settings that the options may override."""
    from ..run.automatic import resolved
    from ..stages.registry import run_stages

    check_device(options["device"])
    values, line = resolved(options, names[0], defaults | setting_values(options) | source_values(options))
    if names[0] in DRAW_NOTHING:
        values.pop("seed", None)  # every verb takes --seed; these would only write another run's seed into run.toml
    run_stages(options, names, values, line)


@app.command()
@taking(OUT, RECIPE, DATA, WINDOWS, PROPOSALS, FEATURES, TRAIN, REFINE, DETECT, MEMORY, EXECUTOR, COMMON)
def run(options: dict[str, Any]) -> None:
    """From pictures to detectors, detections, figures and a page.

    Example: lapsvm run --data folder --root pictures --out RUN
    """
    _stages(options, ALL_STAGES)


@app.command()
@taking(OUT, RECIPE, DATA, WINDOWS, PROPOSALS, FEATURES, EXECUTOR, COMMON)
def extract(options: dict[str, Any]) -> None:
    """Stage 1: propose windows and store their features.

    Example: lapsvm extract --data voc --root VOC2007 --classes bus,car --extractor onnx:net.onnx --out RUN
    """
    _stages(options, ("extract",))


@app.command("import")
@taking(OUT, IMPORT, DATA, COMMON)
def import_(options: dict[str, Any]) -> None:
    """Stage 1, done elsewhere: windows and features in other programs' files become a run's.

    Example: lapsvm import rcnn_cache --data voc --root VOC2007 --out RUN
    """
    _stages(options, ("import",))


@app.command()
@taking(OUT, RECIPE, TRAIN, MEMORY, EXECUTOR, COMMON)
def train(options: dict[str, Any]) -> None:
    """Stage 2: learn one detector per class from image-level labels.

    Example: lapsvm train --out RUN --loss ap --C 1,10,100
    """
    _stages(options, ("train",))


@app.command()
@taking(OUT, TRAIN, MEMORY, EXECUTOR, COMMON)
def tune(options: dict[str, Any]) -> None:
    """Stage 2 with a choice of C, and of J for latent_svm, by cross-validation; tells how every value did.

    Example: lapsvm tune --out RUN --C 0.01,0.1,1,10,100 --folds 5
    """
    from .tune import tune as tune_run

    check_device(options["device"])
    tune_run(options)


@app.command()
@taking(OUT, RECIPE, REFINE, MEMORY, EXECUTOR, COMMON)
def refine(options: dict[str, Any]) -> None:
    """Stage 3, if wanted: self-training, in which trained detectors learn to tell objects from what is around them.

    Example: lapsvm refine --out RUN --refine 2
    """
    _stages(options, ("refine",))


@app.command()
@taking(OUT, RECIPE, DETECT, COMMON)
def detect(options: dict[str, Any]) -> None:
    """Stage 4: score all windows, suppress overlaps, write result files.

    Example: lapsvm detect --out RUN --nms 0.3
    """
    _stages(options, ("detect",))


@app.command()
@taking(OUT, COMMON)
def report(options: dict[str, Any]) -> None:
    """Stage 6: the page RUN/page/index.html.

    Example: lapsvm report --out RUN
    """
    _stages(options, ("report",))


@app.command()
@taking(OUT, VERIFY, COMMON)
def verify(options: dict[str, Any]) -> None:
    """Read every byte of a run's shards and models, and name those that are not what was written.

    Example: lapsvm verify --out RUN
    """
    from .verify import verify_run

    check_device(options["device"])
    verify_run(
        options["out"], pictures=options["pictures"], remove=options["remove"],
        threads=options["jobs"] or os.cpu_count() or 1, quiet=options["quiet"],
    )  # fmt: skip


@app.command()
def evaluate(
    out: Annotated[Path | None, typer.Option("--out", help="A run folder.", **PATH)] = None,
    root: Annotated[Path | None, typer.Option("--root", help="VOC layout with the ground truth.", **PATH)] = None,
    set_name: Annotated[str, typer.Option("--set", help="Its set; with --root.")] = "test",
    coco: Annotated[Path | None, typer.Option("--coco", help="COCO annotations with the ground truth.", **PATH)] = None,
    results: Annotated[
        Path | None,
        typer.Option("--results", help="Folder of comp3/comp4 files, with --root; COCO results, with --coco.", **PATH),
    ] = None,
    iou: Annotated[float, typer.Option("--iou", help="Least overlap of a true positive.")] = 0.5,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there.", **PATH)] = None,
    metrics: Annotated[str, typer.Option("--metrics", help="voc, coco or voc,coco; with --coco.")] = "voc",
    jobs: Annotated[int | None, typer.Option("--jobs", help="Threads.", min=1, max=MAX_JOBS)] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Not used: evaluation draws nothing.")] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")] = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", help="No table.")] = False,
) -> None:
    """Stage 5, or any result files against any ground truth, in VOC layout or as COCO files.

    Example: lapsvm evaluate --root VOC2007 --set test --results results --json figures.json
    """
    if coco is not None:
        if out is not None or root is not None or results is None or set_name != "test":
            raise OptionError("option --coco goes with --results FILE, --iou and --json, and no other source.")
        from .evaluate import chosen_metrics, evaluate_coco

        check_device(device)
        evaluate_coco(coco, results, iou, json_file, quiet, chosen_metrics(metrics))
        return
    if metrics != "voc":
        raise OptionError(f"option --metrics goes with --coco; others get the figures of VOC, got {metrics!r}.")
    if out is not None and root is None and results is None:
        if json_file is not None or set_name != "test" or iou != 0.5:
            raise OptionError(
                "options --set, --iou and --json go with --root and --results; a run is evaluated on its own sets at "
                "an IoU of 0.5, into its evaluation.json."
            )
        options = {"out": out, "jobs": jobs, "seed": seed, "device": device, "quiet": quiet, "redo": False}
        _stages(options, ("evaluate",))
        return
    if out is not None or root is None or results is None:
        raise OptionError(
            "evaluate needs --out RUN, or --root VOCDIR and --results DIR, or --coco FILE and --results FILE."
        )
    from .evaluate import evaluate_files

    check_device(device)
    evaluate_files(root, set_name, results, iou, json_file, quiet)


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; the first is the reference.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="Folder of the comparison.", show_default=False, **PATH)],
    draws: Annotated[
        int, typer.Option("--draws", help="Bootstrap draws of the pictures.", min=1, max=MAX_DRAWS)
    ] = 2000,
    folds: Annotated[
        int | None, typer.Option("--folds", help="Train on folds of the training set, too.", min=2, max=1000)
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", help="Different foldings; with --folds.", min=1, max=1000)] = 1,
    jobs: Annotated[int | None, typer.Option("--jobs", help="Threads.", min=1, max=MAX_JOBS)] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the draws and the first folding.", min=0, max=MAX_SEED)] = 0,
    device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")] = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no table.")] = False,
) -> None:
    """Two or more finished runs on the same pictures: differences, their intervals and tests.

    Example: lapsvm compare --out COMPARISON AP_RUN SVM_RUN --folds 5
    """
    from ..studies.compare.runs import ComparisonOptions, compare_runs

    check_device(device)
    compare_runs(runs, out, ComparisonOptions(draws, seed, folds, seeds), jobs or os.cpu_count() or 1, quiet)


@app.command()
def predict(
    images: Annotated[list[Path], typer.Argument(help="Pictures, or folders of pictures.", show_default=False)],
    model: Annotated[
        list[Path], typer.Option("--model", help="A model file, or a folder of them.", show_default=False, **PATH)
    ],
    windows: Annotated[str | None, typer.Option("--windows", help="A method, instead of the model's own.")] = None,
    draw: Annotated[Path | None, typer.Option("--draw", help="Write pictures with boxes there.", **PATH)] = None,
    extractor: Annotated[list[str] | None, typer.Option("--extractor", help="Instead of the model's own.")] = None,
    nms: Annotated[float | None, typer.Option("--nms", help="Overlap above which the lower box goes.")] = None,
    max_detections: Annotated[
        int, typer.Option("--max-detections", help="Per picture and class.", min=1, max=MAX_NUMBER)
    ] = 10,
    demotion: Annotated[float | None, typer.Option("--demotion", help="How far lower windows go down.")] = None,
    vote: Annotated[float | None, typer.Option("--vote", help="Temperature of box voting, 0 for none.")] = None,
    vote_near: Annotated[float | None, typer.Option("--vote-near", help="Overlap of windows that vote.")] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", help="Threads.", min=1, max=MAX_JOBS)] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Of the proposals; default: the model's.", min=0, max=MAX_SEED)
    ] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")] = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out pictures that cannot be read.")] = False,
) -> None:
    """Boxes for pictures, as JSON on standard output.

    Every model detects as its file records, but for the options that are given.

    Example: lapsvm predict --model RUN/models/cat.safetensors photo.jpg --draw drawn
    """
    from .predict import predict_images

    check_device(device)
    given = {"nms_threshold": nms, "demotion": demotion, "vote": vote, "vote_near": vote_near}
    detection = {"max_detections": max_detections} | {name: value for name, value in given.items() if value is not None}
    predict_images(
        model, images, draw=draw, extractor_specs=extractor, detection=detection,
        threads=jobs or os.cpu_count() or 1, seed=seed, quiet=quiet, skip_bad=skip_bad, windows=windows,
        device=device,
    )  # fmt: skip


@app.command()
def export(
    out: Annotated[Path, typer.Option("--out", help="The run folder.", show_default=False, **PATH)],
    to: Annotated[Path, typer.Option("--to", help="Folder to write: empty, or not there.", show_default=False, **PATH)],
    format_name: Annotated[
        str, typer.Option("--format", help="coco, yolo, voc, label-studio or cvat.", show_default=False)
    ],
    set_name: Annotated[str | None, typer.Option("--set", help="Default: test, or the training set.")] = None,
    threshold: Annotated[float | None, typer.Option("--threshold", help="Boxes of at least this probability.")] = None,
    per_class: Annotated[int | None, typer.Option("--per-class", help="So many best boxes of each class.")] = None,
    labelled_only: Annotated[
        bool, typer.Option("--labelled-only", help="Only classes that the picture is labelled with.")
    ] = False,
    copy: Annotated[bool, typer.Option("--copy", help="Copy the pictures (yolo, voc); otherwise links.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No message.")] = False,
) -> None:
    """Boxes of a run as annotations of another program; by default the best box of each class of a picture's labels.

    Example: lapsvm export --out RUN --to yolo-data --format yolo --set trainval
    """
    from lapsvm.detection.export import BoxChoice

    from .export import export_run

    choice = BoxChoice(threshold, per_class, labelled_only)
    export_run(out, to, format_name, choice, set_name=set_name, copy=copy, quiet=quiet)


@app.command()
@taking(OUT, COMMON, out=Path("demo-run"))
def demo(options: dict[str, Any]) -> None:
    """Embedded data, all stages, a table and a page; nothing is downloaded.

    Example: lapsvm demo --out demo-run
    """
    from .demo import DEMO

    data = {"data.name": "digits", "data.root": str(options["out"].resolve() / "data")}
    _stages(options, ALL_STAGES, **DEMO, **data)
