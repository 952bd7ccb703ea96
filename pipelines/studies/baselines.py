"""Baselines on the shards of a finished run: MI-SVM and a WSDDN head.

    python -m lapsvm.pipelines.studies.baselines --run RUN --out DIR --method mi_svm|wsddn [--seed 0] [--root DATA]

RUN's settings give the pictures, classes, folds and the suppression of overlaps; RUN is only read. DIR gets the
detections, evaluation.json as `lapsvm evaluate` writes it, baseline.json (chosen constants and training history),
timings.json and the detectors of MI-SVM. RUN's demotion applies to MI-SVM only: the softmax over the windows of a
picture does the same for WSDDN.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from sklearn.exceptions import ConvergenceWarning

from lapsvm.arrays import Float64
from lapsvm.bags import Bags
from lapsvm.detection import Detector, score_many
from lapsvm.errors import OptionError
from lapsvm.evaluation import image_average_precision, write_json
from lapsvm.features import Shard, open_shards
from lapsvm.models import MISVM
from lapsvm.nn import WSDDN

from ..cli.parameters import PATH
from ..fitting.selection import held_out_folds
from ..fitting.tasks import FitTask, fit_tasks
from ..fitting.training_bags import Halves, training_bags
from ..results.detections import detect_shards, publish_results, write_temporary_results
from ..run.checks import check_settings
from ..run.context import RunContext
from ..run.dataset import Labels, moved
from ..run.folder import RunFolder
from ..run.progress import Bar, Reporter
from ..stages import evaluate
from .command import Root, study_command

RECORD = "baseline.json"
C_VALUES = (0.05, 0.5, 5.0)
J_VALUES = (1.0, 3.0)
"""MI-SVM's constants to choose from, for features with a mean norm of 1."""


class Method(StrEnum):
    """Names of the baselines."""

    MI_SVM = "mi_svm"
    WSDDN = "wsddn"


class Trained(NamedTuple):
    """A trained baseline: a function shard -> scores of its windows (n, classes), and a record of the training."""

    score: Callable[[Shard], Float64]
    record: dict[str, Any]


class Training(NamedTuple):
    """The training data of a baseline: all classes of a run, in its order."""

    context: RunContext
    tasks: Sequence[FitTask]
    bags: Bags
    scale: Float64
    halves: Halves
    seed: int


def run(
    folder: Path, out: Path, method: Method, seed: int = 0, *, quiet: bool = False, root: Path | None = None
) -> None:
    """Train a baseline on the shards of the run in `folder`, detect and evaluate with the settings of that run.

    `root` is the folder of the run's data, if it has moved.

    Raises
    ------
    OptionError
        If `out` holds a run or a baseline already.
    StageError
        If `folder` is no run folder.
    """
    source = RunFolder(folder)
    settings = moved(check_settings(source.require_settings("baselines")), root)
    target = RunFolder(out)
    if target.settings_file.exists() or (out / RECORD).exists():
        raise OptionError(f"option --out must be a folder that holds neither a run nor a baseline, got {out}.")
    if method is Method.WSDDN:
        settings = settings.with_values({"detect.demotion": 0.0})
    reading = RunContext(source, settings, os.cpu_count() or 1, Reporter(quiet))
    shards = {name: open_shards(source.shards(name)) for name in reading.data.records}
    tasks = fit_tasks(reading, shards[settings.data.train_set])
    writing = replace(reading, run=target)
    with target.lock():
        with writing.timed("train"):
            inputs = training_bags(reading, shards[settings.data.train_set])
            trained = METHODS[method](Training(writing, tasks, *inputs, seed))
            target.files.claim([out / RECORD])
            write_json(out / RECORD, {"method": method.value, "seed": seed, **trained.record})
        for name, windows in shards.items():
            with writing.timed(f"detect {name}"):
                detections = detect_shards(writing, windows, [task.name for task in tasks], trained.score, name)
                publish_results(target, name, write_temporary_results(target, name, detections))
        evaluate.run(writing)


