"""Where refinement starts for a class of which training has learned nothing.

If held-out pictures of a class are ranked no better than by chance, the windows that training chose for it say nothing
about it, and lie anywhere. Other classes of the same pictures may be told apart; then their models together know what
an object looks like here, if not which one it is. So the class starts from the windows that these models score best.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import norm, rankdata

from lapsvm.arrays import Float64, Index
from lapsvm.bags import Bags

from ..run.dataset import Labels

LEVEL = 0.05
"""The chance at most that pictures count as told apart which are not."""


class FirstModels(NamedTuple):
    """What training has learned of a class.

    Attributes
    ----------
    y : (n_bags,) int8
    fold : (n_bags,) intp
        The fold of every picture, from 1; 0 for none.
    weights : (d, 1 + folds) float64
        Of the model of all pictures, then of those without fold 1, 2 and so on.
    """

    y: Labels
    fold: Index
    weights: Float64


def borrowed_starts(models: Mapping[str, FirstModels], bags: Bags) -> tuple[dict[str, Float64], list[str]]:
    """Return the weights (d,) from which classes start that are not told apart, and the classes that lend them.

    Nothing is borrowed where no class is told apart, or all are. The models of the other classes have seen their own
    labels of all pictures, never those of the class.

    Parameters
    ----------
    models : mapping of class to FirstModels
    bags : Bags
        The training pictures, with the features that the weights are for.
    """
    if len(models) < 2:
        return {}, []
    ends = np.cumsum([one.weights.shape[1] for one in models.values()])[:-1]
    scores = np.split(bags.best(np.hstack([one.weights for one in models.values()])).score, ends, axis=1)
    apart = {name: told_apart(one.y, one.fold, own) for (name, one), own in zip(models.items(), scores, strict=True)}
    lending = [name for name, is_apart in apart.items() if is_apart]
    spreads = {name: float(own[:, 0].std()) for name, own in zip(models, scores, strict=True)}
    if not lending:
        return {}, []
    together = np.sum([models[name].weights[:, 0] / (spreads[name] or 1.0) for name in lending], axis=0)
    return {name: together for name, is_apart in apart.items() if not is_apart and models[name].fold.any()}, lending


def told_apart(y: Labels, fold: Index, scores: Float64) -> bool:
    """Return whether held-out scores rank positive pictures surely above negative ones.

    By Wilcoxon's rank sums of the folds, added up, one-sided at `LEVEL`.

    Parameters
    ----------
    y : (n,)
    fold : (n,)
        From 1; 0 for none.
    scores : (n, 1 + folds)
        Column k by the model without fold k.
    """
    parts = [_rank_sum(y[fold == number], scores[fold == number, number]) for number in range(1, scores.shape[1])]
    excess, variance = np.sum(parts, axis=0) if parts else (0.0, 0.0)
    return bool(variance > 0 and norm.sf(excess / np.sqrt(variance)) <= LEVEL)


def _rank_sum(y: Labels, scores: Float64) -> tuple[float, float]:
    """Return by how much the ranks of positives exceed those expected by chance, and the variance of this."""
    positives, pictures = int((y > 0).sum()), len(y)
    excess = float(rankdata(scores)[y > 0].sum()) - positives * (pictures + 1) / 2
    return excess, positives * (pictures - positives) * (pictures + 1) / 12


def sentence(borrowing: Iterable[str], lending: Sequence[str]) -> str:
    """Return what the run says of a start that is borrowed."""
    return (
        f"refine: held-out pictures with and without {', '.join(borrowing)} are not told apart, so refinement starts "
        f"from windows that look like objects of {', '.join(lending)}."
    )
