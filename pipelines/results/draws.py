"""Figures of a set's classes on its pictures and on bootstrap draws of them, and their intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Float64, Index
from lapsvm.catalog import GroundTruth
from lapsvm.evaluation import (
    ClassHits,
    Detections,
    detection_ap_draws,
    draw_pictures,
    image_ap_draws,
    image_auroc_draws,
    share_draws,
)
from lapsvm.evaluation.intervals import LEVEL
from lapsvm.evaluation.tables import mean
from lapsvm.evaluation.voc import ClassResult

from .evaluation import SetEvaluation
from .held_out import HeldOut
from .known_boxes import Truth

Counts = NDArray[np.integer]  # (draws, pictures): how often each draw has each picture
ImageLevel = Mapping[str, float | None]
"""Measure -> value, of "image_ap" and "image_auroc"."""
DRAWS = 1000


class Draws(NamedTuple):
    """Bootstrap draws of pictures; see `draw_pictures` for the counts."""

    ids: Sequence[str]
    counts: Counts
    seed: int
    n_groups: int

    @classmethod
    def of(cls, ids: Sequence[str], seed: int, groups: Index) -> "Draws":
        """Draw pictures, or rather their groups (n,), see `run.groups`."""
        return cls(ids, draw_pictures(len(ids), DRAWS, seed, groups), seed, len(np.unique(groups)))

    def of_pictures(self, ids: Sequence[str]) -> Counts:
        """Return how often each draw has each of some of the pictures."""
        if list(ids) == list(self.ids):
            return self.counts
        positions = {image: position for position, image in enumerate(self.ids)}
        return self.counts[:, [positions[image] for image in ids]]


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


def share_figures(results: Mapping[str, ClassHits], ids: Sequence[str], counts: Counts) -> dict[str, Figure]:
    """Return shares of hits of one class by measure, CorLoc for instance; `counts` (draws, pictures) as above."""
    positions = {image: position for position, image in enumerate(ids)}
    return {
        measure: Figure(one.share, share_draws(one.hits, [positions[image] for image in one.image_ids], counts))
        for measure, one in results.items()
    }


def image_figures(evaluation: SetEvaluation, name: str, ids: Sequence[str], counts: Counts) -> dict[str, Figure]:
    """Return the image-level AP of one class, and its AUROC where some pictures show none.

    Pictures without a window are not ranked.
    """
    known = evaluation.image_level(name)
    best = evaluation.detections[name].best_scores()
    labels = [evaluation.records[image].labels.get(name, 0) if image in best else 0 for image in ids]
    return ranking_figures(known, [best.get(image, 0.0) for image in ids], labels, counts)


def ranking_figures(known: ImageLevel, scores: ArrayLike, labels: ArrayLike, counts: Counts) -> dict[str, Figure]:
    """Return the figures of a ranking of pictures whose values are known, "image_ap" and "image_auroc"."""
    undefined = np.full(len(counts), np.nan)
    return {
        measure: Figure(value, undefined if value is None else _RANKINGS[measure](scores, labels, counts))
        for measure, value in known.items()
    }


_RANKINGS = {"image_ap": image_ap_draws, "image_auroc": image_auroc_draws}


def class_figures(evaluation: SetEvaluation, name: str, ids: Sequence[str], counts: Counts) -> dict[str, Figure]:
    """Return the figures of one class: of a training set with boxes its hits, of other sets the APs and AUROC."""
    figures: dict[str, Figure] = {}
    if evaluation.corloc is not None and evaluation.pointing is not None:
        hits = {"corloc": evaluation.corloc.classes[name], "pointing": evaluation.pointing.classes[name]}
        return share_figures(hits, ids, counts)
    if evaluation.voc is not None and evaluation.truth is not None:
        result, truth = evaluation.voc.classes[name], evaluation.truth[name]
        figures |= detection_figures(result, evaluation.detections[name], truth, ids, counts)
    return figures | image_figures(evaluation, name, ids, counts)


def mean_figure(figures: Sequence[Figure]) -> Figure:
    """Return the mean of the figures that are defined, on the pictures and on every draw."""
    draws = np.ma.masked_invalid([figure.draws for figure in figures])
    means = draws.mean(axis=0).filled(np.nan)
    return Figure(mean(figure.value for figure in figures), means)


def set_intervals(
    evaluation: SetEvaluation, draws: Draws, pointed: Mapping[str, Mapping[str, ClassHits]]
) -> dict[str, Any]:
    """Return the intervals of a set's figures, see `_intervals`.

    The training set's image-level figures are left out: an interval over the pictures that a model has seen says
    nothing about other pictures.

    Parameters
    ----------
    evaluation : SetEvaluation
        Of a test set, or of a training set with boxes.
    draws : Draws
        Of its pictures.
    pointed : mapping of class name to (mapping of measure to ClassHits)
        What else is known of a class, {} for nothing.
    """
    ids, counts = draws.ids, draws.counts
    figures = {name: class_figures(evaluation, name, ids, counts) for name in evaluation.detections}
    more = {name: share_figures(hits, ids, counts) for name, hits in pointed.items()}
    return _intervals({name: of_class | more.get(name, {}) for name, of_class in figures.items()}, draws)


def hit_intervals(hits: Mapping[str, ClassHits], draws: Draws) -> dict[str, Any]:
    """Return the intervals of shares of hits, by measure."""
    return _row(share_figures(hits, draws.ids, draws.counts))


def held_out_intervals(
    held_out: Mapping[str, HeldOut], has_none: bool, truth: Truth | None, draws: Draws
) -> dict[str, Any]:
    """Return the intervals of the held-out figures over the training pictures, see `_intervals`.

    Parameters
    ----------
    held_out : mapping of class name to HeldOut
    has_none : bool
        Whether some pictures show no class.
    truth : ground truth of the training set, or None
        Without it there is no CorLoc and no pointing.
    draws : Draws
        Of all pictures of `held_out`.
    """
    figures: dict[str, dict[str, Figure]] = {}
    for name, of_class in held_out.items():
        drawn = draws.of_pictures(of_class.ids)
        figures[name] = ranking_figures(of_class.image_level(has_none), of_class.score, of_class.y, drawn)
        if truth is not None:
            hits = {"corloc": of_class.corloc(name, truth[name]), "pointing": of_class.pointing(name, truth[name])}
            figures[name] |= share_figures(hits, draws.ids, draws.counts)
    return _intervals(figures, draws)


def _intervals(figures: Mapping[str, Mapping[str, Figure]], draws: Draws) -> dict[str, Any]:
    """Return the intervals of the classes, and of their mean, because all classes share the draws.

    {"level", "draws", "seed", "classes": {name: {measure: {"low", "high"}}}, "mean": {measure: {"low", "high"}}}; None
    in place of an interval where the figure is undefined. "groups" is their number where pictures belong together.
    """
    measures = dict.fromkeys(measure for of_class in figures.values() for measure in of_class)
    means = {measure: mean_figure([of_class[measure] for of_class in figures.values()]) for measure in measures}
    return {
        "level": LEVEL,
        "draws": DRAWS,
        "seed": draws.seed,
        **({"groups": draws.n_groups} if draws.n_groups < len(draws.ids) else {}),
        "classes": {name: _row(of_class) for name, of_class in figures.items()},
        "mean": _row(means),
    }


def _row(figures: Mapping[str, Figure]) -> dict[str, dict[str, float] | None]:
    return {measure: interval(figure) for measure, figure in figures.items()}


def interval(figure: Figure) -> dict[str, float] | None:
    """Return the percentile interval of a figure over its draws; None where it is undefined."""
    drawn = figure.draws[~np.isnan(figure.draws)]
    if figure.value is None or not len(drawn):
        return None
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return {"low": low, "high": high}
