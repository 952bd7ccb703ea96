"""Mean probe: whether the mean of a picture's windows alone classifies the pictures of a class.

If negatives and positives come from different surroundings, pictures are separable as wholes: any window of a positive
picture will do, and training has no reason to move the chosen one onto the object. Image-level AP on the training
pictures does not show this, because with more features than pictures it is 1 in any case. So one linear model per class
is trained, by folds, on the mean of the windows of each picture (the start of ``--init mean``). If it ranks held-out
pictures perfectly, the run reports it. This costs less than one outer step of training. An object that fills its
pictures can be the reason, too; then nothing is lost.
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
from .fold_models import held_out_folds
from .selection import Trial, mean_score

PERFECT = 0.999  # image-level AP
_FOLDS = 3
_C, _TOL = 100.0, 0.01  # hard enough to separate what can be separated; only the order counts


def mean_probe_image_aps(bags: Bags, labels: Mapping[str, Labels], seed: int) -> dict[str, float]:
    """Return class -> held-out image-level AP by the mean windows; classes too small for 3 folds are missing."""
    trials = [
        Trial(name, Constants(_C), y, held_out, number)
        for name, y in labels.items()
        if min((y > 0).sum(), (y < 0).sum()) >= _FOLDS
        for number, held_out in enumerate(held_out_folds(y, _FOLDS, seed, name, ""), start=1)
    ]
    if not trials:
        return {}
    pictures = _mean_windows(bags)
    first = np.zeros(bags.n_bags, dtype=np.intp)
    problems = [LatentProblem(trial.seen, C=_C, init=first, tol=_TOL) for trial in trials]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the ranking converges long before
        solutions = fit_many(problems, pictures)
    best = pictures.best(np.column_stack([solution.coef for solution in solutions])).score
    scores: dict[str, list[float]] = {}
    for column, trial in enumerate(trials):
        scores.setdefault(trial.class_name, []).append(trial.score(best[:, column]))
    return {name: mean_score(values) for name, values in scores.items()}


def _mean_windows(bags: Bags) -> Bags:
    """Return bags of one window each, the mean of the picture's windows, scaled to mean norm 1."""
    means = Bags(bags.means(), np.arange(bags.n_bags + 1), threads=bags.threads)
    norm = means.mean_norm()
    return means.scaled(1 / norm) if norm > 0 else means


def inherited_results(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a result that `data_warnings` reads, for a model made from another."""
    names = ("mean_probe_image_ap", "held_out_image_ap")
    return {name: result[name] for name in names if name in result}


def data_warnings(class_name: str, result: Mapping[str, Any]) -> list[str]:
    """Return warnings on the data of a model, from the result in its provenance.

    One if the mean of a picture's windows separates the pictures of the class, another if image AP could not choose
    between several candidates.
    """
    sentences = []
    probe_ap = result.get("mean_probe_image_ap")
    if probe_ap is not None and probe_ap >= PERFECT:
        sentences.append(
            f"{class_name}: the mean of a picture's windows alone separates pictures with and without it (held-out "
            f"image AP {probe_ap:.3f}), so nothing forces the chosen window onto the object; take negatives from the "
            "same surroundings."
        )
    candidates = result.get("held_out_image_ap", [])
    perfect = sum(mean_score(entry["folds"]) >= PERFECT for entry in candidates)
    if perfect > 1:
        sentences.append(
            f"{class_name}: held-out image AP is 1.000 for {perfect} of {len(candidates)} candidates and cannot choose "
            "between them; --set train.margin=0.05 takes the smallest C of those about as good."
        )
    return sentences
