"""Held-out scores of a run: what models say of training pictures that they were not trained with.

Every class with enough pictures has a file RUN/heldout/<class>.safetensors. Each labelled picture of the training set
is in one fold; its score and box are those of a model that never saw that fold (`products.fold_models`).

A ranking loss fixes the order of scores, not their zero, and models of fewer pictures have other weights; so scores of
different folds' models are not comparable as they are. The pictures that both a fold's model and the final model were
trained with have scores by both: a fold's scores are shifted and stretched until these have the same mean and standard
deviation. These two numbers depend on all labels, because the final model does; the order within a fold does not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Array, Float64, Index, as_floats, as_whole_numbers, check_finite
from lapsvm.bags import Bags
from lapsvm.boxes import as_boxes, paired_iou
from lapsvm.catalog import GroundTruth, Pixels
from lapsvm.detection import Calibration, Detector
from lapsvm.detection.groups import WindowPrior
from lapsvm.detection.picture_scores import best_boxes
from lapsvm.errors import InputError, ModelFileError
from lapsvm.evaluation import (
    ClassHits,
    Detections,
    corloc,
    image_average_precision,
    pointing,
)
from lapsvm.model_files import read_model, write_model
from lapsvm.settings import DetectSettings

from ..context import Workspace
from ..run.folder import RunFolder
from ..settings.settings import Settings
from ..verdicts.right_boxes import Verified, verified
from ..verdicts.verdict import Verdict
from .fold_models import FoldModels, fold_numbers, too_few_pictures
from .models import FitTask, is_refinement, of_model, stored_detector, weights_hash
from .product import Product

FORMAT = "lapsvm held-out scores"
VERSION = 1
_TYPES = {"y": np.int8, "fold": np.int64, "score": np.float64, "boxes": np.float64, "agreement": np.float64}


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out scores of one class, one row per labelled picture of the training set.

    Attributes
    ----------
    ids : tuple of str
        The pictures, in the order of the shards.
    y : (n,) int8
        Labels, +1 or -1.
    fold : (n,) intp
        The fold, from 1, whose model did not see the picture.
    score : (n,) float64
        The score of the best box in detection by that model, in the scale of the final model's scores: the best windows
        of every fold's model have the mean and standard deviation that those of the final model have on the pictures
        which both were trained with.
    boxes : (n, 4) float64
        The best box in detection by that model: x1, y1, x2, y2 in pixels.
    agreement : (n,) float64
        IoU of that box and the final model's best box.
    model : str
        Hash of the final model's weights.
    """

    ids: tuple[str, ...]
    y: NDArray[np.int8]
    fold: Index
    score: Float64
    boxes: Float64
    agreement: Float64
    model: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        rows = {name: len(getattr(self, name)) for name in _TYPES}
        wrong = {name: count for name, count in rows.items() if count != len(self.ids)}
        if wrong:
            raise InputError(f"held-out scores must have one row per picture, {len(self.ids)}, got {wrong}.")
        is_named = bool(self.ids) and all(isinstance(name, str) for name in (*self.ids, self.model))
        is_named &= len(set(self.ids)) == len(self.ids)
        labels, folds = as_whole_numbers("y", self.y), as_whole_numbers("fold", self.fold)
        if not is_named or not np.isin(labels, (-1, 1)).all() or folds.min() < 1:
            raise InputError(
                "held-out scores must be of one or more pictures, each named once, with a label +1 or -1 and a fold "
                "from 1, and name their model by its hash."
            )
        as_floats("score", self.score, 1)
        as_floats("agreement", self.agreement, 1)
        check_finite("boxes", as_boxes(self.boxes))

    @property
    def image_ap(self) -> float | None:
        """AP of ranking the pictures by their held-out scores, all folds in one list."""
        return image_average_precision(self.score, self.y)

    @property
    def chance(self) -> float:
        """The image AP that a random order has on average: the share of positives."""
        return float((self.y > 0).mean())

    def detections(self) -> Detections:
        """Return one detection per picture: its best box, with its held-out score."""
        return Detections(self.ids, self.score, self.boxes)

    def verified(self, said: Mapping[str, Verdict]) -> Verified | None:
        """Return how many boxes are right by verdicts of a person, by picture; None if none of these says it."""
        return verified(said, self.ids, self.y, self.score, self.boxes)

    def corloc(self, class_name: str, truth: Mapping[str, GroundTruth]) -> ClassHits:
        """Return how many pictures with the class have a correct box, by models that did not see them.

        `truth` is the ground truth of the class, by picture; pictures that no fold holds do not count.
        """
        return corloc({class_name: self.detections()}, self._own(class_name, truth)).classes[class_name]

    def pointing(self, class_name: str, truth: Mapping[str, GroundTruth]) -> ClassHits:
        """Return in how many of the same pictures the centre of the box lies in an object; arguments as `corloc`."""
        return pointing({class_name: self.detections()}, self._own(class_name, truth)).classes[class_name]

    def _own(self, class_name: str, truth: Mapping[str, GroundTruth]) -> dict[str, dict[str, GroundTruth]]:
        """Return the ground truth of the class in the pictures of the folds."""
        known = set(self.ids)
        return {class_name: {image_id: objects for image_id, objects in truth.items() if image_id in known}}

    def save(self, path: str | Path) -> None:
        """Write the file; equal content gives equal bytes."""
        tensors = {name: np.asarray(getattr(self, name), dtype=dtype) for name, dtype in _TYPES.items()}
        description = {"format": FORMAT, "version": VERSION, "ids": list(self.ids), "model": self.model}
        write_model(path, description, tensors, "ids")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file.

        Raises
        ------
        MissingError
            If there is no such file.
        ModelFileError
            If it is damaged, of another kind, or of a version that is not known.
        """
        description, tensors = read_model(path, FORMAT, VERSION)
        try:
            arrays = {name: tensors[name] for name in _TYPES}
            return cls(ids=tuple(description["ids"]), model=description["model"], **arrays)
        except (KeyError, TypeError, InputError) as error:
            raise ModelFileError(f"held-out scores {path} are damaged: {error}.") from None


def read_held_out(run: RunFolder, class_name: str) -> HeldOut | None:
    """Return the held-out scores of a class, or None if the run has none that belong to its present model.

    Raises ModelFileError if the file is damaged, or of an unknown version.
    """
    path, model = run.held_out(class_name), stored_detector(run.model(class_name))
    if model is None or not path.is_file():
        return None
    held_out = HeldOut.load(path)
    return held_out if of_model(path, model, lambda _: held_out.model).state().is_current else None


def class_products(run: RunFolder, settings: Settings, task: FitTask) -> list[Product]:
    """Return the files that a class has when it is learned: its model, its fold models, its held-out scores."""
    products: list[Product] = [task.product]
    detector = stored_detector(task.path)
    if detector is None:
        return products
    if not is_refinement(task.provenance) and fold_numbers(settings, task.y, task.groups).any():
        products.append(of_model(run.fold_models(task.name), detector, lambda path: FoldModels.load(path).model))
    if task.path == run.model(task.name) and detector.calibration is not None:
        products.append(of_model(run.held_out(task.name), detector, lambda path: HeldOut.load(path).model))
    return products


def is_to_learn(run: RunFolder, settings: Settings, task: FitTask) -> bool:
    """Return whether a class lacks one of its files; SettingsError if its model was made with other settings."""
    return task.product.is_to_make() or not all(one.state().is_current for one in class_products(run, settings, task))


class ScoredPictures(NamedTuple):
    """The training pictures: their windows' features and boxes (n_windows, 4), their names, and how they are read."""

    bags: Bags
    boxes: Array
    ids: Sequence[str]
    pixels: Callable[[int], Pixels | None] | None = None


