"""What the windows that refinement begins with decide: `python benchmarks/recipes/refinement_start.py RUN`.

One round of refinement of RUN's trained models from four starts: the voted windows without score smoothing and with
all weights of the surroundings, those that the settings of recipe `best` choose, those of the second round after these,
and the windows nearest to the largest true boxes. CorLoc of the start, and AP (11-point) and CorLoc of the training
pictures, each detected by the refined model without its fold. Boxes are read for the last start and for evaluation.
"""

import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lapsvm.pipelines.fitting.contrast_start import StoredContent
from lapsvm.pipelines.fitting.picture_scores import detect_windows
from lapsvm.pipelines.fitting.refinement_guard import held_out_folds
from lapsvm.pipelines.fitting.tasks import FitTask, fit_tasks
from lapsvm.pipelines.fitting.training_bags import Halves, stored_bags
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.stages import refine

from lapsvm.boxes import areas, iou
from lapsvm.catalog import GroundTruth
from lapsvm.detection import Detector
from lapsvm.evaluation import Detections, corloc, evaluate_voc
from lapsvm.features import open_shards

STARTS = {
    "voted": {"box_voting": True, "score_smoothing": 0.0, "surroundings": 1.0},
    "smoothed, voted": {"box_voting": True, "score_smoothing": 0.5, "surroundings": 0.8},
    "second round": {"box_voting": True, "score_smoothing": 0.5, "surroundings": 0.8},
    "true boxes": {},
}


class Opened(NamedTuple):
    """A run whose refinement can be done again: its context, training pictures and classes, and their boxes."""

    context: RunContext
    pictures: refine._Pictures
    tasks: list[FitTask]
    starts: dict[str, refine._First]
    truth: Mapping[str, Mapping[str, GroundTruth]]


def opened(folder: str) -> Opened:
    """Return a finished run."""
    warnings.simplefilter("ignore")
    run = RunFolder(Path(folder))
    context = RunContext(run, run.settings(), 2, Reporter(True))
    shards = open_shards(run.shards(context.settings.data.train_set))
    bags, scale = stored_bags(context, shards)
    halves = Halves.of(shards, context.settings.features.contrast)
    content = StoredContent(bags, halves) if any(halves.halved) else None
    boxes = np.concatenate([shard.boxes for shard in shards]).astype(float)
    pictures = refine._Pictures(bags, boxes, scale, shards.image_ids, content)
    tasks = fit_tasks(context, shards)
    trained = {task.name: Detector.load(refine.trained_file(context, task)) for task in tasks}
    starts = refine._starts(trained, pictures)
    truth = context.data.dataset.ground_truth(context.settings.data.train_set)
    return Opened(context, pictures, tasks, starts, truth)


def main(folder: str) -> None:
    """Print the table."""
    context, pictures, tasks, starts, truth = opened(folder)
    print("| class | start | CorLoc of the start | AP | CorLoc |\n|---|---|---|---|---|")
    rows: dict[str, list[Any]] = {label: [] for label in STARTS}
    for task in tasks:
        first, positives = starts[task.name], np.flatnonzero(task.y > 0)
        start, found = first, None
        for label, values in STARTS.items():
            settings = replace(context.settings, refine=replace(context.settings.refine, **values))
            own = replace(context, settings=settings)
            if label == "true boxes":
                chosen = _nearest_to_objects(pictures, positives, first.windows, truth[task.name])
                start = first
            elif label == "second round":
                chosen = refine._held_out_windows(own, pictures, refine._Refined(found), positives)
                start = first._replace(weights=found.mean_coef)
            else:
                chosen = refine._voted(own, pictures, first.weights, positives, first.windows)
            found = refine._round(context, task, pictures, start._replace(windows=chosen), task.name)
            windows = pictures.boxes[pictures.bags.offsets[positives] + chosen[positives]]
            figures = [
                _corloc(task.name, pictures, positives, windows, truth),
                *figures_of(context, task.name, pictures, refine._Refined(found), positives, truth),
            ]
            rows[label].append(figures)
            print(f"| {task.name} | {label} | {' | '.join(f'{one:.3f}' for one in figures)} |", flush=True)
    for label, figures in rows.items():
        print(f"| mean | {label} | {' | '.join(f'{one:.3f}' for one in np.mean(figures, axis=0))} |")


def _nearest_to_objects(pictures, positives, windows, truth) -> np.ndarray:
    """Return the windows of positive pictures nearest to their largest object, preferably one that is not difficult."""
    nearest = windows.copy()
    for picture in positives:
        objects = truth[pictures.ids[picture]]
        easy = ~np.asarray(objects.difficult, dtype=bool)
        known = np.asarray(objects.boxes, dtype=float).reshape(-1, 4)[easy if easy.any() else slice(None)]
        if len(known):
            own = pictures.boxes[pictures.bags.offsets[picture] : pictures.bags.offsets[picture + 1]]
            nearest[picture] = iou(own, known[[areas(known).argmax()]])[:, 0].argmax()
    return nearest


def figures_of(context, name, pictures, refined, positives, truth) -> tuple[float, float]:
    """Return AP and CorLoc of the training pictures, each detected by the model without its fold."""
    windows = held_out(pictures, refine._lowered(context, pictures, refined))
    return measured(detected(windows, context.settings.detect), name, pictures, positives, truth)


def held_out(pictures, refined) -> Iterator[tuple[str, np.ndarray, np.ndarray, float, float]]:
    """Yield the id of each picture, boxes and scores by the model without its fold, and the scores' mean and spread."""
    refinement = refined.refinement
    scores = np.stack([pictures.bags.score_windows(weights) for weights in refinement.fold_coef.T])
    best = np.stack([np.maximum.reduceat(row, pictures.bags.offsets[:-1]) for row in scores])
    for picture in np.flatnonzero(np.isin(refinement.fold, held_out_folds(*refined))):
        own, fold = slice(*pictures.bags.offsets[picture : picture + 2]), refinement.fold[picture]
        seen = best[fold - 1, (refinement.fold > 0) & (refinement.fold != fold)]
        yield pictures.ids[picture], pictures.boxes[own], scores[fold - 1, own], seen.mean(), seen.std()


def detected(windows, settings) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return the id, boxes and scores of pictures as `held_out` yields them, by some settings of detection."""
    images = []
    for image, boxes, scores, mean, spread in windows:
        found, values = detect_windows(scores, boxes, settings)
        images.append((image, found, (values - mean) / spread))
    return images


def measured(images, name, pictures, positives, truth) -> tuple[float, float]:
    """Return AP and CorLoc of pictures that `detected` returns."""
    kept = {image: truth[name][image] for image, _, _ in images}
    ap = evaluate_voc({name: Detections.from_images(images)}, {name: kept}).rows()[name]["ap_11point"]
    place = {image: found[0] for image, found, _ in images}
    return ap, _corloc(name, pictures, positives, np.stack([place[pictures.ids[p]] for p in positives]), truth)


def _corloc(name, pictures, positives, boxes, truth) -> float:
    images = [(pictures.ids[picture], boxes[[n]], np.zeros(1)) for n, picture in enumerate(positives)]
    kept = {image: truth[name][image] for image, _, _ in images}
    return corloc({name: Detections.from_images(images)}, {name: kept}).rows()[name]["corloc"]


if __name__ == "__main__":
    main(sys.argv[1])
