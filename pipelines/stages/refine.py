"""Stage 3, optional: refine the trained detectors (see `lapsvm.latent.refine`)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.bags.stores.memory import as_bytes
from lapsvm.bfloat16 import named_type
from lapsvm.detection import Detector
from lapsvm.detection.detector import provenance_value
from lapsvm.features import Projection, ShardSet
from lapsvm.latent import KnownBoxes, LatentSolution

from ..fitting.borrowed_start import FirstModels, borrowed_starts, sentence
from ..fitting.fit import Constants
from ..fitting.fold_models import FoldModels, fold_numbers, seen_labels
from ..fitting.history import history_rows, write_history
from ..fitting.refinement import Chain, Rounds, StoredPictures
from ..fitting.tasks import FitTask, fitted_detector, has_other_verdicts, stored_provenance, weights_hash
from ..fitting.training_bags import ContextPairs, stored_bags
from ..fitting.verdicts import choice
from ..fitting.verdicts.drawn_boxes import added_windows, wanted_windows
from ..results.detectors import final_task, load_detectors, trained_tasks
from ..results.held_out import ScoredPictures, calibrated, is_complete
from ..run.context import RunContext
from ..run.dataset import Labels
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
    """Move trained models out of the way, then refine class by class and write each at once."""
    files, known = context.run.files, [task.reviews.known for task in tasks]
    files.check([*moves, *moves.values(), *(task.path for task in to_do)])
    folds = {task.name: _fold_models(context, task, detectors[task.name]) for task in tasks}
    memory, room = _shared_memory(context, shards)
    pictures = _stored_pictures(context, shards, memory)
    projection = projection_of(context.run, shards)
    files.claim([*moves.values(), *(task.path for task in to_do)])  # everything is checked; from here on files change
    for final, trained in moves.items():
        _move(final, trained)
    context.save_settings()
    drawn = _drawn(context, shards, pictures, known)
    models = {task.name: _first_models(detectors[task.name], task.y, folds[task.name], pictures) for task in tasks}
    borrowed, lending = borrowed_starts(models, pictures.bags)
    if names := [task.name for task in to_do if task.name in borrowed]:
        context.reporter.say(sentence(names, lending))
    for task in to_do:
        first = detectors[task.name]
        learned = provenance_value(first, "result")
        added = added_windows(task.reviews.known, pictures.ids, drawn, context.settings.refine.pos_iou)
        rounds = Rounds(context.settings, pictures, learned.get("J"), task.reviews.known, added, room)
        begun = _begun(rounds, models[task.name], borrowed.get(task.name), first.intercept)
        chains, rows, decided = _refined_chains(context, task, rounds, pictures, begun, folds[task.name].fold)
        write_history(context.run, rows, context.reporter.say, role="round")
        candidates = {"held_out_image_ap": learned.get("held_out_image_ap", [])}
        result = {"C": context.settings.refine.C, **candidates, **decided}
        if task.name in borrowed:
            result["starts_like"] = lending
        detector = _detector(task, pictures, chains[0], result, projection)
        weights = [detector.coef, *(chain.weights for chain in chains[1:])]
        shown, fold = ScoredPictures(pictures.bags, pictures.boxes, pictures.ids), folds[task.name].fold
        calibrated(context, task, detector, shown, fold, weights).save(task.path)


def _shared_memory(context: RunContext, shards: ShardSet) -> tuple[int | None, int | None]:
    """Return the bytes for the stored windows and those for copies.

    Copies get three quarters of the memory, because rounds work on them, or what half of all windows take. None where
    other processes hold the stored windows, or the memory is unknown.
    """
    limit = None if context.cluster else as_bytes(context.memory)
    if limit is None:
        return None, None
    stored = sum(one.n_windows * one.dim * named_type(one.dtype).itemsize for one in shards.headers)
    room = min(limit * 3 // 4, stored // 2)
    return limit - room, room


def _stored_pictures(context: RunContext, shards: ShardSet, memory: int | None) -> StoredPictures:
    bags, scale = stored_bags(context, shards, memory)
    pairs = ContextPairs.of(shards.provenance, context.settings.features.contrast)
    boxes = np.concatenate([shard.boxes for shard in shards])
    return StoredPictures(bags, boxes, scale, shards.image_ids, pairs.inside)


def _drawn(
    context: RunContext, shards: ShardSet, pictures: StoredPictures, known: Sequence[Mapping[int, KnownBoxes]]
) -> Drawn:
    """Return the drawn boxes of all classes that no window covers, with features."""
    sizes, least = np.concatenate([shard.sizes for shard in shards]), context.settings.refine.pos_iou
    wanted = wanted_windows(known, pictures.ids, pictures.bags.offsets, pictures.boxes, sizes, least)
    return drawn_windows(context, shards, wanted)


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


def _first_models(first: Detector, y: Labels, folds: FoldModels, pictures: StoredPictures) -> FirstModels:
    """Return what training has learned of a class, for the features of the pictures."""
    stored, scale = np.column_stack([first.coef * first.scale, folds.coef]), pictures.scale[:, None]
    weights = np.divide(stored, scale, out=np.zeros_like(stored), where=scale > 0)  # 0 for a constant feature
    return FirstModels(y, folds.fold, weights)


def _begun(rounds: Rounds, models: FirstModels, borrowed: Float64 | None, intercept: float) -> list[Chain]:
    """Return the chains of a class before the first round, that of all pictures first."""
    labels = [models.y, *seen_labels(models.y, models.fold)]
    columns = models.weights.T if borrowed is None else [borrowed] * len(labels)
    return [rounds.begin(y, weights, intercept) for y, weights in zip(labels, columns, strict=True)]


def _refined_chains(
    context: RunContext, task: FitTask, rounds: Rounds, pictures: StoredPictures, begun: Sequence[Chain], fold: Index
) -> tuple[list[Chain], list[dict[str, Any]], dict[str, Any]]:
    """Return the final chains, that of all pictures first, the rows of its history, and more results of it."""
    alone, rows = choice.reviewed_alone(begun, task), list[dict[str, Any]]()
    chains, numbers = list(begun), list(range(len(begun)))
    if not choice.are_enough(alone):
        chains, rows = _rounds(context, task, rounds, begun, fold)
        numbers = _mostly_wrong(context, task, pictures, chains, alone, fold)
    wanted, title = [alone[number] for number in numbers], f"refine {task.name}, reviewed pictures"
    C = choice.CLOSER * context.settings.refine.C
    learned = rounds.refined(wanted, title, context.reporter, C) if wanted else []
    for number, chain in zip(numbers, learned, strict=True):
        chains[number] = rounds.final(chain)
    if 0 not in numbers:
        stayed, moved = rounds.stayed(begun[0], chains[0])
        return chains, rows, {"boxes_stayed": stayed, "boxes_moved": moved}
    known = int((alone[0].y > 0).sum())
    context.reporter.say(f"refine: {task.name} learns from the objects of {known} reviewed pictures alone.")
    last = f"round {context.settings.refine.rounds}"
    rows = history_rows(task.name, last, Constants(C), _last_solution(chains[0]))
    return chains, rows, {"C": C, "reviewed_alone": known}


def _mostly_wrong(
    context: RunContext,
    task: FitTask,
    pictures: StoredPictures,
    chains: Sequence[Chain],
    alone: Sequence[Chain],
    fold: Index,
) -> list[int]:
    """Return the chains for which labels choose mostly wrong boxes, and say how many are right."""
    judged = choice.judged_pictures(task, fold)
    right = choice.right_boxes(chains, fold, judged, task, pictures, context.settings)
    if len(judged):
        context.reporter.say(
            f"refine: {task.name}: held-out boxes are right in {right.sum()} of {len(judged)} reviewed pictures."
        )
    return choice.mostly_wrong(right, judged, fold, alone)


def _rounds(
    context: RunContext, task: FitTask, rounds: Rounds, begun: Sequence[Chain], fold: Index
) -> tuple[list[Chain], list[dict[str, Any]]]:
    """Return the chains after all rounds, with the weights of detection, and the rows of their history."""
    settings, chains, rows = context.settings.refine, list(begun), []
    for number in range(1, settings.rounds + 1):
        title = f"refine {task.name}, round {number} of {settings.rounds}"
        if number > 1:
            chains = rounds.with_new_windows(chains, fold)
        chains = rounds.refined(chains, title, context.reporter)
        rows += history_rows(task.name, f"round {number}", Constants(settings.C), _last_solution(chains[0]))
    return [rounds.final(chain) for chain in chains], rows


def _last_solution(chain: Chain) -> LatentSolution:
    if chain.solution is None:
        raise AssertionError("a chain has a solution after its first round")
    return chain.solution


def _detector(
    task: FitTask, pictures: StoredPictures, whole: Chain, result: dict[str, Any], projection: Projection | None
) -> Detector:
    """Return the final detector of a class, without a certificate where its weights changed after training."""
    is_certified = np.array_equal(whole.weights, _last_solution(whole).coef)
    solution = replace(_last_solution(whole), coef=whole.weights, intercept=whole.intercept)
    return fitted_detector(task, result, solution, pictures.scale, projection, is_certified=is_certified)


def _move(final: Path, trained: Path) -> None:
    """Give a trained model the name of a first model, which has no calibration: it belongs to final models."""
    final.replace(trained)
    detector = Detector.load(trained)
    if detector.calibration is not None:
        replace(detector, calibration=None).save(trained)
