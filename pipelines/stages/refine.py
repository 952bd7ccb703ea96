"""Stage 3, where the settings ask for it: detectors of objects out of the trained ones (see `lapsvm.latent.refine`)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags import Bags
from lapsvm.detection import Detector
from lapsvm.errors import ModelFileError, OneClassError
from lapsvm.features import ShardSet, open_shards
from lapsvm.latent import LatentProblem, Refinement, refine

from ..fitting.fit import Constants, FitRequest, problem, told
from ..fitting.history import history_rows, write_history
from ..fitting.mean_probe import inherited_results
from ..fitting.tasks import FitTask, Mean, fit_tasks, fitted_detector, is_done
from ..fitting.training_bags import stored_bags
from ..fitting.training_progress import TrainingProgress
from ..fitting.window_subset import weights_hash
from ..results.detectors import load_detectors
from ..results.provenance import provenance_value
from ..run.context import RunContext
from ..run.dataset import Labels
from ..run.files import is_of_another_program
from ..shards.projection import projection_of


class _Pictures(NamedTuple):
    """The training pictures as refinement sees them."""

    bags: Bags
    boxes: Array
    scale: Float64


def refine_classes(context: RunContext) -> None:
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
    first = {task.name: task for task in fit_tasks(context, shards)}
    files = {name: trained_file(context, task) for name, task in first.items()}
    moves = {files[name]: task.path for name, task in first.items() if files[name] != task.path}
    for path in moves:
        is_done(replace(first[path.stem], path=path))
    detectors = {one.class_name: one for one in load_detectors(context, "refine", files.__getitem__)}
    tasks = [_task(context, first[name], detectors[name]) for name in first]
    to_do = [task for task in tasks if context.redo or task.path in moves or not is_done(task)]
    with context.timed("refine") as counts:
        counts |= {"nothing_to_do": not to_do, "classes": len(to_do)}
        if to_do:
            labels = {name: task.y for name, task in first.items()}
            _refine(context, shards, to_do, _Learned(detectors, labels), moves)


def trained_file(context: RunContext, task: FitTask) -> Path:
    """Return the file of a class's trained model: where a run without refinement left it, if there alone."""
    final = context.run.model(task.name)
    unmoved = not task.path.exists() and final.exists() and not is_of_another_program(final)
    return final if unmoved and not is_refined(final) else task.path


def is_refined(path: Path) -> bool:
    """Return whether a model is there and whole, and refinement made it."""
    try:
        return path.exists() and "refine" in provenance_value(Detector.load(path), "training")
    except ModelFileError:
        return False


def _task(context: RunContext, first: FitTask, detector: Detector) -> FitTask:
    """Return what is to be done for one class: the settings of its training, and those of refinement."""
    check_positives(first)
    settings = asdict(context.settings.refine)
    start = {"first": weights_hash(detector)}
    training = {**first.provenance["training"], "refine": settings, **start}
    provenance = first.provenance | {"training": training}
    return FitTask(first.name, first.y, provenance, context.run.model(first.name))


def check_positives(task: FitTask) -> None:
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


def _refine(
    context: RunContext, shards: ShardSet, tasks: Sequence[FitTask], learned: _Learned, moves: Mapping[Path, Path]
) -> None:
    """Refine class by class; each is written as soon as it is done, once trained models are out of the way."""
    files = context.run.files
    files.check([*moves, *moves.values(), *(task.path for task in tasks)])
    bags, scale = stored_bags(context, shards)
    pictures = _Pictures(bags, np.concatenate([shard.boxes for shard in shards]), scale)
    projection = projection_of(context.run, shards)
    files.claim([*moves.values(), *(task.path for task in tasks)])  # everything is checked; from here on files change
    for final, trained in moves.items():
        final.replace(trained)
    context.save_settings()
    starts = _starts(context, learned, pictures)
    for task in tasks:
        first = starts[task.name]
        found, rows = _rounds(context, task, pictures, first)
        write_history(context, rows, role="round")
        constants = Constants(context.settings.refine.C)
        known = {"C": constants.C, **inherited_results(provenance_value(first.detector, "result"))}
        mean = _mean(context, task, found)
        fitted_detector(task, known, found.solution, scale, projection, mean).save(task.path)


def _mean(context: RunContext, task: FitTask, found: Refinement) -> Mean | None:
    """Return the mean of a round's models if the settings ask for it, and say that it has no certificate."""
    if not context.settings.refine.average:
        return None
    mean = Mean(found.mean_coef, _folds(context, task) + 1)
    context.reporter.say(f"refine: {task.name} is the mean of {mean.n_models} models: averaged, no certificate.")
    return mean


def _folds(context: RunContext, task: FitTask) -> int:
    """Return the number of folds of a class: no more than it has positives."""
    return min(context.settings.refine.folds, int((task.y > 0).sum()))


def _starts(context: RunContext, learned: _Learned, pictures: _Pictures) -> dict[str, _First]:
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
    context: RunContext, task: FitTask, pictures: _Pictures, first: _First
) -> tuple[Refinement, list[dict[str, Any]]]:
    """Return the last round of one class, and the rows of its history."""
    settings, rows = context.settings.refine, []
    folds = _folds(context, task)
    windows, weights = first.windows, first.weights
    for number in range(1, settings.rounds + 1):
        part = _with_candidates(pictures, task.y, settings.candidates, weights)
        title = f"refine {task.name}, round {number} of {settings.rounds}"
        with told(context, title, folds + 1) as bar:
            steps = TrainingProgress(bar, [task.name] * (folds + 1), context.settings.train.tol)
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


def _problem(context: RunContext, task: FitTask, first: Detector) -> LatentProblem:
    """Return the training problem of a class, with refinement's constants in place of those of training."""
    chosen = provenance_value(first, "result")
    constants = Constants(context.settings.refine.C, chosen.get("J"), None)
    wanted = problem(context.settings, FitRequest(task.y, constants))
    return replace(wanted, top=context.settings.refine.top, init="mean")
