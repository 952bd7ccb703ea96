"""The verbs for results: their figures, comparisons, exports and checks, and detections in new pictures."""

import os
from typing import Any

from ..cli.application import check_device
from ..cli.parameters import add_verb
from .stage_verbs import run_verb


def _threads(options: dict[str, Any]) -> int:
    return options["jobs"] or os.cpu_count() or 1


@add_verb("evaluate")
def evaluate(options: dict[str, Any]) -> None:
    """Stage 5: the figures of a run; or those of any result files against any ground truth.

    Three forms: lapsvm evaluate --out RUN, lapsvm evaluate --root VOCDIR --results DIR, lapsvm evaluate --coco FILE
    --results FILE.

    Example: lapsvm evaluate --root VOC2007 --set test --results results --json figures.json
    """
    from .evaluate import chosen_form, evaluate_files

    if chosen_form(options) == "--out":
        names = ("out", "metrics", "precision", "quiet", "root", "boxes")
        run_verb({name: options[name] for name in names}, "evaluate")
    else:
        evaluate_files(options)


@add_verb("compare")
def compare(options: dict[str, Any]) -> None:
    """Two or more finished runs on the same pictures: differences, their intervals and tests.

    Example: lapsvm compare --out COMPARISON AP_RUN SVM_RUN --folds 5
    """
    from ..compare.runs import ComparisonOptions, compare_runs

    comparison = ComparisonOptions(options["draws"], options["first_seed"], options["fold_count"], options["seeds"])
    compare_runs(options["runs"], options["out"], comparison, _threads(options), options["quiet"], options["root"])


@add_verb("predict")
def predict(options: dict[str, Any]) -> None:
    """Boxes for pictures, as JSON on standard output.

    Every model detects as its file records, but for the options that are given.

    Example: lapsvm predict --model RUN photo.jpg --draw drawn
    """
    from .predict import predict_images

    check_device(options["device"])
    predict_images(options, _threads(options))


@add_verb("export")
def export(options: dict[str, Any]) -> None:
    """Boxes of a run as annotations of another program; by default each labelled class's best box in a picture.

    The format onnx writes the detector itself as one file.

    Example: lapsvm export --out RUN --to yolo-data --format yolo --set trainval
    """
    if options["format_name"] == "onnx":
        from .onnx.export import export_detector

        export_detector(options)
        return
    from .export import export_run

    export_run(options)


@add_verb("review")
def review(options: dict[str, Any]) -> None:
    """A local page on which a person judges boxes: how many are right, and what training shall use.

    Example: lapsvm review --out RUN
    """
    from .review import review_run

    review_run(options)


@add_verb("verify")
def verify(options: dict[str, Any]) -> None:
    """Read every byte of a run's shards and models, and name those that are not what was written.

    Example: lapsvm verify --out RUN
    """
    from .verify import verify_run

    verify_run(options, _threads(options))
