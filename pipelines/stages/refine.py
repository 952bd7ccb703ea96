"""Stage 3, optional: refine the trained detectors: load, fit by `fitting.refining`, save."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from lapsvm.bags.stores.memory import as_bytes
from lapsvm.bfloat16 import named_type
from lapsvm.detection import Detector
from lapsvm.detection.detector import provenance_value
from lapsvm.features import Projection, ShardSet
from lapsvm.latent import KnownBoxes

from ..fitting.fold_models import FoldModels, fold_numbers
from ..fitting.history import write_history
from ..fitting.refining.chains import TrainedModels
from ..fitting.refining.drawn_boxes import wanted_windows
from ..fitting.refining.pictures import StoredPictures
from ..fitting.refining.prior import ObjectnessPrior, check_classes, is_used
from ..fitting.refining.refinement import Refined, Refinement
from ..fitting.tasks import FitTask, fitted_detector, has_other_verdicts, stored_provenance, weights_hash
from ..fitting.training_bags import ContextPairs, stored_bags, window_objectness_of
from ..results.detectors import final_task, load_detectors, trained_tasks
from ..results.held_out import ScoredPictures, calibrated, is_complete
from ..run.context import RunContext
from ..run.limits import unmet
from ..shards.drawn import Drawn, drawn_windows
from ..shards.finished import finished_shards
from ..shards.projection import projection_of


def run(context: RunContext) -> None:
    """Refine the classes that have no final model yet; without rounds there is nothing to do.

    Raises StageError if there are no shards or a class is not trained, SettingsError if there are models refined with
    other settings.
    """
    if not context.settings.refine.rounds:
        return
    shards = finished_shards(context, "refine", context.train_set)
    check_classes(context.settings.objectness, context.data.classes)
    trained = trained_tasks(context, shards)
    detectors = {detector.class_name: detector for detector in load_detectors(context, "refine", trained)}
    _check_verdicts(trained)
    tasks = [final_task(context, task) for task in trained]
    moves = {task.path: context.run.first_model(task.name) for task in trained}
    moves = {path: first for path, first in moves.items() if path != first}
    to_do = [task for task in tasks if context.redo or task.path in moves or not is_complete(context, task)]
    with context.timed("refine") as counts:
        counts |= {"nothing_to_do": not to_do, "classes": len(to_do)}
        if to_do:
            _refine(context, shards, tasks, to_do, detectors, moves)


def _check_verdicts(trained: Sequence[FitTask]) -> None:
    """Raise StageError if labels that verdicts mended are not those that training saw."""
    for task in trained:
        if has_other_verdicts(stored_provenance(task.path), task):
            labels = "labels that verdicts mend"
            raise unmet("refine", f"a model of {task.name!r} trained with the {labels}", "it saw others", "train")


def _refine(
    context: RunContext,
    shards: ShardSet,
    tasks: Sequence[FitTask],
    to_do: Sequence[FitTask],
    detectors: Mapping[str, Detector],
    moves: Mapping[Path, Path],
) -> None:
    """Load what training made and move it out of the way, then refine class by class and write each at once."""
    context.run.files.check([*moves, *moves.values(), *(task.path for task in to_do)])
    folds = {task.name: _fold_models(context, task, detectors[task.name]) for task in tasks}
    memory, copy_bytes = _shared_memory(context, shards)
    pictures = _stored_pictures(context, shards, memory)
    projection = projection_of(context.run, shards)
    _move_trained(context, to_do, moves)  # everything is checked; from here on files change
    drawn = _drawn(context, shards, pictures, [task.reviews.known for task in tasks])
    made = {task.name: (detectors[task.name], folds[task.name], task.y) for task in tasks}
    models = {name: TrainedModels.of_scaled(*of_class, pictures.scale) for name, of_class in made.items()}
    refinement = Refinement(context.settings, pictures, models, drawn, context.reporter, copy_bytes)
    if sentence := refinement.starts.sentence(task.name for task in to_do):
        context.reporter.say(sentence)
    scored = ScoredPictures(pictures.bags, pictures.boxes, pictures.ids)
    for task in to_do:
        refined = refinement.fit(task)
        write_history(context.run, refined.history, context.reporter.say, role="round")
        detector = _detector(task, detectors[task.name], refined, pictures, projection)
        weights = [chain.weights for chain in refined.chains]
        calibrated(context, task, detector, scored, folds[task.name].fold, weights).save(task.path)


def _shared_memory(context: RunContext, shards: ShardSet) -> tuple[int | None, int | None]:
    """Return the bytes for the stored windows and those for copies.

    Copies get three quarters of the memory, because rounds work on them, or what half of all windows take. None where
    other processes hold the stored windows, or the memory is unknown.
    """
    limit = None if context.cluster else as_bytes(context.memory)
    if limit is None:
        return None, None
    stored = sum(one.n_windows * one.dim * named_type(one.dtype).itemsize for one in shards.headers)
    copy_bytes = min(limit * 3 // 4, stored // 2)
    return limit - copy_bytes, copy_bytes


def _stored_pictures(context: RunContext, shards: ShardSet, memory: int | None) -> StoredPictures:
    bags, scale = stored_bags(context, shards, memory)
    pairs = ContextPairs.of(shards.provenance, context.settings.features.contrast)
    boxes = np.concatenate([shard.boxes for shard in shards])
    return StoredPictures(bags, boxes, scale, shards.image_ids, pairs.inside, prior=_prior(context, shards))


def _prior(context: RunContext, shards: ShardSet) -> ObjectnessPrior | None:
    """Return what stands out among the windows; None where the run does not use it, or the shards lack it."""
    settings = context.settings.objectness
    values = window_objectness_of(shards) if is_used(settings, shards.objectness) else None
    return None if values is None else ObjectnessPrior(values, settings.weight)


def _drawn(
    context: RunContext, shards: ShardSet, pictures: StoredPictures, known: Sequence[Mapping[int, KnownBoxes]]
) -> Drawn:
    """Return the drawn boxes of all classes that no window covers, with features."""
    sizes, least = np.concatenate([shard.sizes for shard in shards]), context.settings.refine.pos_iou
    return drawn_windows(context, shards, wanted_windows(pictures, known, sizes, least))


def _fold_models(context: RunContext, task: FitTask, first: Detector) -> FoldModels:
    """Return the fold models of a trained class, perhaps none; StageError if they belong to other weights."""
    path, fold = context.run.fold_models(task.name), fold_numbers(context.settings, task.y)
    if not fold.any():
        return FoldModels(fold, np.empty((len(first.coef), 0)), weights_hash(first))
    if not path.is_file():
        raise unmet("refine", "fold models", f"{path} is not there", "train")
    models = FoldModels.load(path)
    if models.model != weights_hash(first):
        others = f"those of {path} are of another one"
        raise unmet("refine", "fold models of the trained model", others, "train --redo")
    return models


def _detector(
    task: FitTask, trained: Detector, refined: Refined, pictures: StoredPictures, projection: Projection | None
) -> Detector:
    """Return the final detector of a class, without a certificate where its weights changed after training."""
    whole, held_out = refined.chains[0], provenance_value(trained, "result").get("held_out_image_ap", [])
    solution = replace(whole.trained, coef=whole.weights)
    is_certified = np.array_equal(whole.weights, whole.trained.coef)
    result = {"held_out_image_ap": held_out, **refined.result}
    return fitted_detector(task, result, solution, pictures.scale, projection, is_certified=is_certified)


def _move_trained(context: RunContext, to_do: Sequence[FitTask], moves: Mapping[Path, Path]) -> None:
    """Give trained models the names of first ones, without their calibration: it belongs to final models."""
    context.run.files.claim([*moves.values(), *(task.path for task in to_do)])
    for final, trained in moves.items():
        final.replace(trained)
        detector = Detector.load(trained)
        if detector.calibration is not None:
            replace(detector, calibration=None).save(trained)
    context.save_settings()
