"""What a set of pictures can teach: whether windows matter for telling them apart, and what candidates differ in.

If the negatives come from another world than the positives, pictures are told apart as wholes: any window of a
positive picture will do, and training has no reason to move the chosen one onto the object. Image-level AP on the
training pictures shows nothing of this, for with more features than pictures it is 1 in any case. So one linear model
for each class is trained, by folds, on one vector per picture, the mean of its windows; that is what ``--init mean``
starts from. If its ranking of pictures that it has not seen is perfect, the run says so. This costs less than one outer
step of training. An object that fills its pictures can be the reason, too; then nothing is lost.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lapsvm.bags import Bags
from lapsvm.latent import LatentProblem, fit_many

from ..run.dataset import Labels
from .fit import Constants
from .selection import Trial, held_out_folds, mean_score

PERFECT = 0.999  # image-level AP
_FOLDS = 3
_C, _TOL = 100.0, 0.01  # hard enough to separate what can be separated; only the order counts


def mean_probe_image_aps(bags: Bags, labels: Mapping[str, Labels], seed: int) -> dict[str, float]:
    """Return class -> held-out image-level AP of its pictures, told apart by the mean of their windows.

    Classes with fewer positives or negatives than 3 folds are left out.
    """
    trials = [
        Trial(name, Constants(_C), y, held_out, number)
        for name, y in labels.items()
        if min((y > 0).sum(), (y < 0).sum()) >= _FOLDS
        for number, held_out in enumerate(held_out_folds(y, _FOLDS, seed, name, ""), start=1)
    ]
    if not trials:
        return {}
    pictures = _mean_windows(bags)
    only = np.zeros(bags.n_bags, dtype=np.intp)
    problems = [LatentProblem(trial.seen, C=_C, init=only, tol=_TOL) for trial in trials]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the order of pictures is settled long before
        solutions = fit_many(problems, pictures)
    best = pictures.best(np.column_stack([solution.coef for solution in solutions])).score
    scores: dict[str, list[float]] = {}
    for column, trial in enumerate(trials):
        scores.setdefault(trial.class_name, []).append(trial.score(best[:, column]))
    return {name: mean_score(values) for name, values in scores.items()}


def _mean_windows(bags: Bags) -> Bags:
    """Return bags of one window each, the mean of the picture's, of mean norm 1."""
    means = Bags(bags.means(), np.arange(bags.n_bags + 1), threads=bags.threads)
    norm = means.mean_norm()
    return means.scaled(1 / norm) if norm > 0 else means


def inherited_results(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `data_warnings` reads in a result, for a model that is made from another."""
    names = ("mean_probe_image_ap", "held_out_image_ap", "held_out_agreement")
    return {name: result[name] for name in names if name in result}


def data_warnings(class_name: str, result: Mapping[str, Any]) -> list[str]:
    """Return what a user should know of a model, a sentence each, from what its provenance tells of the result."""
    told = []
    scenery = result.get("mean_probe_image_ap")
    if scenery is not None and scenery >= PERFECT:
        told.append(
            f"{class_name}: pictures with and without it are told apart by the mean of their windows alone (held-out "
            f"image AP {scenery:.3f}), so nothing forces the chosen window onto the object; take negatives of the same "
            "scenery."
        )
    candidates = result.get("held_out_image_ap", [])
    perfect = sum(mean_score(one["folds"]) >= PERFECT for one in candidates)
    if perfect > 1 and "held_out_agreement" not in result:
        told.append(
            f"{class_name}: held-out image AP is 1.000 for {perfect} of {len(candidates)} candidates and cannot choose "
            "between them; --criterion agreement compares their windows."
        )
    return told
