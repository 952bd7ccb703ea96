"""Stage 3, optional: refine the trained detectors (see `lapsvm.latent.refine`)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags import Bags
from lapsvm.boxes import as_boxes
from lapsvm.detection import Detector
from lapsvm.errors import ModelFileError, OneClassError
from lapsvm.features import ShardSet, open_shards
from lapsvm.latent import LatentProblem, Refinement, refine

from ..fitting.agreement import Proposals
from ..fitting.contrast_start import StoredContent
from ..fitting.fit import Constants, FitRequest, problem
from ..fitting.history import history_rows, write_history
from ..fitting.mean_probe import inherited_results, is_separated
from ..fitting.picture_scores import score_gains
from ..fitting.refinement_guard import RefinementGuard, held_out_folds, held_out_scores, without_flipped
from ..fitting.selection import HELD_OUT_FOLDS
from ..fitting.surroundings import less_surroundings, with_less_surroundings
from ..fitting.tasks import FitTask, Mean, fit_tasks, fitted_detector, is_done
from ..fitting.trainer import training_progress
from ..fitting.training_bags import Halves, stored_bags
from ..fitting.voted_windows import voted_windows
from ..fitting.window_subset import weights_hash
from ..results.detectors import load_detectors
from ..results.held_out import TrainingPictures, is_complete, save_held_out, too_few_pictures
from ..results.provenance import provenance_value
from ..run.context import RunContext
from ..run.dataset import Labels
from ..run.files import is_of_another_program
from ..run.settings import RefineSettings
from ..shards.projection import projection_of

_LEAST_FOLDS = 2  # with held-out scores: these are brought to one scale by pictures of other folds


class _Pictures(NamedTuple):
    """The training pictures: windows, their boxes (n_windows, 4), the scale of the features, ids, and content.

    `content` is None for features without surroundings.
    """

    bags: Bags
    boxes: Array
    scale: Float64
    ids: tuple[str, ...]
    content: StoredContent | None


def run(context: RunContext) -> None:
    """Refine the classes that have no final model yet; without rounds there is nothing to do.

    Raises StageError if there are no shards or a class is not trained, SettingsError if there are models refined with
    other settings, OneClassError if a class has only one positive picture.
    """
    if not context.settings.refine.rounds:
        return
    shards = open_shards(context.run.shards(context.settings.data.train_set))
    first = {task.name: task for task in fit_tasks(context, shards)}
    files = {name: trained_file(context, task) for name, task in first.items()}
    moves = {files[name]: task.path for name, task in first.items() if files[name] != task.path}
    for path in moves:
        is_done(replace(first[path.stem], path=path))
    loaded = load_detectors(context, "refine", files.__getitem__)
    detectors = {detector.class_name: detector for detector in loaded}
    tasks = [_refinement_task(context, first[name], detectors[name]) for name in first]
    to_do = [task for task in tasks if context.redo or task.path in moves or not is_complete(context.run, task)]
    with context.timed("refine") as counts:
        counts |= {"nothing_to_do": not to_do, "classes": len(to_do)}
        if to_do:
            _refine(context, shards, to_do, detectors, moves)


def trained_file(context: RunContext, task: FitTask) -> Path:
    """Return the file of a class's trained model, which a run without refinement wrote as the final one."""
    final = context.run.model(task.name)
    unmoved = not task.path.exists() and final.exists() and not is_of_another_program(final)
    return final if unmoved and not is_refined(final) else task.path


def is_refined(path: Path) -> bool:
    """Return whether there is a readable model that refinement made."""
    try:
        return path.exists() and "refine" in provenance_value(Detector.load(path), "training")
    except ModelFileError:
        return False


def _refinement_task(context: RunContext, first: FitTask, detector: Detector) -> FitTask:
    check_positives(first)
    refinement = {"refine": asdict(context.settings.refine), "first": weights_hash(detector)}
    provenance = first.provenance | {"training": first.provenance["training"] | refinement}
    return replace(first, provenance=provenance, path=context.run.model(first.name))


def check_positives(task: FitTask) -> None:
    """Raise OneClassError if a class has only one positive picture."""
    if (task.y > 0).sum() < 2:
        raise OneClassError(
            f"class {task.name!r} must have 2 positive pictures for refinement by folds, got 1; give --refine 0."
        )


class _First(NamedTuple):
    """The start of refinement of a class."""

    detector: Detector
    weights: Float64
    windows: Index


class _Refined(NamedTuple):
    """The last round of a class, and its models that flipped: 0 for that of all pictures, k for that without fold k."""

    refinement: Refinement
    flipped: Sequence[int] = ()


