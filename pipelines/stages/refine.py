"""Stage 3, optional: refine the trained detectors: load, fit by `fitting.refining`, save."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from lapsvm.detection import Detector
from lapsvm.detection.detector import provenance_value
from lapsvm.features import Projection, ShardSet

from ..context import RunContext
from ..fitting.refining.class_refinement import Refined
from ..fitting.refining.loading import LoadedPictures
from ..fitting.refining.pictures import StoredPictures
from ..fitting.refining.prior import check_classes
from ..fitting.refining.refinement import Refinement
from ..products.drawn import DrawnShard
from ..products.fold_models import fold_models
from ..products.held_out import BoxModel, ScoredPictures, calibrated, is_to_learn
from ..products.history import write_history
from ..products.models import (
    FitTask,
    final_task,
    fitted_detector,
    load_detectors,
    trained_tasks,
)
from ..products.product import unmet
from ..products.projection import projection_of
from ..products.shards import finished_shards
from .data_checks.ground import even_pictures


def run(context: RunContext) -> None:
    """Refine the classes that have no final model yet; without rounds there is nothing to do.

    Raises StageError if there are no shards or a class is not trained, SettingsError if there are models refined with
    other settings.
    """
    if not context.settings.refine.rounds:
        return
    shards = finished_shards(context.run, context.settings, context.data, "refine", context.train_set)
    check_classes(context.settings.objectness, [*context.data.classes, *context.data.denied])
    trained = trained_tasks(context.stored, shards)
    detectors = {detector.class_name: detector for detector in load_detectors(context.stored, "refine", trained)}
    _check_verdicts(trained)
    tasks = [final_task(context.run, context.settings, task) for task in trained]
    moves = {task.path: context.run.first_model(task.name) for task in trained}
    moves = {path: first for path, first in moves.items() if path != first}
    to_do = [
        task for task in tasks if context.redo or task.path in moves or is_to_learn(context.run, context.settings, task)
    ]
    with context.timed("refine") as counts:
        counts |= {"nothing_to_do": not to_do, "classes": len(to_do)}
        if to_do:
            _refine(context, shards, tasks, to_do, detectors, moves)


def _check_verdicts(trained: Sequence[FitTask]) -> None:
    """Raise StageError if labels that verdicts mended are not those that training saw."""
    for task in trained:
        if task.state().followed:  # verdicts: models of other data are refused before
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
    """Load the trained models and move them away, then refine the classes and write each in its turn."""
    context.run.files.check([*moves, *moves.values(), *(task.path for task in to_do)])
    folds = {
        task.name: fold_models(context.run, context.settings, task, detectors[task.name], "refine") for task in tasks
    }
    read = even_pictures(context.settings, context.stored.training_pictures, shards)
    loaded = LoadedPictures.of(context.workspace, context.settings, shards, read, [task.y for task in to_do])
    pictures = loaded.pictures
    projection = projection_of(context.run, shards)
    _move_trained(context, to_do, moves)  # everything is checked; from here on files change
    records = context.stored.training_pictures
    drawn_shard = DrawnShard(context.workspace, context.settings, shards, records, context.open_extractor)
    drawn = loaded.drawn(drawn_shard, (task.reviews.known for task in tasks))
    models = loaded.models(tasks, detectors, folds)
    refinement = Refinement(
        context.settings, pictures, models, drawn, context.reporter, loaded.copy_bytes, loaded.at_once
    )
    if sentence := refinement.starts.sentence(task.name for task in to_do):
        context.reporter.say(sentence)
    scored = ScoredPictures(pictures.bags, pictures.boxes, pictures.ids, pictures.pixels)
    with refinement.fit_all(to_do) as found:
        for task, refined in found:
            write_history(context.run, refined.history, context.reporter.say, role="round")
            detector = _detector(task, detectors[task.name], refined, pictures, projection)
            pairs = zip((chain.weights for chain in refined.chains), refined.priors, strict=True)
            boxed, fold = [BoxModel(*pair) for pair in pairs], folds[task.name].fold
            calibrated(context.workspace, context.settings, task, detector, scored, fold, boxed).save(task.path)
    if read is not None:
        read.report("refine", context.reporter.say)


def _detector(
    task: FitTask, trained: Detector, refined: Refined, pictures: StoredPictures, projection: Projection | None
) -> Detector:
    """Return the final detector of a class, without a certificate where its weights changed after training."""
    chain, before = refined.chains[0], provenance_value(trained, "result")
    kept = {name: before[name] for name in ("held_out_image_ap", "telling_parts") if name in before}
    solution = replace(chain.trained, coef=chain.weights)
    is_certified = np.array_equal(chain.weights, chain.trained.coef)
    result = {"held_out_image_ap": [], **kept, **refined.result}
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
