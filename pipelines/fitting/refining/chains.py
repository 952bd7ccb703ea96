"""Chains: models on their way through refinement, one of all pictures and one without each fold.

A chain is a model and the labels that it may see. It chooses the windows of its own positives, the windows of negatives
that take part, and its start, so nothing of a fold reaches the chain without it. The model of all pictures takes in
later rounds the windows that the chains choose in their folds, because a model trained on a window keeps it (Cinbis,
Verbeek and Schmid, TPAMI 2017).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.detection import Detector
from lapsvm.detection.detector import provenance_value
from lapsvm.latent import LatentSolution

from ...products.fold_models import FoldModels, seen_labels
from ...run.dataset import Labels

Choose = Callable[[Labels, Float64, Labels], Index]
"""Returns the window (n_bags,) of each picture, or several (n_bags, m), for labels (n_bags,), the weights (d,) of a
model, and the labels that the model may see."""


class TrainedModels(NamedTuple):
    """The trained models of a class.

    Attributes
    ----------
    y : (n_bags,) int8
    fold : (n_bags,) intp
        The fold of every picture, from 1; 0 for none.
    weights : (d, 1 + folds) float64
        Of the model of all pictures, then of those without fold 1, 2 and so on.
    J : float or None
        Weight of the positives, where the learner has one.
    """

    y: Labels
    fold: Index
    weights: Float64
    J: float | None = None

    @classmethod
    def of_scaled(cls, detector: Detector, folds: FoldModels, y: Labels, scale: Float64) -> Self:
        """Return the models of a class for features that are multiplied by `scale` (d,)."""
        stored, scale = np.column_stack([detector.coef * detector.scale, folds.coef]), scale[:, None]
        weights = np.divide(stored, scale, out=np.zeros_like(stored), where=scale > 0)  # 0 for a constant feature
        return cls(y, folds.fold, weights, provenance_value(detector, "result").get("J"))


class Chain(NamedTuple):
    """A model on its way through the rounds.

    Attributes
    ----------
    y : (n_bags,) int8
        The labels that it may see, 0 for pictures of its fold.
    weights : (d,) float64
    windows : (n_bags,) or (n_bags, m) intp
        The windows of its positives in the next round; several of a picture see `things`.
    solution : LatentSolution or None
        That of the last round.
    """

    y: Labels
    weights: Float64
    windows: Index
    solution: LatentSolution | None = None

    @property
    def trained(self) -> LatentSolution:
        """The solution of the last round; AssertionError before the first one."""
        if self.solution is None:
            raise AssertionError("a chain has a solution after its first round")
        return self.solution


def initial_chains(models: TrainedModels, choose: Choose, start: Float64 | None = None) -> list[Chain]:
    """Return the chains before the first round: first the one of all pictures, then those without fold 1, 2 and so on.

    Each has the windows that it chooses itself. With `start` (d,) all have these weights.
    """
    labels = [models.y, *seen_labels(models.y, models.fold)]
    columns = models.weights.T if start is None else [start] * len(labels)
    return [Chain(y, weights, choose(y, weights, y)) for y, weights in zip(labels, columns, strict=True)]


def with_new_windows(chains: Sequence[Chain], fold: Index, choose: Choose) -> list[Chain]:
    """Return the chains, as `initial_chains` has them, with the windows of the next round.

    The windows of the chain of all pictures are chosen in a fold by the chain without it.
    """
    whole, *others = chains
    if not others:
        return [whole._replace(windows=choose(whole.y, whole.weights, whole.y))]
    others = [chain._replace(windows=choose(whole.y, chain.weights, chain.y)) for chain in others]
    windows = whole.windows.copy()
    for number, chain in enumerate(others, start=1):
        windows[fold == number] = chain.windows[fold == number]
    return [whole._replace(windows=windows), *others]
