"""Figures of one class on the pictures, and on bootstrap draws of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64
from lapsvm.catalog import GroundTruth
from lapsvm.evaluation import Detections, detection_ap_draws, image_ap_draws, share_draws
from lapsvm.evaluation.tables import mean
from lapsvm.evaluation.voc import ClassCorLoc, ClassResult

from ..evaluation import SetEvaluation

LEVEL = 0.95
"""Confidence level of all intervals."""
Counts = NDArray[np.integer]  # (draws, pictures): how often each draw has each picture


@dataclass(frozen=True)
class Figure:
    """A figure of one run and class: its value on the pictures, and on every draw of them."""

    value: float | None
    draws: Float64


def detection_figures(
    result: ClassResult, detections: Detections, truth: Mapping[str, GroundTruth], ids: Sequence[str], counts: Counts
) -> dict[str, Figure]:
    """Return the detection APs of one class; `counts` (draws, pictures) says how often each draw has each of `ids`."""
    positions = {image: position for position, image in enumerate(ids)}
    images = detections.image_ids.numbers_in(positions)[result.order]
    npos = [int((~np.asarray(truth[image].difficult, dtype=bool)).sum()) for image in ids]
    points, areas = detection_ap_draws(result.matches.outcome, images, npos, counts)
    return {"ap_11point": Figure(result.ap_11point, points), "ap_area": Figure(result.ap_area, areas)}


def corloc_figure(result: ClassCorLoc, ids: Sequence[str], counts: Counts) -> Figure:
    """Return the CorLoc of one class; `counts` (draws, pictures) says how often each draw has each of `ids`."""
    positions = {image: position for position, image in enumerate(ids)}
    return Figure(result.corloc, share_draws(result.hits, [positions[image] for image in result.image_ids], counts))


def image_ap_figure(evaluation: SetEvaluation, name: str, ids: Sequence[str], counts: Counts) -> Figure:
    """Return the image-level AP of one class; pictures without a window are not ranked."""
    best = evaluation.detections[name].best_scores()
    labels = [evaluation.records[image].labels.get(name, 0) if image in best else 0 for image in ids]
    return Figure(evaluation.image_ap[name], image_ap_draws([best.get(image, 0.0) for image in ids], labels, counts))


def class_figures(evaluation: SetEvaluation, name: str, ids: Sequence[str], counts: Counts) -> dict[str, Figure]:
    """Return the figures of one class: of a training set with boxes CorLoc, of other sets the APs."""
    if evaluation.corloc is not None:
        return {"corloc": corloc_figure(evaluation.corloc.classes[name], ids, counts)}
    figures: dict[str, Figure] = {}
    if evaluation.voc is not None and evaluation.truth is not None:
        result, truth = evaluation.voc.classes[name], evaluation.truth[name]
        figures |= detection_figures(result, evaluation.detections[name], truth, ids, counts)
    return figures | {"image_ap": image_ap_figure(evaluation, name, ids, counts)}


def mean_figure(figures: Sequence[Figure]) -> Figure:
    """Return the mean of the figures that are defined, on the pictures and on every draw."""
    draws = np.stack([figure.draws for figure in figures])
    defined = ~np.isnan(draws)
    sums, sizes = np.where(defined, draws, 0.0).sum(axis=0), defined.sum(axis=0)
    means = np.divide(sums, sizes, out=np.full(len(sums), np.nan), where=sizes > 0)
    return Figure(mean(figure.value for figure in figures), means)
