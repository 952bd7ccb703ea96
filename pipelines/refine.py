"""Stage 3, where the settings ask for it: detectors of objects out of the trained ones (see `lapsvm.latent.refine`)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags import Bags
from lapsvm.detection import Detector
from lapsvm.errors import OneClassError
from lapsvm.features import ShardSet, open_shards
from lapsvm.files import remove_stale
from lapsvm.latent import LatentProblem, Refinement, refine

from .detect import load_detectors
from .fitting import Constants, Wanted, problem, told
from .history import history_rows, write_history
from .kept_windows import weights_hash
from .labels import Labels
from .outer_steps import OuterSteps
from .projection import projection_of
from .provenance import stated
from .scenery import learned_of
from .stages import Context
from .train import ClassTask, class_tasks, fitted_detector, is_done
from .training_bags import stored_bags


class _Pictures(NamedTuple):
    """The training pictures as refinement sees them."""

    bags: Bags
    boxes: Array
    scale: Float64


def refine_classes(context: Context) -> None:
    """Refine the classes whose final model is not there yet; without rounds there is nothing to do.

    Raises
    ------
    StageError
        If nothing was extracted, or a class is not trained.
    SettingsError
        If models are there that were refined otherwise.
    OneClassError
        If a class has one positive picture alone.
    """
    if not context.settings.refine.rounds:
        return
    shards = open_shards(context.run.shards(context.settings.data.train_set))
    context.run.models.mkdir(parents=True, exist_ok=True)
    remove_stale(context.run.models)
    first = {task.name: task for task in class_tasks(context, shards)}
    for task in first.values():
        _take_over(context, task)
    detectors = {one.class_name: one for one in load_detectors(context, "refine", context.trained_model)}
    tasks = [_task(context, first[name], detectors[name]) for name in first]
    with context.timed("refine") as counts:
        to_do = [task for task in tasks if context.redo or not is_done(task)]
        counts |= {"nothing_to_do": not to_do, "classes": len(to_do)}
        if to_do:
            labels = {name: task.y for name, task in first.items()}
            _refine(context, shards, to_do, _Learned(detectors, labels))


def _take_over(context: Context, task: ClassTask) -> None:
    """Begin with what a training without refinement left as the final model, if it is the one that is wanted."""
    final = context.run.model(task.name)
    if task.path.exists() or not final.exists() or "refine" in stated(Detector.load(final), "training"):
        return
    if is_done(ClassTask(task.name, task.y, task.provenance, final)):
        task.path.parent.mkdir(parents=True, exist_ok=True)
        final.replace(task.path)


def _task(context: Context, first: ClassTask, detector: Detector) -> ClassTask:
    """Return what is to be done for one class: the settings of its training, and those of refinement."""
    _check_positives(first)
    settings = asdict(context.settings.refine)
    start = {"first": weights_hash(detector)}
    training = {**first.provenance["training"], "refine": settings, **start}
    provenance = first.provenance | {"training": training}
    return ClassTask(first.name, first.y, provenance, context.run.model(first.name))


def _check_positives(task: ClassTask) -> None:
    """Raise OneClassError if a class has one positive alone."""
    if (task.y > 0).sum() < 2:
        raise OneClassError(
            f"class {task.name!r} must have 2 positive pictures, for a model without one chooses its window, got 1; "
            "give --refine 0."
        )


class _Learned(NamedTuple):
    """All classes of the run, refined already or not: what training made of each, and the pictures' labels."""

    detectors: Mapping[str, Detector]
    labels: Mapping[str, Labels]


class _First(NamedTuple):
    """What refinement of a class begins with; `rivals` is one array per other class, -1 in pictures without it."""

    detector: Detector
    weights: Float64
    windows: Index
    rivals: Sequence[Index]


def _refine(context: Context, shards: ShardSet, tasks: Sequence[ClassTask], learned: _Learned) -> None:
    """Refine class by class; each is written as soon as it is done."""
    bags, scale = stored_bags(context, shards)
    pictures = _Pictures(bags, np.concatenate([shard.boxes for shard in shards]), scale)
    projection = projection_of(context.run, shards)
    context.save_settings()
    starts = _starts(context, learned, pictures)
    for task in tasks:
        first = starts[task.name]
        found, rows = _rounds(context, task, pictures, first)
        write_history(context, rows, role="round")
        constants = Constants(context.settings.refine.C)
        known = {"C": constants.C, **learned_of(stated(first.detector, "result"))}
        solution = found.solution
        if context.settings.refine.average:
            solution = replace(solution, coef=found.mean_coef)
        fitted_detector(task, known, solution, scale, projection).save(task.path)


def _starts(context: Context, learned: _Learned, pictures: _Pictures) -> dict[str, _First]:
    """Return what refinement of every class begins with, by one pass over the windows."""
    weights = {name: _stored_weights(detector, pictures.scale) for name, detector in learned.detectors.items()}
    best = pictures.bags.best(np.stack(list(weights.values()), axis=1))
    windows = {name: best.column(place).index for place, name in enumerate(weights)}
    held = {name: np.where(learned.labels[name] > 0, own, -1) for name, own in windows.items()}
    rivals = held if context.settings.refine.rivals else {}
    return {
        name: _First(detector, weights[name], windows[name], [own for other, own in rivals.items() if other != name])
        for name, detector in learned.detectors.items()
    }


def _stored_weights(detector: Detector, scale: Float64) -> Float64:
    """Return the weights for features of this scale; training may have scaled otherwise, and a dead feature by 0."""
    stored = detector.coef * detector.scale
    return np.divide(stored, scale, out=np.zeros_like(stored), where=scale > 0)


def _rounds(
    context: Context, task: ClassTask, pictures: _Pictures, first: _First
) -> tuple[Refinement, list[dict[str, Any]]]:
    """Return the last round of one class, and the rows of its history."""
    settings, rows = context.settings.refine, []
    folds = min(settings.folds, int((task.y > 0).sum()))
    windows, weights = first.windows, first.weights
    for number in range(1, settings.rounds + 1):
        part = _with_candidates(pictures, task.y, settings.candidates, weights)
        title = f"refine {task.name}, round {number} of {settings.rounds}"
        with told(context, title, folds + 1) as bar:
            steps = OuterSteps(bar, [task.name] * (folds + 1), context.settings.train.tol)
            found = refine(
                _problem(context, task, first.detector),
                part.bags,
                part.boxes,
                windows,
                near=settings.near,
                far=settings.far,
                apart=settings.apart,
                rivals=first.rivals,
                folds=folds,
                progress=steps.tell,
            )
        windows, weights = found.windows, found.mean_coef if settings.average else found.solution.coef
        rows += history_rows(task.name, f"round {number}", Constants(settings.C), found.solution)
    return found, rows


def _with_candidates(pictures: _Pictures, y: Labels, count: int, weights: Float64) -> _Pictures:
    """Return the pictures, the negatives with so many windows, the best-scored; positives keep all."""
    bags = pictures.bags
    if not count:
        return pictures
    taken = bags.best_of_each(np.where(y > 0, np.diff(bags.offsets), count), weights)
    return pictures._replace(bags=bags.taken(taken), boxes=pictures.boxes[taken])


def _problem(context: Context, task: ClassTask, first: Detector) -> LatentProblem:
    """Return the training problem of a class, with refinement's constants in place of those of training."""
    chosen = stated(first, "result")
    constants = Constants(context.settings.refine.C, chosen.get("J"), None)
    wanted = problem(context.settings, Wanted(task.y, constants))
    return replace(wanted, top=context.settings.refine.top, init="mean")
