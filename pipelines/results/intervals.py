"""Bootstrap intervals of a set's figures over its pictures."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lapsvm.catalog import ImageRecord
from lapsvm.evaluation import draw_pictures

from .draws import LEVEL, Counts, Figure, corloc_figure, detection_figures, image_ap_figure, mean_figure
from .evaluation import SetEvaluation

DRAWS = 1000


def set_intervals(evaluation: SetEvaluation, records: Sequence[ImageRecord], seed: int) -> dict[str, Any]:
    """Return the intervals of the figures of unseen pictures, and of CorLoc.

    The training set's image-level AP is left out: an interval over the pictures that a model has seen says nothing
    about other pictures. All classes share the draws, so that the mean has an interval, too.

    Parameters
    ----------
    evaluation : SetEvaluation
    records : sequence of ImageRecord
        All pictures of the set.
    seed : int

    Returns
    -------
    dict
        {"level", "draws", "seed", "classes": {name: {measure: {"low", "high"}}}, "mean": {measure: {"low", "high"}}};
        None in place of an interval where the figure is undefined.
    """
    ids = [record.id for record in records]
    counts = draw_pictures(len(ids), DRAWS, seed)
    figures = {name: _class_figures(evaluation, records, name, ids, counts) for name in evaluation.detections}
    measures = dict.fromkeys(measure for of_class in figures.values() for measure in of_class)
    means = {measure: mean_figure([of_class[measure] for of_class in figures.values()]) for measure in measures}
    return {
        "level": LEVEL,
        "draws": DRAWS,
        "seed": seed,
        "classes": {name: _intervals(of_class) for name, of_class in figures.items()},
        "mean": _intervals(means),
    }


def _class_figures(
    evaluation: SetEvaluation, records: Sequence[ImageRecord], name: str, ids: Sequence[str], counts: Counts
) -> dict[str, Figure]:
    """Return the drawn figures of one class."""
    if evaluation.corloc is not None:
        return {"corloc": corloc_figure(evaluation.corloc.classes[name], ids, counts)}
    figures = {}
    if evaluation.voc is not None and evaluation.truth is not None:
        result, truth = evaluation.voc.classes[name], evaluation.truth[name]
        figures |= detection_figures(result, evaluation.detections[name], truth, ids, counts)
    return figures | {"image_ap": image_ap_figure(evaluation, records, name, ids, counts)}


def _intervals(figures: dict[str, Figure]) -> dict[str, dict[str, float] | None]:
    return {measure: interval(figure) for measure, figure in figures.items()}


def interval(figure: Figure) -> dict[str, float] | None:
    """Return the percentile interval of a figure over its draws; None where it is undefined."""
    drawn = figure.draws[~np.isnan(figure.draws)]
    if figure.value is None or not len(drawn):
        return None
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return {"low": low, "high": high}
