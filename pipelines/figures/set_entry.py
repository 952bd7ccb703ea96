"""The entry of a set in evaluation.json: its table, errors, windows, intervals, and what unseen pictures say."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from numpy.typing import ArrayLike

from lapsvm.detection import Detector, Reliability
from lapsvm.evaluation import (
    ClassHits,
    Threshold,
    as_coco,
    best_f1,
    best_overlaps,
    check_entry,
    class_table,
    coco_rows,
    corloc,
    error_kinds,
    pointing,
    wanted_precision,
    window_rows,
)
from lapsvm.evaluation.figures import Draws
from lapsvm.evaluation.tables import Row
from lapsvm.features import ShardSet
from lapsvm.inspection.probabilities import (
    PictureProbabilities,
    best_windows,
    held_out_probabilities,
    set_probabilities,
)
from lapsvm.report.next_steps import is_weak

from ..context import StoredRun
from ..products.held_out import HeldOut, read_held_out
from ..products.models import available_detectors
from ..results.known_boxes import Truth
from ..run.checked_files import read_json
from ..run.dataset import has_pictures_of_no_class
from .draws import held_out_intervals, hit_intervals, set_intervals
from .evaluation import SetEvaluation
from .pixels import PixelRows, pixel_rows

CORLOC_IOUS = {"corloc_30": 0.3, "corloc_70": 0.7}
"""Keys beside "corloc", which is at .5."""
Pointed = Mapping[str, Mapping[str, ClassHits]]
NEW = ("pointing", "image_auroc")
"""Measures that entries of versions up to 0.2.0 lack."""


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
        "classes" and "mean" as in the table of `SetEvaluation`; "intervals" of a test set, and of a training set with
        boxes (see `set_intervals`). Where boxes are known, also "errors" of a test set, {class: {kind: {"count", "top",
        "ap_gain"}}}, and "windows", {"classes", "mean"}, unless the shards are gone; "held_out" of the training set,
        see `Unseen.table`, with its intervals, and "thresholds" of a test set with boxes, see `threshold_entry`.
        "any_class" of a test set, and in "held_out", has figures of all classes as one, where some pictures show none.
    """
    trained_on, seed = evaluation.name == stored.train_set, stored.settings.seed
    shards, data = stored.shards_if_any(evaluation.name), stored.data
    detectors = {} if trained_on else available_detectors(stored.folder, data.classes)
    pixels = pixel_rows(data.dataset, shards, evaluation, detectors, stored.settings.detect)
    truth, pointed = evaluation.truth, _pointed(evaluation, pixels)
    entry = evaluation.table(*_more_columns(evaluation, metrics), *_pixel_columns(pixels, pointed))
    if truth is not None and evaluation.voc is not None:
        errors = error_kinds(evaluation.voc, evaluation.detections, truth)
        entry["errors"] = {name: of_class.row() for name, of_class in errors.items()}
    if truth is not None and shards is not None:
        known = {name: truth[name] for name in evaluation.detections}
        entry["windows"] = class_table(window_rows(best_overlaps(_windows(shards), known)))
    groups = partial(stored.groups, evaluation.name, shards=shards)
    if not trained_on or evaluation.corloc is not None:
        ids = list(evaluation.records)
        draws = Draws.of(ids, seed, groups(ids))
        entry["intervals"] = set_intervals(evaluation, draws, pointed)
    if trained_on:
        unseen = Unseen.of_run(stored)
        held_out = unseen.table(truth)
        if held_out is None:
            return entry
        draws = Draws.of(unseen.ids, seed, groups(unseen.ids))
        intervals = held_out_intervals(unseen.held_out, unseen.has_none, truth, draws)
        if unseen.pictures and "any_class" in held_out:
            intervals["any_class"] = unseen.pictures.any_class_intervals(draws)
        return {**entry, "held_out": {**held_out, "intervals": intervals}}
    pictures = _pictures(evaluation, detectors)
    if pictures and (row := pictures.any_class()):
        entry["any_class"] = row | (pixels.any_class or {} if pixels else {})
        more = {"map_pointing": pixels.any_hits} if pixels else {}
        entry["intervals"]["any_class"] = pictures.any_class_intervals(draws) | hit_intervals(more, draws)
    thresholds = threshold_entry(evaluation, detectors, precision)
    return entry if thresholds is None else {**entry, "thresholds": thresholds}


def _pointed(evaluation: SetEvaluation, pixels: PixelRows | None) -> Pointed:
    """Return in which pictures of a test set with masks a class's box and its map point at an object, by measure."""
    if pixels is None or evaluation.truth is None:
        return {}
    boxes = pointing(evaluation.located, evaluation.truth).classes
    return {name: {"pointing": boxes[name], "map_pointing": hits} for name, hits in pixels.hits.items()}


def _pixel_columns(pixels: PixelRows | None, pointed: Pointed) -> Iterator[Mapping[str, Row]]:
    """Yield the columns of a test set with masks: pointing of boxes, and what maps say of pixels."""
    if pixels is not None and pointed:
        yield {name: {"pointing": hits["pointing"].share} for name, hits in pointed.items()}
        yield pixels.classes


