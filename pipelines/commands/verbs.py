"""The command line: one verb per stage, `run` and `demo` for all stages, and verbs for their results.

Every expected failure, option parsing included, is one line on standard error and exit status 2. What a verb needs is
imported when it runs, so that help is there at once.
"""

import os
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from ..cli.answer import Outcome
from ..cli.application import call, check_device
from ..cli.parameters import add_verb, app
from ..cli.parsing import setting_values

__all__ = ["app", "main"]

ALL_STAGES = ("extract", "train", "refine", "detect", "evaluate", "report")
DEMO: dict[str, Any] = {
    "data.name": "digits",
    "features.extractors": ("hog",),
    "windows.max_windows": 400,
    "train.C": (1.0, 10.0, 100.0),
}
"""Settings that take the embedded digits through all stages in a minute or two."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 2 an expected failure, 130 interrupted."""
    given = sys.argv[1:] if arguments is None else arguments
    call(app, given or ["--help"], "lapsvm")


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Object detectors from image-level labels, trained on average precision itself."""
    if version:
        from lapsvm import __version__

        typer.echo(__version__)
        raise typer.Exit


def run_verb(options: Mapping[str, Any], *stages: str, **defaults: Any) -> Outcome:
    """Run some stages with the options of a verb; `defaults` are settings that the options may override."""
    from ..stages.registry import run_stages

    check_device(options.get("device", "auto"))
    return run_stages(options, stages, defaults | setting_values(options))


@add_verb("run")
def run(options: dict[str, Any]) -> Outcome | None:
    """From pictures to detectors, detections, figures and a page.

    Example: lapsvm run --data folder --root pictures --out RUN
    """
    return run_verb(options, *ALL_STAGES)


@add_verb("extract")
def extract(options: dict[str, Any]) -> Outcome | None:
    """Stage 1: propose windows and store their features.

    Example: lapsvm extract --data voc --root VOC2007 --classes bus,car --extractor onnx:net.onnx --out RUN
    """
    return run_verb(options, "extract")


@add_verb("import")
def import_(options: dict[str, Any]) -> Outcome | None:
    """Stage 1 from files of other programs: their windows and features become a run's.

    Example: lapsvm import rcnn_cache --data voc --root VOC2007 --out RUN
    """
    return run_verb(options, "import")


@add_verb("train")
def train(options: dict[str, Any]) -> Outcome | None:
    """Stage 2: learn one detector per class from image-level labels.

    Example: lapsvm train --out RUN --loss ap --C 1,10,100
    """
    return run_verb(options, "train")


@add_verb("tune")
def tune(options: dict[str, Any]) -> Outcome | None:
    """Stage 2 with a larger grid of C, and of J for latent_svm: reports how every candidate did.

    Example: lapsvm tune --out RUN --C 0.01,0.1,1,10,100 --folds 5
    """
    from ..run.folder import RunFolder
    from ..stages.tune import thesis_grids

    settings = RunFolder(options["out"]).require_settings("tune").with_values(setting_values(options))
    return run_verb(options, "tune", **thesis_grids(settings.train.learner))


@add_verb("refine")
def refine(options: dict[str, Any]) -> Outcome | None:
    """Stage 3, optional: self-training, in which detectors learn to separate objects from their surroundings.

    Example: lapsvm refine --out RUN --refine 2
    """
    return run_verb(options, "refine")


@add_verb("detect")
def detect(options: dict[str, Any]) -> Outcome | None:
    """Stage 4: score all windows, suppress overlaps, write result files.

    Example: lapsvm detect --out RUN --nms 0.3
    """
    return run_verb(options, "detect")


@add_verb("report")
def report(options: dict[str, Any]) -> Outcome | None:
    """Stage 6: the page RUN/page/index.html, and with --card RUN/card.md.

    Example: lapsvm report --out RUN
    """
    return run_verb(options, "report")


@add_verb("demo")
def demo(options: dict[str, Any]) -> Outcome | None:
    """Embedded data, all stages, a table and a page; nothing is downloaded.

    Example: lapsvm demo --out demo-run
    """
    root = str(options["out"].resolve() / "data")
    return run_verb(options, *ALL_STAGES, **DEMO, **{"data.root": root})


def _threads(options: dict[str, Any]) -> int:
    return options["jobs"] or os.cpu_count() or 1


@add_verb("evaluate")
def evaluate(options: dict[str, Any]) -> Outcome | None:
    """Stage 5: the figures of a run; or those of any result files against any ground truth.

    Three forms: lapsvm evaluate --out RUN, lapsvm evaluate --root VOCDIR --results DIR, lapsvm evaluate --coco FILE
    --results FILE.

    Example: lapsvm evaluate --root VOC2007 --set test --results results --json figures.json
    """
    from .evaluate import chosen_form, evaluate_files

    if chosen_form(options) == "--out":
        names = ("out", "metrics", "precision", "quiet", "root", "boxes")
        return run_verb({name: options[name] for name in names}, "evaluate")
    return evaluate_files(options)


@add_verb("compare")
def compare(options: dict[str, Any]) -> Outcome | None:
    """Two or more finished runs on the same pictures: differences, their intervals and tests.

    Example: lapsvm compare --out COMPARISON AP_RUN SVM_RUN --folds 5
    """
    from ..compare.runs import ComparisonOptions, compare_runs

    comparison = ComparisonOptions(options["draws"], options["first_seed"], options["fold_count"], options["seeds"])
    return compare_runs(
        options["runs"], options["out"], comparison, _threads(options), options["quiet"], options["root"]
    )


@add_verb("threshold")
def threshold(options: dict[str, Any]) -> Outcome | None:
    """From which probability a picture is not ok, so that few good pictures raise a false alarm; `predict` uses it.

    Example: lapsvm threshold --out RUN --max-false-alarms 0.05
    """
    from .threshold import choose_run_threshold

    return choose_run_threshold(options)


@add_verb("predict")
def predict(options: dict[str, Any]) -> Outcome | None:
    """Boxes for pictures, as JSON on standard output.

    Every model detects as its file records, but for the options that are given.

    Example: lapsvm predict --model RUN photo.jpg --draw drawn
    """
    from .predict import predict_images

    check_device(options["device"])
    return predict_images(options, _threads(options))


@add_verb("export")
def export(options: dict[str, Any]) -> Outcome | None:
    """Boxes of a run as annotations of another program; by default each labelled class's best box in a picture.

    The format onnx writes the detector itself as one file.

    Example: lapsvm export --out RUN --to yolo-data --format yolo --set trainval
    """
    if options["format_name"] == "onnx":
        from .export_onnx import export_detector

        return export_detector(options)
    from .export import export_run

    return export_run(options)


@add_verb("review")
def review(options: dict[str, Any]) -> Outcome | None:
    """A local page on which a person judges boxes: how many are right, and what training shall use.

    Example: lapsvm review --out RUN
    """
    from .review import review_run

    return review_run(options)


@add_verb("verify")
def verify(options: dict[str, Any]) -> Outcome | None:
    """Read every byte of a run's shards and models, and name those that are not what was written.

    Example: lapsvm verify --out RUN
    """
    from .verify import verify_run

    return verify_run(options, _threads(options))
