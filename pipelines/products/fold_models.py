"""Models of a class that never saw a fold of its pictures.

Every labelled picture is in one fold. A fold's model is made without the fold's labels from its first weights on: its
start, its constants, the windows that it chooses and the windows that it learns from depend on the other pictures
alone. So what it says of the fold's pictures is held out. Pictures that are the same (`run.groups`) are in one fold,
because a model that has seen a copy has seen the picture. Two steps see all labels: the folds have equal shares of
positives, and where cross-validation chooses constants, the models that compare them for a fold are those of the other
folds, which were trained with its pictures (docs/explanation/probabilities.md has the size of that on noise).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeGuard

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from lapsvm.arrays import Float64, Index, check_finite
from lapsvm.detection import Detector
from lapsvm.errors import InputError, ModelFileError, OneClassError
from lapsvm.model_files import read_model, write_model

from ..run.dataset import Labels
from ..run.folder import RunFolder
from ..run.groups import Groups, n_groups
from ..settings.settings import Settings
from .models import FitTask, of_model, weights_hash
from .product import unmet

FORMAT, VERSION = "lapsvm fold models", 1
FOLDS_ADVICE = "lower --folds or give one value of every constant"


@dataclass(frozen=True, eq=False)
class FoldModels:
    """The models without a fold of one class.

    Attributes
    ----------
    fold : (n,) intp
        The fold of every training picture, from 1; 0 for pictures without a label.
    coef : (d, folds) float64
        The weights of the models, column k - 1 without fold k, for features as they are stored.
    model : str
        Hash of the weights of the model of all pictures.
    """

    fold: Index
    coef: Float64
    model: str

    def __post_init__(self) -> None:
        if self.fold.ndim != 1 or self.coef.ndim != 2:
            raise InputError(
                f"folds and models must have 1 and 2 dimensions, got {self.fold.ndim} and {self.coef.ndim}."
            )
        low, high, count = self.fold.min(initial=0), self.fold.max(initial=0), self.coef.shape[1]
        if low < 0 or high > count:
            raise InputError(f"folds must be 0, for none, to {count}, the number of models, got {low} to {high}.")
        check_finite("weights", self.coef)

    def save(self, path: Path) -> None:
        """Write the file; equal content gives equal bytes."""
        tensors = {"fold": self.fold.astype(np.int64), "coef": self.coef}
        write_model(path, {"format": FORMAT, "version": VERSION, "model": self.model}, tensors, "model")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file; MissingError if it is not there, ModelFileError if it is damaged or of another kind."""
        description, tensors = read_model(path, FORMAT, VERSION)
        try:
            return cls(tensors["fold"].astype(np.intp), tensors["coef"], description["model"])
        except (KeyError, InputError, ValueError) as error:
            raise ModelFileError(f"fold models {path} are damaged: {error}.") from None


def fold_models(run: RunFolder, settings: Settings, task: FitTask, first: Detector, stage: str) -> FoldModels:
    """Return the fold models of a trained class, perhaps none.

    Raises StageError, in the name of the stage, if they are not there, or belong to other weights.
    """
    path, fold = run.fold_models(task.name), fold_numbers(settings, task.y, task.groups)
    if not fold.any():
        return FoldModels(fold, np.empty((len(first.coef), 0)), weights_hash(first))
    if not path.is_file():
        raise unmet(stage, "fold models", f"{path} is not there", "train")
    models = FoldModels.load(path)
    if not of_model(path, first, lambda _: models.model).state().is_current:
        others = f"those of {path} are of another one"
        raise unmet(stage, "fold models of the trained model", others, "train --redo")
    return models


