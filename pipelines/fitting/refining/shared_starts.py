"""The start of refinement for a class that training has learned nothing about.

If held-out pictures of a class are ranked no better than by chance, the windows that training chose for it say nothing
about it, and lie anywhere. Other classes of the same pictures may be separable; then their models together know what
an object looks like here, if not which one it is. So the class starts from the windows that these models score best.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from scipy.stats import norm, rankdata

from lapsvm.arrays import Float64, Index
from lapsvm.bags import Bags

from ...run.dataset import Labels
from .chains import TrainedModels

SIGNIFICANCE = 0.05
"""The largest probability of calling an inseparable class separable."""


class SharedStarts(NamedTuple):
    """The classes that start from the models of others.

    Attributes
    ----------
    weights : dict of class to (d,) float64
        From which each of these classes starts.
    donors : list of str
        The separable classes, whose models these weights are made of.
    """

    weights: dict[str, Float64]
    donors: list[str]

    def sentence(self, names: Iterable[str]) -> str:
        """Return a sentence that names the classes that start from another class's model. Empty if no class does."""
        receiving = [name for name in names if name in self.weights]
        if not receiving:
            return ""
        return (
            f"refine: held-out pictures with and without {', '.join(receiving)} are not told apart, so refinement "
            f"starts from windows that look like objects of {', '.join(self.donors)}."
        )


def shared_starts(models: Mapping[str, TrainedModels], bags: Bags) -> SharedStarts:
    """Return the starts of the classes that are not separable.

    Nothing is shared where no class is separable, or all are. The models of the other classes have seen their own
    labels of all pictures, never those of the class.

    Parameters
    ----------
    models : mapping of class to TrainedModels
    bags : Bags
        The training pictures, with the features that the weights are for.
    """
    if len(models) < 2:
        return SharedStarts({}, [])
    ends = np.cumsum([one.weights.shape[1] for one in models.values()])[:-1]
    scores = np.split(bags.best(np.hstack([one.weights for one in models.values()])).score, ends, axis=1)
    score_of = dict(zip(models, scores, strict=True))
    donors = [name for name, one in models.items() if is_separable(one.y, one.fold, score_of[name])]
    if not donors:
        return SharedStarts({}, [])
    spreads = {name: float(score_of[name][:, 0].std()) for name in donors}
    together = np.sum([models[name].weights[:, 0] / (spreads[name] or 1.0) for name in donors], axis=0)
    return SharedStarts({name: together for name in models if name not in donors and models[name].fold.any()}, donors)


def is_separable(y: Labels, fold: Index, scores: Float64) -> bool:
    """Return whether held-out scores rank positive pictures surely above negative ones.

    By Wilcoxon's rank sums of the folds, added up, one-sided at `SIGNIFICANCE`.

    Parameters
    ----------
    y : (n,)
    fold : (n,)
        From 1; 0 for none.
    scores : (n, 1 + folds)
        Column k by the model without fold k.
    """
    of_folds = [_rank_sum(y[fold == number], scores[fold == number, number]) for number in range(1, scores.shape[1])]
    excess, variance = np.sum(of_folds, axis=0) if of_folds else (0.0, 0.0)
    return bool(variance > 0 and norm.sf(excess / np.sqrt(variance)) <= SIGNIFICANCE)


def _rank_sum(y: Labels, scores: Float64) -> tuple[float, float]:
    """Return by how much the ranks of positives exceed those expected by chance, and the variance of this."""
    positives, pictures = int((y > 0).sum()), len(y)
    excess = float(rankdata(scores)[y > 0].sum()) - positives * (pictures + 1) / 2
    return excess, positives * (pictures - positives) * (pictures + 1) / 12
