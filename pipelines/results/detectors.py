"""The detectors of a run, one for each class."""

from collections.abc import Mapping, Sequence

from lapsvm.detection import Detector

from ..fitting.tasks import (
    FitTask,
    is_refinement,
    stored_detector,
    training_difference,
    weights_hash,
)
from ..run.context import RunContext
from ..run.limits import unmet
from .inputs import final_task, trained_tasks, training_shards


def load_detectors(context: RunContext, stage: str, tasks: Sequence[FitTask] | None = None) -> list[Detector]:
    """Return the detectors of some tasks, by default the final one of every class of the run.

    Raises StageError if one is missing, or was made with other settings than the run has now.
    """
    if tasks is None:
        trained = trained_tasks(context, training_shards(context))
        tasks = [final_task(context, task) for task in trained]
        for task in trained if context.settings.refine.rounds else ():
            check_made_by(task, stored_detector(task.path), stage)
    detectors = []
    for task in tasks:
        if not task.path.is_file():
            raise unmet(stage, f"a model of {task.name!r}", f"{task.path} is not there", _maker(task))
        detectors.append(Detector.load(task.path))
        check_made_by(task, detectors[-1], stage)
    return detectors


def check_made_by(task: FitTask, detector: Detector | None, stage: str) -> None:
    """Raise StageError if the model of a task, if there is one, was made with other settings."""
    difference = "" if detector is None else training_difference(detector.provenance, task)
    if difference:
        others = f"{task.path} was trained with {difference}"
        raise unmet(stage, "models by the run's settings", others, f"{_maker(task)} --redo")


def _maker(task: FitTask) -> str:
    """Return the verb that makes the model of a task."""
    return "refine" if is_refinement(task.provenance) else "train"


def trained_classes(context: RunContext, stage: str) -> Mapping[str, Detector]:
    """Return class -> its detector."""
    return {detector.class_name: detector for detector in load_detectors(context, stage)}


def has_models(context: RunContext) -> bool:
    """Return whether the run has a model of some class, trained or final."""
    run, names = context.run, context.data.classes
    return any(path(name).is_file() for path in (run.model, run.first_model) for name in names)


def model_hashes(context: RunContext) -> dict[str, str]:
    """Return class -> the hash of the weights that score it."""
    return {name: weights_hash(Detector.load(context.run.model(name))) for name in context.data.classes}


def available_detectors(context: RunContext) -> dict[str, Detector]:
    """Return class -> the final detector, without classes whose file is missing or damaged."""
    found = {name: stored_detector(context.run.model(name)) for name in context.data.classes}
    return {name: detector for name, detector in found.items() if detector is not None}