def held_out_folds(
    y: Labels, folds: int, seed: int, class_name: str, advice: str, groups: Groups = None
) -> list[NDArray[np.bool_]]:
    """Return a mask of held-out pictures for each fold, stratified, groups in one piece; label 0 is in no fold.

    Raises OneClassError, which ends with `advice`, if there are fewer groups of positives or negatives than folds.
    """
    positives, negatives = label_counts(y, groups)
    if min(positives, negatives) < folds:
        raise OneClassError(
            f"class {class_name!r} must have {folds} positive and {folds} negative pictures for {folds} folds, "
            f"got {positives} and {negatives}{_counted_once(y, groups)}; {advice}."
        )
    labelled = np.flatnonzero(y)
    if not _are_grouped(groups, y):
        splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
        return [np.isin(np.arange(len(y)), labelled[fold]) for _, fold in splitter.split(labelled, y[labelled])]
    fold = _fold_of_groups(y[labelled], groups[labelled], folds, seed)
    return [np.isin(np.arange(len(y)), labelled[fold == number]) for number in range(folds)]


def _fold_of_groups(y: Labels, groups: Index, folds: int, seed: int) -> Index:
    """Return the fold (n,) of labelled pictures, from 0: each group goes to the fold that has least of its labels.

    Groups with both labels come first, then large ones, so that small ones even out. Every fold then has both labels if
    there are enough groups, because a fold without the labels of a group costs nothing. Of equals the one with fewer
    pictures is taken.
    """
    names, group = np.unique(groups, return_inverse=True)
    counts = np.stack([np.bincount(group[y == label], minlength=len(names)) for label in (1, -1)], axis=1)
    shuffled = np.random.default_rng(seed).permutation(len(names))
    order = shuffled[np.lexsort((-counts[shuffled].sum(axis=1), -np.count_nonzero(counts[shuffled], axis=1)))]
    (of_positives, of_negatives), dealt = (counts.sum(axis=0)[::-1] ** 2).tolist(), [(0, 0)] * folds
    fold = np.empty(len(names), dtype=np.intp)
    for name, (positives, negatives) in zip(order.tolist(), counts[order].tolist(), strict=True):
        costs = [(of_positives * p * positives + of_negatives * n * negatives, p + n) for p, n in dealt]
        fold[name] = chosen = costs.index(min(costs))
        dealt[chosen] = (dealt[chosen][0] + positives, dealt[chosen][1] + negatives)
    return fold[group]


def fold_numbers(settings: Settings, y: Labels, groups: Groups) -> Index:
    """Return the fold of every picture, from 1; all 0 where a class has too few pictures."""
    numbers, folds = np.zeros(len(y), dtype=np.intp), settings.train.folds
    if too_few_pictures("", y, folds, groups):
        return numbers
    for number, held_out in enumerate(held_out_folds(y, folds, settings.seed, "", "", groups), start=1):
        numbers[held_out] = number
    return numbers


def seen_labels(y: Labels, fold: Index) -> list[Labels]:
    """Return the labels that each fold's model may see, 0 in its fold."""
    return [np.where(fold == number, 0, y).astype(np.int8) for number in range(1, fold.max(initial=0) + 1)]


def label_counts(y: Labels, groups: Groups = None) -> tuple[int, int]:
    """Return how many pictures are positive and negative, those of a group counted once."""
    return n_groups(groups, y > 0), n_groups(groups, y < 0)


def _are_grouped(groups: Groups, y: Labels) -> TypeGuard[Index]:
    """Return whether two labelled pictures are in one group."""
    return n_groups(groups, y != 0) < int(np.count_nonzero(y))


def _counted_once(y: Labels, groups: Groups) -> str:
    """Return how numbers of pictures were counted, for the end of a phrase."""
    return ", those that are the same or of one --group counted once" if _are_grouped(groups, y) else ""


def too_few_pictures(class_name: str, y: Labels, least: int, groups: Groups = None) -> str:
    """Return a sentence that says why a class has no probabilities; empty if it has enough pictures of each kind."""
    positives, negatives = label_counts(y, groups)
    if min(positives, negatives) >= least:
        return ""
    return (
        f"scores of {class_name} have no probabilities, which need {least} pictures with it and {least} without, got "
        f"{positives} and {negatives}{_counted_once(y, groups)}."
    )
