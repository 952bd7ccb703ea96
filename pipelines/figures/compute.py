"""The figures of a set: of its detections alone, of other overlaps and COCO, of its maps against masks."""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from lapsvm.catalog import GroundTruth
from lapsvm.evaluation import (
    Detections,
    Draws,
    Figure,
    Figures,
    MeasuredClass,
    as_coco,
    coco_rows,
    corloc,
    detection_figures,
    pointing,
)
from lapsvm.evaluation.boxes.voc import ClassResult
from lapsvm.evaluation.measures import Pictures

from .evaluation import SetEvaluation
from .pixels import SetMaps

OTHER_IOUS = (0.3, 0.7)
"""At which CorLoc of a training set is computed, too."""
RIGHT = 0.5


def voc_figures(
    result: ClassResult, detections: Detections, truth: Mapping[str, GroundTruth], draws: Draws | None
) -> dict[str, Figure]:
    """Return the figures of the devkit for one class, with intervals if there are draws."""
    figures = {key: Figure(value) for key, value in result.row().items()}
    return figures if draws is None else figures | detection_figures(result, detections, truth, draws)


def set_figures(
    evaluation: SetEvaluation, pictures: Pictures, draws: Draws | None = None, names: Sequence[str] | None = None
) -> Figures:
    """Return the figures of a set by its detections alone, of all classes or of some names.

    That is AP and the order of pictures on a test set, CorLoc, pointing and the order on a training set.
    """
    chosen = evaluation.detections if names is None else names
    classes = {name: _of_detections(evaluation, name, draws) for name in chosen}
    return Figures.of(evaluation.name, pictures, classes, draws)


def _of_detections(evaluation: SetEvaluation, name: str, draws: Draws | None) -> MeasuredClass:
    voc, truth, located = evaluation.voc, evaluation.truth, evaluation.corloc
    detections = evaluation.detections[name]
    return MeasuredClass(
        ranking=evaluation.rankings[name],
        has_none=evaluation.has_none,
        corloc={} if located is None else {RIGHT: located.classes[name]},
        pointing=None if evaluation.pointing is None else evaluation.pointing.classes[name],
        joint={} if voc is None or truth is None else voc_figures(voc.classes[name], detections, truth[name], draws),
    )


def complete_figures(
    evaluation: SetEvaluation,
    pictures: Pictures,
    draws: Draws,
    metrics: Sequence[str] = ("voc",),
    maps: SetMaps | None = None,
    any_class: MeasuredClass | None = None,
) -> Figures:
    """Return all figures of a set: by detections, at other overlaps, of COCO, and of maps.

    Parameters
    ----------
    evaluation : SetEvaluation
    pictures : Pictures
    draws : Draws
        Of all pictures.
    metrics : sequence of "voc", "coco"
    maps : SetMaps, optional
    any_class : MeasuredClass, optional
        All classes as one.
    """
    figures = set_figures(evaluation, pictures, draws)
    more = [Figures.of(evaluation.name, pictures, classes, draws) for classes in _more(evaluation, metrics)]
    if maps is not None:
        more.append(Figures.of(evaluation.name, pictures, _of_maps(evaluation, maps), draws))
    if any_class is not None:
        more.append(Figures.of(evaluation.name, pictures, {}, draws, any_class))
    return reduce(Figures.joined, more, figures)


def _more(evaluation: SetEvaluation, metrics: Sequence[str]) -> Iterator[dict[str, MeasuredClass]]:
    """Yield the classes with what else is known of their boxes."""
    truth = evaluation.truth
    if truth is None:
        return
    if evaluation.corloc is not None:
        reports = {iou: corloc(evaluation.located, truth, iou).classes for iou in OTHER_IOUS}
        yield {
            name: MeasuredClass(corloc={iou: classes[name] for iou, classes in reports.items()})
            for name in evaluation.located
        }
    elif "coco" in metrics:
        rows = coco_rows(*as_coco(evaluation.located, truth))
        yield {
            name: MeasuredClass(joint={key: Figure(value) for key, value in row.items()}) for name, row in rows.items()
        }


def _of_maps(evaluation: SetEvaluation, maps: SetMaps) -> dict[str, MeasuredClass]:
    """Return the classes of a test set with masks: where best boxes and maps point, and the maps' pixels."""
    if evaluation.truth is None:
        return {}
    boxes = pointing(evaluation.located, evaluation.truth).classes
    return {name: of_class.measured(MeasuredClass(pointing=boxes[name])) for name, of_class in maps.classes.items()}
