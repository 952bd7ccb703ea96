"""The pictures on the page: the best boxes, and where the detectors fail, on unseen pictures where there are any."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lapsvm.catalog import ImageRecord
from lapsvm.detection import Detector
from lapsvm.evaluation import ClassHits, ClassResult, Detections
from lapsvm.inspection.shown import PROBABLE
from lapsvm.report import Example

from ..annotations.known_boxes import Truth
from ..fitting.standing_out import counts, recorded
from ..products.held_out import HeldOut
from ..run.dataset import positive_pictures
from .evaluation import SetEvaluation
from .maps.objectness_maps import ObjectnessMaps
from .maps.stored_maps import StoredMaps

EXAMPLES = 8
SAMPLE = 48  # pictures of the grid
DIFFERENT = 0.5  # two windows with a smaller IoU are different


@dataclass(frozen=True)
class PictureMaps:
    """Maps over pictures.

    Attributes
    ----------
    scores : mapping of set name to StoredMaps
    objectness : ObjectnessMaps or None
        Of training pictures; None where nothing that stands out was used.
    """

    scores: Mapping[str, StoredMaps] = field(default_factory=dict)
    objectness: ObjectnessMaps | None = None


@dataclass(frozen=True, eq=False)
class ShownSet:
    """Detections of one class to show examples of: in which pictures, and whether the model has seen these.

    Attributes
    ----------
    detector : Detector
        Of the class.
    where : str
        The pictures as the page names them, such as "on test".
    detections : Detections
    records : mapping of id to ImageRecord
        Of all pictures with detections.
    truth : mapping, or None
        With the pictures whose boxes are known.
    voc : ClassResult or None
        On a test set with boxes; its rows are those of `detections`.
    maps : StoredMaps or None
        Of the pictures.
    objectness : ObjectnessMaps or None
        Of the pictures with the class, where refinement used these maps.
    """

    detector: Detector
    where: str
    detections: Detections
    records: Mapping[str, ImageRecord]
    truth: Truth | None
    voc: ClassResult | None = None
    maps: StoredMaps | None = None
    objectness: ObjectnessMaps | None = None

    @property
    def name(self) -> str:
        """The class."""
        return self.detector.class_name

    @property
    def lacks_boxes(self) -> bool:
        """Whether the boxes of some picture are unknown."""
        truth = None if self.truth is None else self.truth[self.name]
        return truth is None or any(image not in truth for image in self.records)

    def labels(self) -> NDArray[np.int8]:
        """Return the label of the picture of each detection."""
        ids = self.detections.image_ids
        labels = {image: self.records[image].labels.get(self.name, 0) for image in ids.distinct()}
        return ids.numbers_in(labels).astype(np.int8)

    def best_windows(self) -> NDArray[np.intp]:
        """Return each picture's best detection, best first."""
        order = self.detections.order()
        _, first = np.unique(self.detections.image_ids.places[order], return_index=True)
        return order[np.sort(first)]

    def drawn(self, indices: NDArray[np.intp], least: float) -> NDArray[np.intp]:
        """Return the detections of at least a probability. All of them without a calibration."""
        probabilities = self.detector.probability(self.detections.scores[indices])
        return indices if probabilities is None else indices[probabilities >= least]

    def examples(self, indices: Iterable[int], most: int | None = EXAMPLES) -> tuple[Example, ...]:
        """Return examples of detections, at most one of each picture."""
        first_of: dict[str, int] = {}
        for index in indices:
            if most is not None and len(first_of) == most:
                break
            first_of.setdefault(self.detections.image_ids[index], int(index))
        return tuple(self.example(index) for index in first_of.values())

    def example(self, index: int) -> Example:
        """Return a detection with the annotated objects of its picture."""
        record = self.records[self.detections.image_ids[index]]
        truth = {} if self.truth is None else self.truth
        boxes = {other: of[record.id].boxes for other, of in truth.items() if record.id in of}
        score = float(self.detections.scores[index])
        probability = self.detector.probability([score])
        is_measured = self.objectness is not None and record.labels.get(self.name, 0) > 0
        return Example(
            id=record.id,
            pixels=record.pixels,
            box=self.detections.boxes[index],
            score=score,
            probability=None if probability is None else float(probability[0]),
            truth=boxes.get(self.name),
            others={other: objects for other, objects in boxes.items() if other != self.name and len(objects)},
            score_map=None if self.maps is None else partial(self.maps.score_map, self.detector, record.id),
            objectness_map=partial(self.objectness.of_picture, record) if self.objectness and is_measured else None,
        )


