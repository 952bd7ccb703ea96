"""The trained classes of a run: a detector each, or a baseline's heads for all of them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.detection import Calibration, Detector, score_many
from lapsvm.errors import MissingError, ModelFileError, StageError
from lapsvm.features import Shard
from lapsvm.nn import TrainedHeads, load_heads

from ..fitting.tasks import FitTask, stored_provenance, training_difference, weights_hash
from ..fitting.training_bags import ContextPairs
from ..run.context import RunContext
from ..run.settings import HEADS
from .inputs import final_task, trained_tasks, training_shards


@dataclass(frozen=True)
class HeadOfClass:
    """What a run's page and tables ask of a class that a baseline's heads learned with the others."""

    class_name: str
    provenance: Mapping[str, Any]
    calibration: Calibration | None = None


def load_detectors(context: RunContext, stage: str, tasks: Sequence[FitTask] | None = None) -> list[Detector]:
    """Return the detectors of some tasks, by default the final one of every class of the run.

    Raises StageError if one is missing, or was made with other settings than the run has now.
    """
    if tasks is None:
        trained = trained_tasks(context, training_shards(context))
        tasks = [final_task(context, task) for task in trained]
        for task in trained if context.settings.refine.rounds else ():
            check_made_by(task, stored_provenance(task.path), stage)
    detectors = []
    for task in tasks:
        if not task.path.is_file():
            raise StageError(
                f"{stage} needs a model of {task.name!r}, but {task.path} is not there; run lapsvm {_maker(task)} "
                "first."
            )
        detectors.append(Detector.load(task.path))
        check_made_by(task, detectors[-1].provenance, stage)
    return detectors


def check_made_by(task: FitTask, stored: Mapping[str, Any] | None, stage: str) -> None:
    """Raise StageError if the model of a task was made with other settings; `stored` is None if there is no model."""
    difference = "" if stored is None else training_difference(stored, task)
    if difference:
        raise StageError(
            f"{stage} needs models by the run's settings, but {task.path} was trained with {difference}; run lapsvm "
            f"{_maker(task)} --redo first."
        )


def _maker(task: FitTask) -> str:
    """Return the verb that makes the model of a task."""
    return "refine" if "refine" in task.provenance["training"] else "train"


def load_run_heads(context: RunContext, stage: str) -> TrainedHeads:
    """Return the heads of a baseline's run; StageError if they are missing or lack a class."""
    path = context.run.heads
    if not path.is_file():
        raise StageError(f"{stage} needs the heads of the run, but {path} is not there; run lapsvm train first.")
    heads = load_heads(path)
    if list(heads.classes) != list(context.data.classes):
        raise StageError(
            f"{stage} needs heads of the classes {', '.join(context.data.classes)}, but {path} has those of "
            f"{', '.join(heads.classes)}; run lapsvm train --redo first."
        )
    for task in trained_tasks(context, training_shards(context)):
        check_made_by(replace(task, path=path), heads.provenance[task.name], stage)
    return heads


def trained_classes(context: RunContext, stage: str) -> Mapping[str, Detector | HeadOfClass]:
    """Return class -> its detector, or what stands for it in a baseline's run."""
    if context.settings.train.learner not in HEADS:
        return {detector.class_name: detector for detector in load_detectors(context, stage)}
    heads = load_run_heads(context, stage)
    return {name: HeadOfClass(name, heads.provenance.get(name, {})) for name in heads.classes}


def shard_scorer(context: RunContext, stage: str) -> Callable[[Shard], Float64]:
    """Return the function shard -> scores (n, classes) of its windows by the models of a run."""
    if context.settings.train.learner not in HEADS:
        detectors = load_detectors(context, stage)
        return lambda shard: score_many(detectors, shard.features)
    heads = load_run_heads(context, stage)
    contrast = _contrast(context, heads)

    def score(shard: Shard) -> Float64:
        pairs = ContextPairs.of(shard.provenance, contrast)
        return heads.score(pairs.combine(shard.features) if any(pairs.paired) else shard.features, shard.offsets)

    return score


def _contrast(context: RunContext, heads: TrainedHeads) -> float:
    """Return how much of a window's surroundings was subtracted in training; ModelFileError if it is no number."""
    training = heads.provenance[heads.classes[0]].get("training")
    contrast = training.get("contrast", 0.0) if isinstance(training, Mapping) else None
    if not isinstance(contrast, int | float) or not np.isfinite(contrast):
        raise ModelFileError(f"model {context.run.heads} must record the contrast of a run, got {contrast!r}.")
    return float(contrast)


def has_models(context: RunContext) -> bool:
    """Return whether the run has a model of some class, trained or final."""
    run, names = context.run, context.data.classes
    return run.heads.is_file() or any(path(name).is_file() for path in (run.model, run.first_model) for name in names)


def model_hashes(context: RunContext) -> dict[str, str]:
    """Return class -> the hash of the weights that score it."""
    if context.settings.train.learner in HEADS:
        found = load_heads(context.run.heads).weights_hash()
        return dict.fromkeys(context.data.classes, found)
    return {name: weights_hash(Detector.load(context.run.model(name))) for name in context.data.classes}


def available_detectors(context: RunContext) -> dict[str, Detector]:
    """Return class -> the final detector, without classes whose file is missing or damaged."""
    found = {}
    for name in context.data.classes:
        with suppress(MissingError, ModelFileError):
            found[name] = Detector.load(context.run.model(name))
    return found
