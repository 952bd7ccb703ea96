"""How good trained weights are: image-level AP and detection AP on test, CorLoc on the training set.

Each figure comes with its values over draws of the pictures, the same draws for all learners.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.evaluation import (
    Detections,
    corloc,
    detection_ap_draws,
    draw_pictures,
    evaluate_voc,
    image_ap_draws,
    image_average_precision,
    share_draws,
)

from ...results.detections import detect_windows
from ...run.settings import DetectSettings
from .pictures import Pictures

MEASURES = ("image_ap", "ap_11point", "ap_area", "corloc")
Figures = dict[str, dict[str, Any]]  # measure -> value, draws


def image_ap(scores: Float64, y: Sequence[int] | Any) -> float:
    """Return the AP of ranking pictures by their scores; label 0 leaves one out, and nothing to rank gives 0."""
    labels = np.asarray(y)
    return float(image_average_precision(scores[labels != 0], labels[labels != 0]) or 0.0)


def test_figures(
    name: str, coef: Float64, scores: Float64, pictures: Pictures, settings: DetectSettings, draws: int, seed: int
) -> Figures:
    """Return the figures of one class on the test set, pictures ranked by `scores`, windows by `coef`."""
    counts = draw_pictures(len(pictures.ids), draws, seed)
    found, truth = _detections(coef, pictures, settings), pictures.truth[name]
    result = evaluate_voc({name: found}, {name: truth}).classes[name]
    numbers = {image: number for number, image in enumerate(pictures.ids)}
    npos = [int((~np.asarray(truth[image].difficult, dtype=bool)).sum()) for image in pictures.ids]
    places = [numbers[found.image_ids[i]] for i in result.order]
    points, areas = detection_ap_draws(result.matches.outcome, places, npos, counts)
    y = pictures.labels[name]
    return {
        "image_ap": _figure(image_ap(scores, y), image_ap_draws(scores, y, counts)),
        "ap_11point": _figure(result.ap_11point, points),
        "ap_area": _figure(result.ap_area, areas),
    }


def train_figures(name: str, coef: Float64, pictures: Pictures, draws: int, seed: int) -> Figures:
    """Return the CorLoc of one class on the training set."""
    best = pictures.bags.best(coef)
    chosen = zip(pictures.ids, pictures.boxes, best.index, best.score, strict=True)
    found = Detections.from_images((image, boxes[[i]], [score]) for image, boxes, i, score in chosen)
    located = corloc({name: found}, {name: pictures.truth[name]}).classes[name]
    numbers = {image: number for number, image in enumerate(pictures.ids)}
    counts = draw_pictures(len(pictures.ids), draws, seed)
    places = [numbers[image] for image in located.image_ids]
    return {"corloc": _figure(located.corloc, share_draws(located.hits, places, counts))}


def _detections(coef: Float64, pictures: Pictures, settings: DetectSettings) -> Detections:
    """Return what is left of every picture's windows after suppression."""
    scores = np.split(pictures.bags.score_windows(coef), pictures.bags.offsets[1:-1])
    images = zip(pictures.ids, pictures.boxes, scores, strict=True)
    return Detections.from_images((image, *detect_windows(own, boxes, settings)) for image, boxes, own in images)


def _figure(value: float | None, draws: Float64) -> dict[str, Any]:
    """Return a figure as a file holds it: None where it is undefined."""
    return {"value": value, "draws": [None if np.isnan(one) else round(one, 6) for one in draws.tolist()]}
