"""Bootstrap intervals of a set's figures over its pictures."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lapsvm.catalog import GroundTruth
from lapsvm.evaluation import draw_pictures, image_ap_draws

from ..evaluation import SetEvaluation
from ..held_out import HeldOut
from .draws import LEVEL, Figure, class_figures, corloc_figure, mean_figure

DRAWS = 1000


def set_intervals(evaluation: SetEvaluation, seed: int, *, trained_on: bool) -> dict[str, Any] | None:
    """Return the intervals of a set's figures.

    The training set's image-level AP is left out: an interval over the pictures that a model has seen says nothing
    about other pictures.

    Parameters
    ----------
    evaluation : SetEvaluation
    seed : int
    trained_on : bool
        Whether it is the training set.

    Returns
    -------
    dict or None
        See `_intervals`; None for a training set without boxes.
    """
    if trained_on and evaluation.corloc is None:
        return None
    ids = list(evaluation.records)
    counts = draw_pictures(len(ids), DRAWS, seed)
    return _intervals({name: class_figures(evaluation, name, ids, counts) for name in evaluation.detections}, seed)


def held_out_intervals(
    held_out: Mapping[str, HeldOut], truth: Mapping[str, Mapping[str, GroundTruth]] | None, seed: int
) -> dict[str, Any]:
    """Return the intervals of the held-out figures over the training pictures.

    Parameters
    ----------
    held_out : mapping of class name to HeldOut
    truth : ground truth of the training set, or None
        Without it there is no CorLoc.
    seed : int

    Returns
    -------
    dict
        See `_intervals`.
    """
    ids = list(dict.fromkeys(image for of_class in held_out.values() for image in of_class.ids))
    counts = draw_pictures(len(ids), DRAWS, seed)
    positions = {image: position for position, image in enumerate(ids)}
    figures: dict[str, dict[str, Figure]] = {}
    for name, of_class in held_out.items():
        drawn = counts[:, [positions[image] for image in of_class.ids]]
        figures[name] = {"image_ap": Figure(of_class.image_ap, image_ap_draws(of_class.score, of_class.y, drawn))}
        if truth is not None:
            figures[name]["corloc"] = corloc_figure(of_class.corloc(name, truth[name]), ids, counts)
    return _intervals(figures, seed)


def _intervals(figures: Mapping[str, Mapping[str, Figure]], seed: int) -> dict[str, Any]:
    """Return the intervals of the classes, and of their mean, because all classes share the draws.

    {"level", "draws", "seed", "classes": {name: {measure: {"low", "high"}}}, "mean": {measure: {"low", "high"}}}; None
    in place of an interval where the figure is undefined.
    """
    measures = dict.fromkeys(measure for of_class in figures.values() for measure in of_class)
    means = {measure: mean_figure([of_class[measure] for of_class in figures.values()]) for measure in measures}
    return {
        "level": LEVEL,
        "draws": DRAWS,
        "seed": seed,
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