def _pictures(evaluation: SetEvaluation, detectors: Mapping[str, Detector]) -> PictureProbabilities | None:
    """Return the probabilities of pictures; None without them, or where no picture shows no class."""
    have_all = set(detectors) == set(evaluation.detections)
    if not evaluation.image_auroc or not have_all or any(one.calibration is None for one in detectors.values()):
        return None
    return set_probabilities(evaluation.detections, evaluation.records.values(), best_windows(detectors))


def _more_columns(evaluation: SetEvaluation, metrics: Sequence[str]) -> Iterator[Mapping[str, Row]]:
    """Yield the columns beside those of VOC."""
    truth = evaluation.truth
    if truth is None:
        return
    if evaluation.corloc is not None:
        for key, iou in CORLOC_IOUS.items():
            classes = corloc(evaluation.located, truth, iou).classes
            yield {name: {key: result.corloc} for name, result in classes.items()}
    elif "coco" in metrics:
        yield coco_rows(*as_coco(evaluation.located, truth))


def _windows(shards: ShardSet) -> Iterator[tuple[str, ArrayLike]]:
    """Yield every picture with its windows; features are not read."""
    for shard in shards:
        for picture in shard.pictures():
            yield picture.image_id, picture.boxes


def stored_entry(stored: StoredRun, evaluation: SetEvaluation) -> dict[str, Any] | None:
    """Return a set's entry of evaluation.json; None unless its figures are those of `evaluation`."""
    try:
        entry: dict[str, Any] = read_json(stored.folder.evaluation_file)["sets"][evaluation.name]
        check_entry(entry)
        has_errors = evaluation.voc is None or {"errors", "intervals"} <= set(entry)
        is_current = has_errors and _holds(entry, evaluation.table())
        if evaluation.name == stored.train_set:
            held_out = Unseen.of_run(stored).table(evaluation.truth)
            before: Any = entry.get("held_out")
            is_current &= before is None if held_out is None else "intervals" in before and _holds(before, held_out)
    except (KeyError, TypeError, ValueError):
        return None  # not there, or damaged
    return entry if is_current else None


def _holds(entry: Mapping[str, Any], fresh: Mapping[str, Any]) -> bool:
    """Return whether an entry has all figures of a freshly computed table; KeyError if it lacks one that is not new."""
    return all(
        entry["classes"][name][measure] == value
        for name, row in fresh["classes"].items()
        for measure, value in row.items()
        if measure not in NEW or measure in entry["classes"][name]
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


@dataclass(frozen=True)
class Unseen:
    """Held-out scores of the classes that have them, and the reliability of their probabilities.

    `has_none` says whether some pictures show no class (see `has_pictures_of_no_class`); `pictures` have the
    probabilities of all classes then, if they are known.
    """

    held_out: Mapping[str, HeldOut]
    reliability: Mapping[str, Reliability | None]
    has_none: bool = False
    pictures: PictureProbabilities | None = None

    @classmethod
    def of_run(cls, stored: StoredRun) -> "Unseen":
        """Read the held-out scores and the calibrations of a run."""
        run, data = stored.folder, stored.data
        found = {name: read_held_out(run, name) for name in data.classes}
        held_out = {name: one for name, one in found.items() if one is not None}
        detectors = {
            name: one for name, one in available_detectors(run, data.classes).items() if one.calibration is not None
        }
        reliability = {name: one.calibration.reliability for name, one in detectors.items() if one.calibration}
        has_none = has_pictures_of_no_class(data, stored.train_set)
        is_whole = held_out.keys() == detectors.keys() == set(data.classes)
        pictures = held_out_probabilities(held_out, best_windows(detectors)) if is_whole and has_none else None
        return cls(held_out, reliability, has_none, pictures)

    @property
    def ids(self) -> list[str]:
        """The pictures of any class."""
        return list(dict.fromkeys(image for of_class in self.held_out.values() for image in of_class.ids))

    def table(self, truth: Truth | None) -> dict[str, Any] | None:
        """Return {"classes", "mean"} of the held-out figures, or None if no class has any.

        Parameters
        ----------
        truth : ground truth of the training set, or None
            Without it there is no CorLoc and no pointing.
        """
        if not self.held_out:
            return None
        table = class_table({name: self._row(name, truth) for name in self.held_out})
        any_class = self.pictures and self.pictures.any_class()
        return table | ({"any_class": any_class} if any_class else {})

    def _row(self, name: str, truth: Truth | None) -> Row:
        held_out, reliability = self.held_out[name], self.reliability.get(name)
        located: Row = {}
        if truth is not None:
            located["corloc"] = held_out.corloc(name, truth[name]).corloc
            located["pointing"] = held_out.pointing(name, truth[name]).pointing
        return located | {
            **held_out.image_level(self.has_none),
            "chance": held_out.chance,
            "ece": None if reliability is None else reliability.ece,
            "brier": None if reliability is None else reliability.brier,
        }

    def weakness_message(self) -> str:
        """Return a sentence on detectors that hardly separate the pictures of some class; "" without such a class."""
        weak = {name: one for name, one in self.held_out.items() if is_weak(one.image_ap, one.chance)}
        if not weak:
            return ""
        figures = ", ".join(f"{name} {one.image_ap:.2f} (chance {one.chance:.2f})" for name, one in weak.items())
        return (
            f"the detectors hardly separate pictures with and without a class, held-out image AP: {figures}; their "
            "boxes are not to be trusted: check the labels, add pictures, or use features of another network "
            "(--extractor)."
        )