def _refine(
    context: RunContext,
    shards: ShardSet,
    tasks: Sequence[FitTask],
    detectors: Mapping[str, Detector],
    moves: Mapping[Path, Path],
) -> None:
    """Move trained models out of the way, then refine class by class and write each at once."""
    files = context.run.files
    files.check([*moves, *moves.values(), *(task.path for task in tasks)])
    bags, scale = stored_bags(context, shards)
    halves = Halves.of(shards, context.settings.features.contrast)
    content = StoredContent(bags, halves) if any(halves.halved) else None
    pictures = _Pictures(bags, np.concatenate([shard.boxes for shard in shards]), scale, shards.image_ids, content)
    projection = projection_of(context.run, shards)
    files.claim([*moves.values(), *(task.path for task in tasks)])  # everything is checked; from here on files change
    for final, trained in moves.items():
        _move(final, trained)
    context.save_settings()
    starts = _starts(detectors, pictures)
    for task in tasks:
        first = starts[task.name]
        refined, rows = _rounds(context, task, pictures, first)
        write_history(context, rows, role="round")
        result = {"C": context.settings.refine.C, **inherited_results(provenance_value(first.detector, "result"))}
        mean, solution = _mean(context, task, refined.refinement), refined.refinement.solution
        is_certified = _is_certified(context, task, pictures, refined)
        detector = fitted_detector(task, result, solution, scale, projection, mean, is_certified=is_certified)
        _calibrated(context, task, detector, refined, pictures).save(task.path)


def _calibrated(
    context: RunContext, task: FitTask, detector: Detector, refined: _Refined, pictures: _Pictures
) -> Detector:
    """Return a refined detector with its calibration, if its folds hold enough positives and negatives."""
    refinement, folds = refined.refinement, held_out_folds(*refined)
    reason = _without_probabilities(context, task, folds)
    if reason:
        context.run.remove([context.run.held_out(task.name)])
        context.reporter.say(f"refine: {reason}")
        return detector
    best = pictures.bags.best(np.column_stack([detector.coef, refinement.fold_coef]))
    known = TrainingPictures(pictures.ids, Proposals(as_boxes(pictures.boxes), pictures.bags.offsets[:-1]))
    scores = held_out_scores(
        refinement, folds, best,
        lambda weights, own: score_gains(pictures.bags, pictures.boxes, weights, own, context.settings.detect),
    )  # fmt: skip
    return save_held_out(context, detector, task.y, known, scores, best.column(0))


def _without_probabilities(context: RunContext, task: FitTask, folds: Sequence[int]) -> str:
    """Return a sentence that says why a class has no held-out scores of these folds; empty if it has."""
    reason = too_few_pictures(task.name, task.y, max(HELD_OUT_FOLDS, _folds(context, task)))
    if reason or len(folds) >= _LEAST_FOLDS:
        return reason
    return (
        f"scores of {task.name} have no probabilities, which need {_LEAST_FOLDS} folds whose models did not flip, "
        f"got {len(folds)}."
    )


def _move(final: Path, trained: Path) -> None:
    """Give a trained model the name of a first model, which has no calibration: it belongs to final models."""
    final.replace(trained)
    detector = Detector.load(trained)
    if detector.calibration is not None:
        replace(detector, calibration=None).save(trained)


def _mean(context: RunContext, task: FitTask, refinement: Refinement) -> Mean | None:
    """Return the mean of a round's models with --average, and report that it has no certificate."""
    if not context.settings.refine.average:
        return None
    mean = Mean(refinement.mean_coef, _folds(context, task) + 1)
    context.reporter.say(f"refine: {task.name} is the mean of {mean.n_models} models: averaged, no certificate.")
    return mean


def _is_certified(context: RunContext, task: FitTask, pictures: _Pictures, refined: _Refined) -> bool:
    """Return whether the certificate of a class belongs to its weights, or with --average to those before averaging.

    Reports weights that are lower than training found them.
    """
    if 0 in refined.flipped:
        return False
    settings = context.settings.refine
    if settings.average or not _lowers_surroundings(context, pictures):
        return True
    share = f"{settings.surroundings:g} of the weights of surroundings"
    context.reporter.say(f"refine: {task.name} keeps {share}: no certificate.")
    return False


def _folds(context: RunContext, task: FitTask) -> int:
    """Return the number of folds of a class: no more than it has positives."""
    return min(context.settings.refine.folds, int((task.y > 0).sum()))


def _starts(detectors: Mapping[str, Detector], pictures: _Pictures) -> dict[str, _First]:
    """Return the start of every class, by one pass over the windows."""
    weights = {name: _stored_weights(detector, pictures.scale) for name, detector in detectors.items()}
    best = pictures.bags.best(np.stack(list(weights.values()), axis=1))
    windows = {name: best.column(column).index for column, name in enumerate(weights)}
    return {name: _First(detector, weights[name], windows[name]) for name, detector in detectors.items()}


def _stored_weights(detector: Detector, scale: Float64) -> Float64:
    """Return the weights of a detector for features of another scale, which is 0 for a constant feature."""
    stored = detector.coef * detector.scale
    return np.divide(stored, scale, out=np.zeros_like(stored), where=scale > 0)


