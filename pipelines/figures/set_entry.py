"""The entry of a set in evaluation.json: its figures, errors, windows, thresholds, and what unseen pictures say."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from numpy.typing import ArrayLike

from lapsvm.detection import Detector
from lapsvm.evaluation import (
    Draws,
    Figures,
    MeasuredClass,
    Threshold,
    best_f1,
    best_overlaps,
    check_entry,
    error_kinds,
    wanted_precision,
)
from lapsvm.evaluation.measures import Pictures
from lapsvm.features import ShardSet

from ..context import StoredRun
from ..inspection.whole_pictures import PictureRules
from ..products.models import available_detectors
from ..run.checked_files import read_json
from .compute import complete_figures, set_figures
from .evaluation import SetEvaluation
from .held_out import Unseen
from .pixels import SetMaps, set_maps


def set_entry(
    stored: StoredRun, evaluation: SetEvaluation, precision: float, metrics: Sequence[str] = ("voc",)
) -> dict[str, Any]:
    """Return the entry of a set in evaluation.json.

    Parameters
    ----------
    stored : StoredRun
    evaluation : SetEvaluation
    precision : float
        That thresholds are wanted for, in (0, 1].
    metrics : sequence of "voc", "coco"
        "coco" adds COCO's figures of a test set with boxes; those of VOC are always there.

    Returns
    -------
    dict
        The figures as `Figures.to_json` writes them, with counts of pictures. Where boxes are known, also "errors" of a
        test set, {class: {kind: {"count", "top", "ap_gain"}}}, and "windows", {"classes", "mean"}, unless the shards
        are gone; "held_out", the figures of the training set by models that did not see the picture, and "thresholds"
        of a test set with boxes, see `threshold_entry`. "any_class" of a test set, and in "held_out", has figures of
        all classes as one, where some pictures show none.
    """
    is_trained, data = evaluation.name == stored.train_set, stored.data
    shards, ids = stored.shards_if_any(evaluation.name), list(evaluation.records)
    draws = Draws.of(ids, stored.settings.seed, stored.groups(evaluation.name, ids, shards=shards))
    if is_trained:
        figures = complete_figures(evaluation, Pictures.TRAINING, draws).to_json()
        detectors: Mapping[str, Detector] = {}
    else:
        detectors = available_detectors(stored.folder, data.classes)
        maps = set_maps(data.dataset, shards, evaluation, detectors, stored.settings.detect)
        any_class = _any_class(evaluation, detectors, maps)
        figures = complete_figures(evaluation, Pictures.TEST, draws, metrics, maps, any_class).to_json()
    last = {key: figures.pop(key) for key in ("intervals", "any_class") if key in figures}
    entry = figures | evaluation.counts | _of_boxes(evaluation, shards) | last
    if is_trained:
        held_out = Unseen.of_run(stored).figures(evaluation.truth, stored)
        return entry if held_out is None else {**entry, "held_out": held_out.to_json()}
    thresholds = threshold_entry(evaluation, detectors, precision)
    return entry if thresholds is None else {**entry, "thresholds": thresholds}


def _of_boxes(evaluation: SetEvaluation, shards: ShardSet | None) -> dict[str, Any]:
    """Return the kinds of errors and the figures of windows, if boxes are known."""
    entry: dict[str, Any] = {}
    truth = evaluation.truth
    if truth is not None and evaluation.voc is not None:
        errors = error_kinds(evaluation.voc, evaluation.detections, truth)
        entry["errors"] = {name: of_class.row() for name, of_class in errors.items()}
    if truth is not None and shards is not None:
        overlaps = best_overlaps(_windows(shards), {name: truth[name] for name in evaluation.detections})
        windows = {name: MeasuredClass(overlaps=values) for name, values in overlaps.items()}
        entry["windows"] = Figures.of(evaluation.name, Pictures.TEST, windows).to_json()
    return entry


def _any_class(
    evaluation: SetEvaluation, detectors: Mapping[str, Detector], maps: SetMaps | None
) -> MeasuredClass | None:
    """Return all classes as one; None without probabilities, or where no picture shows no class."""
    have_all = set(detectors) == set(evaluation.detections)
    if not evaluation.has_none or not have_all or any(one.calibration is None for one in detectors.values()):
        return None
    pictures = PictureRules(detectors, {}).of_set(evaluation.detections, evaluation.records.values())
    measured = None if pictures is None else pictures.measured
    return measured if measured is None or maps is None or maps.any_class is None else maps.any_class.measured(measured)


def _windows(shards: ShardSet) -> Iterator[tuple[str, ArrayLike]]:
    """Yield every picture with its windows; features are not read."""
    for shard in shards:
        for picture in shard.pictures():
            yield picture.image_id, picture.boxes


def stored_entry(stored: StoredRun, evaluation: SetEvaluation) -> dict[str, Any] | None:
    """Return a set's entry of evaluation.json. None if it has other figures than `evaluation`."""
    is_trained = evaluation.name == stored.train_set
    try:
        entry: dict[str, Any] = read_json(stored.folder.evaluation_file)["sets"][evaluation.name]
        check_entry(entry)
        if evaluation.voc is not None and not {"errors", "intervals"} <= set(entry):
            return None
        is_current = _holds(entry, set_figures(evaluation, Pictures.TRAINING if is_trained else Pictures.TEST))
        if is_trained:
            held_out, unseen = entry.get("held_out"), Unseen.of_run(stored).figures(evaluation.truth)
            if held_out is None or unseen is None:
                is_current &= held_out is unseen
            else:
                is_current &= "intervals" in held_out and _holds(held_out, unseen)
    except (KeyError, TypeError, ValueError):
        return None  # not there, or damaged
    return entry if is_current else None


def _holds(entry: Mapping[str, Any], fresh: Figures) -> bool:
    """Return whether an entry has all figures that are freshly computed; KeyError if it lacks one."""
    return all(
        entry["classes"][name][measure] == figure.value
        for name, row in fresh.classes.items()
        for measure, figure in row.items()
    )


def threshold_entry(
    evaluation: SetEvaluation, detectors: Mapping[str, Detector], precision: float
) -> dict[str, Any] | None:
    """Return the thresholds of every class in evaluation.json; None for a set without detection AP.

    Parameters
    ----------
    evaluation : SetEvaluation
    detectors : mapping of class name to Detector
        A class without one has no probabilities.
    precision : float
        The wanted one, in (0, 1].

    Returns
    -------
    dict or None
        {"wanted": precision, "classes": {name: {"best_f1": threshold, "wanted_precision": threshold}}}; a threshold has
        "score", "probability" (None without calibration), "precision", "recall" and "f1", and is None where none
        exists.
    """
    if evaluation.voc is None:
        return None
    classes = {}
    for name, result in evaluation.voc.classes.items():
        found = evaluation.detections[name]
        classes[name] = {
            "best_f1": _entry(best_f1(result, found), detectors.get(name)),
            "wanted_precision": _entry(wanted_precision(result, found, precision), detectors.get(name)),
        }
    return {"wanted": precision, "classes": classes}


def _entry(threshold: Threshold | None, detector: Detector | None) -> dict[str, float | None] | None:
    if threshold is None:
        return None
    probability = None if detector is None else detector.probability([threshold.score])
    return {**asdict(threshold), "probability": None if probability is None else float(probability[0])}