def mi_svm(training: Training) -> Trained:
    """Train every class on all pictures, with C and J of the highest image-level AP on held-out pictures."""
    context, detectors, classes = training.context, [], {}
    folds = context.settings.train.folds
    count = len(training.tasks) * (len(C_VALUES) * len(J_VALUES) * folds + 1)
    with context.reporter.bar("train mi_svm", count) as bar:
        for task in training.tasks:
            candidates = _candidates(training, task, bar)
            best = max(candidates, key=lambda candidate: round(float(np.mean(candidate["folds"])), 9))
            model, converged = _fitted(training.bags, task.y, best["C"], best["J"])
            bar.step(note=task.name)
            if not converged:
                context.reporter.say(f"train: the windows of {task.name} did not converge in {model.n_iter_} rounds")
            chosen = {"C": best["C"], "J": best["J"], "converged": converged}
            classes[task.name] = {**chosen, "held_out_image_ap": candidates, "history": model.history_}
            provenance = {"method": "mi_svm", **chosen, "data": task.provenance["data"]}
            weights, scale = training.halves.unfold(model.coef_), training.halves.unfold_scale(training.scale)
            detectors.append(Detector(task.name, weights, model.intercept_, scale, provenance))
    context.run.files.claim(context.run.model(detector.class_name) for detector in detectors)
    for detector in detectors:
        detector.save(context.run.model(detector.class_name))
    return Trained(lambda shard: score_many(detectors, shard.features), {"classes": classes})


def _candidates(training: Training, task: FitTask, bar: Bar) -> list[dict[str, Any]]:
    """Return every pair (C, J) in ascending order, with the image-level AP of each fold's held-out pictures."""
    advice = "lower the run's --folds"
    folds = held_out_folds(task.y, training.context.settings.train.folds, training.seed, task.name, advice)
    candidates = []
    for C, J in product(C_VALUES, J_VALUES):
        aps = []
        for held_out in folds:
            model, _ = _fitted(training.bags, np.where(held_out, 0, task.y).astype(np.int8), C, J)
            aps.append(image_average_precision(model.decision_function(training.bags)[held_out], task.y[held_out]))
            bar.step(note=f"{task.name}, C={C:g}, J={J:g}")
        candidates.append({"C": C, "J": J, "folds": aps})
    return candidates


def _fitted(bags: Bags, y: Labels, C: float, J: float) -> tuple[MISVM, bool]:
    """Return a trained MI-SVM, and whether its windows converged."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model = MISVM(C, J, scale=None).fit(bags, y)
    return model, not caught


def wsddn(training: Training) -> Trained:
    """Train one WSDDN head for all classes."""
    labels = np.column_stack([task.y for task in training.tasks])
    model = WSDDN(random_state=training.seed)
    with training.context.reporter.bar("train wsddn", model.epochs) as bar:
        model.set_params(callback=lambda record: bar.step(note=f"loss {record['loss']:.4f}")).fit(training.bags, labels)
    options = {name: getattr(model, name) for name in ("epochs", "lr", "weight_decay")}
    return Trained(
        partial(shard_scores, model, training.scale, training.halves), {**options, "history": model.history_}
    )


def shard_scores(model: WSDDN, scale: Float64, halves: Halves, shard: Shard) -> Float64:
    """Return the scores of a shard's windows, their features transformed as in training."""
    return model.score_windows(Bags(halves.combine(shard.features), shard.offsets, scale))


METHODS: dict[Method, Callable[[Training], Trained]] = {Method.MI_SVM: mi_svm, Method.WSDDN: wsddn}


@study_command
def main(
    folder: Annotated[Path, typer.Option("--run", help="Folder of a finished run.")],
    out: Annotated[Path, typer.Option(help="Folder for the results.", **PATH)],
    method: Annotated[Method, typer.Option(help="Baseline to train.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the folds, or of the initial weights.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no tables.")] = False,
    root: Root = None,
) -> None:
    """Train a baseline on the shards of a run and evaluate it."""
    run(folder, out, method, seed, quiet=quiet, root=root)


if __name__ == "__main__":
    main()
