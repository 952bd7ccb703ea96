"""Figures of trained weights: image-level AP and detection AP on the test set, CorLoc on the training set.

Each figure comes with its values over draws of the pictures, the same draws for all learners.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from lapsvm.pipelines.settings.settings import DetectSettings
from pictures import Pictures

from lapsvm.arrays import Float64
from lapsvm.detection.picture_scores import detect_windows
from lapsvm.evaluation import (
    Detections,
    Draws,
    Figure,
    corloc,
    detection_figures,
    evaluate_voc,
    image_ap_draws,
    image_average_precision,
    ranking_figure,
    share_figure,
)
from lapsvm.evaluation.measures import IMAGE_AP_UNITS

MEASURES = ("image_ap", "ap_11point", "ap_area", "corloc")
Figures = dict[str, dict[str, Any]]  # measure -> value, draws


def image_ap(scores: Float64, y: Sequence[int] | Any) -> float:
    """Return the AP of ranking the pictures of label +1 and -1 by their scores; 0 if there is nothing to rank."""
    labels = np.asarray(y)
    return float(image_average_precision(scores[labels != 0], labels[labels != 0]) or 0.0)


def test_figures(
    name: str, coef: Float64, scores: Float64, pictures: Pictures, settings: DetectSettings, draws: int, seed: int
) -> Figures:
    """Return the figures of one class on the test set, pictures ranked by `scores`, windows by `coef`."""
    drawn = Draws.of(pictures.ids, seed, draws=draws)
    detections, truth = _detections(coef, pictures, settings), pictures.truth[name]
    result = evaluate_voc({name: detections}, {name: truth}).classes[name]
    y = pictures.labels[name]
    figures = detection_figures(result, detections, truth, drawn)
    ranked = ranking_figure(image_ap(scores, y), scores, y, drawn, image_ap_draws, IMAGE_AP_UNITS)
    return _stored({"image_ap": ranked} | figures)


def train_figures(name: str, coef: Float64, pictures: Pictures, draws: int, seed: int) -> Figures:
    """Return the CorLoc of one class on the training set."""
    best = pictures.bags.best(coef)
    windows = zip(pictures.ids, pictures.boxes, best.index, best.score, strict=True)
    detections = Detections.from_images((image, boxes[[window]], [score]) for image, boxes, window, score in windows)
    result = corloc({name: detections}, {name: pictures.truth[name]}).classes[name]
    return _stored({"corloc": share_figure(result, Draws.of(pictures.ids, seed, draws=draws))})


def _detections(coef: Float64, pictures: Pictures, settings: DetectSettings) -> Detections:
    """Return the windows of every picture that non-maximum suppression keeps."""
    scores = np.split(pictures.bags.score_windows(coef), pictures.bags.offsets[1:-1])
    images = zip(pictures.ids, pictures.boxes, scores, strict=True)
    return Detections.from_images((image, *detect_windows(values, boxes, settings)) for image, boxes, values in images)


def _stored(figures: dict[str, Figure]) -> Figures:
    """Return figures as JSON: None where a draw is undefined."""
    draws = {name: [None if np.isnan(value) else round(value, 6) for value in figure.draws.tolist()]
             for name, figure in figures.items()}  # fmt: skip
    return {
        name: {
            "value": figure.value,
            "draws": draws[name],
            "with_pseudo": figure.with_pseudo,
            "n_groups": figure.n_groups,
        }
        for name, figure in figures.items()
    }
