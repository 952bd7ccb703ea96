"""Choosing C on the training set: k folds of pictures, image-level average precision of the held-out bags."""

from collections.abc import Sequence

import numpy as np
from sklearn.model_selection import StratifiedKFold

from lapsvm.bags import Bags
from lapsvm.errors import OneClassError
from lapsvm.evaluation import image_average_precision

from .labels import Labels


def fold_labels(y: Labels, folds: int, seed: int, class_name: str) -> list[Labels]:
    """Return one label vector per fold in which the held-out pictures have label 0: they are left out.

    Raises
    ------
    OneClassError
        If a class has fewer positives or negatives than folds.
    """
    known = np.flatnonzero(y)
    fewest = min(int((y > 0).sum()), int((y < 0).sum()))
    if fewest < folds:
        raise OneClassError(
            f"class {class_name!r} needs {folds} positive and {folds} negative pictures to choose C in {folds} folds, "
            f"got {int((y > 0).sum())} and {int((y < 0).sum())}; give one value with --C."
        )
    splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
    return [_without(y, known[held_out]) for _, held_out in splitter.split(known, y[known])]


def _without(y: Labels, held_out: np.ndarray) -> Labels:
    """Return labels with some pictures left out."""
    kept = y.copy()
    kept[held_out] = 0
    return kept


def held_out_scores(bags: Bags, y: Labels, folds: Sequence[Labels], coefs: np.ndarray) -> list[float]:
    """Return the image-level AP on the held-out pictures of each fold; `coefs` has one column per fold."""
    best = bags.best(coefs).score
    return [
        float(image_average_precision(y[held], best[held, column]))
        for column, held in enumerate([(fold == 0) & (y != 0) for fold in folds])
    ]


def best_constant(constants: Sequence[float], scores: Sequence[float]) -> float:
    """Return the C of the highest mean score; of equals the smallest C, for it regularises most."""
    pairs = sorted(zip(constants, scores, strict=True))
    return max(pairs, key=lambda pair: (round(pair[1], 9), -pair[0]))[0]
