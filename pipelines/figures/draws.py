"""Figures of a set's classes on its pictures and on bootstrap draws of them, and their intervals."""

from collections.abc import Mapping
from typing import Any

from lapsvm.evaluation import ClassHits
from lapsvm.evaluation.figures import (
    Draws,
    Figure,
    detection_figures,
    interval_row,
    mean_figure,
    ranking_figures,
    share_figure,
)
from lapsvm.evaluation.intervals import LEVEL

from ..products.held_out import HeldOut
from ..results.known_boxes import Truth
from .evaluation import SetEvaluation


def share_figures(results: Mapping[str, ClassHits], draws: Draws) -> dict[str, Figure]:
    """Return shares of hits of one class by measure, CorLoc for instance."""
    return {measure: share_figure(hits, draws) for measure, hits in results.items()}


def image_figures(evaluation: SetEvaluation, name: str, draws: Draws) -> dict[str, Figure]:
    """Return the image-level AP of one class, and its AUROC where some pictures show none.

    Pictures without a window are not ranked.
    """
    known = evaluation.image_level(name)
    best = evaluation.detections[name].best_scores()
    labels = [evaluation.records[image].labels.get(name, 0) if image in best else 0 for image in draws.ids]
    return ranking_figures(known, [best.get(image, 0.0) for image in draws.ids], labels, draws)


def class_figures(evaluation: SetEvaluation, name: str, draws: Draws) -> dict[str, Figure]:
    """Return the figures of one class: of a training set with boxes its hits, of other sets the APs and AUROC."""
    figures: dict[str, Figure] = {}
    if evaluation.corloc is not None and evaluation.pointing is not None:
        hits = {"corloc": evaluation.corloc.classes[name], "pointing": evaluation.pointing.classes[name]}
        return share_figures(hits, draws)
    if evaluation.voc is not None and evaluation.truth is not None:
        result, truth = evaluation.voc.classes[name], evaluation.truth[name]
        figures |= detection_figures(result, evaluation.detections[name], truth, draws)
    return figures | image_figures(evaluation, name, draws)


def set_intervals(
    evaluation: SetEvaluation, draws: Draws, pointed: Mapping[str, Mapping[str, ClassHits]]
) -> dict[str, Any]:
    """Return the intervals of a set's figures, see `intervals_entry`.

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
    figures = {name: class_figures(evaluation, name, draws) for name in evaluation.detections}
    more = {name: share_figures(hits, draws) for name, hits in pointed.items()}
    return intervals_entry({name: of_class | more.get(name, {}) for name, of_class in figures.items()}, draws)


def hit_intervals(hits: Mapping[str, ClassHits], draws: Draws) -> dict[str, Any]:
    """Return the intervals of shares of hits, by measure."""
    return interval_row(share_figures(hits, draws))


def held_out_intervals(
    held_out: Mapping[str, HeldOut], has_none: bool, truth: Truth | None, draws: Draws
) -> dict[str, Any]:
    """Return the intervals of the held-out figures over the training pictures, see `intervals_entry`.

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
            figures[name] |= share_figures(hits, draws)
    return intervals_entry(figures, draws)


def intervals_entry(figures: Mapping[str, Mapping[str, Figure]], draws: Draws) -> dict[str, Any]:
    """Return the intervals of the classes, and of their mean, because all classes share the draws.

    {"level", "draws", "seed", "classes": {name: {measure: {"low", "high"}}}, "mean": {measure: {"low", "high"}}}; None
    in place of an interval where the figure is undefined. "groups" is their number where pictures belong together.
    """
    measures = dict.fromkeys(measure for of_class in figures.values() for measure in of_class)
    means = {measure: mean_figure([of_class[measure] for of_class in figures.values()]) for measure in measures}
    return {
        "level": LEVEL,
        "draws": len(draws.counts),
        "seed": draws.seed,
        **({"groups": draws.n_groups} if draws.n_groups < len(draws.ids) else {}),
        "classes": {name: interval_row(of_class) for name, of_class in figures.items()},
        "mean": interval_row(means),
    }
