"""Guards refinement against models that take windows beside the objects (see `lapsvm.latent.evidence`)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.bags.scoring import BestWindows
from lapsvm.latent import Refinement
from lapsvm.latent.evidence import is_flipped

from .contrast_start import StoredContent
from .fold_scores import FoldPart, FoldScores, Gains


class RefinementGuard:
    """Replaces models of a round that flipped by the weights that the round began with.

    Parameters
    ----------
    content : StoredContent
        Of the training pictures.
    positives : (n,) int
    weights, windows : (d,) float64 and (n_bags,) int
        Those of the model that refinement begins with, whose evidence is the standard.
    """

    def __init__(self, content: StoredContent, positives: Index, weights: Float64, windows: Index) -> None:
        self._content, self._positives = content, positives
        self._standard = self._evidence(weights, positives, windows)

    def flipped(self, refinement: Refinement) -> list[int]:
        """Return the models of a round that flipped: 0 for that of all pictures, k for that without fold k."""
        models = refinement.models
        return [number for number in range(models.shape[1]) if self._is_flipped(refinement, models, number)]

    def _is_flipped(self, refinement: Refinement, models: Float64, number: int) -> bool:
        own = self._positives if number == 0 else self._positives[refinement.fold[self._positives] == number]
        windows = refinement.solution.windows if number == 0 else refinement.windows
        return is_flipped(self._evidence(models[:, number], own, windows), self._standard)

    def _evidence(self, weights: Float64, pictures: Index, windows: Index) -> float:
        return self._content.evidence(weights, pictures, windows[pictures])


def without_flipped(
    refinement: Refinement, flipped: Sequence[int], weights: Float64, intercept: float, windows: Index
) -> Refinement:
    """Return a round in which models that flipped have `weights`, and the pictures these chose for have `windows`.

    If the model of all pictures flipped, it has `intercept` too; its history and certificate are those of training.
    """
    models = refinement.models
    models[:, list(flipped)] = weights[:, None]
    kept = np.isin(refinement.fold, [number for number in flipped if number])
    changed = refinement.with_models(models)
    return replace(
        changed,
        solution=replace(changed.solution, intercept=intercept) if 0 in flipped else changed.solution,
        windows=np.where(kept, windows, refinement.windows),
    )


def held_out_folds(refinement: Refinement, flipped: Sequence[int]) -> list[int]:
    """Return the folds whose models did not see them; what replaced a flipped model was trained with all pictures."""
    return [number for number in range(1, refinement.fold_coef.shape[1] + 1) if number not in flipped]


def held_out_scores(refinement: Refinement, folds: Sequence[int], best: BestWindows, gains: Gains) -> FoldScores:
    """Return the held-out scores of some folds; `best` has the best windows of all pictures, column k by fold k."""
    fold = np.where(np.isin(refinement.fold, folds), refinement.fold, 0)
    return FoldScores.join(
        [
            FoldPart.of(fold == k, (fold > 0) & (fold != k), best.score[:, k], best.index[:, k]).raised(
                gains(refinement.fold_coef[:, k - 1], fold == k)
            )
            for k in folds
        ]
    )