def shown_set(
    detector: Detector,
    train: SetEvaluation,
    test: SetEvaluation | None = None,
    held_out: HeldOut | None = None,
    maps: PictureMaps | None = None,
) -> ShownSet:
    """Choose the pictures that the page shows of a class: of the test set, else held out, else of training."""
    name, shown = detector.class_name, test or train
    where, detections = f"on {shown.name}", shown.detections[name]
    voc = None if shown.voc is None else shown.voc.classes[name]
    if test is None and held_out is not None:
        where, detections = f"{where}, by models that did not see the picture", held_out.detections()
    elif test is None:
        where += ", which the model has seen"
    found = maps or PictureMaps()
    standing = found.objectness if test is None and counts(recorded(detector)) else None
    truth, scores = shown.known_truth, found.scores.get(shown.name)
    return ShownSet(detector, where, detections, shown.records, truth, voc, scores, standing)


def class_examples(
    shown: ShownSet, classes: Collection[str], least: float = PROBABLE, *, has_good: bool = False
) -> dict[str, Any]:
    """Return the galleries of a class as fields of ClassSummary; `has_good` is that of `Contents`.

    Where boxes are not known, the boxes in pictures labelled as not showing the class are wrong, unless a label is.
    Where they are known, the false positives say more. Boxes of a probability below `least`, which nobody draws, are
    not shown as wrong. Half of the pictures with the class at most are doubtful.
    """
    order, labels, best = shown.detections.order(), shown.labels(), shown.best_windows()
    positives = best[labels[best] > 0][::-1]
    steps = np.unique(np.linspace(0, max(0, len(positives) - 1), SAMPLE).round().astype(int))
    doubtful = positives[: (len(positives) + 1) // 2]
    galleries: dict[str, Any] = {"weak_positives": shown.examples(doubtful), "shown_on": shown.where}
    galleries["sample"] = shown.examples(positives[steps[: len(positives)]], SAMPLE)
    if shown.voc is not None:
        galleries["best"] = shown.examples(shown.voc.order[shown.voc.tp])
        galleries["false_positives"] = shown.examples(shown.drawn(shown.voc.order[shown.voc.fp], least))
    else:
        galleries["best"] = shown.examples(order[labels[order] >= 0])
    if shown.lacks_boxes:
        galleries["false_alarms"] = shown.examples(shown.drawn(order[labels[order] < 0], least))
    if has_good:
        galleries["best"] = _beside_good(shown, galleries["best"], best[::-1], classes)
    return galleries


def _beside_good(
    shown: ShownSet, examples: Sequence[Example], windows: Iterable[int], classes: Collection[str]
) -> tuple[Example, ...]:
    """Return the examples, each with a good picture of the same set to compare with, while there are any.

    `windows` are the best detections of its pictures, the lowest score first.
    """
    defective = positive_pictures(list(shown.records.values()), classes)
    names = [shown.detections.image_ids[index] for index in windows]
    good = [
        shown.records[name].pixels
        for name in names
        if name not in defective and shown.records[name].labels.get(shown.name) == -1
    ]
    return tuple(replace(example, good=pixels) for example, pixels in zip_longest(examples, good[: len(examples)]))


def disagreements(shown: ShownSet, held_out: HeldOut | None) -> tuple[Example, ...]:
    """Return the training pictures with the class in which a held-out model chooses another window, the worst first.

    Parameters
    ----------
    shown : ShownSet
        The final model's detections on the training set.
    held_out : HeldOut or None
    """
    if held_out is None:
        return ()
    best = shown.best_windows()
    final = {shown.detections.image_ids[index]: shown.detections.boxes[index] for index in best.tolist()}
    windows = replace(shown, detections=held_out.detections())
    rows = [row for row in np.argsort(held_out.agreement, kind="stable").tolist() if held_out.y[row] > 0]
    rows = [row for row in rows if held_out.agreement[row] < DIFFERENT and held_out.ids[row] in final][:EXAMPLES]
    notes = {row: f"IoU {held_out.agreement[row]:.2f} between the two windows" for row in rows}
    return tuple(replace(windows.example(row), second=final[held_out.ids[row]], note=notes[row]) for row in rows)


def misses(shown: ShownSet, located: ClassHits | None) -> tuple[Example, ...]:
    """Return the positive pictures whose best window misses, by decreasing score.

    Parameters
    ----------
    shown : ShownSet
        Of training pictures.
    located : ClassHits or None
        Whose windows are rows of its detections; None where no boxes are known.
    """
    if located is None:
        return ()
    scores = shown.detections.scores
    missed = located.windows[~located.hits & (located.windows >= 0)]
    return shown.examples(missed[np.argsort(-scores[missed], kind="stable")], None)