class BoxModel(NamedTuple):
    """Weights (d,) that score windows, and what the model knows of boxes beside them."""

    weights: Float64
    prior: WindowPrior | None = None


def calibrated(
    workspace: Workspace, settings: Settings, task: FitTask, detector: Detector, pictures: ScoredPictures,
    fold: Index, models: Sequence[BoxModel],
) -> Detector:  # fmt: skip
    """Write the held-out scores of a final detector, and return it with the calibration that is fitted on them.

    Parameters
    ----------
    workspace : Workspace
    settings : Settings
    task : FitTask
    detector : Detector
    pictures : ScoredPictures
    fold : (n,) intp
        Their folds; all 0 for a class without folds, whose detector has no calibration.
    models : sequence of BoxModel
        That of the detector, with weights for the features in `pictures`, and those without each fold.
    """
    run = workspace.folder
    path = run.held_out(task.name)
    if not fold.any():
        stage = "refine" if is_refinement(task.provenance) else "train"
        run.remove([path])
        workspace.reporter.say(f"{stage}: {too_few_pictures(task.name, task.y, settings.train.folds, task.groups)}")
        return detector
    rows, score, boxes, agreement = _fold_scores(pictures, fold, models, settings.detect)
    ids = tuple(pictures.ids[row] for row in rows)
    score, model = score + detector.intercept, weights_hash(detector)
    held_out = HeldOut(ids, task.y[rows], fold[rows], score, boxes, agreement, model)
    run.files.claim([path])
    held_out.save(path)
    return replace(detector, calibration=Calibration.fit(held_out.score, held_out.y, held_out.fold))


def _fold_scores(
    pictures: ScoredPictures, fold: Index, models: Sequence[BoxModel], settings: DetectSettings
) -> tuple[Index, Float64, Float64, Float64]:
    """Return the held-out scores of all pictures that are in a fold.

    Parameters
    ----------
    pictures : ScoredPictures
    fold : (n_bags,) int
        The fold of every picture, from 1; 0 for none.
    models : sequence of BoxModel
        The final one, then those without fold 1, 2 and so on.
    settings : DetectSettings

    Returns
    -------
    rows : (m,) intp
        The pictures that are in a fold, among the n training pictures.
    score : (m,) float64
        Score of the best box in detection, in the scale of the final model without its intercept.
    boxes : (m, 4) float64
        That box, as detection has it.
    agreement : (m,) float64
        IoU of that box and the final model's best box.
    """
    bags, boxes = pictures.bags, pictures.boxes
    best = bags.best(np.column_stack([model.weights for model in models])).score
    score, found = np.zeros(bags.n_bags), np.zeros((bags.n_bags, 4))
    for number, model in enumerate(models[1:], start=1):
        own, trained = np.flatnonzero(fold == number), (fold > 0) & (fold != number)
        found[own], scores = best_boxes(bags, boxes, model.weights, own, settings, model.prior, pictures.pixels)
        score[own] = rescaled(scores, best[trained, number], best[trained, 0])
    rows = np.flatnonzero(fold)
    last, _ = best_boxes(bags, boxes, models[0].weights, rows, settings, models[0].prior, pictures.pixels)
    return rows, score[rows], found[rows], paired_iou(found[rows], last)


def rescaled(score: Float64, own: Float64, final: Float64) -> Float64:
    """Return `score` (n,) after the affine map that gives `own` (m,) the mean and deviation of `final` (m,)."""
    factor = final.std() / own.std() if own.std() > 0 else 1.0
    return np.asarray(final.mean() + (score - own.mean()) * factor)
