"""The detectors of a run, one for each class, and whether they were made by its settings.

Every stage that reads models gets them here: they are compared with the tasks that the settings ask for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from lapsvm.detection import Detector
from lapsvm.features import ShardSet

from ..context import StoredRun, open_run_shards
from ..run.dataset import label_vector
from ..run.folder import RunFolder
from ..run.ownership import is_of_another_program
from ..settings.limits import unmet
from ..settings.settings import ObjectnessSettings, Settings
from ..shards.objectness import is_used
from .models import (
    FitTask,
    fit_tasks,
    is_refinement,
    labels_provenance,
    stored_detector,
    stored_provenance,
    training_difference,
    training_settings,
    weights_hash,
)


def load_detectors(stored: StoredRun, stage: str, tasks: Sequence[FitTask] | None = None) -> list[Detector]:
    """Return the detectors of some tasks, by default the final one of every class of the run.

    Raises StageError if one is missing, or was made with other settings than the run has now.
    """
    if tasks is None:
        folder, settings = stored.folder, stored.settings
        trained = trained_tasks(stored, training_shards(folder, settings))
        tasks = [final_task(folder, settings, task) for task in trained]
        for task in trained if settings.refine.rounds else ():
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


def trained_classes(stored: StoredRun, stage: str) -> Mapping[str, Detector]:
    """Return class -> its detector."""
    return {detector.class_name: detector for detector in load_detectors(stored, stage)}


def model_hashes(run: RunFolder, classes: Iterable[str]) -> dict[str, str]:
    """Return class -> the hash of the weights that score it."""
    return {name: weights_hash(Detector.load(run.model(name))) for name in classes}


def available_detectors(run: RunFolder, classes: Iterable[str]) -> dict[str, Detector]:
    """Return class -> the final detector, without classes whose file is missing or damaged."""
    found = {name: stored_detector(run.model(name)) for name in classes}
    return {name: detector for name, detector in found.items() if detector is not None}


def trained_tasks(stored: StoredRun, shards: ShardSet | None) -> list[FitTask]:
    """Return the task of every class's trained model, and in it the file that holds the model.

    Without shards, as in a copy of a run, what they decide is assumed to be as the models have it.
    """
    tasks = _tasks_without_shards(stored) if shards is None else fit_tasks(stored, shards)
    tasks = [replace(task, path=trained_file(stored.folder, task)) for task in tasks]
    return [_with_unchanged_shards(stored.folder, task) for task in tasks] if shards is None else tasks


def training_shards(run: RunFolder, settings: Settings) -> ShardSet | None:
    """Return the shards of the training set; None if they are gone."""
    name = settings.data.train_set
    return open_run_shards(run, settings, name) if run.has_shards(name) else None


def final_task(
    run: RunFolder, settings: Settings, trained: FitTask, planned: Mapping[str, Any] | None = None
) -> FitTask:
    """Return the task of a class's final model: that of its trained model, or of refinement of it.

    The trained model is assumed to be unchanged if it is missing or damaged. `planned` is the source by which the
    command is about to measure objectness; without it that of the shards counts.
    """
    if not settings.refine.rounds:
        return trained
    final = run.model(trained.name)
    model = stored_detector(trained.path)
    first = (stored_provenance(final).get("training") or {}).get("first") if model is None else weights_hash(model)
    refinement = {"refine": asdict(settings.refine), "first": first}
    shards = training_shards(run, settings)
    measured = planned or (trained.objectness if shards is None else shards.objectness)
    training = trained.provenance["training"] | refinement | _objectness(settings.objectness, measured)
    verdicts = {**trained.reviews.labels_key, **trained.reviews.boxes_key}
    changed = {"training": training, **({"verdicts": verdicts} if verdicts else {})}
    return replace(trained, provenance=trained.provenance | changed, path=final)


def _objectness(settings: ObjectnessSettings, measured: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what refinement's provenance records of the objectness that it uses; empty where it uses none."""
    if not is_used(settings, measured):
        return {}
    used = {"source": measured, "weight": settings.weight, "classes": list(settings.classes)}
    return {"objectness": used}


def trained_file(run: RunFolder, task: FitTask) -> Path:
    """Return the file of a class's trained model, which a run without refinement wrote as the final one.

    If both kinds are there, the one made by the run's settings is returned.
    """
    final = run.model(task.name)
    if not final.exists() or is_of_another_program(final) or is_refinement(stored_provenance(final)):
        return task.path
    is_current = not training_difference(stored_provenance(final), task)
    return final if is_current or not task.path.exists() else task.path


def _tasks_without_shards(stored: StoredRun) -> list[FitTask]:
    settings, records = stored.settings, stored.data.records[stored.train_set]
    training = training_settings(settings)
    groups = stored.groups(stored.train_set, [record.id for record in records], None)
    tasks = []
    for name in stored.data.classes:
        y = label_vector(records, name)
        data = {} if settings.data.skip_bad else labels_provenance(y)
        provenance = {"training": training, "data": data}
        tasks.append(FitTask(name, y, provenance, stored.trained_model(name), groups=groups))
    return tasks


def _with_unchanged_shards(run: RunFolder, task: FitTask) -> FitTask:
    """Return the task with the provenance of shards and the objectness that its model records; shards are missing."""
    path = task.path if task.path.exists() else run.model(task.name)
    stored = stored_provenance(path)
    data = {**stored.get("data", {}), **task.provenance["data"]}
    unchanged = {"data": data, "shards": stored.get("shards", {})}
    refined = stored_provenance(run.model(task.name)).get("training") or {}
    source = (refined.get("objectness") or {}).get("source")
    return replace(task, provenance={**task.provenance, **unchanged}, objectness=source)