def _rounds(
    context: RunContext, task: FitTask, pictures: _Pictures, first: _First
) -> tuple[_Refined, list[dict[str, Any]]]:
    """Return the last round of one class, and the rows of its history."""
    settings, rows = context.settings.refine, []
    positives = np.flatnonzero(task.y > 0)
    weights, intercept, guard = first.weights, first.detector.intercept, _guard(pictures, positives, first)
    windows = _voted(context, pictures, weights, positives, first.windows)
    for number in range(1, settings.rounds + 1):
        title = f"refine {task.name}, round {number} of {settings.rounds}"
        refinement = _round(context, task, pictures, _First(first.detector, weights, windows), title)
        flipped = [] if guard is None else guard.flipped(refinement)
        if flipped:
            count = refinement.fold_coef.shape[1] + 1
            context.reporter.say(f"{title}: {len(flipped)} of {count} models flipped and are left out.")
            refinement = without_flipped(refinement, flipped, weights, intercept, windows)
        refined = _Refined(refinement, flipped)
        if number < settings.rounds:
            windows = _held_out_windows(context, pictures, refined, positives)
        weights = refinement.mean_coef if settings.average else refinement.solution.coef
        intercept = refinement.solution.intercept
        role = f"round {number}, flipped" if 0 in flipped else f"round {number}"
        rows += history_rows(task.name, role, Constants(settings.C), refinement.solution)
    return _lowered(context, pictures, refined), rows


def _lowered(context: RunContext, pictures: _Pictures, refined: _Refined) -> _Refined:
    """Return the last round with the share of the weights of surroundings that the settings keep.

    Models that flipped have the weights that the round began with. In the first round these are of training, whose
    contrast weighs the surroundings, and all are kept; later they are refined as well.
    """
    if pictures.content is None or not _lowers_surroundings(context, pictures):
        return refined
    inside, settings = pictures.content.halves.inside, context.settings.refine
    trained = refined.flipped if settings.rounds == 1 else ()
    return refined._replace(
        refinement=with_less_surroundings(refined.refinement, inside, settings.surroundings, trained)
    )


def _lowers_surroundings(context: RunContext, pictures: _Pictures) -> bool:
    """Return whether refined models keep less than all weights of surroundings, if the features have any."""
    return pictures.content is not None and context.settings.refine.surroundings < 1


def _round(context: RunContext, task: FitTask, pictures: _Pictures, start: _First, title: str) -> Refinement:
    """Return a round of one class from the weights and windows of `start`, whose detector has the constants."""
    settings, folds = context.settings.refine, _folds(context, task)
    subset = _with_candidates(pictures, task.y, settings.candidates, start.weights)
    names = [task.name] * (folds + 1)
    with training_progress(context.reporter, title, names, context.settings.train.tol) as progress:
        return refine(
            _problem(context, task, start.detector),
            subset.bags,
            subset.boxes,
            start.windows,
            pos_iou=settings.pos_iou,
            neg_iou=settings.neg_iou,
            neg_min_iou=settings.neg_min_iou,
            neg_part_iou=_part_iou(settings, start.detector),
            folds=folds,
            progress=progress.update,
        )


def _part_iou(settings: RefineSettings, trained: Detector) -> float:
    """Return the IoU from which parts of the chosen windows are spared.

    Where the mean of a picture's windows separates the pictures, training shrinks windows to parts of objects, and
    sparing what lies inside them would shrink them further.
    """
    if is_separated(provenance_value(trained, "result").get("mean_probe_image_ap")):
        return max(settings.neg_part_iou, settings.scene_part_iou)
    return settings.neg_part_iou


def _guard(pictures: _Pictures, positives: Index, first: _First) -> RefinementGuard | None:
    """Return what guards the rounds of a class; None for features without surroundings."""
    if pictures.content is None:
        return None
    return RefinementGuard(pictures.content, positives, first.weights, first.windows)


def _held_out_windows(context: RunContext, pictures: _Pictures, refined: _Refined, positives: Index) -> Index:
    """Return the windows of the next round, those that held-out models choose, see `_voted`."""
    refinement, windows = refined.refinement, refined.refinement.windows
    for number in held_out_folds(*refined):
        own = positives[refinement.fold[positives] == number]
        windows = _voted(context, pictures, refinement.fold_coef[:, number - 1], own, windows)
    return windows


def _voted(context: RunContext, pictures: _Pictures, weights: Float64, own: Index, windows: Index) -> Index:
    """Return the windows, those of the pictures `own` chosen as detection chooses boxes if the settings say so."""
    settings = context.settings.refine
    if not settings.box_voting:
        return windows
    if pictures.content is not None:
        weights = less_surroundings(weights, pictures.content.halves.inside, settings.surroundings)
    return voted_windows(pictures.bags, pictures.boxes, weights, own, windows, settings.score_smoothing)


def _with_candidates(pictures: _Pictures, y: Labels, count: int, weights: Float64) -> _Pictures:
    """Return the pictures, the negatives with their `count` best-scored windows; positives keep all."""
    bags = pictures.bags
    if not count:
        return pictures
    taken = bags.top_mask(np.where(y > 0, np.diff(bags.offsets), count), weights)
    return pictures._replace(bags=bags.copied(taken), boxes=pictures.boxes[taken])


def _problem(context: RunContext, task: FitTask, first: Detector) -> LatentProblem:
    """Return the training problem of a class with the constants of refinement."""
    constants = Constants(context.settings.refine.C, provenance_value(first, "result").get("J"), None)
    return replace(
        problem(context.settings, FitRequest(task.y, constants)), top=context.settings.refine.top, init="mean"
    )
